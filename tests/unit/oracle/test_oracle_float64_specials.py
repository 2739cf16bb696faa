"""NaN and infinities before the float64 witness: which positions are right, on simulated targets."""

from __future__ import annotations

import numpy as np
import pytest
from made_outcomes import program
from simulated_targets import Simulation, forward, to_float64

from bot.oracle.settle import settle

NAN, INF = np.nan, np.inf


def only(left, right, values):
    """The finding on two frameworks; ``left`` is OneFlow's."""
    simulation = Simulation(
        [("oneflow==0.9.0:cpu", "oneflow", left), ("torch==2.13.0:cpu", "torch", right)]
    )
    cases = simulation.cases([program("op", values)])
    result = settle(cases, simulation.comparator, ("peer", "peer"), simulation.rerun, to_float64)
    (finding,) = result.findings
    return finding


def in_float32(wrong):
    """x itself in float64, something else in float32."""
    return forward(lambda x: x if x.dtype == np.float64 else np.asarray(wrong, x.dtype))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ([100.0, 1.0], [NAN, 1.0]),  # an intermediate result that overflows in float32 alone
        ([NAN, 1.0], [2.0, 1.0]),  # a NaN that does not come through in float32
        ([INF, 1.0], [NAN, 1.0]),
        ([INF, 1.0], [-INF, 1.0]),
        ([NAN, INF], [NAN, 1.0]),  # what both have as NaN speaks for nobody
    ],
)
def test_who_has_the_positions_of_the_float64_runs_is_right(right, wrong):
    finding = only(in_float32(wrong), forward(lambda x: x), right)
    assert finding.kind == "nan"
    assert (finding.blamed, finding.confidence) == (("oneflow==0.9.0:cpu",), "strong")


def test_float64_runs_of_which_one_is_infinite_settle_nothing():
    """A wrong formula is wrong in float64 too: with one against one nobody is named."""
    finding = only(forward(lambda x: np.where(x > 1, 5.0, x)), forward(lambda x: x), [INF, 1.0])
    assert (finding.verdict, finding.blamed) == ("undecided", ())


def test_what_float32_cannot_hold_is_infinite_there():
    """1e25 squared is 1e50, past the largest float32: infinite is right, and NaN is not."""
    wrong = forward(lambda x: x * x if x.dtype == np.float64 else np.full(x.shape, NAN, x.dtype))
    finding = only(wrong, forward(np.square), [1e25])
    assert (finding.blamed, finding.confidence) == (("oneflow==0.9.0:cpu",), "strong")
