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
from bot.report.markdown_templates import markdown_template
from bot.report.results import FindingRow, Results, TargetFacts
from bot.report.wording import (
    MAX_MISMATCHES,
    VERDICTS,
    counted,
    difference,
    form,
    is_against_candidate,
    is_open,
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
        "headline": headline(results),
        "groups": groups(results.findings),
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


def headline(results: Results) -> str:
    """The one line on top, Markdown: what was found, whom it concerns, what was not tested."""
    parts = [_headline_findings(results.findings)]
    if results.coverage:
        tested = sum(row.tested for row in results.coverage)
        kind = "changed ops" if results.changes is not None else "ops"
        parts.append(f"{tested} of {len(results.coverage)} {kind} tested")
    elif results.changes is not None and not results.changes.ops:
        parts.append("the diff changes no op that could be found")
    if results.result == "incomplete":
        parts.append("the run is incomplete, so this is no clean bill")
    return "; ".join(parts) + "."


def _headline_findings(findings: Sequence[FindingRow]) -> str:
    blamed = [f for f in findings if is_against_candidate(f) and is_open(f)]
    if blamed:
        ops = list(dict.fromkeys(f.op for f in blamed))
        shown = ", ".join(escape.code(op, 80) for op in ops[:3])
        more = f" and {len(ops) - 3} more" if len(ops) > 3 else ""
        return f"**{counted(len(blamed), 'new finding')} against the candidate** in {shown}{more}"
    open_ones = [f for f in findings if is_open(f)]
    if open_ones:
        known = sum(f.status == "known" for f in findings)
        tail = f", {known} more known on the baseline" if known else ""
        return f"**{counted(len(open_ones), 'finding')}**, none proven against a candidate{tail}"
    if findings:
        ignored = any(f.ignored is not None for f in findings)
        why = "known, fixed or ignored" if ignored else "known on the baseline or fixed"
        return f"**Nothing new**: {counted(len(findings), 'finding')} {why}"
    return "**No differences found**"


def groups(findings: Sequence[FindingRow]) -> list[Group]:
    """New findings first, then what someone ignores, what the candidate fixes, and what the baseline already had.

    Empty groups are left out.
    """
    ignored = [f for f in findings if f.ignored is not None]
    fixed = [f for f in findings if f.status == "fixed" and f.ignored is None]
    known = [f for f in findings if f.status == "known" and f.ignored is None]
    rest = sorted((f for f in findings if is_open(f)), key=lambda f: not is_against_candidate(f))
    found = [
        Group("Findings", "", rest, True),
        Group("Ignored", "They differ, and do not count.", ignored, False),
        Group("Fixed", "The baseline is wrong here and the candidate is right.", fixed, False),
        Group("Known", "The baseline has these too.", known, False),
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
