"""A program's blob as a worker reads it: where its parts lie, which tensors need no layout, what it gives."""

from __future__ import annotations

import struct
from typing import Any, Dict, Iterator, Tuple

from framework import ITEM_BYTES, RefusedError

_LENGTH = struct.Struct("<I")
Path = Tuple[int, ...]
Place = Tuple[str, Path]
"""A name, and where within its value."""


def split(payload: bytes, begin: int, size: int) -> Tuple[bytes, int]:
    """The JSON of the blob that lies at ``begin`` in a payload, and where in the blob its data section starts (bytes).

    Raises RefusedError.
    """
    if size < _LENGTH.size:
        raise RefusedError("a program shorter than its length field")
    end = _LENGTH.size + _LENGTH.unpack_from(payload, begin)[0]
    data = end + (-end % 64)
    if end > size:
        raise RefusedError("a program whose JSON runs past its end")
    return payload[begin + _LENGTH.size : begin + end], data


def is_whole(spec: Dict[str, Any], nbytes: int) -> bool:
    """Whether a tensor is its whole storage in C order, with nothing special about it."""
    if spec.get("offset") or spec.get("conj") or spec.get("neg"):
        return False
    step = 1
    for length, stride in zip(reversed(spec["shape"]), reversed(spec["strides"])):
        if stride != step or length < 0:
            return False
        step *= length or 1
    if 0 in spec["shape"]:
        return nbytes == 0
    return step * ITEM_BYTES[spec["dtype"]] == nbytes


def output_references(entries: Any) -> Iterator[Place]:
    """Every reference within the outputs, in order."""
    for entry in entries:
        if isinstance(entry, list):
            yield from output_references(entry)
        elif isinstance(entry, dict) and "ref" in entry:
            yield entry["ref"], tuple(entry.get("path", ()))
        elif isinstance(entry, dict):
            yield from output_references([v for v in entry.values() if isinstance(v, list)])
