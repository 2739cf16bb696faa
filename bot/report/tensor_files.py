"""Tensors as safetensors files.

A key is the tensor's label (``output r0[1]``). Not every reader of safetensors knows complex numbers: a complex tensor
is stored as its parts with one more axis of length 2 at the end (real, imaginary), and the file's metadata names the
dtype that was meant: ``{"dtype of output r0": "complex64"}``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from bot.programs.dtypes import DTYPES
from bot.report.untrusted_json import parse_json_object
from bot.targets.outcome import MAX_RANK

Array = npt.NDArray[Any]

MAX_HEADER_BYTES: Final = 4 << 20
MAX_TENSORS: Final = 20_000
MAX_SIZE: Final = 1 << 48
_LENGTH: Final = struct.Struct("<Q")
_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "I32": "int32", "U32": "uint32",
    "I64": "int64", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip
"""safetensors' names -> canonical dtypes."""


def tensor_file(tensors: Iterable[tuple[str, str, Array]]) -> bytes:
    """A safetensors file of ``(label, canonical dtype, array)``; of a label that comes twice the first is kept."""
    entries: dict[str, Array] = {}
    metadata: dict[str, str] = {}
    for label, dtype, array in tensors:
        key = label.encode("utf-8", "backslashreplace").decode()
        if key in entries or key == "__metadata__":
            continue
        entries[key] = np.array(array, order="C", copy=True)
        if dtype in _PARTS:
            entries[key] = _as_parts(entries[key], dtype)
            metadata[f"dtype of {key}"] = dtype
    return save(entries, metadata or None)


def read_tensor_file(raw: bytes) -> dict[str, tuple[str, Array]]:
    """Label -> canonical dtype and array (read-only views of ``raw``), in the order of the bytes.

    Stricter than the format: at most MAX_HEADER_BYTES of header and MAX_TENSORS tensors, canonical dtypes, and every
    byte of the data in exactly one tensor. Raises ValueError with one line for anything else.
    """
    header, data = _split(raw)
    metadata = _metadata(header.pop("__metadata__", {}))
    if len(header) > MAX_TENSORS:
        raise ValueError(f"a tensor file with more than {MAX_TENSORS} tensors")
    entries = sorted((_entry(key, fields) for key, fields in header.items()), key=lambda e: e.span)
    end = 0
    for entry in entries:
        if entry.span[0] != end:
            raise ValueError(f"tensor {entry.key[:80]!a} does not begin where the last one ends")
        end = entry.span[1]
    if end != len(data):
        raise ValueError("the tensors do not fill their file")
    return {entry.key: _read_entry(entry, data, metadata) for entry in entries}


@dataclass(frozen=True)
class _Entry:
    """One row of the header: its dtype as stored, and the bytes from and to."""

    key: str
    stored: str
    shape: tuple[int, ...]
    span: tuple[int, int]


def _split(raw: bytes) -> tuple[dict[str, Any], memoryview]:
    """The header's JSON object and the data."""
    if len(raw) < _LENGTH.size:
        raise ValueError("a tensor file is shorter than its length field")
    (size,) = _LENGTH.unpack_from(raw)
    if size > min(len(raw) - _LENGTH.size, MAX_HEADER_BYTES):
        raise ValueError("a tensor file's header is too long, or runs past the end")
    header = parse_json_object(raw[_LENGTH.size : _LENGTH.size + size], "a tensor file's header")
    return header, memoryview(raw)[_LENGTH.size + size :]


def _entry(key: str, fields: Any) -> _Entry:
    what = f"tensor {key[:80]!a}"
    if not isinstance(fields, dict):
        raise ValueError(f"{what} is not described")
    row = cast("dict[str, Any]", fields)
    stored = _NAMES.get(str(row.get("dtype")))
    if stored is None:
        raise ValueError(f"{what} has the unknown dtype {str(row.get('dtype'))[:20]!a}")
    shape, span = _sizes(row.get("shape"), what), _sizes(row.get("data_offsets"), what)
    if len(span) != 2 or len(shape) > MAX_RANK:
        raise ValueError(f"{what} has no offsets, or too many dimensions")
    if span[1] - span[0] != math.prod(shape) * DTYPES[stored].itemsize:
        raise ValueError(f"{what} has another size than its shape")
    return _Entry(key, stored, shape, (span[0], span[1]))


def _sizes(value: Any, what: str) -> tuple[int, ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if any(type(item) is not int or not 0 <= item <= MAX_SIZE for item in items):
        raise ValueError(f"{what} has a size that is none")
    return tuple(items)


def _metadata(fields: Any) -> dict[str, str]:
    entries = cast("dict[str, Any]", fields)
    if not isinstance(fields, dict) or not all(isinstance(v, str) for v in entries.values()):
        raise ValueError("a tensor file's metadata is not a map from text to text")
    return entries


def _read_entry(entry: _Entry, data: memoryview, metadata: Mapping[str, str]) -> tuple[str, Array]:
    dtype, shape = metadata.get(f"dtype of {entry.key}", entry.stored), entry.shape
    if dtype != entry.stored:
        if _PARTS.get(dtype) != entry.stored or shape[-1:] != (2,):
            raise ValueError(f"tensor {entry.key[:80]!a} holds no parts of a {dtype[:20]!a}")
        shape = shape[:-1]
    if entry.span[0] == entry.span[1]:
        return dtype, np.empty(shape, DTYPES[dtype])
    return dtype, np.frombuffer(data[slice(*entry.span)], DTYPES[dtype]).reshape(shape)


def _as_parts(array: Array, dtype: str) -> Array:
    part = DTYPES[_PARTS[dtype]]
    return np.frombuffer(array.tobytes(), part).reshape((*array.shape, 2))
