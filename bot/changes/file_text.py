"""Bytes of a repository's file to text: what counts as text, and how undecodable bytes are shown."""

from __future__ import annotations

SNIFFED_BYTES = 8000  # git's own rule: a NUL byte this early means a binary file
MAX_TEXT_BYTES = 16 << 20  # generated files above this are listed as unreadable rather than parsed


def decode_text(data: bytes) -> str | None:
    """The text of a file, undecodable bytes as ``\\xNN``, so that two of them differ; None for a binary or oversized file."""
    if len(data) > MAX_TEXT_BYTES or b"\0" in data[:SNIFFED_BYTES]:
        return None
    return data.decode("utf-8", errors="backslashreplace").removeprefix("\ufeff")


def printable_path(path: str) -> str:
    """A path that any UTF-8 stream takes: bytes that are not UTF-8 are shown as ``\\xNN``."""
    raw = path.encode("utf-8", errors="surrogateescape")
    return raw.decode("utf-8", errors="backslashreplace")
