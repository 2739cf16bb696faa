"""Targets that are Python functions: a pool's answers without workers, for the tests of settling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from made_outcomes import outcome, program

from bot.oracle.compare import Comparator
from bot.oracle.initial import InitialTensors
from bot.oracle.rerun import Case
from bot.programs.program import Program, decode
from bot.programs.source import SourcedProgram
from bot.targets.job import Job, JobResult
from bot.targets.outcome import RawOutcome

Target = Callable[[Program, np.ndarray], RawOutcome]
"""Answers a program, given also its input x."""


class Simulation:
    """A comparator with its targets; ``rerun`` answers jobs as a pool would, results in reverse order."""

    def __init__(self, targets: Sequence[tuple[str, str, Target]]) -> None:
        labels, frameworks, self.functions = zip(*targets, strict=True)
        self.comparator = Comparator(labels, frameworks)
        self.runs = 0

    def outcomes(self, blob: bytes) -> tuple[RawOutcome, ...]:
        decoded, data = decode(blob)
        x = InitialTensors(decoded, data).array("x")
        assert x is not None
        return tuple(function(decoded, x) for function in self.functions)

    def rerun(self, jobs: Iterable[Job], *, fresh: bool = False) -> Iterable[JobResult]:
        results = [JobResult(job, self.outcomes(job.blob)) for job in jobs]
        self.runs += len(results)
        yield from reversed(results)

    def case(self, made: SourcedProgram) -> Case:
        found = self.comparator.compare(made, self.outcomes(made.blob)).mismatches
        return Case(made.digest, made.op, found, lambda: made.blob)

    def cases(self, programs: Iterable[SourcedProgram]) -> list[Case]:
        cases = [self.case(made) for made in programs]
        return [case for case in cases if case.mismatches]


def to_float64(blob: bytes) -> bytes | None:
    """The simulated programs have one input x; this gives them a float64 one."""
    decoded, data = decode(blob)
    x = InitialTensors(decoded, data).array("x")
    assert x is not None
    if x.dtype == np.float64 or x.dtype.kind not in "fV":
        return None
    return program(decoded.op, x.astype("f8"), "f8", decoded.origin, decoded.seed).blob


def forward(function: Callable[[np.ndarray], np.ndarray]) -> Target:
    """A target with one output."""

    def run(decoded: Program, x: np.ndarray) -> RawOutcome:
        with np.errstate(all="ignore"):
            return outcome(("output", "r0", np.asarray(function(x), x.dtype)))

    return run


def with_gradient(
    function: Callable[[np.ndarray], np.ndarray], derivative: Callable[[np.ndarray], np.ndarray]
) -> Target:
    """A target with one output and the gradient of x."""

    def run(decoded: Program, x: np.ndarray) -> RawOutcome:
        with np.errstate(all="ignore"):
            return outcome(
                ("output", "r0", np.asarray(function(x), x.dtype)),
                ("gradient", "x", np.asarray(derivative(x), x.dtype)),
            )

    return run
