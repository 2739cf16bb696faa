"""What a search needs to know of one file's text, whatever its path: its words, macros and includes."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bot.changes.sources.cpp_source import includes

Hashes = NDArray[np.uint32]
"""Sorted, each once. Two words share a hash once in 2**32: what is found by it is a candidate, read again in the text."""

_SEPARATORS: Final = bytes(
    byte if byte < 128 and (chr(byte).isalnum() or byte == ord("_")) else ord(" ")
    for byte in range(256)
)
_DEFINE: Final = re.compile(rb"#\s*define\s+([A-Za-z_]\w*)")
_HEADER: Final = struct.Struct("<II")
_ASCII_WORD: Final = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class BlobFacts:
    """``words`` are the runs of ASCII letters, digits and ``_``; ``macros`` the names that are ``#define``d."""

    words: Hashes
    macros: Hashes
    includes: tuple[str, ...]


def word_hash(word: str) -> int:
    """The hash of an ASCII word."""
    return zlib.crc32(word.encode())


def hashes_of(word: str) -> tuple[int, ...]:
    """The hashes that a text which holds the word must have; none for a word without ASCII letters or digits."""
    return tuple(word_hash(piece) for piece in _ASCII_WORD.findall(word))


def _hashes(words: Iterable[bytes]) -> Hashes:
    return np.unique(np.fromiter(map(zlib.crc32, words), np.uint32))


NO_FACTS: Final = BlobFacts(_hashes(()), _hashes(()), ())


def read_facts(text: str) -> BlobFacts:
    """The facts of a text."""
    data = text.encode("utf-8", errors="replace")
    macros = _DEFINE.findall(data) if b"define" in data else ()
    return BlobFacts(
        _hashes(set(data.translate(_SEPARATORS).split())), _hashes(macros), includes(text)
    )


def encode_facts(facts: BlobFacts) -> bytes:
    """Facts as bytes: two counts, words, macros, and the includes in lines."""
    return b"".join(
        (
            _HEADER.pack(len(facts.words), len(facts.macros)),
            facts.words.astype("<u4").tobytes(),
            facts.macros.astype("<u4").tobytes(),
            "\n".join(facts.includes).encode("utf-8", errors="replace"),
        )
    )


def decode_facts(data: bytes) -> BlobFacts:
    """The facts that the bytes are of. Raises ValueError for what ``encode_facts`` cannot have written."""
    if len(data) < _HEADER.size:
        raise ValueError("too short")
    words, macros = _HEADER.unpack_from(data)
    middle = _HEADER.size + 4 * words
    end = middle + 4 * macros
    if end > len(data):
        raise ValueError("cut off")
    written = data[end:].decode("utf-8")
    return BlobFacts(
        np.frombuffer(data, "<u4", words, _HEADER.size).astype(np.uint32, copy=False),
        np.frombuffer(data, "<u4", macros, middle).astype(np.uint32, copy=False),
        tuple(written.split("\n")) if written else (),
    )
