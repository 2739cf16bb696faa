"""Transformed programs hold the numbers that they should, worked out by hand."""

import struct

import ml_dtypes
import numpy as np
import pytest

from bot.programs.builder import ProgramBuilder
from bot.programs.program import Program, ProgramError, decode
from bot.programs.transform import with_dtype, without_gradients


def values_of(blob: bytes, name: str, code: str) -> list[float]:
    program, data = decode(blob)
    tensor = next(t for t in program.tensors if t.name == name)
    storage = program.storages[tensor.storage]
    size = struct.calcsize(code)
    count = storage.nbytes // size
    raw = bytes(data[storage.offset : storage.offset + storage.nbytes])
    return list(struct.unpack(f"<{count}{code}", raw))


def tensor_dtypes(program: Program) -> dict[str, str]:
    return {tensor.name: tensor.dtype for tensor in program.tensors}


def sum_program(array: np.ndarray) -> ProgramBuilder:
    builder = ProgramBuilder("sum")
    x = builder.tensor("x", array, requires_grad=True)
    result = builder.call("sum", x, dtype={"dtype": "float32"})
    builder.output(result)
    builder.backward(result, np.asarray(2.0, array.dtype))
    return builder


def test_float32_becomes_the_same_numbers_in_float64() -> None:
    wide = with_dtype(sum_program(np.array([0.5, -3.0, 1e-45], np.float32)).blob())
    # 1e-45 is the smallest subnormal of float32, 2**-149.
    assert values_of(wide, "x", "d") == [0.5, -3.0, 2.0**-149]
    assert values_of(wide, "g0", "d") == [2.0]
    assert tensor_dtypes(decode(wide)[0]) == {"x": "float64", "g0": "float64"}


def test_dtype_arguments_follow_only_the_tensors_own_dtype() -> None:
    builder = ProgramBuilder("sum")
    x = builder.tensor("x", np.zeros(2, np.float32))
    builder.call(
        "to_both", x, [{"dtype": "float32"}, {"dtype": "float16"}], dtype={"dtype": "int64"}
    )
    call = decode(with_dtype(builder.blob()))[0].calls[0]
    assert call.args[1] == [{"dtype": "float64"}, {"dtype": "float16"}]
    assert call.kwargs == {"dtype": {"dtype": "int64"}}


def test_half_types_and_complex() -> None:
    builder = ProgramBuilder("f")
    builder.tensor("h", np.array([1.5, 65504.0], np.float16))
    builder.tensor("b", np.array([1.0, -2.0], ml_dtypes.bfloat16))
    builder.tensor("c", np.array([1 + 2j], np.complex64))
    builder.tensor("i", np.array([7], np.int32))
    builder.call("f")
    wide = with_dtype(builder.blob())
    assert values_of(wide, "h", "d") == [1.5, 65504.0]
    assert values_of(wide, "b", "d") == [1.0, -2.0]
    assert values_of(wide, "c", "d") == [1.0, 2.0]
    assert values_of(wide, "i", "i") == [7]
    assert tensor_dtypes(decode(wide)[0])["c"] == "complex128"


def test_views_still_alias_with_strides_in_elements() -> None:
    builder = ProgramBuilder("f")
    builder.tensor("x", np.arange(6, dtype=np.float32))
    builder.view("v", "x", (3,), (2,), offset=1)
    builder.call("f")
    program, _ = decode(with_dtype(builder.blob()))
    x, v = program.tensors
    assert (x.storage, v.storage, v.strides, v.offset) == (0, 0, [2], 1)
    assert program.storages[0].nbytes == 48


def test_a_storage_shared_with_another_kind_of_dtype_is_refused() -> None:
    builder = ProgramBuilder("f")
    builder.tensor("x", np.zeros(4, np.float32))
    builder.view("v", "x", (4,), (1,))
    builder.call("f")
    program, data = decode(builder.blob())
    from bot.programs.program import encode

    mixed = program.tensors[1].model_copy(update={"dtype": "int32"})
    blob = encode(program.model_copy(update={"tensors": [program.tensors[0], mixed]}), bytes(data))
    with pytest.raises(ProgramError, match="shared by tensors of float32, int32"):
        with_dtype(blob)


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(ProgramError, match="float128"):
        with_dtype(sum_program(np.zeros(1, np.float32)).blob(), "float128")


def test_without_gradients() -> None:
    blob = without_gradients(sum_program(np.array([4.0], np.float32)).blob())
    program, data = decode(blob)
    assert program.backward == []
    assert [(t.name, t.requires_grad) for t in program.tensors] == [("x", False)]
    assert len(program.storages) == 1
    assert len(data) == 4
    assert values_of(blob, "x", "f") == [4.0]
