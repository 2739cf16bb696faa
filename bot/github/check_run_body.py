"""The check run: conclusion, title, summary, text, and annotations on the changed lines.

Summary and text stay under 65,535 bytes of UTF-8 each, the strictest way to count GitHub's 65,535 characters. What
gives way is said as in :mod:`bot.github.comment_body`.

The conclusion is ``success`` only where every changed op was tested and nothing asks for attention:

=================================================== ==========
broken run, incomplete run, findings that fail it   failure
open findings that do not fail it (``fail-on``)     neutral
nothing open, everything done                       success
=================================================== ==========

An incomplete run is a failure and not ``neutral``: GitHub lets a pull request pass a required check that is neutral, and
shows a commit with nothing worse than neutral as green.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from bot.github.fitting import fit
from bot.github.headline import headline, title
from bot.github.paragraphs import (
    changes,
    coverage,
    ignored,
    news,
    said_wrong,
    untrusted,
)
from bot.github.publication import Publication
from bot.github.sections import Material, details, paragraph, table
from bot.github.since import since
from bot.oracle.finding import Verdict
from bot.report import escape
from bot.report.headline import incomplete
from bot.report.results import FindingRow, LinesRow, Results
from bot.report.standing import is_whole, standing
from bot.report.wording import VERDICTS

MAX_TEXT: Final = 65_000
MAX_TITLE: Final = 250
MAX_MESSAGE: Final = 1_500
MAX_ANNOTATIONS: Final = 1_000
MAX_LINES_EACH: Final = 5
MAX_LINE_NUMBER: Final = 10_000_000
MAX_PATH: Final = 400
MAX_ROWS: Final = 300
MAX_DETAILS: Final = 150

Conclusion = Literal["success", "failure", "neutral"]
Level = Literal["failure", "warning", "notice"]

_LEVELS: Final[dict[Verdict, Level]] = {
    "candidate": "failure",
    "both": "failure",
    "upstream": "warning",
    "undecided": "warning",
    "convention": "notice",
    "flaky": "notice",
}


@dataclass(frozen=True)
class Annotation:
    """A note on lines of a file of the head commit. All texts are plain text, of bounded length."""

    path: str
    start_line: int
    end_line: int
    annotation_level: Level
    title: str
    message: str


@dataclass(frozen=True)
class CheckRunBody:
    """A completed check run. ``annotations`` are all of them; GitHub takes 50 in one request."""

    title: str
    summary: str
    text: str
    conclusion: Conclusion
    annotations: tuple[Annotation, ...]


def check_run_body(publication: Publication) -> CheckRunBody:
    """Everything that the check run says."""
    results = publication.results
    if results is None:
        return CheckRunBody(title(publication), headline(publication), "", "failure", ())
    return CheckRunBody(
        title=title(publication)[:MAX_TITLE],
        summary=_summary(publication, results),
        text=_text(publication, results),
        conclusion=conclusion(results),
        annotations=annotations_of(results),
    )


def conclusion(results: Results) -> Conclusion:
    """See the module's table."""
    if results.result != "clean" or not is_whole(results):
        return "failure"
    return "neutral" if standing(results).open else "success"


def annotations_of(results: Results) -> tuple[Annotation, ...]:
    """One per open finding and changed run of lines that reaches its op, at most 5 for each finding and 1,000 in all.

    The order is the findings' order, and within it the lines'. What an untrusted run says of paths and lines counts only
    where it is a plain relative path and a bounded range.
    """
    return tuple(_annotations(results))[:MAX_ANNOTATIONS]


def _annotations(results: Results) -> Iterator[Annotation]:
    lines: dict[str, list[LinesRow]] = {}
    for op in results.changes.ops if results.changes is not None else ():
        plain = [row for row in op.lines if _is_plain(row)]
        lines.setdefault(op.op, []).extend(plain)
    for finding in standing(results).open:
        for row in lines.get(finding.op, ())[:MAX_LINES_EACH]:
            yield Annotation(
                path=row.file,
                start_line=row.first,
                end_line=row.last,
                annotation_level=_LEVELS[finding.verdict],
                title=_title(finding),
                message=_message(finding),
            )


def _is_plain(row: LinesRow) -> bool:
    path = row.file
    return (
        0 < len(path) <= MAX_PATH
        and "\\" not in path
        and path == escape.visible(path, MAX_PATH)
        and path.strip() == path
        and not any(step in ("", ".", "..", ".git") for step in path.split("/"))
        and 1 <= row.first <= row.last <= MAX_LINE_NUMBER
    )


def _title(finding: FindingRow) -> str:
    return escape.log_line(f"{finding.kind}: {finding.op} ({VERDICTS[finding.verdict]})", 200)


def _message(finding: FindingRow) -> str:
    """What each target had there, why the verdict, and how to name the finding; plain text."""
    lines: list[str] = []
    for mismatch in finding.mismatches[:1]:
        if mismatch.label:
            lines.append(mismatch.label)
        for observation in mismatch.observations[:4]:
            had = observation.happened or observation.value or observation.dtype or "nothing"
            lines.append(f"{escape.visible(observation.target, 100)}: {escape.visible(had, 160)}")
    why = next((e.says for e in finding.evidence if e.rung == "verdict"), "")
    lines.append(
        f"Wrong: {VERDICTS[finding.verdict]} ({finding.confidence}){': ' if why else ''}{why}"
    )
    lines.append(f"Fingerprint: {finding.fingerprint}")
    return "\n".join(escape.log_line(line, 280) for line in lines)[:MAX_MESSAGE]


def _summary(publication: Publication, results: Results) -> str:
    rows, changed = standing(results), since(publication)
    material = Material.of(publication)
    sections = [
        paragraph(headline(publication)),
        paragraph(incomplete(results)),
        paragraph(untrusted(publication.untrusted_run)),
        paragraph(changes(changed)),
        table((*rows.open, *rows.fixed, *rows.known), news(changed), material, 1, MAX_ROWS),
        ignored(rows.ignored, material, 3),
        said_wrong(publication.previous, 3),
        coverage(results, material, 2),
        paragraph(_whole(material)),
    ]
    return fit(sections, MAX_TEXT)


def _text(publication: Publication, results: Results) -> str:
    rows = standing(results)
    material = Material.of(publication)
    return fit(
        [details((*rows.open, *rows.fixed, *rows.known), material, 1, MAX_DETAILS)], MAX_TEXT
    )


def _whole(material: Material) -> str:
    return f"Everything is in the {material.report}." if material.report_url else ""
