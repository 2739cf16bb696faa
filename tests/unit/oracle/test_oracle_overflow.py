"""NaN against infinity: where an overflow on the way explains it, and where it is a fault."""

from __future__ import annotations

import numpy as np
import pytest
from made_outcomes import program
from simulated_targets import Simulation, forward, to_float64

from bot.oracle.settle import settle

NAN, INF = np.nan, np.inf


def finding_of(x, one, other, dtype="f4", terms=2):
    """Two targets that make one number each of so many, in float64 too."""
    left, right = (
        forward(lambda values, answer=answer: np.full(1, answer, values.dtype))
        for answer in (one, other)
    )
    simulation = Simulation(
        [("oneflow==0.9.0:cpu", "oneflow", left), ("torch==2.13.0:cpu", "torch", right)]
    )
    (finding,) = settle(
        simulation.cases([program("op", [x] * terms, dtype)]),
        simulation.comparator,
        ("peer", "peer"),
        simulation.rerun,
        to_float64,
    ).findings
    return finding.verdict


@pytest.mark.parametrize(
    ("x", "one", "other", "dtype", "verdict"),
    [
        (3e38, INF, NAN, "f4", "convention"),
        (-3e38, -INF, INF, "f4", "convention"),
        (2e19, INF, NAN, "f4", "convention"),  # 4e38 is past 3.4e38, the largest float32
        (1e19, INF, NAN, "f4", "undecided"),  # 1e38 is not
        (1e200, INF, NAN, "f8", "convention"),
        (1e100, INF, NAN, "f8", "undecided"),
        (300.0, INF, NAN, "f2", "convention"),  # 90000 is past 65504, the largest float16
        (3e38, 1.0, NAN, "f4", "undecided"),  # one of them can tell the result
        (INF, INF, NAN, "f4", "undecided"),  # nothing overflows: the input is infinite
        (NAN, INF, NAN, "f4", "undecided"),
        (0.0, INF, NAN, "f4", "undecided"),  # 1/0 and 0/0 are not the same
    ],
)
def test_overflows(x, one, other, dtype, verdict):
    assert finding_of(x, one, other, dtype) == verdict


def test_a_product_of_two_elements_has_one_order():
    assert finding_of(3e38, INF, NAN, terms=1) == "undecided"
