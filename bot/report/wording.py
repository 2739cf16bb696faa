"""How findings are worded wherever they are shown: Markdown pieces for a table's cell or a line.

Everything that came from a worker, a diff or a program passes through :mod:`bot.report.escape`, and every piece has a
bounded length: a results file may come from an untrusted run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bot.report import escape
from bot.report.results import (
    DifferenceRow,
    FindingRow,
    Measured,
    MismatchRow,
    ObservationRow,
    OpCoverage,
)

MAX_MISMATCHES: Final = 20
MAX_DIMENSIONS: Final = 16
MAX_EXACT_COUNT: Final = 10**18
"""Above it, no counted thing is meant: an untrusted file holds integers of thousands of digits."""

VERDICTS: Final[dict[str, str]] = {
    "candidate": "the candidate",
    "upstream": "upstream",
    "both": "both sides",
    "convention": "nobody: a convention",
    "flaky": "flaky",
    "undecided": "undecided",
}


def counted(count: int, noun: str) -> str:
    """``1 finding``, ``2 findings``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def is_open(finding: FindingRow) -> bool:
    """Whether a finding asks something of the reader: the baseline has it not, it is not good news, no one ignores it."""
    return finding.status not in ("known", "fixed") and finding.ignored is None


def is_against_candidate(finding: FindingRow) -> bool:
    """Whether the verdict speaks against the candidate, alone or with others."""
    return finding.verdict in ("candidate", "both")


def what_differs(finding: FindingRow) -> str:
    """Kind and, of the first mismatch, the label or what happened; Markdown for a table's cell."""
    if not finding.mismatches:
        return finding.kind
    first = finding.mismatches[0]
    if first.label:
        # "gradient of x" names its kind itself.
        prefix = "" if first.role == finding.kind else f"{finding.kind} of "
        return prefix + escape.cell(first.label, 80)
    happened = next((o.happened for o in first.observations if o.happened), "")
    return f"{finding.kind}: {escape.cell(happened, 80)}" if happened else finding.kind


def who(finding: FindingRow) -> str:
    """Who is wrong, and how sure that is; Markdown for a table's cell."""
    text = VERDICTS[finding.verdict]
    if finding.verdict == "upstream" and finding.blamed:
        text = escape.cell(finding.blamed[0], 60)
    return f"{text} ({finding.confidence})"


def measured(value: Measured | int | None) -> str:
    """A measured number, shortest; a dash for none."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return number(value)
    return f"{value:.6g}" if isinstance(value, float) else value


def number(count: int) -> str:
    """An integer's digits; a power of ten in place of what no run can have counted."""
    if -MAX_EXACT_COUNT < count < MAX_EXACT_COUNT:
        return str(count)
    return f"{'-' if count < 0 else ''}2^{abs(count).bit_length() - 1} or more"


def difference(row: DifferenceRow | None) -> str:
    """``3 of 12``, or a dash."""
    return "–" if row is None else f"{number(row.differing)} of {number(row.elements)}"


def place(row: DifferenceRow | None) -> str:
    """The first differing index, or a dash."""
    return "–" if row is None or row.first_index is None else f"[{_numbers(row.first_index)}]"


def values(mismatch: MismatchRow) -> list[tuple[str, str]]:
    """Every target and what it had at the first differing index, Markdown for a table's cells."""
    return [(escape.cell(o.target, 100), seen(o)) for o in mismatch.observations[:MAX_MISMATCHES]]


def seen(observation: ObservationRow) -> str:
    """What one target had at the first differing index, or what happened there; Markdown for a table's cell."""
    if observation.happened is not None:
        return escape.cell(observation.happened, 160)
    return escape.cell("–" if observation.value is None else observation.value, 60)


def form(observations: Sequence[ObservationRow]) -> str:
    """A tensor's dtype and shape; each side's own where they differ. Markdown for a table's cell."""
    forms = [
        f"{o.dtype or '?'}{'' if o.shape is None else f'[{_numbers(o.shape)}]'}"
        for o in observations[:MAX_MISMATCHES]
        if o.dtype is not None or o.shape is not None
    ]
    return ", ".join(escape.cell(text, 60) for text in dict.fromkeys(forms)) or "–"


def unsupported(row: OpCoverage) -> str:
    """Why targets could not run some of an op's programs; Markdown for a table's cell."""
    reasons: dict[str, int] = {}
    for target in row.targets:
        for reason, count in target.unsupported.items():
            reasons[reason] = reasons.get(reason, 0) + count
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{escape.cell(reason, 80)} ({number(count)})" for reason, count in ordered[:3]]
    if len(ordered) > 3:
        shown.append(f"{len(ordered) - 3} more reasons")
    return "; ".join(shown)


def _numbers(indices: Sequence[int]) -> str:
    shown = [number(index) for index in indices[:MAX_DIMENSIONS]]
    return ", ".join([*shown, "…"] if len(indices) > MAX_DIMENSIONS else shown)
