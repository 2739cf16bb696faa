"""A ChangeSet read from a patch file and the folder that it applies to, which is left untouched."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchedFile, PatchSet

from bot.changes.changeset import ChangedFile, ChangesError
from bot.changes.file_text import MAX_TEXT_BYTES, decode_text
from bot.changes.index.bounded import Bounded

MAX_PATCH_BYTES: Final = 256 << 20
KEPT_CHARACTERS: Final = 32 << 20  # of texts in memory
SKIPPED_FOLDERS: Final = frozenset({".git", "__pycache__"})
_ESCAPE: Final = re.compile(r"\\([0-7]{3}|.)")
_SUBMODULE: Final = re.compile(r"(?:(?:new|deleted) file mode|new mode|index \S+) 160000\s*$")
_ESCAPES: Final = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11}


class PatchChangeSet:
    """The diff of a patch against a folder: the folder is the base, the folder with the patch applied the head.

    The patch is applied exactly (no fuzz, no offset). Raises ChangesError when it cannot be read, does not apply,
    or names a path outside the folder.
    """

    def __init__(self, patch_file: Path, source: Path) -> None:
        self.notes: tuple[str, ...] = ()
        if not source.is_dir():
            raise ChangesError(
                f"{source} is not a folder; give --source the folder that the patch applies to"
            )
        self.source = source.resolve()
        self._patch_file = patch_file
        self._heads: dict[str, bytes | None] = {}
        self.files: tuple[ChangedFile, ...] = tuple(self._apply(file) for file in self._parse())
        self._texts: Bounded[str, str | None] = Bounded(KEPT_CHARACTERS)
        self._blobs: dict[str, str | None] = {}

    def _parse(self) -> PatchSet:
        try:
            with self._patch_file.open("rb") as file:
                data = file.read(MAX_PATCH_BYTES + 1)
            if len(data) > MAX_PATCH_BYTES:
                raise ChangesError(f"{self._patch_file} is over {MAX_PATCH_BYTES >> 20} MiB")
        except OSError as error:
            raise ChangesError(
                f"cannot read the patch {self._patch_file}: {error.strerror}"
            ) from None
        # One character per byte, so that what is not UTF-8 survives the way through text unchanged.
        text = data.decode("latin-1")
        try:
            patch = PatchSet(line + "\n" for line in text.removesuffix("\n").split("\n"))
        except (UnidiffParseError, ValueError, IndexError, TypeError, AttributeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ChangesError(
                f"{self._patch_file} is not a patch in unified format: {reason}"
            ) from None
        if not patch:
            raise ChangesError(
                f"{self._patch_file} holds no change in unified format (git diff > FILE)"
            )
        return patch

    def _apply(self, file: PatchedFile) -> ChangedFile:
        old, new = _path(file.source_file), _path(file.target_file)
        old_path = None if old is None or _says(file, "new file mode") else self._checked(old)
        new_path = None if new is None or _says(file, "deleted file mode") else self._checked(new)
        if old_path is None and new_path is None:
            raise ChangesError(f"{self._patch_file}: an entry names no file")
        name = new_path or old_path or ""
        old_lines, new_lines = _changed_lines(file)
        if _is_submodule(file):
            self._record(old_path, new_path, None)
            return ChangedFile(old_path, new_path, binary=True, submodule=True)
        if file.is_binary_file:
            self._record(old_path, new_path, None)
            return ChangedFile(old_path, new_path, binary=True)
        before = b"" if old_path is None else self._bytes(old_path)
        if before is None:
            raise ChangesError(f"the patch does not apply: {old_path} is not in {self.source}")
        if old_path is None and new_path is not None and self._bytes(new_path) is not None:
            raise ChangesError(
                f"the patch does not apply: {new_path} is new but already in {self.source}"
            )
        after = _patched(before, file, name)
        if _says(file, "copy from"):  # the old file stays as it is, and all of the new one is added
            old_path, old_lines = None, ()
        self._record(old_path, new_path, after if new_path is not None else None)
        return ChangedFile(old_path, new_path, old_lines, new_lines)

    def _record(self, old: str | None, new: str | None, after: bytes | None) -> None:
        if old is not None and old != new:
            self._heads.setdefault(old, None)
        if new is not None:
            self._heads[new] = after

    def _checked(self, path: str) -> str:
        """The path, when it stays inside the folder without passing a symbolic link."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or "\0" in path or not pure.parts:
            raise ChangesError(
                f"{self._patch_file}: path {path!r} leaves the source folder; refused"
            )
        if pure.parts[0] == ".git":
            raise ChangesError(f"{self._patch_file}: path {path!r} is inside .git; refused")
        place = self.source
        for part in pure.parts:
            place = place / part
            if place.is_symlink() and not place.resolve().is_relative_to(self.source):
                raise ChangesError(
                    f"{self._patch_file}: path {path!r} passes a symbolic link out of the folder; refused"
                )
        return str(pure)

    def _bytes(self, path: str) -> bytes | None:
        try:
            place = (self.source / path).resolve()
            if not place.is_relative_to(self.source) or not place.is_file():
                return None
            return place.read_bytes()
        except (OSError, ValueError, RuntimeError):
            return None

    def base_text(self, path: str) -> str | None:
        """The text of a file of the folder, or None when it is not there or not text."""
        if path in self._texts:
            return self._texts.get(path)
        data = self._bytes(path)
        text = None if data is None else decode_text(data)
        return self._texts.put(path, text, len(text or "") + 64)

    def base_blob(self, path: str) -> str | None:
        """What git would name the content of a file of the folder; None when it is not there or too large for a text."""
        if path not in self._blobs:
            self._blobs[path] = blob_name(self._bytes(path))
        return self._blobs[path]

    def head_blob(self, path: str) -> str | None:
        """What git would name the content of a file with the patch applied."""
        if path in self._heads:
            return blob_name(self._heads[path])
        return self.base_blob(path)

    def head_texts(self, paths: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        """Each path with its text at the head."""
        return ((path, self.head_text(path)) for path in paths)

    def head_text(self, path: str) -> str | None:
        """The text of a file with the patch applied, or None when it is not there or not text."""
        if path in self._heads:
            data = self._heads[path]
            return None if data is None else decode_text(data)
        return self.base_text(path)

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        found: list[str] = []
        for folder, folders, names in os.walk(self.source):
            folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
            where = Path(folder).relative_to(self.source)
            found.extend(str(where / name) for name in names)
        return tuple(found)

    def head_paths(self) -> tuple[str, ...]:
        """Every file of the folder with the patch applied."""
        removed = {path for path, data in self._heads.items() if data is None}
        added = [path for path, data in self._heads.items() if data is not None]
        return tuple(sorted({*self._paths, *added} - removed))


def blob_name(data: bytes | None) -> str | None:
    """git's SHA-1 name of a content; None for no content, or for one that is too large for a text."""
    if data is None or len(data) > MAX_TEXT_BYTES:
        return None
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _path(name: str | None) -> str | None:
    """A patch's path without quotes and prefix; None for /dev/null."""
    if not name:
        return None
    if len(name) > 1 and name.startswith('"') and name.endswith('"'):
        name = _ESCAPE.sub(_unescape, name[1:-1])
    name = os.fsdecode(name.encode("latin-1", errors="replace"))
    if name == "/dev/null":
        return None
    for prefix in ("a/", "b/"):
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def _says(file: PatchedFile, words: str) -> bool:
    """Whether git's header says so: an emptied file and a deleted one have the same hunks."""
    return any(line.startswith(words) for line in file.patch_info or ())


def _is_submodule(file: PatchedFile) -> bool:
    """Whether git's header gives the mode of a submodule, whose only line names a commit."""
    return any(_SUBMODULE.match(line) for line in file.patch_info or ())


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code.isdigit():
        return chr(int(code, 8) & 0xFF)
    return chr(_ESCAPES[code]) if code in _ESCAPES else code


def _changed_lines(file: PatchedFile) -> tuple[tuple[int, ...], tuple[int, ...]]:
    removed = (line.source_line_no for hunk in file for line in hunk if line.is_removed)
    added = (line.target_line_no for hunk in file for line in hunk if line.is_added)
    return tuple(filter(None, removed)), tuple(filter(None, added))


def _sides(hunk: Hunk) -> tuple[list[bytes], list[bytes]]:
    """The hunk's lines as bytes, before and after; a line keeps its end unless the patch says it has none."""
    old: list[bytes] = []
    new: list[bytes] = []
    last: list[list[bytes]] = []
    for line in hunk:
        if line.line_type == "\\":
            for side in last:
                side[-1] = side[-1].removesuffix(b"\n")
            continue
        data = line.value.encode("latin-1")
        last = [
            side
            for side, wanted in ((old, not line.is_added), (new, not line.is_removed))
            if wanted
        ]
        for side in last:
            side.append(data)
    return old, new


def _patched(before: bytes, file: PatchedFile, name: str) -> bytes:
    lines = before.split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    result: list[bytes] = []
    position = 0
    for number, hunk in enumerate(file, 1):
        old, new = _sides(hunk)
        start = hunk.source_start - 1 if old else hunk.source_start
        if start < position or lines[start : start + len(old)] != old:
            raise ChangesError(
                f"the patch does not apply: {name}, hunk {number} (at line {hunk.source_start}) "
                "does not match the file; was the patch made against these sources?"
            )
        result += [*lines[position:start], *new]
        position = start + len(old)
    return b"".join([*result, *lines[position:]])
