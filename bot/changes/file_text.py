"""Bytes of a repository's file to text: what counts as text, and how undecodable bytes are shown."""

from __future__ import annotations

SNIFFED_BYTES = 8000  # git's own rule: a NUL byte this early means a binary file
MAX_TEXT_BYTES = 2 << 20
"""Of sources (the largest that ops are read from in these frameworks has 1.1 MB); larger ones are said to be unread, for
reading one takes seconds and hundreds of times its size.
"""

NOT_READ = (
    "a binary file, link, submodule, a file of more than 2 MiB or one that is not in this clone"
)


def decode_text(data: bytes) -> str | None:
    """The text of a file, undecodable bytes as ``\\xNN``, so that two of them differ; None for a binary or oversized file."""
    if len(data) > MAX_TEXT_BYTES or b"\0" in data[:SNIFFED_BYTES]:
        return None
    return data.decode("utf-8", errors="backslashreplace").removeprefix("\ufeff")


def printable_path(path: str) -> str:
    """A path that any UTF-8 stream takes: bytes that are not UTF-8 are shown as ``\\xNN``."""
    try:
        raw = path.encode("utf-8", errors="surrogateescape")
    except (
        UnicodeEncodeError
    ):  # half of a pair, which a source's text may hold and no byte stands for
        raw = path.encode("utf-8", errors="backslashreplace")
    return raw.decode("utf-8", errors="backslashreplace")
