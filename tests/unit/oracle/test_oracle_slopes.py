"""Finite differences: whose gradient is the slope, on functions whose derivatives are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_outcomes import outcome
from simulated_targets import Simulation, with_gradient

from bot.oracle.finding import Finding
from bot.oracle.settle import settle
from bot.oracle.slopes import SHIFTS, Slope, leaf_of, slope_of
from bot.programs.builder import ProgramBuilder
from bot.programs.program import Origin, decode, digest
from bot.programs.source import SourcedProgram

ONEFLOW, TORCH, PADDLE = "oneflow==0.9.0:cpu", "torch==2.13.0:cpu", "paddle==3.3.1:cpu"
CANDIDATE = "oneflow@pr:cpu"
Function = Callable[[np.ndarray], np.ndarray]


def differentiated(x, gradient=None, dtype="f8", origin: Origin | None = None) -> SourcedProgram:
    """``op(x)`` with backward; the output has x's shape, or that of ``gradient``."""
    values = np.asarray(x, dtype)
    builder = ProgramBuilder("op", origin=origin)
    builder.tensor("x", values, requires_grad=True)
    result = builder.call("op", {"ref": "x"})
    builder.output(result)
    builder.backward(
        result, np.ones_like(values) if gradient is None else np.asarray(gradient, dtype)
    )
    blob = builder.blob()
    return SourcedProgram(blob, digest(blob), "op")


def wide(blob: bytes) -> bytes | None:
    return None


def judged(targets, made: SourcedProgram, roles=None) -> Finding:
    simulation = Simulation(targets)
    roles = roles or ["peer"] * len(targets)
    settled = settle([simulation.case(made)], simulation.comparator, roles, simulation.rerun, wide)
    (finding,) = settled.findings
    return finding


def square(derivative: Function):
    return with_gradient(np.square, derivative)


def test_a_gradient_that_is_not_the_slope_is_wrong_though_it_stands_alone_against_one():
    """d(x^2)/dx = 2x."""
    finding = judged(
        [(ONEFLOW, "oneflow", square(lambda x: 3 * x)), (TORCH, "torch", square(lambda x: 2 * x))],
        differentiated([1.0, 2.0]),
    )
    assert (finding.verdict, finding.blamed, finding.confidence) == (
        "upstream",
        (ONEFLOW,),
        "strong",
    )
    (evidence,) = [e for e in finding.evidence if e.rung == "finite differences"]
    assert "finite differences in float64 give 2 at [0]" in evidence.says


def product(nan: bool):
    """d(prod x)/dx_i is the product of the others: 6, 0, 0 at [0, 2, 3]. Dividing prod by x_i gives NaN at 0."""

    def derivative(x: np.ndarray) -> np.ndarray:
        if nan:
            return np.prod(x) / x
        return np.array([np.prod(np.delete(x, i)) for i in range(x.size)])

    return with_gradient(lambda x: np.prod(x), derivative)


def test_mathematics_overrules_a_vote():
    finding = judged(
        [
            (ONEFLOW, "oneflow", product(nan=True)),
            (PADDLE, "paddle", product(nan=True)),
            (TORCH, "torch", product(nan=False)),
        ],
        differentiated([0.0, 2.0, 3.0], gradient=1.0),
    )
    assert set(finding.blamed) == {ONEFLOW, PADDLE}
    assert (finding.verdict, finding.confidence) == ("upstream", "strong")


def absolute(at_zero: float):
    return with_gradient(np.abs, lambda x: np.where(x == 0, at_zero, np.sign(x)))


def test_at_a_kink_every_gradient_between_the_slopes_is_a_convention():
    """The slopes of |x| at 0 are -1 and 1."""
    finding = judged(
        [(ONEFLOW, "oneflow", absolute(0.0)), (TORCH, "torch", absolute(1.0))],
        differentiated([0.0, 2.0]),
    )
    assert (finding.verdict, finding.blamed, finding.confidence) == ("convention", (), "strong")


@pytest.mark.parametrize("outside", [1.5, float("nan")])
def test_at_a_kink_a_gradient_outside_the_slopes_is_wrong(outside: float):
    finding = judged(
        [(ONEFLOW, "oneflow", absolute(outside)), (TORCH, "torch", absolute(1.0))],
        differentiated([0.0, 2.0]),
    )
    assert (finding.verdict, finding.blamed) == ("upstream", (ONEFLOW,))


