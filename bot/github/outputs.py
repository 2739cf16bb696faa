"""``name=value`` lines for ``$GITHUB_OUTPUT``: values from fixed words, integers and the folder as it was given."""

from __future__ import annotations

from bot.errors import OpDiffError
from bot.github.standing import standing
from bot.report.results import Results

REPORT_NAME = "report.md"
RESULTS_NAME = "results.json"


class OutputError(OpDiffError):
    """A value cannot be written as one line."""


def output_lines(results: Results, folder: str) -> list[str]:
    """``result``, ``findings``, ``new-findings`` (those that ask something), ``report-path`` and ``json``.

    Raises OutputError for a folder whose name would end the line: what follows would be read as another output.
    """
    if not folder.isprintable():
        raise OutputError(f"the report's folder has a name that is no plain line: {folder[:200]!r}")
    base = folder.rstrip("/") or "/"
    return [
        f"result={results.result}",
        f"findings={len(results.findings)}",
        f"new-findings={len(standing(results).open)}",
        f"report-path={_inside(base, REPORT_NAME)}",
        f"json={_inside(base, RESULTS_NAME)}",
    ]


def _inside(folder: str, name: str) -> str:
    return f"/{name}" if folder == "/" else f"{folder}/{name}"
