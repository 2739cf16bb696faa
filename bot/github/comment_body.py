"""The sticky comment: first the one line that can be acted on, then a table of findings, then folds.

It is at most ``MAX_COMMENT`` bytes of UTF-8. GitHub says 65,536 characters, and counts neither alike everywhere (a
comment of up to 262,144 bytes has been seen to pass, a pull request's body to stop at 65,536 code points): bytes are the
strictest way. What gives way when it does not all fit, first to last: scripts of later findings before those of earlier
ones, then details of findings that the baseline has too, then details of later findings, then ignored findings and decisions, then entries of
what was not covered, then rows of the table. Whatever is left out is counted in one line with a link to the
report. Headline, run, head and the marker with the state always stay.
"""

from __future__ import annotations

from typing import Final

from bot.github.command_text import HOW_TO
from bot.github.fitting import Section, fit, size
from bot.github.headline import headline
from bot.github.marker import write_marker
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
from bot.github.since import next_state, since
from bot.report import escape
from bot.report.headline import incomplete
from bot.report.results import Results
from bot.report.standing import is_whole, standing
from bot.report.wording import counted

__all__ = ["MAX_COMMENT", "comment_body", "next_state"]

MAX_COMMENT: Final = 65_000
MAX_ROWS: Final = 300
MAX_DETAILS: Final = 150
MAX_KNOWN: Final = 30


def comment_body(publication: Publication) -> str:
    """The comment's Markdown, its last line the marker that holds :func:`next_state`."""
    marker = write_marker(next_state(publication))
    if publication.results is None:
        sections = _broken(publication)
    else:
        sections = _report(publication, publication.results)
    sections.append(paragraph(_footer(publication)))
    return f"{fit(sections, MAX_COMMENT - size(marker) - 2)}\n\n{marker}"


def _report(publication: Publication, results: Results) -> list[Section]:
    rows, changed = standing(results), since(publication)
    material = Material.of(publication)
    main = (*rows.open, *rows.fixed)
    return [
        paragraph(headline(publication)),
        paragraph(incomplete(results)),
        paragraph(untrusted(publication.untrusted_run)),
        paragraph(changes(changed)),
        table((*main, *rows.known[:MAX_KNOWN]), news(changed), material, 1, MAX_ROWS),
        details(main, material, 4, MAX_DETAILS),
        details(
            rows.known,
            material,
            5,
            MAX_KNOWN,
            head=f"<details><summary>Known: the baseline has {_these(len(rows.known))} too</summary>\n\n",
            tail="\n\n</details>",
        ),
        ignored(rows.ignored, material, 3),
        said_wrong(publication.previous, 3),
        coverage(results, material, 2),
        paragraph(HOW_TO if main or not is_whole(results) else ""),
    ]


def _broken(publication: Publication) -> list[Section]:
    previous = publication.previous
    before = ""
    if (
        previous is not None
        and previous.head is not None
        and (previous.seen or previous.seen_left_out)
    ):
        count = len(previous.seen) + previous.seen_left_out
        before = (
            f"The last report, of {escape.code(previous.head[:10])}, had {counted(count, 'finding')}; "
            "whether they are still there is not known."
        )
    return [
        paragraph(headline(publication)),
        paragraph(before),
        paragraph("`/opdiff retry` in a comment runs it again."),
        said_wrong(publication.previous, 3),
    ]


def _these(count: int) -> str:
    return "this one" if count == 1 else f"these {count}"


def _footer(publication: Publication) -> str:
    results = publication.results
    parts = [
        f"OpDiff {escape.plain(results.run.opdiff, 40)}" if results is not None else "OpDiff",
        f"head {escape.code(publication.head[:10])}",
        escape.link("run", publication.run_url),
        escape.link("whole report", publication.report_url) if publication.report_url else "",
    ]
    return f"<sub>{' · '.join(filter(None, parts))}</sub>"
