"""Findings written by hand, with their programs and outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np

from bot.oracle.finding import Difference, Evidence, Finding, Kind, Mismatch, Observation, Verdict
from bot.programs.builder import ProgramBuilder
from bot.programs.program import digest
from bot.report.bundle import FindingBundle, TargetOutcome
from bot.report.results import Results, RunFacts, TargetFacts
from bot.targets.outcome import Death, Error, Outcome, Role, Tensor

WRONG, RIGHT = "oneflow@pr:cpu", "torch==2.13.0:cpu"
RUN = RunFacts(opdiff="0.1.0", command=("opdiff", "run"), seed=7, cpu="Some CPU", threads=1)
TARGETS = (
    TargetFacts(
        label=WRONG, role="candidate", framework="oneflow", version="0.9.0", python="/py/a"
    ),
    TargetFacts(label=RIGHT, framework="torch", version="2.13.0", python="/py/b"),
)


def doubled() -> bytes:
    """``mul([1, 2, 3], 2)`` with a gradient."""
    builder = ProgramBuilder("mul")
    x = builder.tensor("x", np.array([1, 2, 3], np.float32), requires_grad=True)
    result = builder.call("mul", x, 2)
    builder.output(result)
    builder.backward(result, np.ones(3, np.float32))
    return builder.blob()


def tensor(role: Role, name: str, values: Any, dtype: str = "float32", *path: int) -> Tensor:
    return Tensor(role, name, path, dtype, np.asarray(values))


def ok(*tensors: Tensor) -> Outcome:
    return Outcome("ok", phase="backward", tensors=tensors)


def raised(message: str = "no") -> Outcome:
    return Outcome("exception", call=0, error=Error("RuntimeError", message))


def lacking(message: str = "mul() got an unexpected keyword argument") -> Outcome:
    """What a candidate says of something that its baseline has."""
    return Outcome("unsupported", call=0, error=Error("TypeError", message))


def died(signal: str, status: Any = "crash") -> Outcome:
    return Outcome(status, death=Death(signal, "last words", True))


def mismatch(kind: Kind, role: str, name: str, **more: Any) -> Mismatch:
    fields: dict[str, Any] = {
        "observations": (
            Observation(WRONG, "float32", (3,), "5.0"),
            Observation(RIGHT, "float32", (3,), "4.0"),
        ),
        "difference": Difference(1, 3, 1.0, 0.25, 2_097_152, (1,)),
    }
    return Mismatch("d", kind, role, name, (), ((WRONG,), (RIGHT,)), **(fields | more))


def finding(
    blob: bytes, kind: Kind = "value", verdict: Verdict = "candidate", **more: Any
) -> Finding:
    fields: dict[str, Any] = {
        "fingerprint": "0123abcd",
        "op": "mul",
        "blamed": (WRONG,),
        "confidence": "strong",
        "status": "new",
        "sides": ((WRONG,), (RIGHT,)),
        "mismatches": (mismatch(kind, "output", "r0"),),
        "evidence": (Evidence("float64", "its error is 3e+06 times the other's", (WRONG,)),),
        "program": digest(blob),
    }
    return Finding(kind=kind, verdict=verdict, **(fields | more))


def bundle(
    blob: bytes, wrong: Outcome, right: Outcome, framework: str = "torch", **more: Any
) -> FindingBundle:
    outcomes = (
        TargetOutcome(WRONG, framework, wrong, role="candidate"),
        TargetOutcome(RIGHT, "torch", right),
    )
    return FindingBundle(finding(blob, **more), blob, outcomes)


def doubled_bundle(**more: Any) -> FindingBundle:
    """A finding in which the candidate's second element is 5 where 4 is right."""
    wrong = ok(tensor("output", "r0", np.array([2, 5, 6], np.float32)))
    right = ok(tensor("output", "r0", np.array([2, 4, 6], np.float32)))
    return bundle(doubled(), wrong, right, **more)


def results(**more: Any) -> Results:
    fields: dict[str, Any] = {"result": "findings", "run": RUN, "targets": TARGETS}
    return Results(**(fields | more))
