"""``opdiff ops --framework F --measure``: which ops a framework really covers, by running the samples of all of them.

A name that resolves is not coverage. Every OpInfo's own samples run on PyTorch and on the framework, in one dtype; a
sample is *supported* when the framework gives a result (or raises where PyTorch raises), and *agrees* when nothing of
it, gradients included, differs beyond tolerance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from bot.oracle.compare import Comparator
from bot.oracle.coverage import NOT_OFFERED
from bot.programs.opinfo_source import PINNED_RELEASE
from bot.programs.source import SourceCounts, SourcedProgram, SourceEntry, SourceRequest
from bot.targets.job import Job
from bot.targets.resolve import resolve
from bot.targets.target import parse_target
from bot.workshop import Workshop

_INSTEAD = ("float64", "float32", "int64", "complex128")
"""Dtypes for ops that PyTorch does not have in the one that is asked for, the most widely supported ones first."""

_LOG_PREFIX = re.compile(r"\b[FEW]\d{4,8} [\d:.]+\s+\d+ ")
"""glog's date, time and thread in front of a message: they differ from run to run."""


@dataclass
class CoveredOp:
    """One OpInfo name. ``why`` counts reasons of unsupported samples and kinds of differences, one line each."""

    name: str
    samples: int = 0
    supported: int = 0
    agreeing: int = 0
    gradients: int = 0  # gradient tensors compared
    why: Counter[str] = field(default_factory=Counter[str])

    @property
    def covered(self) -> bool:
        """Whether at least one sample runs there and agrees with PyTorch."""
        return self.agreeing > 0

    def to_json(self) -> dict[str, Any]:
        """All of it, reasons by frequency."""
        return {
            "op": self.name,
            "samples": self.samples,
            "supported": self.supported,
            "agreeing": self.agreeing,
            "gradients": self.gradients,
            "why": dict(self.why.most_common()),
        }


@dataclass(frozen=True)
class OpCoverageTable:
    """Coverage of one framework's release, by OpInfo name in alphabetical order."""

    framework: str
    dtype: str
    ops: tuple[CoveredOp, ...]

    @property
    def covered(self) -> int:
        """Ops with a sample that runs and agrees."""
        return sum(op.covered for op in self.ops)

    def to_json(self) -> dict[str, Any]:
        """``{"framework", "dtype", "total", "covered", "with_gradients", "ops": [..]}``."""
        return {
            "framework": self.framework,
            "dtype": self.dtype,
            "total": len(self.ops),
            "covered": self.covered,
            "with_gradients": sum(op.covered and op.gradients > 0 for op in self.ops),
            "ops": [op.to_json() for op in self.ops],
        }

    def print(self, console: Console) -> None:
        """A table with the most frequent reason per op, and a last line that counts."""
        table = Table("op", "supported", "agree", "gradients", "otherwise")
        for op in self.ops:
            reason = op.why.most_common(1)[0][0] if op.why else ""
            table.add_row(
                op.name,
                f"{op.supported} of {op.samples}",
                str(op.agreeing),
                str(op.gradients),
                reason[:100],
            )
        console.print(table)
        data = self.to_json()
        console.print(
            f"{self.framework}, {self.dtype}: {self.covered} of {len(self.ops)} ops covered, "
            f"{data['with_gradients']} with gradients"
        )


def measure_ops(
    workshop: Workshop,
    spec: str,
    dtype: str,
    wanted: Sequence[str] = (),
    device: str = "cpu",
    samples: int | None = None,
) -> OpCoverageTable:
    """Run the samples of all OpInfos (or of the ops named) on PyTorch and one other framework. Raises TargetError.

    ``samples``: of each OpInfo at most so many, evenly spaced over all that it has.
    """
    targets = [
        resolve(parse_target(text), workshop.store)
        for text in (f"{PINNED_RELEASE}:cpu", f"{spec}:{device}")
    ]
    comparator = Comparator(
        [target.label for target in targets],
        [target.environment.framework for target in targets],
    )
    ops: dict[str, CoveredOp] = {}
    with workshop.source() as source, workshop.pool(targets) as pool:
        pool.facts()
        entries = [e for e in source.entries() if e.source == "opinfo"]
        if wanted:
            groups = {source.index().resolve(op) for op in wanted}
            entries = [e for e in entries if e.group in groups]
        sent: dict[int, tuple[SourcedProgram, CoveredOp]] = {}

        def jobs() -> Any:
            for entry in entries:
                op = ops.setdefault(entry.name, CoveredOp(entry.name))
                programs = source.programs([_request(entry, dtype)], SourceCounts())
                for program in spaced(programs, samples):
                    sent[len(sent)] = program, op
                    yield Job(len(sent) - 1, program.blob, program.op)

        for result in pool.run(jobs()):
            program, op = sent[result.job.id]
            _count(op, comparator, program, result.outcomes)
    return OpCoverageTable(spec, dtype, tuple(ops[name] for name in sorted(ops)))


def spaced(programs: Iterable[SourcedProgram], samples: int | None) -> Iterable[SourcedProgram]:
    """At most so many of the programs, the first and evenly spaced others; all for None."""
    if samples is None:
        return programs
    found = list(programs)
    step = max(1, -(-len(found) // samples))
    return found[::step]


def _request(entry: SourceEntry, dtype: str) -> SourceRequest:
    wanted = sample_dtype(entry.dtypes, dtype)
    return SourceRequest(entry, dtypes=(wanted,), kinds=("sample",), forms=("function",))


def sample_dtype(offered: Sequence[str], wanted: str) -> str:
    """The dtype of an op's samples: the one wanted, else the widest common one that PyTorch has the op in."""
    if wanted in offered or not offered:
        return wanted
    return next((dtype for dtype in _INSTEAD if dtype in offered), offered[0])


def _count(
    op: CoveredOp, comparator: Comparator, program: SourcedProgram, outcomes: Sequence[Any]
) -> None:
    comparison = comparator.compare(program, outcomes)
    status = comparison.statuses[1]
    reason = _LOG_PREFIX.sub("", status.reason)
    op.samples += 1
    if status.status in NOT_OFFERED and not comparison.counts.compared:
        op.why[f"unsupported: {reason}"] += 1
        return
    op.supported += 1
    op.gradients += comparison.counts.gradients
    if not comparison.mismatches:
        op.agreeing += comparison.counts.compared
        return
    for kind in {mismatch.kind for mismatch in comparison.mismatches}:
        op.why[f"differs: {kind}" + (f": {reason}" if reason else "")] += 1
