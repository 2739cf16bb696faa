"""``report.md``: what a reviewer needs, first the one line that can be acted on.

Everything that came from a worker, a diff or a program passes through :mod:`bot.report.escape`. A report of thousands
of findings stays readable: whole sections give way to one line that says how many were left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bot.report import escape
from bot.report.headline import headline, incomplete, tally
from bot.report.markdown_templates import markdown_template
from bot.report.results import FindingRow, Results, TargetFacts
from bot.report.standing import standing
from bot.report.wording import (
    MAX_MISMATCHES,
    VERDICTS,
    difference,
    form,
    measured,
    number,
    place,
    unsupported,
    values,
    what_differs,
    who,
)

MAX_TABLE_ROWS: Final = 200
MAX_DETAILS: Final = 50
MAX_LIST: Final = 200
MAX_SCRIPT_CHARACTERS: Final = 12_000


@dataclass(frozen=True)
class Group:
    """Findings that are shown together."""

    title: str
    intro: str
    findings: Sequence[FindingRow]
    detailed: bool


def render_report(results: Results, scripts: Mapping[str, str]) -> str:
    """The report's Markdown. ``scripts`` maps fingerprints to sources of repro scripts."""
    shown = {
        "results": results,
        "top": _top(results),
        "groups": groups(results),
        "scripts": scripts,
        "verdicts": VERDICTS,
        "caps": {
            "table": MAX_TABLE_ROWS,
            "details": MAX_DETAILS,
            "mismatches": MAX_MISMATCHES,
            "list": MAX_LIST,
            "script": MAX_SCRIPT_CHARACTERS,
        },
        "untested": [row for row in results.coverage if not row.tested],
        "paths": _paths(results),
        "what_differs": what_differs,
        "who": who,
        "measured": measured,
        "number": number,
        "difference": difference,
        "place": place,
        "values": values,
        "form": form,
        "command": command,
        "replay_command": replay_command,
        "shell": shlex.join,
        "unsupported": unsupported,
    }
    return markdown_template("bot.report", "report.md.j2").render(shown)


def _top(results: Results) -> list[str]:
    """The first paragraphs, Markdown: what was found, and how much was done where the first line does not say it."""
    done = f"{tally(results)}." if standing(results).open else ""
    return [line for line in (headline(results), incomplete(results), done) if line]


def groups(results: Results) -> list[Group]:
    """New findings first, then what someone ignores, what the candidate fixes, and what the baseline already had.

    Empty groups are left out.
    """
    rows = standing(results)
    found = [
        Group("Findings", "", rows.open, True),
        Group("Ignored", "They differ, and do not count.", rows.ignored, False),
        Group("Fixed", "The baseline is wrong here and the candidate is right.", rows.fixed, False),
        Group("Known", "The baseline has these too.", rows.known, False),
    ]
    return [group for group in found if group.findings]


def command(target: TargetFacts, finding: FindingRow) -> str:
    """The shell command that runs a finding's script on a target's interpreter; "" when that is not known."""
    if not target.python or not finding.folder:
        return ""
    words: list[str] = []
    if target.import_paths:
        words.append(f"PYTHONPATH={shlex.quote(':'.join(target.import_paths))}")
    if target.library_paths:
        words.append(f"LD_LIBRARY_PATH={shlex.quote(':'.join(target.library_paths))}")
    return " ".join([*words, shlex.quote(target.python), shlex.quote(f"{finding.folder}/repro.py")])


def replay_command(finding: FindingRow) -> str:
    """The shell command that runs a finding again, whatever its folder is called."""
    return shlex.join(["opdiff", "replay", finding.folder])


def _paths(results: Results) -> dict[str, str]:
    """Op -> how its change reaches it, Markdown for a table's cell."""
    if results.changes is None:
        return {}
    return {
        op.op: f"{op.how}: " + (" → ".join(escape.cell(step, 80) for step in op.path[:6]) or "–")
        for op in results.changes.ops
    }
