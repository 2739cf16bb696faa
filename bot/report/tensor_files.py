"""Tensors as safetensors files.

A key is the tensor's label (``output r0[1]``). Not every reader of safetensors knows complex numbers: a complex tensor
is stored as its parts with one more axis of length 2 at the end (real, imaginary), and the file's metadata names the
dtype that was meant: ``{"dtype of output r0": "complex64"}``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import save

from bot.targets.outcome import DTYPES

Array = npt.NDArray[Any]

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
    """Label -> canonical dtype and array. Raises ValueError for bytes that are no such file."""
    try:
        rows = _deserialize(raw)
    except safetensors.SafetensorError as error:
        raise ValueError(f"not a safetensors file: {str(error)[:200]}") from None
    metadata = _metadata(raw)
    return {key: _read_entry(key, entry, metadata) for key, entry in rows}


def _deserialize(raw: bytes) -> list[tuple[str, dict[str, Any]]]:
    reader = cast("Any", safetensors)  # its functions have no types
    return reader.deserialize(raw)


def _as_parts(array: Array, dtype: str) -> Array:
    part = DTYPES[_PARTS[dtype]]
    return np.frombuffer(array.tobytes(), part).reshape((*array.shape, 2))


def _read_entry(key: str, entry: dict[str, Any], metadata: dict[str, str]) -> tuple[str, Array]:
    stored = _NAMES.get(str(entry["dtype"]))
    if stored is None:
        raise ValueError(f"tensor {key[:80]!r} has the unknown dtype {entry['dtype']!r}")
    dtype = metadata.get(f"dtype of {key}", stored)
    shape = [int(size) for size in entry["shape"]]
    if dtype != stored:
        if _PARTS.get(dtype) != stored or shape[-1:] != [2]:
            raise ValueError(f"tensor {key[:80]!r} does not hold the parts of a {dtype[:20]!r}")
        shape.pop()
    return dtype, np.frombuffer(bytes(entry["data"]), DTYPES[dtype]).reshape(shape)


def _metadata(raw: bytes) -> dict[str, str]:
    (size,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + size])
    return {str(key): str(value) for key, value in header.get("__metadata__", {}).items()}
