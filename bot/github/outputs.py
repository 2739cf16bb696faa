"""``name=value`` lines for ``$GITHUB_OUTPUT``: values from fixed words, integers and the folder as it was given."""

from __future__ import annotations

from typing import Final

from bot.errors import OpDiffError
from bot.failing import fails
from bot.report.results import Results
from bot.report.wording import is_open

REPORT_NAME: Final = "report.md"
RESULTS_NAME: Final = "results.json"


class OutputError(OpDiffError):
    """A value cannot be written as one line."""


def output_lines(results: Results, folder: str) -> list[str]:
    """``result``, ``findings``, ``new-findings``, ``report-path`` and ``json``.

    ``new-findings`` are those that the baseline does not have and that fail the run.

    Raises OutputError for a folder whose name would end the line: what follows would be read as another output.
    """
    if not folder.isprintable():
        raise OutputError(f"the report's folder has a name that is no plain line: {folder[:200]!r}")
    base = folder.rstrip("/") or "/"
    new = sum(is_open(row) and fails(row, results.fail_on) for row in results.findings)
    return [
        f"result={results.result}",
        f"findings={len(results.findings)}",
        f"new-findings={new}",
        f"report-path={_inside(base, REPORT_NAME)}",
        f"json={_inside(base, RESULTS_NAME)}",
    ]


def _inside(folder: str, name: str) -> str:
    return f"/{name}" if folder == "/" else f"{folder}/{name}"
