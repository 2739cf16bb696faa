"""Whom real frameworks' differences are blamed on, where mathematics knows who is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from one_call import program
from rich.console import Console

from bot.oracle.compare import Comparator
from bot.oracle.finding import Finding
from bot.oracle.rerun import Case
from bot.oracle.settle import settle
from bot.programs.program import digest
from bot.programs.source import SourcedProgram
from bot.progress import Progress
from bot.targets.environment_store import EnvironmentStore
from bot.targets.job import Job, JobResult
from bot.targets.resolve import resolve
from bot.workshop import Workshop


def findings(
    blob: bytes, op: str, labels: Sequence[str], store: EnvironmentStore
) -> tuple[Finding, ...]:
    """What one program gives on targets that are all peers."""
    workshop = Workshop(store, Progress(Console(stderr=True), quiet=True))
    targets = [resolve(label, store) for label in labels]
    comparator = Comparator(labels, [label.partition("==")[0] for label in labels])
    made = SourcedProgram(blob, digest(blob), op)
    with workshop.pool(targets) as pool:

        def rerun(jobs: Iterable[Job], *, fresh: bool = False) -> Iterable[JobResult]:
            if fresh:
                pool.renew()
            return pool.run(jobs)

        (result,) = pool.run([Job(0, blob, op)])
        mismatches = comparator.compare(made, result.outcomes).mismatches
        case = Case(made.digest, op, mismatches, lambda: blob)
        return settle([case], comparator, ["peer"] * len(labels), rerun).findings


def test_the_gradient_of_a_product_with_a_zero_is_no_matter_of_votes(
    environment_store: EnvironmentStore,
) -> None:
    """d(xyz)/dx = yz: 6, 0, 0 at [0, 2, 3]. OneFlow divides the product by each factor, and has 0/0 = NaN for the first."""
    oneflow = "oneflow==0.9.0:cpu"
    blob = program("prod", np.array([0, 2, 3], np.float32), gradient=1.0)
    (finding,) = findings(blob, "prod", ["torch==2.13.0:cpu", oneflow], environment_store)
    assert (finding.verdict, finding.blamed, finding.confidence) == (
        "upstream",
        (oneflow,),
        "strong",
    )
    (evidence,) = [said for said in finding.evidence if said.rung == "finite differences"]
    assert "finite differences in float64 give 6 at [0]" in evidence.says
