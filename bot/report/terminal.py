"""The summary at the end of ``opdiff check`` and ``opdiff run``: a table in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bot.report.escape import log_line
from bot.report.results import FindingRow, Results

MAX_ROWS: Final = 30
COLUMNS: Final = ("op", "differs", "wrong", "confidence", "status", "programs")


def print_summary(console: Console, results: Results, report: Path) -> None:
    """Print findings, what was compared and not, and where the report lies."""
    shown = results.findings[:MAX_ROWS]
    if shown and console.is_terminal:
        console.print(_table(shown))
    else:
        for finding in shown:
            _line(console, "  ".join(_cells(finding)))
    if len(results.findings) > MAX_ROWS:
        _line(console, f"{len(results.findings) - MAX_ROWS} more findings are in the report")
    counts = results.counts
    _line(
        console,
        f"compared {counts.compared} of {counts.programs} programs: {counts.outputs} outputs, {counts.gradients} gradients, "
        f"{counts.side_effects} side effects, {counts.exceptions} exceptions",
    )
    skipped = sorted(counts.skipped.items(), key=lambda item: -item[1])
    untested = [row for row in results.coverage if not row.tested]
    _lines(
        console, [f"not compared: {count} ({reason})" for reason, count in skipped], 5, "reasons"
    )
    _lines(
        console, [f"not tested: {row.op}: {row.reason}" for row in untested], 10, "ops not tested"
    )
    _lines(console, [f"note: {note}" for note in results.notes], 10, "notes")
    _line(console, f"{results.result}: {_number(len(results.findings))}; report: {report}")


def _cells(finding: FindingRow) -> tuple[str, ...]:
    differs = finding.kind
    first = finding.mismatches[0] if finding.mismatches else None
    if first is not None and first.label:
        differs = first.label if first.role == finding.kind else f"{finding.kind} of {first.label}"
    wrong = finding.verdict
    if finding.verdict == "upstream" and finding.blamed:
        wrong = finding.blamed[0]
    cells = (
        finding.op,
        differs,
        wrong,
        finding.confidence,
        finding.status or "-",
        str(finding.count),
    )
    return tuple(log_line(text, 80) for text in cells)


def _table(findings: tuple[FindingRow, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for finding in findings:
        style = "red" if finding.status not in ("known", "fixed") else ""
        # A cell may be folded anywhere, so that its "::" would begin a line.
        cells = [text.replace("::", ":\u200b:") for text in _cells(finding)]
        table.add_row(*(Text(text, style=style) for text in cells))
    return table


def _lines(console: Console, texts: Sequence[str], most: int, what: str) -> None:
    """The first lines, and how many more the report has."""
    for text in texts[:most]:
        _line(console, text)
    if len(texts) > most:
        _line(console, f"{len(texts) - most} more {what} are in the report")


def _line(console: Console, text: str) -> None:
    console.print(Text(log_line(text)), soft_wrap=True)


def _number(findings: int) -> str:
    return f"{findings} finding{'' if findings == 1 else 's'}"
