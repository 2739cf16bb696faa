"""The one line on top of a comment and a check run: the report's own, what is fixed since the last one, or what broke."""

from __future__ import annotations

from bot.github.publication import Publication
from bot.github.since import since
from bot.report import escape
from bot.report import headline as report_headline


def headline(publication: Publication) -> str:
    """One line of Markdown: what was found and who is wrong, or why nothing can be said."""
    results = publication.results
    if results is None:
        return (
            f"**OpDiff could not report on this push**: {broken_reason(publication)}. "
            "Nothing is known of it, so this is no clean bill."
        )
    return report_headline.headline(results, _gone(publication))


def title(publication: Publication) -> str:
    """The same claim as one line of plain text."""
    results = publication.results
    if results is None:
        return "No report: the run is broken"
    claim = report_headline.claim(results, lambda op: escape.visible(op, 80), _gone(publication))
    return f"{claim} (untrusted run)" if publication.untrusted_run else claim


def broken_reason(publication: Publication) -> str:
    """Why there is no report; Markdown."""
    return escape.plain(publication.broken, 500).rstrip(". ") or "the run left no report"


def _gone(publication: Publication) -> int:
    changed = since(publication)
    return len(changed.gone) if changed is not None else 0
