"""NumPy as a witness, on simulated targets: whom it convicts, and where it says nothing."""

from __future__ import annotations

import numpy as np
import pytest
from made_outcomes import outcome, program
from simulated_targets import Simulation, forward, to_float64, with_gradient

from bot.oracle.settle import settle
from bot.oracle.tensors import Party
from bot.oracle.witness_targets import WitnessTarget
from bot.targets.outcome import RawOutcome

FLOW, TORCH, PADDLE = "oneflow==0.9.0:cpu", "torch==2.13.0:cpu", "paddlepaddle==3.3.1:cpu"
NUMPY = "numpy==2.4.6:cpu"
SQUARE, CUBE = forward(np.square), forward(lambda x: x * x * x)


class OnlyNumPy:
    """A reference that answers like a simulated target, and counts how often it was asked."""

    def __init__(self, function):
        self._simulation = Simulation([(NUMPY, "numpy", function)])

    def reference(self):
        return WitnessTarget(Party(NUMPY, "numpy", NUMPY), self._simulation.rerun)

    def paths(self, label):
        return iter(())

    @property
    def runs(self):
        return self._simulation.runs


def finding_of(targets, numpy, values=(2.0, 3.0), dtype="f4", clock=lambda: 0.0):
    simulation = Simulation([(label, label.partition("=")[0], f) for label, f in targets.items()])
    result = settle(
        simulation.cases([program("square", list(values), dtype)]),
        simulation.comparator,
        ["peer"] * len(targets),
        simulation.rerun,
        to_float64,
        clock=clock,
        others=numpy,
    )
    (finding,) = result.findings
    return finding


def weighs(finding):
    return finding.blamed, finding.confidence


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_numpy_and_one_framework_are_two_witnesses(dtype):
    """A wrong formula is wrong in float64 too, and one against one is no vote; NumPy says that 2 squared is 4."""
    finding = finding_of({FLOW: CUBE, TORCH: SQUARE}, OnlyNumPy(SQUARE), (2, 3), dtype)
    assert weighs(finding) == ((FLOW,), "strong")
    (said,) = [e for e in finding.evidence if e.rung == "reference"]
    assert said.against == (FLOW,)
    assert TORCH in said.says


def test_numpy_may_agree_with_nobody():
    finding = finding_of({FLOW: CUBE, TORCH: SQUARE}, OnlyNumPy(forward(lambda x: -x)))
    assert (finding.verdict, finding.blamed) == ("undecided", ())


def test_numpy_that_lacks_the_op_says_nothing():
    def lacks(_program, _x) -> RawOutcome:
        return outcome(status="unsupported", phase="forward", error=("UnsupportedError", "no op"))

    assert finding_of({FLOW: CUBE, TORCH: SQUARE}, OnlyNumPy(lacks)).blamed == ()


def test_as_many_frameworks_against_numpy_make_it_weak():
    """Two say x cubed; one says x squared, and NumPy with it."""
    finding = finding_of({FLOW: CUBE, PADDLE: CUBE, TORCH: SQUARE}, OnlyNumPy(SQUARE))
    assert weighs(finding) == ((FLOW, PADDLE), "weak")


def test_numpy_makes_a_float64_run_independent():
    """Two builds of PyTorch: the older one is wrong in float32 alone, so that float64 runs agree, of one framework."""
    older, newer = "torch==1.8.1:cpu", TORCH
    wrong = forward(lambda x: np.square(x) if x.dtype == np.float64 else np.square(x) + 1)
    finding = finding_of({older: wrong, newer: SQUARE}, OnlyNumPy(SQUARE))
    assert weighs(finding) == ((older,), "strong")


def test_a_nan_that_no_float64_run_has():
    """relu(nan) is nan, as everything is that compares with it; one side makes it 0 in every dtype."""
    relu, zero = forward(lambda x: np.maximum(x, 0)), forward(lambda x: np.fmax(x, 0))
    finding = finding_of({PADDLE: zero, TORCH: relu}, OnlyNumPy(relu), (np.nan, 1.0))
    assert (finding.kind, *weighs(finding)) == ("nan", (PADDLE,), "strong")


def test_numpy_among_the_targets_weighs_the_same():
    finding = finding_of({FLOW: CUBE, TORCH: SQUARE, NUMPY: SQUARE}, None)
    assert weighs(finding) == ((FLOW,), "strong")


def test_numpy_against_one_framework_convicts_nobody():
    assert finding_of({TORCH: CUBE, NUMPY: SQUARE}, None).blamed == ()


@pytest.mark.parametrize(
    ("values", "blamed"), [((np.nan, 1.0), (PADDLE, TORCH)), ((np.inf, 1.0), (NUMPY,))]
)
def test_numpy_alone_passes_nan_on(values, blamed):
    """A step of NaN is NaN (IEEE 754, 6.2.3); that of an infinity is a number, and who says NaN is outvoted."""

    def number(x):
        return np.where(x > 0, 1, 0)

    def nan(x):
        return np.where(np.isfinite(x), number(x), np.nan)

    targets = {PADDLE: forward(number), TORCH: forward(number), NUMPY: forward(nan)}
    simulation = Simulation([(label, label.partition("=")[0], f) for label, f in targets.items()])
    case = simulation.case(program("step", list(values), "f4"))
    settled = settle([case], simulation.comparator, ["peer"] * 3, simulation.rerun, to_float64)
    if blamed == (NUMPY,):
        assert (settled.findings, settled.of_references) == ((), 1)
    else:
        (finding,) = settled.findings
        assert (finding.kind, *weighs(finding)) == ("nan", blamed, "weak")


def test_of_dtypes_numpy_says_something_weak():
    def in_float64(decoded, x):
        return outcome(("output", "r0", np.square(x).astype("f8")))

    finding = finding_of({FLOW: SQUARE, TORCH: in_float64}, OnlyNumPy(SQUARE), (2, 3), "i4")
    assert (finding.kind, *weighs(finding)) == ("dtype", (TORCH,), "weak")


def test_gradients_are_not_numpys():
    numpy = OnlyNumPy(SQUARE)
    targets = {
        FLOW: with_gradient(np.square, lambda x: 3 * x),
        TORCH: with_gradient(np.square, lambda x: 2 * x),
    }
    assert finding_of(targets, numpy).blamed == ()
    assert numpy.runs == 0


def test_when_time_is_up_nothing_is_asked():
    """A clock that leaps an hour each time it is read."""
    hours = iter(range(0, 3_600_000, 3_600))
    numpy = OnlyNumPy(SQUARE)
    finding = finding_of({FLOW: CUBE, TORCH: SQUARE}, numpy, clock=lambda: float(next(hours)))
    assert (finding.blamed, numpy.runs) == ((), 0)
