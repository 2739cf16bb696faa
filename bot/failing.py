"""What makes a run fail: which findings count, and the result that follows from them and from what was not done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bot.oracle.finding import FindingStatus, Verdict
from bot.report.results import FailOn, FindingRow, Result


class Judged(Protocol):
    """A finding, or its row."""

    @property
    def verdict(self) -> Verdict:
        """Who is wrong."""
        ...

    @property
    def status(self) -> FindingStatus | None:
        """Against the baseline."""
        ...


def fails(finding: Judged, fail_on: FailOn) -> bool:
    """Whether a finding fails the run.

    ``any``: every finding. ``candidate``: not those known on the baseline or fixed, not those blamed on upstream or
    on a convention, and nothing flaky. ``never``: none.
    """
    if fail_on == "candidate":
        return finding.status not in ("known", "fixed") and finding.verdict not in (
            "upstream",
            "convention",
            "flaky",
        )
    return fail_on == "any"


def result_of(findings: Iterable[FindingRow], fail_on: FailOn, incomplete: bool) -> Result:
    """``findings`` when one counts that nobody ignored; else ``incomplete`` or ``clean``."""
    if any(row.ignored is None and fails(row, fail_on) for row in findings):
        return "findings"
    return "incomplete" if incomplete else "clean"
