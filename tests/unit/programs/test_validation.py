"""What decode lets through is what workers, the oracle and reports can rely on."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from bot.oracle.initial import InitialTensors
from bot.programs.dtypes import DTYPES
from bot.programs.program import ProgramError, decode, digest
from bot.programs.validation import ITEM_BYTES

CALL = {"fn": "add", "args": [1], "result": "r"}
X = {"name": "x", "dtype": "float32", "shape": [1], "strides": [1], "storage": 0}
STORAGE = {"offset": 0, "nbytes": 16}


def blob(**fields: Any) -> bytes:
    """A blob with these fields off a small valid program's."""
    program = {"op": "add", "calls": [CALL], "origin": {"source": "test"}} | fields
    text = json.dumps(program).encode()
    head = struct.pack("<I", len(text)) + text
    return head + bytes(-len(head) % 64) + bytes(64)


def with_tensor(**fields: Any) -> bytes:
    return blob(tensors=[X | fields], storages=[STORAGE])


def test_the_small_program_is_valid() -> None:
    program, data = decode(with_tensor())
    assert program.tensors[0].name == "x"
    assert len(data) == 64
    assert len(digest(with_tensor())) == 32


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": [1 << 40], "strides": [0]},  # a stride of 0 costs no bytes in the program
        {"shape": [0, 1 << 62], "strides": [0, 0]},
        {"shape": [1] * 257, "strides": [1] * 257},
        {"shape": [5]},
        {"offset": 4},
        {"offset": -1},
        {"shape": [-1]},
        {"strides": [-1]},
        {"strides": []},
        {"storage": 1},
        {"storage": -1},
        {"dtype": "float31"},
        {"conj": True},
        {"dtype": "bool", "neg": True},
        {"dtype": "float8_e5m2", "neg": True},
        {"requires_grad": "false"},  # a worker would take the text for true
        {"shape": ["1"]},
    ],
)
def test_tensors_that_nobody_could_hold_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ProgramError):
        decode(with_tensor(**fields))


def test_error_inputs_with_too_many_dimensions_are_programs() -> None:
    program, data = decode(with_tensor(shape=[1] * 65, strides=[1] * 65))
    assert InitialTensors(program, data).array("x") is None


def test_small_floats_are_read_with_their_strides() -> None:
    fields = {"dtype": "float8_e5m2", "shape": [2], "strides": [3], "offset": 1}
    program, data = decode(with_tensor(**fields))
    raw = bytearray(data)
    raw[1], raw[4] = (
        0x3C,
        0xC0,
    )  # 1 and -2: a sign bit, five of exponent with bias 15, two of mantissa
    array = InitialTensors(program, memoryview(bytes(raw))).array("x")
    assert array is not None
    assert array.astype(np.float32).tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    ("bits", "expected"),
    [({}, (1, 2)), ({"conj": True}, (1, -2)), ({"neg": True}, (-1, -2)),
     ({"conj": True, "neg": True}, (-1, 2))],
)  # fmt: skip
def test_bits_of_half_complex_numbers_are_resolved(
    bits: dict[str, bool], expected: tuple[float, float]
) -> None:
    program, data = decode(with_tensor(dtype="complex32", **bits))
    raw = bytearray(data)
    raw[:4] = np.array([1, 2], np.float16).tobytes()
    array = InitialTensors(program, memoryview(bytes(raw))).array("x")
    assert array is not None
    assert array[0].item() == expected


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        [[float("nan")]],
        {"float": float("nan")},
        {"dict": [["k", {"tuple": [float("-inf")]}]]},
        {"ref": "nobody"},
        {"tuple": {"ref": "nobody"}},
        {"tuple": [[{"ref": "nobody"}]]},
    ],
)
def test_values_that_mean_nothing_are_refused(value: Any) -> None:
    with pytest.raises(ProgramError):
        decode(blob(calls=[CALL | {"args": [value]}]))
    with pytest.raises(ProgramError):
        decode(blob(calls=[CALL | {"kwargs": {"k": value}}]))


def test_nested_too_deep_is_refused() -> None:
    value: Any = 1
    for _ in range(20):
        value = {"tuple": [value]}
    with pytest.raises(ProgramError, match="deep"):
        decode(blob(calls=[CALL | {"args": [value]}]))


@pytest.mark.parametrize("seed", [1 << 63, -(1 << 63) - 1])
def test_a_seed_that_no_generator_takes_is_refused(seed: int) -> None:
    with pytest.raises(ProgramError, match="seed"):
        decode(blob(seed=seed))


@pytest.mark.parametrize(
    "fields",
    [
        {"backward": [{"output": {"ref": "r"}, "gradient": "r"}]},
        {"state": {"r": {"weight": "r"}}},
        {"tensors": [X], "storages": [STORAGE], "state": {"x": {"weight": "x"}}},
    ],
)
def test_gradients_and_state_are_tensors_of_the_program(fields: dict[str, Any]) -> None:
    with pytest.raises(ProgramError):
        decode(blob(**fields))


def test_a_tolerance_is_finite() -> None:
    origin = {"source": "test", "tolerance": {"atol": float("inf"), "rtol": 0.0}}
    with pytest.raises(ProgramError, match="tolerance"):
        decode(blob(origin=origin))


def test_bot_and_worker_agree_on_the_size_of_every_dtype() -> None:
    worker = Path(__file__).parents[3] / "bot" / "worker"
    says = "import framework, json; print(json.dumps(framework.ITEM_BYTES))"
    ran = subprocess.run([sys.executable, "-c", says], cwd=worker, capture_output=True, check=True)
    assert json.loads(ran.stdout) == ITEM_BYTES
    assert {name: dtype.itemsize for name, dtype in DTYPES.items()} == ITEM_BYTES
    assert ITEM_BYTES["bfloat16"] == np.dtype(ml_dtypes.bfloat16).itemsize == 2
