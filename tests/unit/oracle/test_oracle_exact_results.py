"""Ops whose result is another number of the operand's dtype by definition: no tolerance, no float64 run."""

from __future__ import annotations

import numpy as np
from made_outcomes import outcome
from simulated_targets import Simulation

from bot.oracle.refine import as_float64, but_exact
from bot.oracle.settle import settle
from bot.programs.builder import ProgramBuilder
from bot.programs.program import digest
from bot.programs.source import SourcedProgram

COMPILED, EAGER = "torch==2.13.0:cpu:compile=inductor", "torch==2.13.0:cpu"
NUMPY = "numpy==2.4.6:cpu"


def towards_two(decoded, x):
    return outcome(("output", "r0", np.nextafter(x, x.dtype.type(2))))


def unchanged(decoded, x):
    return outcome(("output", "r0", x))


def called(*fns: str) -> SourcedProgram:
    """The calls on x = [1.0] in float16 and y = [2.0], the last one's result being the output."""
    builder = ProgramBuilder(fns[-1])
    x = builder.tensor("x", np.array([1.0], np.float16))
    y = builder.tensor("y", np.array([2.0], np.float16))
    for number, fn in enumerate(fns):
        result = builder.call(fn, x, y, result=f"r{len(fns) - 1 - number}")
    builder.output(result)
    blob = builder.blob()
    return SourcedProgram(blob, digest(blob), fns[-1])


def judged(made: SourcedProgram):
    simulation = Simulation(
        [
            (COMPILED, "torch", unchanged),
            (EAGER, "torch", towards_two),
            (NUMPY, "numpy", towards_two),
        ]
    )
    cases = [case for case in [simulation.case(made)] if case.mismatches]
    to_float64 = but_exact(as_float64, simulation.comparator.conventions)
    return settle(cases, simulation.comparator, ["peer"] * 3, simulation.rerun, to_float64).findings


def test_the_next_number_is_not_the_same_number() -> None:
    """After 1 in float16 comes 1 + 2^-10, which assert_close's tolerance of 1e-3 takes for 1."""
    (finding,) = judged(called("nextafter"))
    assert (finding.kind, finding.blamed, finding.confidence) == ("value", (COMPILED,), "strong")
    assert finding.mismatches[0].difference is not None
    assert finding.mismatches[0].difference.largest_absolute == 2.0**-10


def test_results_of_other_ops_and_of_several_calls_are_rounded() -> None:
    assert judged(called("maximum")) == ()
    assert judged(called("mul", "nextafter")) == ()
