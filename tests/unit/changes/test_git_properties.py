"""Random commits in real git: whatever they do to files, each file is mapped, quiet with a note, or unmapped."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from git_repository import git
from hypothesis import given, settings
from hypothesis import strategies as st
from test_oneflow_changes import TREE as ONEFLOW
from test_torch_native_changes import TREE as TORCH

from bot.changes.changes_json import to_json
from bot.changes.file_text import printable_path
from bot.changes.find import find_changes
from bot.changes.git_changeset import GitChangeSet

TREES: Final = [{path: str(text) for path, text in tree.items()} for tree in (ONEFLOW, TORCH)]
FIXED: Final = {"torch/nn/functional.py", "python/oneflow/__init__.py"}
"""What the framework is told by stays."""
NAMES: Final = [
    b"a b.cpp", b"caf\xe9.cu", b'qu"ote.py', b"new\nline.h", b"tab\t.yaml", b"-dash.cpp", b"back\\slash.py", "\u00e9.td".encode(),
    b"x.bin", b"CMakeLists.txt", b"notes.md", b"stub.pyi", b"no_suffix", b"...cpp", b"{x}.cc",
]  # fmt: skip
CONTENTS: Final = [
    b"", b"int f() { return 1; }", b"int f() {\r\n  return 1;\r\n}\r\n", b"\0\0\0", b"\xff\xfe\xfa int x;", b"x = 1\n",
    b"def f(:\n", b"\xef\xbb\xbfint f() { return 2; }\n", b"a" * 20_000, b"int x;\n" * 3000, b"(" * 4000, b"- name: x\n",
    b"- {a: [", b"print 'x'\n", b"#if A\n" * 500,
]  # fmt: skip
KINDS: Final = [
    "write",
    "delete",
    "rename",
    "append",
    "crlf",
    "no end",
    "mode",
    "link",
    "submodule",
    "folder",
    "nothing",
]


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def add_submodule(root: Path, path: Path) -> None:
    row = b"160000 " + b"1" * 40 + b"\t" + os.fsencode(path.relative_to(root)) + b"\0"
    command = ["git", "-C", str(root), "update-index", "-z", "--index-info"]
    subprocess.run(command, input=row, check=True)


def edit(root: Path, kind: str, path: str, name: bytes, content: bytes) -> None:
    """Do one thing to the working tree (or, for a submodule, to the index)."""
    full = root / path
    other = full.parent / os.fsdecode(name)
    free = not other.exists() and not other.is_symlink() and full.parent.is_dir()
    if kind == "write" and free:
        write(other, content)
    elif kind == "submodule" and free:
        add_submodule(root, other)
    elif not full.is_file() or full.is_symlink():
        return
    elif kind == "delete":
        full.unlink()
    elif kind == "rename" and free:
        write(other, full.read_bytes() + content[:40])
        full.unlink()
    elif kind == "append":
        write(full, full.read_bytes() + content)
    elif kind == "crlf":
        write(full, full.read_bytes().replace(b"\n", b"\r\n"))
    elif kind == "no end":
        write(full, full.read_bytes().rstrip(b"\n"))
    elif kind == "mode":
        full.chmod(0o755)
    elif kind == "link":
        full.unlink()
        full.symlink_to("elsewhere")
    elif kind == "folder":
        full.unlink()
        write(full / "inner.cpp", content)


def changed_paths(root: str, base: str, head: str) -> set[bytes]:
    """What git itself lists, renames apart."""
    arguments = ["git", "-C", root, "diff", "--name-only", "--no-renames", "-z", base, head]
    listed = subprocess.run(arguments, check=True, capture_output=True).stdout
    return set(listed.split(b"\0")) - {b""}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_every_file_that_a_commit_changes_is_accounted_for(data: st.DataObject) -> None:
    tree = data.draw(st.sampled_from(TREES))
    editable = sorted(path for path in tree if path not in FIXED)
    edits = st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(editable),
        st.sampled_from(NAMES),
        st.sampled_from(CONTENTS),
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        git(root, "init", "-q")
        for path, text in tree.items():
            write(root / path, text.encode())
        git(root, "add", "-A")
        git(root, "commit", "-qm", "base")
        drawn = data.draw(st.lists(edits, min_size=1, max_size=4))
        for kind, path, name, content in drawn:
            if kind != "submodule":
                edit(root, kind, path, name, content)
        git(root, "add", "-A")
        for kind, path, name, content in drawn:
            if kind == "submodule":
                edit(root, kind, path, name, content)
        git(root, "commit", "-qm", "head", "--allow-empty")
        base, head = git(root, "rev-parse", "HEAD~1"), git(root, "rev-parse", "HEAD")
        with GitChangeSet(root, base, head) as changeset:
            changes = find_changes(changeset)
        listed = changed_paths(folder, base, head)
    new = {os.fsencode(file.path) for file in changeset.files}
    assert new | {os.fsencode(file.old) for file in changeset.files if file.old} == listed
    assert str(to_json(changes)).encode()
    said = " ".join(
        [*(e.file for e in changes.unmapped), *changes.tests, *changes.notes,
         *(step for op in changes.ops for step in op.path)]
    )  # fmt: skip
    for name in new:
        assert printable_path(os.fsdecode(name)) in said
