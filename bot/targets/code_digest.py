"""Whether an environment still holds the code that it was made with.

Names, sizes and links' contents, not the files' bytes: an environment is gigabytes, and is looked at in every run. That
tells an environment that somebody installed into or edited, not one that was forged: who can write to the cache can
write the digest too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

_CODE = (".py", ".pth", ".so")


def code_digest(folder: Path) -> str:
    """32 hex digits over the code below a folder: Python, extension modules and libraries, start-up files, links."""
    state = hashlib.blake2b(digest_size=16)
    for entry, name in _entries(folder, ""):
        if entry.is_symlink():
            content = f"link {Path(entry.path).readlink()}"
        elif entry.is_file(follow_symlinks=False):
            content = str(entry.stat(follow_symlinks=False).st_size)
        else:  # a pipe or a socket under a module's name
            content = "no file"
        state.update(f"{name}\0{content}\0".encode(errors="surrogateescape"))
    return state.hexdigest()


def _entries(folder: Path | str, prefix: str) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Code files and links below a folder, in the order of their names; links are not followed."""
    with os.scandir(folder) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        name = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _entries(entry.path, f"{name}/")
        elif entry.is_symlink() or entry.name.endswith(_CODE) or ".so." in entry.name:
            yield entry, name
