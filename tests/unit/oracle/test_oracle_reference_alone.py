"""Findings that speak against NumPy alone are counted and not listed."""

from __future__ import annotations

import numpy as np
from made_outcomes import program
from simulated_targets import Simulation, forward, to_float64

from bot.oracle.settle import Settlement, settle


def _settled(third: str) -> Settlement:
    """Two frameworks say x, in every dtype, and the third one says x + 1."""
    right, wrong = forward(lambda x: x), forward(lambda x: x + 1)
    simulation = Simulation([("a", "torch", right), ("b", "oneflow", right), (third, third, wrong)])
    cases = simulation.cases([program("id", np.ones(2))])
    return settle(cases, simulation.comparator, ("peer",) * 3, simulation.rerun, to_float64)


def test_numpy_alone_is_no_finding() -> None:
    settlement = _settled("numpy")
    assert settlement.findings == ()
    assert settlement.of_references == 1


def test_any_other_framework_alone_is_one() -> None:
    settlement = _settled("jax")
    assert [finding.blamed for finding in settlement.findings] == [("jax",)]
    assert settlement.of_references == 0
