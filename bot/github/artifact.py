"""An artifact's zip file, read in memory: nothing is ever extracted, and nothing in it is trusted.

What a zip says of itself (names, sizes, how many entries) is a claim of the run that made it. The archive is refused
as a whole when any claim cannot be, before anything is decompressed; then each wanted entry is decompressed up to the
size that it claims, and its checksum must fit. So memory is bounded by the limits whatever the bytes are.

Format: APPNOTE.TXT 6.3.10 (PKWARE).
"""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_CENTRAL: Final = b"PK\x01\x02"  # APPNOTE 4.3.12
_STARTS: Final = (b"PK\x03\x04", b"PK\x05\x06")  # a local header; the end of an empty archive
_ENCRYPTED: Final = 0x0001 | 0x0040 | 0x2000  # APPNOTE 4.4.4: traditional, strong, masked headers
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PART: Final = re.compile(r"[A-Za-z0-9._+=@-]{1,255}", re.ASCII)
MAX_NAME: Final = 500
MAX_PARTS: Final = 10


class ArtifactError(ValueError):
    """An artifact cannot be read; the message is one line."""


@dataclass(frozen=True)
class ArtifactLimits:
    """What is read of an artifact, in bytes and entries.

    ``ratio`` is how many times larger than the archive the wanted entries may be, once they are over ``ratio_from``:
    text and zeros of a small report compress by any factor.
    """

    archive: int = 256 << 20
    entries: int = 60_000
    entry: int = 128 << 20
    total: int = 512 << 20
    ratio: int = 100
    ratio_from: int = 64 << 20


def read_zip(
    raw: bytes,
    limits: ArtifactLimits | None = None,
    wanted: Callable[[str], bool] = lambda name: True,
) -> Mapping[str, bytes]:
    """The files of a zip by name, those that are ``wanted``. Raises ArtifactError with one line.

    Refused as a whole: what is no zip or is cut, more or larger entries than the limits allow, an entry that is
    encrypted, a link, a device, or compressed by another method than deflate; a name that is absolute, leads upwards,
    has a backslash, a drive letter or any character that no report's file has, and a name that comes twice (also where
    only its letters' case differs).
    """
    limits = limits or ArtifactLimits()
    if len(raw) > limits.archive:
        raise ArtifactError(f"the artifact has more than the {limits.archive} bytes that are read")
    if not raw.startswith(_STARTS):
        raise ArtifactError("the artifact is not a zip file")
    # Counted before the directory is parsed: a parsed entry takes some hundred bytes of memory.
    if raw.count(_CENTRAL) > limits.entries:
        raise ArtifactError(
            f"the artifact has more than the {limits.entries} entries that are read"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            files = _files(archive.infolist(), len(raw))
            chosen = [info for info in files if wanted(info.filename)]
            _check_sizes(chosen, len(raw), limits)
            return {info.filename: _content(archive, info) for info in chosen}
    except ArtifactError:
        raise
    except _UNREADABLE as error:
        what = " ".join(ascii(str(error)).split())[:200]
        raise ArtifactError(f"the artifact is not a whole zip file: {what}") from None


_UNREADABLE: Final = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError, RuntimeError,
    IndexError, KeyError, MemoryError,
)  # fmt: skip
"""What zipfile raises for bytes that do not add up (NotImplementedError is a RuntimeError)."""


def _files(entries: Sequence[zipfile.ZipInfo], archive_bytes: int) -> list[zipfile.ZipInfo]:
    """The entries that are files, every one checked."""
    seen: set[str] = set()
    files: list[zipfile.ZipInfo] = []
    compressed = 0
    for info in entries:
        shown = ascii(info.orig_filename[:80])
        _check_name(info, shown)
        _check_kind(info, shown)
        key = info.filename.rstrip("/").lower()
        if key in seen:
            raise ArtifactError(f"the artifact has two entries named {shown}")
        seen.add(key)
        compressed += info.compress_size
        if not info.is_dir():
            files.append(info)
        elif info.file_size:
            raise ArtifactError(f"the artifact's folder {shown} has content")
    if compressed > archive_bytes:
        raise ArtifactError("the artifact's entries overlap, or are said to be larger than it")
    return files


def _check_name(info: zipfile.ZipInfo, shown: str) -> None:
    name = info.filename
    parts = name.removesuffix("/").split("/")
    plain = all(_PART.fullmatch(part) and part.strip(".") for part in parts)
    if name != info.orig_filename or not plain or len(name) > MAX_NAME or len(parts) > MAX_PARTS:
        raise ArtifactError(f"the artifact has an entry whose name no report has: {shown}")


def _check_kind(info: zipfile.ZipInfo, shown: str) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFDIR if info.is_dir() else stat.S_IFREG):
        raise ArtifactError(f"the artifact's entry {shown} is neither a file nor a folder")
    if info.flag_bits & _ENCRYPTED:
        raise ArtifactError(f"the artifact's entry {shown} is encrypted")
    if info.compress_type not in _METHODS:
        raise ArtifactError(
            f"the artifact's entry {shown} is compressed in another way than deflate"
        )


def _check_sizes(
    chosen: Sequence[zipfile.ZipInfo], archive_bytes: int, limits: ArtifactLimits
) -> None:
    for info in chosen:
        if info.file_size > limits.entry:
            raise ArtifactError(
                f"the artifact's entry {info.filename} has more than the {limits.entry} bytes that are read"
            )
    total = sum(info.file_size for info in chosen)
    if total > limits.total:
        raise ArtifactError(f"the artifact holds more than the {limits.total} bytes that are read")
    if total > max(limits.ratio_from, limits.ratio * archive_bytes):
        raise ArtifactError(
            f"the artifact's files are over {limits.ratio} times larger than the artifact"
        )


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The entry's bytes: exactly as many as it claims, with the checksum that it claims."""
    with archive.open(info) as stream:
        data = stream.read(info.file_size)
        more = stream.read(1)  # at the end the checksum is compared
    if len(data) != info.file_size or more:
        raise ArtifactError(f"the artifact's entry {info.filename} has another size than it says")
    return data
