"""A report's folder as the files that :func:`bot.report.read_back.read_run` reads: looked up at once, read when asked.

The folder may come from an untrusted run. Names that no report has are left out, no symbolic link is followed below
the folder itself, and what is no regular file is not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bot.report.files import read_bounded_in
from bot.report.finding_folder import FINDINGS
from bot.report.read_back import MAX_FILE_BYTES, RESULTS, ReportError, is_read

MAX_FILES: Final = 100_000


class FolderFiles(Mapping[str, bytes]):
    """Names relative to a folder -> bytes, read each time anew. Reading raises FileError for what cannot be read."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self._folder = folder
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> bytes:
        if name not in self._names:
            raise KeyError(name)
        *folders, file = name.split("/")
        return read_bounded_in(self._folder, {file: MAX_FILE_BYTES}, folders)[file]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_folder(folder: Path) -> Mapping[str, bytes]:
    """A report's files, which :func:`bot.report.read_back.read_run` reads. Raises ReportError with one line."""
    where = folder.resolve()  # the folder itself is the operator's own word, and may be a link
    try:
        names = [name for name in (RESULTS, *_finding_files(where)) if is_read(name)]
    except OSError as error:
        raise ReportError(f"{folder} cannot be read: {error.strerror}") from None
    return FolderFiles(where, tuple(names))


def _finding_files(folder: Path) -> Iterator[str]:
    """Names of what may be files of findings. Raises ReportError for more than MAX_FILES."""
    count = 0
    for finding in _entries(folder / FINDINGS):
        for file in _entries(folder / FINDINGS / finding):
            count += 1
            if count > MAX_FILES:
                raise ReportError(f"{folder} has more than the {MAX_FILES} files that are read")
            yield f"{FINDINGS}/{finding}/{file}"


def _entries(folder: Path) -> Iterator[str]:
    """Names in a folder that is no link; nothing for what is no folder."""
    if folder.is_symlink() or not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name
