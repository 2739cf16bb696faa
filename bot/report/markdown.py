"""``report.md``: what a reviewer needs, first the one line that can be acted on.

Everything that came from a worker, a diff or a program passes through :mod:`bot.report.escape`. A report of thousands
of findings stays readable: whole sections give way to one line that says how many were left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import jinja2

from bot.report import escape
from bot.report.results import (
    DifferenceRow,
    FindingRow,
    Measured,
    MismatchRow,
    ObservationRow,
    OpCoverage,
    Results,
    TargetFacts,
)

MAX_TABLE_ROWS: Final = 200
MAX_DETAILS: Final = 50
MAX_MISMATCHES: Final = 20
MAX_LIST: Final = 200
MAX_SCRIPT_CHARACTERS: Final = 12_000

VERDICTS: Final[dict[str, str]] = {
    "candidate": "the candidate",
    "upstream": "upstream",
    "both": "both sides",
    "convention": "nobody: a convention",
    "flaky": "flaky",
    "undecided": "undecided",
}


@dataclass(frozen=True)
class Group:
    """Findings that are shown together."""

    title: str
    intro: str
    findings: Sequence[FindingRow]
    detailed: bool


def render_report(results: Results, scripts: Mapping[str, str]) -> str:
    """The report's Markdown. ``scripts`` maps fingerprints to sources of repro scripts."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bot.report", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown is escaped by the filters below, each for its place
    )
    environment.filters |= {
        "code": escape.code,
        "cell": escape.cell,
        "plain": escape.plain,
        "fence": escape.fence,
    }
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
        "difference": difference,
        "place": place,
        "values": values,
        "form": form,
        "command": command,
        "replay_command": replay_command,
        "shell": shlex.join,
        "unsupported": unsupported,
    }
    return environment.get_template("report.md.j2").render(shown)


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
    blamed = [f for f in findings if f.verdict in ("candidate", "both") and _counts(f)]
    if blamed:
        ops = list(dict.fromkeys(f.op for f in blamed))
        shown = ", ".join(escape.code(op, 80) for op in ops[:3])
        more = f" and {len(ops) - 3} more" if len(ops) > 3 else ""
        return f"**{_number(len(blamed), 'new finding')} against the candidate** in {shown}{more}"
    open_ones = [f for f in findings if _counts(f)]
    if open_ones:
        known = sum(f.status == "known" for f in findings)
        tail = f", {known} more known on the baseline" if known else ""
        return f"**{_number(len(open_ones), 'finding')}**, none proven against a candidate{tail}"
    if findings:
        return (
            f"**Nothing new**: {_number(len(findings), 'finding')} known on the baseline or fixed"
        )
    return "**No differences found**"


def _counts(finding: FindingRow) -> bool:
    return finding.status not in ("known", "fixed")


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def groups(findings: Sequence[FindingRow]) -> list[Group]:
    """New findings first, then what the baseline already had, then what the candidate fixes; empty groups left out."""
    known = [f for f in findings if f.status == "known"]
    fixed = [f for f in findings if f.status == "fixed"]
    rest = sorted(
        (f for f in findings if _counts(f)),
        key=lambda f: f.verdict not in ("candidate", "both"),
    )
    found = [
        Group("Findings", "", rest, True),
        Group("Fixed", "The baseline is wrong here and the candidate is right.", fixed, False),
        Group("Known", "The baseline has these too.", known, False),
    ]
    return [group for group in found if group.findings]


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
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def difference(row: DifferenceRow | None) -> str:
    """``3 of 12``, or a dash."""
    return "–" if row is None else f"{row.differing} of {row.elements}"


def place(row: DifferenceRow | None) -> str:
    """The first differing index, or a dash."""
    if row is None or row.first_index is None:
        return "–"
    return "[" + ", ".join(str(index) for index in row.first_index) + "]"


def values(mismatch: MismatchRow) -> list[tuple[str, str]]:
    """Every target and what it had at the first differing index, Markdown for a table's cells."""
    return [(escape.cell(o.target, 100), _seen(o)) for o in mismatch.observations[:MAX_MISMATCHES]]


def _seen(observation: ObservationRow) -> str:
    if observation.happened is not None:
        return escape.cell(observation.happened, 160)
    return escape.cell("–" if observation.value is None else observation.value, 60)


def form(mismatch: MismatchRow) -> str:
    """dtype and shape; each side's own where they differ. Markdown for a table's cell."""
    seen = [
        f"{o.dtype or '?'}{list(o.shape) if o.shape is not None else ''}"
        for o in mismatch.observations
        if o.dtype is not None or o.shape is not None
    ]
    return ", ".join(escape.cell(text, 60) for text in dict.fromkeys(seen)) or "–"


def unsupported(row: OpCoverage) -> str:
    """Why targets could not run some of an op's programs; Markdown for a table's cell."""
    reasons: dict[str, int] = {}
    for target in row.targets:
        for reason, count in target.unsupported.items():
            reasons[reason] = reasons.get(reason, 0) + count
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{escape.cell(reason, 80)} ({count})" for reason, count in ordered[:3]]
    if len(ordered) > 3:
        shown.append(f"{len(ordered) - 3} more reasons")
    return "; ".join(shown)


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
