"""The strict reader of tensor files, against the format's own library where that accepts a file."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from bot.report.tensor_files import read_tensor_file, tensor_file


def file_of(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def row(dtype: Any = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_a_file_that_the_library_wrote() -> None:
    arrays = {"b": np.arange(6, dtype=np.float64).reshape(2, 3), "a": np.array(True)}
    read = read_tensor_file(save(arrays))
    assert {key: dtype for key, (dtype, _) in read.items()} == {"a": "bool", "b": "float64"}
    for key, array in arrays.items():
        assert np.array_equal(read[key][1], array)
        assert not read[key][1].flags.writeable


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\0" * 7, struct.pack("<Q", 1), struct.pack("<Q", (1 << 64) - 1) + b"{}", struct.pack("<Q", 1 << 40) + b"{}",
        file_of([]), file_of(b"{"), file_of(b'{"a": NaN}'), file_of({"a": 1}), file_of({"a": {}}),
        file_of({"a": row()}), file_of({"a": row()}, b"12345"), file_of({}, b"1"),
        file_of({"a": row("F31")}, b"1234"), file_of({"a": row(["F32"])}, b"1234"), file_of({"a": row(shape=[2])}, b"1234"),
        file_of({"a": row(shape=[-1])}, b"1234"), file_of({"a": row(shape=[True])}, b"1234"),
        file_of({"a": row(shape=[1.0])}, b"1234"), file_of({"a": row(shape=None)}, b"1234"),
        file_of({"a": row(shape=[1] * 65)}, b"1234"), file_of({"a": row(shape=[1 << 62, 4])}, b"1234"),
        file_of({"a": row(offsets=[0])}, b"1234"), file_of({"a": row(offsets=[4, 8])}, b"12345678"),
        file_of({"a": row(offsets=[4, 0])}, b"1234"), file_of({"a": row(offsets=[-4, 0])}, b"1234"),
        file_of({"a": row(), "b": row()}, b"1234"), file_of({"a": row(), "b": row(offsets=[2, 6])}, b"123456"),
        file_of({"a": row(), "b": row(offsets=[8, 12])}, b"1" * 12),
        file_of(b'{"a": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}, "a": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"1"),
        file_of({"__metadata__": [], "a": row()}, b"1234"), file_of({"__metadata__": {"x": 1}, "a": row()}, b"1234"),
        file_of({"__metadata__": {"dtype of a": "complex128"}, "a": row()}, b"1234"),
        file_of({"__metadata__": {"dtype of a": "object"}, "a": row()}, b"1234"),
        file_of({"__metadata__": {"dtype of a": "complex64"}, "a": row(shape=[1, 1])}, b"1234"),
        file_of({f"t{i}": row("U8", [0], [0, 0]) for i in range(20_001)}),
        file_of({"a": row("U8", [0, 1 << 48, 1 << 48], [0, 0])}),
        file_of(b" " * (5 << 20)),
    ],
    ids=range(38),
)  # fmt: skip
def test_files_that_do_not_add_up(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_tensor_file(raw)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


REAL = tensor_file(
    [
        ("output r0", "float32", np.array([1, 2], np.float32)),
        ("output r1", "complex64", np.array([1 + 2j], np.complex64)),
        ("output r2", "bool", np.array([True, False])),
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(REAL) - 1), st.integers(0, 255)), max_size=4))
def test_what_is_accepted_is_what_the_library_reads(changes: list[tuple[int, int]]) -> None:
    raw = bytearray(REAL)
    for at, value in changes:
        raw[at] = value
    try:
        read = read_tensor_file(bytes(raw))
    except ValueError:
        return
    with contextlib.suppress(safetensors.SafetensorError):
        other = load(bytes(raw))
        assert set(other) == set(read)
        for key, (_, array) in read.items():
            assert array.tobytes() == other[key].tobytes()
