"""Folders and files of a report: written in one step, and read back as untrusted data."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class FileError(ValueError):
    """A file cannot be read as it must be; the message is one line."""


def safe_name(text: str, limit: int = 80) -> str:
    """A file name for text that comes from outside: letters, digits, ``._-+=`` only, never hidden, never empty."""
    slug = re.sub(r"[^A-Za-z0-9._+=-]+", "-", text).strip(".-")
    return slug[:limit].rstrip(".-") or "unnamed"


def unique_names(texts: list[str]) -> list[str]:
    """Safe names for texts, made distinct (also where letter case does not count) by a number at the end."""
    used: set[str] = set()
    names: list[str] = []
    for text in texts:
        base = safe_name(text)
        name, number = base, 2
        while name.lower() in used:
            name, number = f"{base}-{number}", number + 1
        used.add(name.lower())
        names.append(name)
    return names


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put a folder with exactly these files in place, replacing one that is there; never a half-written one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(4)
    fresh = folder.with_name(f".{folder.name}.{token}.tmp")
    stale = folder.with_name(f".{folder.name}.{token}.old")
    try:
        fresh.mkdir()
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        if folder.is_symlink() or folder.exists():
            folder.rename(stale)
        fresh.rename(folder)
    finally:
        for leftover in (fresh, stale):
            if leftover.is_symlink() or leftover.is_file():
                leftover.unlink()
            else:
                shutil.rmtree(leftover, ignore_errors=True)


def read_bounded(path: Path, limit: int) -> bytes:
    """A regular file's bytes, no symbolic link followed at its end. Raises FileError over ``limit`` bytes."""
    return _read(path, None, limit)


def read_bounded_in(
    folder: Path, names: Mapping[str, int], below: Sequence[str] = ()
) -> dict[str, bytes]:
    """Files of an untrusted folder by name -> bound in bytes; neither the folder nor a file may be a link.

    ``below`` leads from the folder to the one that the files are in, step by step, over no link either.
    Raises FileError.
    """
    with contextlib.ExitStack() as opened:
        descriptor: int | None = None
        for step in (folder, *below):
            try:
                descriptor = os.open(step, _FOLDER, dir_fd=descriptor)
            except OSError as error:
                raise FileError(
                    f"{step} is not a folder that can be read: {error.strerror}"
                ) from None
            opened.callback(os.close, descriptor)
        return {name: _read(Path(name), descriptor, limit) for name, limit in names.items()}


def _read(path: Path, folder: int | None, limit: int) -> bytes:
    # O_NONBLOCK: opening a named pipe must not wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, dir_fd=folder)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileError(f"{path} is not a regular file")
    with os.fdopen(descriptor, "rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise FileError(f"{path} has more than the {limit} bytes that are read")
    return data
