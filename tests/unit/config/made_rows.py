"""Rows of results written by hand."""

from __future__ import annotations

from typing import Any

from bot.report.results import FindingRow, Results, RunFacts

RUN = RunFacts(opdiff="0.1.0", seed=7)


def row(fingerprint: str = "00ab00ab00ab00ab", **more: Any) -> FindingRow:
    """A new value finding of the candidate's in ``add``."""
    fields: dict[str, Any] = {
        "op": "add",
        "kind": "value",
        "verdict": "candidate",
        "confidence": "strong",
        "status": "new",
        "program": "d" * 32,
    }
    return FindingRow(fingerprint=fingerprint, **(fields | more))


def results(*findings: FindingRow, **more: Any) -> Results:
    fields: dict[str, Any] = {"result": "findings", "fail_on": "candidate", "run": RUN}
    return Results(findings=findings, **(fields | more))
