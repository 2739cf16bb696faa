"""Reports of shards written by hand, as values and as folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bot.oracle.finding import Difference, Finding, Mismatch, Observation
from bot.programs.builder import ProgramBuilder
from bot.programs.program import digest
from bot.report.bundle import FindingBundle, TargetOutcome
from bot.report.read_back import RunReport
from bot.report.results import (
    ChangedOpRow,
    ChangesRow,
    Counts,
    FindingRow,
    OpCoverage,
    Results,
    RunFacts,
    TargetFacts,
)
from bot.report.rows import finding_row
from bot.report.write import write_report
from bot.shards.reports import ShardReport
from bot.targets.outcome import Outcome, Tensor

WRONG, RIGHT = "oneflow@pr:cpu", "torch==2.13.0:cpu"
TARGETS = (
    TargetFacts(label=WRONG, role="candidate", framework="oneflow", version="0.9.0"),
    TargetFacts(label=RIGHT, framework="torch", version="2.13.0"),
)
BASE, HEAD = "b" * 40, "c" * 40


def changes(*ops: str, **more: Any) -> ChangesRow:
    rows = tuple(ChangedOpRow(op=op, how="direct") for op in ops)
    fields: dict[str, Any] = {"framework": "oneflow", "base": BASE, "head": HEAD}
    return ChangesRow(ops=rows, **(fields | {"pull_request": 7} | more))


def covered(op: str, tested: bool = True, reason: str = "") -> OpCoverage:
    return OpCoverage(op=op, tested=tested, reason=reason)


def row(fingerprint: str, **more: Any) -> FindingRow:
    fields: dict[str, Any] = {
        "op": "mul",
        "kind": "value",
        "verdict": "candidate",
        "confidence": "strong",
        "status": "new",
        "program": "d" * 32,
    }
    return FindingRow(fingerprint=fingerprint, **(fields | more))


def results(shard: str, ops: Sequence[str] = ("add", "mul"), **more: Any) -> Results:
    """What a shard says of a run that changed ``ops``, all of them tested by it."""
    run = {"opdiff": "0.1.0", "seed": 7, "shard": shard, "device": "cpu"}
    run |= {"started": "2030-01-01T00:00:00+00:00", "finished": "2030-01-01T00:01:00+00:00"}
    run |= more.pop("run", {})
    fields: dict[str, Any] = {
        "result": "clean",
        "fail_on": "never",
        "targets": TARGETS,
        "changes": changes("add", "mul"),
        "coverage": tuple(covered(op) for op in ops),
        "counts": Counts(cases=3, programs=2, compared=2, outputs=2, skipped={"sparse": 1}),
    }
    return Results(run=RunFacts(**run), **(fields | more))


def shard(found: Results, name: str = "") -> ShardReport:
    """A report that was read, without any program."""
    return ShardReport(name or found.run.shard, RunReport(found, lambda: iter(())))


def doubled(*numbers: float) -> bytes:
    """``mul(numbers, 2)``."""
    builder = ProgramBuilder("mul")
    result = builder.call("mul", builder.tensor("x", np.array(numbers, np.float32)), 2)
    builder.output(result)
    return builder.blob()


def bundle(fingerprint: str, *numbers: float, count: int = 1) -> FindingBundle:
    """A finding in which the candidate's last element is one too much."""
    blob = doubled(*numbers)
    right = np.array(numbers, np.float32) * 2
    wrong = right.copy()
    wrong[-1] += 1
    last = len(numbers) - 1
    mismatch = Mismatch(
        digest(blob), "value", "output", "r0", (), ((WRONG,), (RIGHT,)),
        (
            Observation(WRONG, "float32", right.shape, str(float(wrong[-1]))),
            Observation(RIGHT, "float32", right.shape, str(float(right[-1]))),
        ),
        Difference(1, len(numbers), 1.0, 0.1, 1_000, (last,)),
    )  # fmt: skip
    finding = Finding(
        fingerprint=fingerprint, op="mul", kind="value", verdict="candidate", blamed=(WRONG,),
        confidence="strong", status="new", sides=((WRONG,), (RIGHT,)), program=digest(blob),
        mismatches=(mismatch,), evidence=(), programs=(digest(blob),), count=count,
    )  # fmt: skip
    outcomes = tuple(
        TargetOutcome(
            label,
            framework,
            Outcome("ok", phase="forward", tensors=(Tensor("output", "r0", (), "float32", value),)),
            role=role,
        )
        for label, framework, value, role in (
            (WRONG, "oneflow", wrong, "candidate"),
            (RIGHT, "torch", right, "peer"),
        )
    )  # type: ignore[arg-type]
    return FindingBundle(finding, blob, outcomes)


def write(folder: Path, found: Results, *bundles: FindingBundle) -> Path:
    """A shard's report as a folder."""
    rows = tuple(finding_row(one.finding) for one in bundles)
    write_report(folder, found.model_copy(update={"findings": rows}), bundles)
    return folder


def counted(one: FindingBundle, count: int) -> FindingBundle:
    return replace(one, finding=replace(one.finding, count=count))
