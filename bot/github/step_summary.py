"""The step summary: Markdown for ``$GITHUB_STEP_SUMMARY``, of which GitHub drops everything above 1 MiB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bot.github.fitting import fit
from bot.github.paragraphs import coverage, ignored
from bot.github.sections import Material, changed_ops, details, paragraph, table
from bot.report.headline import headline, incomplete
from bot.report.results import Results
from bot.report.standing import standing

MAX_SUMMARY: Final = 1_000_000
"""Bytes of UTF-8; a job's steps each have 1 MiB."""
MAX_ROWS: Final = 5_000
MAX_DETAILS: Final = 1_000
MAX_GAPS: Final = 1_000


def step_summary(results: Results, scripts: Mapping[str, str], report_url: str = "") -> str:
    """At most ``MAX_SUMMARY`` bytes. ``scripts`` maps fingerprints to repro scripts.

    What gives way, first to last: scripts of later findings, details of later findings, what is ignored, entries of
    what was not covered, rows of the table; what was left out is counted in one line.
    """
    rows = standing(results)
    material = Material(scripts=scripts, report_url=report_url, paths=changed_ops(results))
    findings = (*rows.open, *rows.fixed, *rows.known)
    sections = [
        paragraph("## OpDiff"),
        paragraph(headline(results)),
        paragraph(incomplete(results)),
        table(findings, {}, material, 1, MAX_ROWS),
        details(findings, material, 4, MAX_DETAILS),
        ignored(rows.ignored, material, 3),
        coverage(results, material, 2, MAX_GAPS),
    ]
    return fit(sections, MAX_SUMMARY) + "\n"
