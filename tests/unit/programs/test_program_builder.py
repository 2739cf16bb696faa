"""ProgramBuilder: what it writes is what a program's format says."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from bot.programs.builder import ProgramBuilder, contiguous_strides, member, to_value
from bot.programs.program import ProgramError, decode, digest


def test_a_strided_tensor_lies_where_its_strides_say() -> None:
    builder = ProgramBuilder("add")
    # Columns of a 3x2 matrix in Fortran order, two elements into the storage.
    x = builder.tensor("x", np.array([[1, 2], [3, 4], [5, 6]], np.int32), strides=[1, 3], offset=2)
    builder.output(builder.call("add", x, 1))
    program, data = decode(builder.blob())
    stored = np.frombuffer(data, np.int32, program.storages[0].nbytes // 4)
    assert stored.tolist() == [0, 0, 1, 3, 5, 2, 4, 6]


def test_conj_and_neg_bits_store_the_other_value() -> None:
    builder = ProgramBuilder("add")
    x = builder.tensor("x", np.array([1 + 2j], np.complex64), conj=True)
    y = builder.tensor("y", np.array([3.0], np.float32), neg=True)
    builder.output(builder.call("add", x, y))
    program, data = decode(builder.blob())
    assert np.frombuffer(data, np.complex64, 1, program.storages[0].offset)[0] == 1 - 2j
    assert np.frombuffer(data, np.float32, 1, program.storages[1].offset)[0] == -3.0


def test_storages_are_aligned_and_views_share_theirs() -> None:
    builder = ProgramBuilder("add")
    builder.tensor("a", np.ones(3, np.uint8))
    base = builder.tensor("b", np.ones((2, 2)))
    view = builder.view("c", "b", [2], [2], offset=1)
    builder.output(builder.call("add", base, view))
    program = builder.program()
    assert [storage.offset % 64 for storage in program.storages] == [0, 0]
    assert program.tensors[1].storage == program.tensors[2].storage


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), {"float": "nan"}),
        (float("-inf"), {"float": "-inf"}),
        (-0.0, {"float": "-0.0"}),
        (1.5, 1.5),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (True, True),
        (2 + 0.5j, {"complex": [2.0, 0.5]}),
        ((1, [2]), {"tuple": [1, [2]]}),
        (slice(None, 3, -1), {"slice": [None, 3, -1]}),
        (..., {"ellipsis": True}),
        ({"dtype": "float64"}, {"dtype": "float64"}),
    ],
)
def test_values_in_the_grammar(value: object, expected: object) -> None:
    assert to_value(value) == expected
    assert type(to_value(value)) is type(expected)


def test_what_the_grammar_cannot_say_is_an_error() -> None:
    with pytest.raises(ProgramError, match="type object"):
        to_value(object())


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats_can_be_strided(name: str) -> None:
    values = np.array([1.5, -2.0], getattr(ml_dtypes, name))
    builder = ProgramBuilder("add")
    builder.output(builder.call("add", builder.tensor("x", values, strides=[2], offset=1), 1))
    program, data = decode(builder.blob())
    stored = np.frombuffer(data, values.dtype, 4, program.storages[0].offset)
    assert program.tensors[0].dtype == name
    assert stored.astype(np.float32).tolist() == [0.0, 1.5, 0.0, -2.0]


def test_small_floats_have_names() -> None:
    builder = ProgramBuilder("add")
    builder.tensor("x", np.ones(2, ml_dtypes.bfloat16))
    builder.output(builder.call("add", {"ref": "x"}, member({"ref": "x"}, 1)))
    assert builder.program().tensors[0].dtype == "bfloat16"
    assert builder.program().calls[0].args[1] == {"ref": "x", "path": [1]}


def test_the_same_program_has_the_same_digest_whatever_its_data() -> None:
    def blob(value: float) -> bytes:
        builder = ProgramBuilder("add")
        builder.output(builder.call("add", builder.tensor("x", np.full(2, value)), 1))
        return builder.blob()

    assert digest(blob(1.0)) == digest(blob(1.0))
    assert digest(blob(1.0)) != digest(blob(2.0))


def test_a_program_that_does_not_add_up_is_refused() -> None:
    builder = ProgramBuilder("add")
    builder.output(builder.call("add", {"ref": "nobody"}))
    with pytest.raises(ProgramError, match="nobody"):
        builder.program()
    with pytest.raises(ProgramError, match="strides"):
        builder.tensor("x", np.ones((2, 2)), strides=[1])
    with pytest.raises(ProgramError, match="no tensor named"):
        builder.view("v", "missing", [1], [1])


def test_contiguous_strides_count_empty_dimensions_as_one() -> None:
    assert contiguous_strides([2, 3, 4]) == [12, 4, 1]
    assert contiguous_strides([2, 0, 4]) == [4, 4, 1]
    assert contiguous_strides([]) == []