def test_a_candidate_that_chooses_another_gradient_at_a_kink_than_its_baseline_is_told():
    finding = judged(
        [
            (CANDIDATE, "oneflow", absolute(0.5)),
            (ONEFLOW, "oneflow", absolute(0.0)),
            (TORCH, "torch", absolute(0.0)),
        ],
        differentiated([0.0, 2.0]),
        ["candidate", "baseline", "peer"],
    )
    assert (finding.verdict, finding.status) == ("candidate", "new")


def test_where_the_input_is_nan_nobody_is_wrong():
    def passing(at_nan: float):
        return with_gradient(lambda x: x, lambda x: np.where(np.isnan(x), at_nan, 1.0))

    finding = judged(
        [(ONEFLOW, "oneflow", passing(0.0)), (TORCH, "torch", passing(1.0))],
        differentiated([np.nan, 2.0]),
    )
    assert (finding.verdict, finding.confidence) == ("convention", "weak")


def test_targets_that_compute_different_functions_have_no_slope_in_common():
    """Within tolerance forward, but not the same function: x and x (1 + 1e-9) would be; here the slopes are 1 and 2."""

    def near(factor: float):
        return with_gradient(lambda x: 1e9 + factor * x, lambda x: np.full_like(x, factor))

    finding = judged(
        [(ONEFLOW, "oneflow", near(1.0)), (TORCH, "torch", near(2.0))], differentiated([1.0])
    )
    assert finding.verdict == "undecided"


def test_an_absent_gradient_counts_as_zeros():
    """d(5 + 0 x)/dx = 0: the side without a gradient is right, the one with 1 is wrong."""

    def absent(decoded, x):
        return outcome(("output", "r0", np.full_like(x, 5.0)), absent=["x"])

    one = with_gradient(lambda x: np.full_like(x, 5.0), np.ones_like)
    finding = judged(
        [(ONEFLOW, "oneflow", one), (TORCH, "torch", absent)], differentiated([1.0, 2.0])
    )
    assert finding.blamed == (ONEFLOW,)


def test_a_random_program_has_no_slope():
    made = differentiated([1.0], origin=Origin(source="builder", random=True))
    assert leaf_of(made.blob, "x") is None


def test_elements_that_cannot_be_moved_alone_are_left_alone():
    builder = ProgramBuilder("op")
    builder.tensor("x", np.arange(4.0), requires_grad=True)
    builder.view("y", "x", [2], [1])
    builder.tensor("z", np.arange(1.0), requires_grad=True, strides=[0])
    result = builder.call("op", {"ref": "x"}, {"ref": "y"})
    builder.output(result)
    builder.backward(result, np.ones(4))
    blob = builder.blob()
    assert leaf_of(blob, "x") is None
    assert leaf_of(blob, "nobody") is None
    assert leaf_of(b"no program", "x") is None


def test_a_probe_moves_one_element_by_its_step_and_keeps_the_rest():
    leaf = leaf_of(differentiated([3.0, -7.0]).blob, "x")
    assert leaf is not None
    step = leaf.step([1])
    assert step == 2.0**-11  # the power of two below 7e-4
    moved = []
    for blob in leaf.probes([1]):
        program, data = decode(blob)
        assert program.backward == []
        moved.append(np.frombuffer(data, np.float64, 2, program.storages[0].offset).tolist())
    assert moved == [[3.0, -7.0 + shift * step] for shift in SHIFTS]


@given(
    st.lists(st.integers(-9, 9), min_size=4, max_size=4),
    st.floats(-100, 100, allow_nan=False).filter(lambda x: abs(x) > 1e-3),
)
def test_the_slope_of_a_cubic(coefficients: list[int], x: float):
    """d(a + b x + c x^2 + d x^3)/dx = b + 2 c x + 3 d x^2, to the slope's own error."""
    a, b, c, d = coefficients
    leaf = leaf_of(differentiated([x]).blob, "x")
    assert leaf is not None
    outcomes = []
    for blob in leaf.probes([0]):
        program, data = decode(blob)
        (at,) = np.frombuffer(data, np.float64, 1, program.storages[0].offset)
        value = np.array([a + b * at + c * at**2 + d * at**3])
        outcomes.append(outcome(("output", "r0", value)).decode())
    slope = slope_of(leaf, [0], outcomes)
    assert slope is not None
    assert slope.holds(b + 2 * c * x + 3 * d * x**2, 1e-6)


def test_a_kink_is_no_smooth_point():
    assert not Slope(value=0.0, error=1e-9, left=-1.0, right=1.0).is_smooth
    assert Slope(value=1.0, error=1e-9, left=0.9999, right=1.0001).is_smooth
