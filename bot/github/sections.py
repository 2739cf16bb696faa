"""The sections that comment, check run and step summary are made of, each a :class:`~bot.github.fitting.Section`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.github.fitting import Section
from bot.github.publication import Publication
from bot.report import escape
from bot.report.markdown import MAX_SCRIPT_CHARACTERS
from bot.report.markdown_templates import markdown_template
from bot.report.results import ChangedOpRow, FindingRow, MismatchRow, Results
from bot.report.wording import (
    VERDICTS,
    counted,
    difference,
    form,
    measured,
    number,
    place,
    seen,
    what_differs,
    who,
)

MAX_MISMATCHES: Final = 6
MAX_COLUMNS: Final = 3
MAX_TARGETS: Final = 8
MAX_EVIDENCE: Final = 8
MAX_STEPS: Final = 5
TABLE_HEAD: Final = (
    "| op | what differs | who is wrong | status | fingerprint |\n| --- | --- | --- | --- | --- |\n"
)


@dataclass(frozen=True)
class Material:
    """What sections take beside the findings.

    Scripts and drafts by fingerprint, where the whole report lies, and by op the path from the changed line to it.
    """

    scripts: Mapping[str, str] = field(default_factory=dict[str, str])
    drafts: Mapping[str, str] = field(default_factory=dict[str, str])
    report_url: str = ""
    paths: Mapping[str, ChangedOpRow] = field(default_factory=dict[str, ChangedOpRow])

    @classmethod
    def of(cls, publication: Publication) -> Material:
        """Of a publication and its results, if it has any."""
        return cls(
            publication.scripts,
            publication.drafts,
            publication.report_url,
            changed_ops(publication.results),
        )

    @property
    def report(self) -> str:
        """``report``, linked where there is an address."""
        return escape.link("report", self.report_url)


def changed_ops(results: Results | None) -> dict[str, ChangedOpRow]:
    """The ops that the diff changes, by name."""
    if results is None or results.changes is None:
        return {}
    return {row.op: row for row in results.changes.ops}


def paragraph(text: str, rank: int = 0) -> Section:
    """Text that stands or goes as a whole."""
    return Section(rank=rank, pieces=(text,) if text else ())


def table(
    findings: Sequence[FindingRow],
    statuses: Mapping[str, str],
    material: Material,
    rank: int,
    most: int,
) -> Section:
    """One row per finding. ``statuses`` maps fingerprints to what is said beside the status."""
    return Section(
        rank=rank,
        head=TABLE_HEAD,
        pieces=[row(finding, statuses.get(finding.fingerprint, "")) for finding in findings[:most]],
        unwritten=max(0, len(findings) - most),
        left_out=lambda count: f"{counted(count, 'more finding')} in the {material.report}.",
    )


def row(finding: FindingRow, since: str = "") -> str:
    """A finding in the table."""
    status = finding.status or "–"
    cells = [
        escape.cell(finding.op, 80),
        what_differs(finding),
        who(finding),
        f"{status}, {since}" if since else status,
        escape.cell(finding.fingerprint, 16),
    ]
    return f"| {' | '.join(cells)} |"


def details(
    findings: Sequence[FindingRow],
    material: Material,
    rank: int,
    most: int,
    *,
    head: str = "",
    tail: str = "",
) -> Section:
    """One fold per finding; its script comes in where there is room in the end."""
    shown = findings[:most]
    return Section(
        rank=rank,
        pieces=[_detail(finding, material, brief=True) for finding in shown],
        fuller=[
            _detail(finding, material) if _has_more(finding, material) else None
            for finding in shown
        ],
        head=head,
        tail=tail,
        between="\n\n",
        unwritten=max(0, len(findings) - most),
        left_out=lambda count: (
            f"Details of {counted(count, 'more finding')} in the {material.report}."
        ),
    )


def fold(
    summary: str,
    entries: Sequence[str],
    rank: int,
    most: int,
    left_out: Callable[[int], str],
) -> Section:
    """A folded list. ``summary`` is HTML, the entries are Markdown of one line each."""
    return Section(
        rank=rank,
        head=f"<details><summary>{summary}</summary>\n\n",
        pieces=[f"- {entry}" for entry in entries[:most]],
        tail="\n\n</details>",
        unwritten=max(0, len(entries) - most),
        left_out=left_out,
    )


def _has_more(finding: FindingRow, material: Material) -> bool:
    held = (material.scripts, material.drafts)
    return any(texts.get(finding.fingerprint) for texts in held)


def _detail(finding: FindingRow, material: Material, *, brief: bool = False) -> str:
    """A finding's fold; ``brief`` leaves out script and draft, which take the most room."""
    tensors = [m for m in finding.mismatches[:MAX_MISMATCHES] if m.role and m.difference]
    columns = finding.mismatches[:MAX_COLUMNS]
    script = material.scripts.get(finding.fingerprint, "")
    fits = len(script) <= MAX_SCRIPT_CHARACTERS and not brief
    draft = "" if brief else material.drafts.get(finding.fingerprint, "")
    shown = {
        "finding": finding,
        "summary": summary(finding),
        "blamed": ", ".join(escape.code(target, 100) for target in finding.blamed[:3]),
        "tensors": tensors,
        "mismatches": columns,
        "observed": list(dict.fromkeys(o.target for m in columns for o in m.observations))[
            :MAX_TARGETS
        ],
        "there": _there,
        "more": max(0, len(finding.mismatches) - len(columns)),
        "limits": {"evidence": MAX_EVIDENCE},
        "draft": escape.link("Draft of an issue upstream", draft) if draft else "",
        "script": script if fits else "",
        "has_script": bool(script),
        "path": _path(material.paths.get(finding.op)),
        "form": form,
        "difference": difference,
        "measured": measured,
        "number": number,
        "place": place,
    }
    return markdown_template("bot.github", "finding.md.j2").render(shown).strip("\n")


def _path(changed: ChangedOpRow | None) -> str:
    """How the diff reaches an op; Markdown."""
    if changed is None or not changed.path:
        return ""
    steps = [escape.code(step, 160) for step in changed.path[:MAX_STEPS]]
    return f"{changed.how}ly: {' → '.join(steps)}"


def summary(finding: FindingRow) -> str:
    """A finding as HTML, for a fold's summary: GitHub reads no Markdown there."""
    first = finding.mismatches[0] if finding.mismatches else None
    label = first.label if first is not None else ""
    said = "" if first is not None and first.role == finding.kind else finding.kind
    what = " of ".join(filter(None, [said, escape.html_code(label, 80) if label else ""]))
    whom = VERDICTS[finding.verdict]
    if finding.verdict == "upstream" and finding.blamed:
        whom = escape.html_code(finding.blamed[0], 60)
    status = f", {finding.status}" if finding.status else ""
    return (
        f"<b>{escape.html_code(finding.op, 80)}</b>: {what} "
        f"– wrong: {whom} ({finding.confidence}){status}"
    )


def _there(mismatch: MismatchRow, target: str) -> str:
    """What a target had at a mismatch; Markdown for a table's cell."""
    observation = next((o for o in mismatch.observations if o.target == target), None)
    return "–" if observation is None else seen(observation)
