"""Laying out an overlay's folder: links to the release, patched files real."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

Patches = Mapping[PurePosixPath, str | None]
"""Path below site-packages -> the new text, or None for a file that is gone."""

_Tree = dict[str, "_Tree | str | None"]
_BYTECODE = "__pycache__"


def lay_overlay(site_packages: Path, folder: Path, patches: Patches) -> None:
    """Fill an empty folder with every package that is patched. Raises OSError.

    A package's sibling ``NAME.libs`` is linked too: its extension modules look for it beside themselves.
    """
    for package, below in _as_tree(patches).items():
        if not isinstance(below, dict):
            continue
        _lay(site_packages / package, folder / package, below)
        libraries = site_packages / f"{package}.libs"
        if libraries.is_dir():
            (folder / libraries.name).symlink_to(libraries)


def _as_tree(patches: Patches) -> _Tree:
    tree: _Tree = {}
    for path, text in patches.items():
        below = tree
        for part in path.parts[:-1]:
            next_below = below.get(part)
            if not isinstance(next_below, dict):
                next_below = {}
                below[part] = next_below
            below = next_below
        # A folder that replaces a file of the same name wins over that file's removal.
        if not (text is None and isinstance(below.get(path.name), dict)):
            below[path.name] = text
    return tree


def _lay(released: Path, folder: Path, patches: _Tree) -> None:
    """Make a folder real: links for what the release has there, except what is patched."""
    folder.mkdir()
    if released.is_dir():
        for entry in os.scandir(released):
            if entry.name == _BYTECODE:
                _lay_bytecode(released / _BYTECODE, folder / _BYTECODE, patches)
            elif entry.name not in patches:
                (folder / entry.name).symlink_to(entry.path)
    for name, patch in patches.items():
        if isinstance(patch, dict):
            _lay(released / name, folder / name, patch)
        elif patch is not None:
            (folder / name).write_bytes(patch.encode("utf-8", "surrogateescape"))


def _lay_bytecode(released: Path, folder: Path, patches: _Tree) -> None:
    """Links to the bytecode of files that are not patched.

    The folder itself is real, so that a patched file's bytecode is never sought, nor ever written, in the release. A
    link's bytecode stays valid: Python compares it with the source that the source's link points to.
    """
    patched = {name.removesuffix(".py") for name in patches}
    folder.mkdir()
    for entry in os.scandir(released):
        if entry.name.partition(".")[0] not in patched:
            (folder / entry.name).symlink_to(entry.path)
