"""Shrinking: the order descends, what comes out is known, and nothing depends on luck."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bot.oracle.shrink.order import hardness, order_of
from bot.oracle.shrink.passes_arguments import simpler_numbers
from bot.oracle.shrink.search import PASSES, search
from bot.programs.builder import ProgramBuilder
from bot.programs.draft import Draft
from bot.programs.program import Program, decode

Fails = Callable[[Draft], bool]


def _shrunk(blob: bytes, fails: Fails, batch: int = 8) -> tuple[bytes, int]:
    """The smallest program by a made-up fault, and how many programs were tried."""
    searching = search(blob, batch)
    tries = 0
    try:
        chunk = next(searching)
        while True:
            tries += len(chunk)
            failing = (n for n, tried in enumerate(chunk) if fails(Draft(tried)))
            chunk = searching.send(next(failing, None))
    except StopIteration as end:
        return end.value, tries


def _pool(x: np.ndarray, **options: object) -> bytes:
    builder = ProgramBuilder("nn.functional.max_pool2d")
    copy = builder.call("clone", builder.tensor("x", x, requires_grad=True))
    pooled = builder.call("nn.functional.max_pool2d", copy, [3, 3], **options)
    builder.output(pooled)
    builder.backward(pooled, np.ones_like(x))
    return builder.blob()


def _program(blob: bytes) -> Program:
    return decode(blob)[0]


def test_a_fault_of_one_element_and_one_argument_becomes_just_that() -> None:
    """It needs a NaN, a kernel of 2 at least, and ceil_mode."""
    x = np.random.default_rng(0).standard_normal((4, 3, 9, 9)).astype(np.float32)
    x[2, 1, 5, 7] = np.nan

    def fails(draft: Draft) -> bool:
        call = draft.calls[-1]
        kernel = call.args[1] if len(call.args) > 1 else 0
        large = all(k > 1 for k in kernel) if isinstance(kernel, list) else (kernel or 0) > 1
        nan = any(np.isnan(draft.array(spec.name)).any() for spec in draft.inputs())
        return nan and large and call.kwargs.get("ceil_mode") is True

    found, _ = _shrunk(_pool(x, stride=2, padding=1, ceil_mode=True), fails)
    draft = Draft(found)
    (call,) = draft.calls
    assert call.fn == "nn.functional.max_pool2d"
    assert call.args[1] == [2]
    assert call.kwargs == {"ceil_mode": True}
    assert np.isnan(draft.array("x")).tolist() == [[[[True]]]] or draft.array("x").size == 1
    assert draft.backward == []


def test_a_gradient_fault_keeps_its_backward_and_loses_its_layout() -> None:
    builder = ProgramBuilder("mul")
    x = builder.tensor("x", np.full((4, 6), 0.73), requires_grad=True, strides=[1, 4])
    y = builder.tensor("y", np.full((4, 6), 2.5), requires_grad=True)
    product = builder.call("mul", x, y)
    builder.output(product)
    builder.backward(product, np.full((4, 6), 0.37))

    def fails(draft: Draft) -> bool:
        return bool(draft.backward) and draft.tensors["x"].requires_grad and "y" in draft.used()

    draft = Draft(_shrunk(builder.blob(), fails)[0])
    assert [spec.shape for spec in draft.inputs()] == [[], []]
    assert draft.array("x").tolist() == 0.5  # no whole number: that is where kinks are
    assert draft.array("y").tolist() == 0
    assert not draft.tensors["y"].requires_grad
    assert {spec.dtype for spec in draft.inputs()} == {"float32"}


def test_a_fault_at_17_elements_keeps_them() -> None:
    def fails(draft: Draft) -> bool:
        return draft.array("x").size >= 17

    x = np.random.default_rng(1).standard_normal((5, 33)).astype(np.float32)
    builder = ProgramBuilder("exp")
    builder.output(builder.call("exp", builder.tensor("x", x)))
    draft = Draft(_shrunk(builder.blob(), fails)[0])
    assert draft.array("x").size == 17
    assert not draft.array("x").any()


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_the_result_does_not_depend_on_how_many_are_tried_at_once(batch: int) -> None:
    x = np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)

    def fails(draft: Draft) -> bool:
        return any(float(draft.array(s.name).max(initial=0)) >= 5 for s in draft.inputs())

    blob = _pool(x, stride=2)
    assert _shrunk(blob, fails, batch)[0] == _shrunk(blob, fails)[0]


def test_what_cannot_be_made_smaller_stays() -> None:
    blob = _pool(np.ones((1, 1, 3, 3), np.float32))
    found, tries = _shrunk(blob, lambda draft: False)
    assert found == blob
    assert tries < 400


@settings(max_examples=25, deadline=None)
@given(
    arrays.arrays(
        np.float32,
        arrays.array_shapes(max_dims=3, max_side=5),
        elements=st.floats(-100, 100, width=32),
    ),
    st.floats(0, 50),
)
def test_the_result_fails_is_no_larger_and_stays_when_shrunk_again(
    x: np.ndarray, bound: float
) -> None:
    def fails(draft: Draft) -> bool:
        return any(float(np.abs(draft.array(s.name)).sum()) >= bound for s in draft.inputs())

    builder = ProgramBuilder("abs")
    builder.output(builder.call("abs", builder.tensor("x", x)))
    blob = builder.blob()
    if not fails(Draft(blob)):
        return
    found, _ = _shrunk(blob, fails)
    assert fails(Draft(found))
    assert order_of(found) <= order_of(blob)
    again, _ = _shrunk(found, fails)
    assert again == found


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6))
def test_simpler_numbers_are_simpler_and_of_the_same_type(number: float) -> None:
    for simpler in simpler_numbers(number):
        assert type(simpler) is type(number)
        assert hardness(simpler) < hardness(number)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int64", "uint8", "bool"])
def test_every_pass_gives_valid_programs(dtype: str) -> None:
    numbers = np.random.default_rng(3).standard_normal((2, 3, 2)) * 100
    with np.errstate(all="ignore"):
        x = numbers.astype(dtype)
    builder = ProgramBuilder("add")
    floating = x.dtype.kind in "fc"
    made = builder.tensor("x", x, requires_grad=floating, strides=[1, 2, 6])
    result = builder.call("Tensor.add", made, builder.view("y", "x", [2], [2]), alpha=2)
    builder.output(result)
    if floating:
        builder.backward(result, x)
    for propose in PASSES:
        for draft in propose(Draft(builder.blob())):
            decode(draft.blob())
