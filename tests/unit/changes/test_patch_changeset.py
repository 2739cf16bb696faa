from __future__ import annotations

from pathlib import Path

import pytest
from git_repository import commit, git
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.changes.changeset import ChangesError
from bot.changes.patch_changeset import PatchChangeSet


def make(tmp_path: Path, patch: str, **files: str) -> PatchChangeSet:
    source = tmp_path / "source"
    source.mkdir(exist_ok=True)
    for name, text in files.items():
        (source / f"{name}.py").write_text(text)
    (tmp_path / "x.patch").write_text(patch)
    return PatchChangeSet(tmp_path / "x.patch", source)


def test_the_head_is_the_folder_with_the_patch_applied(tmp_path: Path) -> None:
    patch = """\
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 one
-two
+2
 three
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+added
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
"""
    changeset = make(tmp_path, patch, a="one\ntwo\nthree\n", gone="x\n", other="o\n")
    assert changeset.head_text("a.py") == "one\n2\nthree\n"
    assert changeset.base_text("a.py") == "one\ntwo\nthree\n"
    assert changeset.head_text("new.py") == "added\n"
    assert changeset.head_text("gone.py") is None
    assert changeset.head_paths() == ("a.py", "new.py", "other.py")
    assert (changeset.files[0].old_lines, changeset.files[0].new_lines) == ((2,), (2,))


def test_line_ends_and_a_missing_last_one_survive(tmp_path: Path) -> None:
    patch = (
        "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\r\n-two\n\\ No newline at end of file\n"
        "+2\n\\ No newline at end of file\n"
    )
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.py").write_bytes(b"one\r\ntwo")
    (tmp_path / "x.patch").write_bytes(patch.encode())
    assert PatchChangeSet(tmp_path / "x.patch", source).head_text("a.py") == "one\r\n2"


def test_a_patch_that_does_not_apply_names_file_and_hunk(tmp_path: Path) -> None:
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+1\n@@ -3 +3 @@\n-other\n+3\n"
    with pytest.raises(ChangesError, match=r"does not apply: a\.py, hunk 2 \(at line 3\)"):
        make(tmp_path, patch, a="one\ntwo\nthree\n")
    with pytest.raises(ChangesError, match=r"b\.py is not in"):
        make(tmp_path, "--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-one\n+1\n")


@pytest.mark.parametrize("path", ["../out.py", "/etc/passwd", "a/../../out.py", ".git/config"])
def test_paths_out_of_the_folder_are_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "out.py").write_text("one\n")
    with pytest.raises(ChangesError, match="refused"):
        make(tmp_path, f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-one\n+1\n")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out.py").write_text("one\n")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "link.py").symlink_to(tmp_path / "out.py")
    with pytest.raises(ChangesError, match="symbolic link"):
        make(tmp_path, "--- a/link.py\n+++ b/link.py\n@@ -1 +1 @@\n-one\n+1\n")


@pytest.mark.parametrize("text", ["", "hello\n", "--- a/x\n", "@@ -1 +1 @@\n"])
def test_what_is_no_patch_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ChangesError) as caught:
        make(tmp_path, text)
    assert "\n" not in str(caught.value)


LINES = st.lists(st.sampled_from(["a", "b", "", " c", "-d", "+e", "@@ -1 +1 @@"]), max_size=25)


@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(before=LINES, after=LINES)
def test_a_patch_made_by_git_gives_the_texts_that_git_has(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("patch")
    source = folder / "source"
    source.mkdir()
    git(source, "init", "-q")
    base = commit(source, {"a.py": "\n".join(before), "b.py": "same\n"})
    (source / "a.py").write_text("\n".join(after))
    patch = git(source, "diff", base) + "\n"
    git(source, "checkout", "-q", "--", "a.py")
    (folder / "x.patch").write_text(patch)
    if patch == "\n":
        return
    changeset = PatchChangeSet(folder / "x.patch", source)
    assert changeset.head_text("a.py") == "\n".join(after)


def test_a_copied_file_stays_and_the_copy_is_new(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1\n2\n")
    (tmp_path / "x.patch").write_text(
        "diff --git a/a.py b/b.py\nsimilarity index 60%\ncopy from a.py\ncopy to b.py\n"
        "--- a/a.py\n+++ b/b.py\n@@ -1,2 +1,3 @@\n 1\n 2\n+3\n"
    )
    changeset = PatchChangeSet(tmp_path / "x.patch", tmp_path)
    assert [(file.old, file.new) for file in changeset.files] == [(None, "b.py")]
    assert changeset.head_text("a.py") == "1\n2\n"
    assert changeset.head_text("b.py") == "1\n2\n3\n"


def test_a_new_file_that_is_there_already_is_refused_even_when_empty(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    (tmp_path / "x.patch").write_text("--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+1\n")
    with pytest.raises(ChangesError, match="already"):
        PatchChangeSet(tmp_path / "x.patch", tmp_path)


def test_a_submodule_in_a_patch_is_one_and_needs_no_file(tmp_path: Path) -> None:
    patch = (
        "diff --git a/lib b/lib\nindex 1111111..2222222 160000\n--- a/lib\n+++ b/lib\n"
        f"@@ -1 +1 @@\n-Subproject commit {'1' * 40}\n+Subproject commit {'2' * 40}\n"
    )
    (file,) = make(tmp_path, patch).files
    assert (file.path, file.submodule) == ("lib", True)
