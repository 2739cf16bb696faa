"""How a report's findings stand: which of them count, and whether the run did all of its job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bot.report.results import FindingRow, Results
from bot.report.wording import is_against_candidate, is_open

_CONFIDENCE: Final = {"proved": 0, "strong": 1, "weak": 2}


@dataclass(frozen=True)
class Standing:
    """A report's findings by what they ask of the reader, in the order in which they are shown.

    ``open``: the baseline has them not, and no one ignores them: those against the candidate first, the surest first.
    """

    open: tuple[FindingRow, ...]
    fixed: tuple[FindingRow, ...]
    known: tuple[FindingRow, ...]
    ignored: tuple[FindingRow, ...]

    @property
    def against_candidate(self) -> tuple[FindingRow, ...]:
        """The open findings that speak against the candidate."""
        return tuple(f for f in self.open if is_against_candidate(f))


def standing(results: Results) -> Standing:
    """Sort a report's findings."""
    rows = results.findings
    return Standing(
        open=tuple(sorted((f for f in rows if is_open(f)), key=_urgency)),
        fixed=tuple(f for f in rows if f.status == "fixed" and f.ignored is None),
        known=tuple(f for f in rows if f.status == "known" and f.ignored is None),
        ignored=tuple(f for f in rows if f.ignored is not None),
    )


def is_whole(results: Results) -> bool:
    """Whether the run did all of its job."""
    whole = all(shard.state == "whole" for shard in results.shards)
    return whole and results.result != "incomplete" and not results.shortfalls


def _urgency(finding: FindingRow) -> tuple[bool, int]:
    return (not is_against_candidate(finding), _CONFIDENCE[finding.confidence])
