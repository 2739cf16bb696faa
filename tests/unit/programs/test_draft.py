"""Drafts: what is read is what the program means, and what is put back is a valid program."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from bot.programs.builder import ProgramBuilder
from bot.programs.draft import Draft, with_written_gradients
from bot.programs.program import Backward, ProgramError, decode
from bot.worker.output_gradients import generated


def _program() -> bytes:
    builder = ProgramBuilder("mul")
    x = builder.tensor("x", np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), requires_grad=True)
    y = builder.view("y", "x", [2], [2], offset=1)
    product = builder.call("mul", x, y, result="r0")
    builder.output(product)
    builder.backward(product, np.ones((2, 2), np.float32))
    return builder.blob()


def test_a_program_that_is_not_changed_comes_back_as_it_was() -> None:
    assert Draft(_program()).blob() == _program()


def test_a_view_is_read_as_its_logical_values_and_shares_its_storage() -> None:
    draft = Draft(_program())
    assert draft.array("y").tolist() == [2.0, 4.0]
    assert draft.shares_storage("x")
    assert not draft.shares_storage("g0")


def test_conj_and_neg_bits_are_resolved_and_put_back() -> None:
    builder = ProgramBuilder("abs")
    z = builder.tensor("z", np.array([1 + 2j], np.complex64), conj=True)
    builder.output(builder.call("abs", z))
    draft = Draft(builder.blob())
    assert draft.array("z").tolist() == [1 + 2j]
    draft.put("z", [3 + 4j], neg=True)
    assert Draft(draft.blob()).array("z").tolist() == [3 + 4j]


def test_what_is_read_can_be_written_to_in_0_dimensions_too() -> None:
    builder = ProgramBuilder("abs")
    builder.output(
        builder.call("abs", builder.tensor("z", np.array(1 + 2j, np.complex64), conj=True))
    )
    array = Draft(builder.blob()).array("z")
    array[...] = 5
    assert array.tolist() == 5


def test_a_tensor_is_put_into_a_storage_of_its_own_and_copies_do_not_see_it() -> None:
    draft = Draft(_program())
    other = draft.copy()
    other.put("y", [7.0, 8.0], strides=[3], offset=1)
    assert draft.array("y").tolist() == [2.0, 4.0]
    program, data = decode(other.blob())
    spec = next(spec for spec in program.tensors if spec.name == "y")
    assert (spec.strides, spec.offset) == ([3], 1)
    start = program.storages[spec.storage].offset
    assert struct.unpack_from("<5f", data, start)[1::3] == (7.0, 8.0)
    assert not other.shares_storage("x")


def test_an_expanded_tensor_has_one_element_in_memory() -> None:
    draft = Draft(_program())
    draft.put("y", np.full(5, 2.5), strides=[0])
    program, _ = decode(draft.blob())
    spec = next(spec for spec in program.tensors if spec.name == "y")
    assert program.storages[spec.storage].nbytes == 4
    assert Draft(draft.blob()).array("y").tolist() == [2.5] * 5


def test_an_integer_tensor_wants_no_gradient_and_nothing_is_left_to_differentiate() -> None:
    draft = Draft(_program())
    draft.put("x", np.array([[1, 2], [3, 4]]), "int64")
    program, _ = decode(draft.blob())
    assert program.backward == []
    assert [spec.name for spec in program.tensors] == ["x", "y"]


def test_generated_gradients_are_written_down_for_the_shape_that_came() -> None:
    draft = Draft(_program())
    draft.generate_gradients()
    blob = draft.blob()
    program, _ = decode(blob)
    assert program.backward == [Backward(output={"ref": "r0"})]
    written = Draft(with_written_gradients(blob, {("r0", ()): ("float32", (2, 2))}))
    (entry,) = written.backward
    assert entry.gradient is not None
    # The documented numbers, in C order.
    assert written.array(entry.gradient).tolist() == [[1.0, -0.5], [2.0, 0.25]]


def test_a_program_whose_output_has_no_gradient_loses_its_backward() -> None:
    draft = Draft(_program())
    draft.generate_gradients()
    written, _ = decode(with_written_gradients(draft.blob(), {("r0", ()): ("int64", (2, 2))}))
    assert written.backward == []
    assert [spec.name for spec in written.tensors if spec.requires_grad] == ["x"]


def test_a_name_can_be_given_once() -> None:
    draft = Draft(_program())
    with pytest.raises(ProgramError, match="taken"):
        draft.add("r0", [1.0], "float32")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float64", struct.pack("<8d", 1, -0.5, 2, 0.25, -1.5, 0.75, -2, 1)),
        ("float16", struct.pack("<8e", 1, -0.5, 2, 0.25, -1.5, 0.75, -2, 1)),
        # The upper halves of 1, -0.5, 2, 0.25, -1.5, 0.75, -2, 1 in float32.
        (
            "bfloat16",
            struct.pack("<8H", 0x3F80, 0xBF00, 0x4000, 0x3E80, 0xBFC0, 0x3F40, 0xC000, 0x3F80),
        ),
    ],
)
def test_the_generated_numbers_begin_again_after_seven(dtype: str, expected: bytes) -> None:
    assert generated(dtype, [2, 4]) == expected


def test_a_generated_complex_gradient_has_the_numbers_three_places_on_as_imaginary_parts() -> None:
    assert generated("complex64", [2]) == struct.pack("<4f", 1, 0.25, -0.5, -1.5)


def test_a_generated_gradient_of_nothing_is_empty() -> None:
    assert generated("float32", [0, 3]) == b""
