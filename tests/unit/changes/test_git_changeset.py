from __future__ import annotations

from pathlib import Path

import pytest
from git_repository import commit, git
from test_torch_native_changes import TREE

from bot.changes.change import Unmapped
from bot.changes.changeset import ChangesError
from bot.changes.file_text import MAX_TEXT_BYTES
from bot.changes.find import find_changes
from bot.changes.git_changeset import GitChangeSet
from bot.changes.patch_changeset import blob_name


def test_without_git_it_is_said_what_to_do(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = commit(repository, {"a.py": "1\n"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ChangesError, match=r"^git does not start .*: install git") as caught:
        GitChangeSet(repository, base, base)
    assert "\n" not in str(caught.value)


def test_a_damaged_repository_is_not_called_none(repository: Path) -> None:
    base = commit(repository, {"a.py": "1\n"})
    (repository / ".git/config").write_text("[broken\n")
    with pytest.raises(ChangesError, match="bad config line 1 in file") as caught:
        GitChangeSet(repository, base, base)
    assert "not a git repository" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_repository(tmp_path: Path) -> None:
    with pytest.raises(ChangesError, match="is not a git repository; give --repo a clone"):
        GitChangeSet(tmp_path, "a", "b")


def test_changed_lines_and_texts_of_both_sides(repository: Path) -> None:
    base = commit(repository, {"a.py": "one\ntwo\nthree\n", "gone.py": "x\n"})
    head = commit(repository, {"a.py": "one\n2\nthree\nfour\n", "gone.py": None, "new.py": "n\n"})
    with GitChangeSet(repository, base, head) as changeset:
        files = {file.path: file for file in changeset.files}
        assert files["a.py"].old_lines == (2,)
        assert files["a.py"].new_lines == (2, 4)
        assert files["gone.py"].new is None
        assert files["new.py"].old is None
        assert changeset.base_text("a.py") == "one\ntwo\nthree\n"
        assert changeset.head_text("gone.py") is None
        assert set(changeset.head_paths()) == {"a.py", "new.py"}


def test_the_diff_starts_at_the_merge_base(repository: Path) -> None:
    root = commit(repository, {"a.py": "1\n"})
    head = commit(repository, {"b.py": "1\n"})
    git(repository, "checkout", "-q", "-b", "other", root)
    base = commit(repository, {"a.py": "2\n"})
    with GitChangeSet(repository, base, head) as changeset:
        assert [file.path for file in changeset.files] == ["b.py"]
        assert changeset.base_text("a.py") == "1\n"


def test_renames_binaries_and_paths_that_are_not_utf8(repository: Path) -> None:
    body = "".join(f"line {n}\n" for n in range(30))
    base = commit(repository, {"old.py": body, "data.bin": b"\0\1\2"})
    strange = "caf\udce9 with\nnewline.py"  # a Latin-1 e-acute, and a line end
    head = commit(
        repository,
        {"old.py": None, "new.py": body + "more\n", "data.bin": b"\0\3", strange: "x = 1\n"},
    )
    with GitChangeSet(repository, base, head) as changeset:
        files = {file.path: file for file in changeset.files}
        assert (files["new.py"].old, files["new.py"].new_lines) == ("old.py", (31,))
        assert files["data.bin"].binary
        assert files[strange].new_lines == (1,)
        assert changeset.head_text(strange) == "x = 1\n"
        assert changeset.head_text("data.bin") is None


def test_a_file_that_becomes_a_link_keeps_its_neighbours_lines(repository: Path) -> None:
    base = commit(repository, {"a": "text\n", "b.py": "1\n2\n"})
    (repository / "a").unlink()
    (repository / "a").symlink_to("b.py")
    head = commit(repository, {"b.py": "1\n3\n"})
    with GitChangeSet(repository, base, head) as changeset:
        files = {file.path: file for file in changeset.files}
        assert files["b.py"].new_lines == (2,)
        assert changeset.head_text("a") is None


def test_a_submodule_bump_is_listed_as_unreadable(repository: Path) -> None:
    base = commit(repository, {"a.py": "1\n"})
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{base},third_party/lib")
    git(repository, "commit", "-q", "-m", "submodule")
    with GitChangeSet(repository, base, "HEAD") as changeset:
        (file,) = changeset.files
        assert (file.path, file.binary) == ("third_party/lib", True)
        assert changeset.head_text(file.path) is None


def test_a_submodule_is_said_to_be_one(repository: Path) -> None:
    base = commit(repository, TREE)
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{base},third_party/lib")
    git(repository, "commit", "-q", "-m", "submodule")
    with GitChangeSet(repository, base, "HEAD") as changeset:
        (lost,) = find_changes(changeset).unmapped
    assert lost == Unmapped("third_party/lib", "a submodule: what it points to is not read")


def test_the_newest_commit_alone_is_compared_with_a_base_that_was_fetched_alone(
    repository: Path, tmp_path: Path
) -> None:
    first = commit(repository, {"a.py": "0\n"})
    git(repository, "branch", "old")
    head = commit(repository, {"a.py": "1\n"})
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", str(clone))
    with pytest.raises(ChangesError, match="fetch it first"):
        GitChangeSet(clone, first, head)
    git(clone, "fetch", "-q", "--depth", "1", "origin", "old")
    with GitChangeSet(clone, first, head) as changeset:
        assert [(file.path, file.new_lines) for file in changeset.files] == [("a.py", (1,))]
        assert changeset.notes == (
            f"no merge base of {first} and {head} is in this clone (shallow?): compared {first} itself",
        )


def test_bare_and_shallow_clones(repository: Path, tmp_path: Path) -> None:
    commit(repository, {"a.py": "0\n"})
    base = commit(repository, {"a.py": "1\n"})
    head = commit(repository, {"a.py": "2\n"})
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", "--depth", "2", f"file://{repository}", str(bare))
    with GitChangeSet(bare, base, head) as changeset:
        assert [file.new_lines for file in changeset.files] == [(1,)]


def test_a_repositorys_configuration_executes_nothing(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    evil = tmp_path / "evil.sh"
    evil.write_text(f'#!/bin/sh\ntouch {trap}\ncat "$1" 2>/dev/null\n')
    evil.chmod(0o755)
    base = commit(repository, {"a.py": "1\n", ".gitattributes": "*.py diff=evil filter=evil\n"})
    head = commit(repository, {"a.py": "2\n"})
    for key in ("diff.external", "diff.evil.command", "diff.evil.textconv", "core.fsmonitor", "core.pager",
                "filter.evil.smudge", "filter.evil.clean", "core.sshCommand"):  # fmt: skip
        git(repository, "config", key, str(evil))
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (repository / ".git" / "hooks" / hook).write_text(evil.read_text())
        (repository / ".git" / "hooks" / hook).chmod(0o755)
    trap.unlink(missing_ok=True)
    with GitChangeSet(repository, base, head) as changeset:
        assert [file.new_lines for file in changeset.files] == [(1,)]
        assert changeset.head_text("a.py") == "2\n"
    assert not trap.exists()


def test_errors_say_what_and_what_to_do(repository: Path, tmp_path: Path) -> None:
    base = commit(repository, {"a.py": "1\n"})
    with pytest.raises(ChangesError, match=r"no revision 'nowhere'.*fetch"):
        GitChangeSet(repository, base, "nowhere")
    with pytest.raises(ChangesError, match="no revision '--output=x'"):
        GitChangeSet(repository, "--output=x", base)
    with pytest.raises(ChangesError, match="no revision"):
        GitChangeSet(repository, "a\0b", base)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ChangesError, match=r"not a git repository.*--patch"):
        GitChangeSet(empty, "a", "b")
    with pytest.raises(ChangesError, match="not a folder"):
        GitChangeSet(tmp_path / "absent", "a", "b")


def test_a_blob_too_large_for_a_text_is_passed_over(repository: Path) -> None:
    base = commit(repository, {"a.py": "1\n"})
    head = commit(repository, {"huge.py": b"x" * (MAX_TEXT_BYTES + 1), "z.py": "2\n"})
    with GitChangeSet(repository, base, head) as changeset:
        assert changeset.head_text("huge.py") is None
        assert changeset.head_text("z.py") == "2\n"


@pytest.mark.parametrize(
    "broken", ['[submodule "x"\n garbage', '[submodule "s"]\n\tpath = s\n\tignore = all\n']
)
def test_a_submodule_that_moves_on_beside_a_bad_gitmodules(repository: Path, broken: str) -> None:
    def submodule(name: str) -> str:
        git(repository, "update-index", "--add", "--cacheinfo", f"160000,{name * 40},s")
        git(repository, "commit", "-q", "-m", "bump")
        return git(repository, "rev-parse", "HEAD")

    commit(repository, {"a.py": "1\n"})
    base = submodule("1")
    (repository / ".gitmodules").write_text(broken)
    git(repository, "add", ".gitmodules")
    head = submodule("2")
    with GitChangeSet(repository, base, head) as changeset:
        files = {file.path: file for file in changeset.files}
        assert set(files) == {".gitmodules", "s"}
        assert files["s"].binary
        assert changeset.head_paths() == (".gitmodules", "a.py")
        assert dict(changeset.head_texts(("a.py", "s", "none"))) == {
            "a.py": "1\n", "s": None, "none": None,
        }  # fmt: skip


def test_modes_and_links(repository: Path) -> None:
    base = commit(repository, {"a.py": "1\n", "b.py": "2\n"})
    (repository / "a.py").chmod(0o755)
    (repository / "b.py").unlink()
    (repository / "b.py").symlink_to("a.py")
    head = commit(repository, {})
    with GitChangeSet(repository, base, head) as changeset:
        modes = {file.path: (file.old_lines, file.new_lines) for file in changeset.files}
        assert modes == {"a.py": ((), ()), "b.py": ((1,), (1,))}
        assert changeset.head_paths() == ("a.py",)
        assert (changeset.base_text("b.py"), changeset.head_text("b.py")) == ("2\n", None)


def test_names_of_contents_are_those_of_git(repository: Path) -> None:
    base = commit(repository, {"a.py": "1\n"})
    head = commit(repository, {"a.py": "caf\u00e9\n"})
    with GitChangeSet(repository, base, head) as changeset:
        assert changeset.base_blob("a.py") == blob_name(b"1\n")
        assert changeset.head_blob("a.py") == git(repository, "rev-parse", "HEAD:a.py")
        assert changeset.head_blob("a.py") == blob_name("caf\u00e9\n".encode())
