"""Paragraphs and folds that comment, check run and step summary have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from bot.github.fitting import Section
from bot.github.sections import Material, fold
from bot.github.since import Since
from bot.github.state import CommentState, Decision
from bot.report import escape
from bot.report.headline import tally
from bot.report.not_covered import gaps, gaps_in_brief
from bot.report.results import FindingRow, Results
from bot.report.wording import counted

MAX_ROWS: Final = 300
MAX_GAPS: Final = 40
MAX_LISTED: Final = 8


def untrusted(untrusted_run: bool) -> str:
    """That a fork's workflow made the results; empty when it did not."""
    if not untrusted_run:
        return ""
    return (
        "> Reported by an untrusted run: this pull request comes from a fork, which can change the workflow "
        "that made these results."
    )


def changes(changed: Since | None) -> str:
    """What is new, still there and gone since the report before; one paragraph."""
    if changed is None:
        return ""
    unsure = _listed([f.op for f in changed.unsure], "not seen again")
    parts = [
        _listed([f.op for f in changed.new], "new"),
        f"{len(changed.still)} still there" if changed.still else "",
        _listed([f.op for f in changed.gone], "fixed"),
        f"{unsure}, which this run does not prove fixed" if unsure else "",
        f"{changed.settled} no longer counted" if changed.settled else "",
        f"{changed.left_out} that this comment could not keep, of which nothing can be said"
        if changed.left_out
        else "",
    ]
    said = "; ".join(filter(None, parts)) or "no change"
    before = "the last run of this commit" if changed.same_head else "the last report"
    return f"Since {before} ({escape.code(changed.head[:10])}): {said}."


def _listed(ops: Sequence[str], word: str) -> str:
    """``3 fixed (`a` × 2, `b`)``."""
    if not ops:
        return ""
    counts = Counter(ops)
    shown = [
        escape.code(op, 60) + (f" × {count}" if count > 1 else "")
        for op, count in list(counts.items())[:MAX_LISTED]
    ]
    more = len(counts) - len(shown)
    tail = f" and {more} more" if more else ""
    return f"{len(ops)} {word} ({', '.join(shown)}{tail})"


def news(changed: Since | None) -> dict[str, str]:
    """What the table says beside a status: only where there was a report before."""
    if changed is None:
        return {}
    news = {f.fingerprint: "since the last report" for f in changed.new if f.status == "new"}
    return news | {f.fingerprint: "still there" for f in changed.still}


def ignored(findings: Sequence[FindingRow], material: Material, rank: int) -> Section:
    """Findings that do not count, each with the reason."""
    entries = [
        f"{escape.code(f.op, 80)}, {f.kind}, {escape.code(f.fingerprint, 16)}: "
        f"{escape.plain(f.ignored or '', 300)}"
        for f in findings
    ]
    return fold(
        f"{counted(len(findings), 'finding')} ignored or accepted",
        entries,
        rank,
        MAX_ROWS,
        lambda count: f"{counted(count, 'more ignored finding')} in the {material.report}.",
    )


def said_wrong(previous: CommentState | None, rank: int) -> Section:
    """The verdicts that people said to be wrong, so that precision over time is known."""
    decisions = previous.decisions if previous is not None else ()
    wrong = [decision for decision in decisions if decision.verb == "wrong"]
    verb = "was" if len(wrong) == 1 else "were"
    return fold(
        f"{counted(len(wrong), 'verdict')} {verb} said to be wrong",
        [_wrong(decision) for decision in wrong],
        rank,
        MAX_ROWS,
        lambda count: f"{counted(count, 'more verdict')} said to be wrong.",
    )


def _wrong(decision: Decision) -> str:
    said = f" ({decision.verdict})" if decision.verdict else ""
    return (
        f"{escape.code(decision.fingerprint or '–', 16)}{said}, says {escape.code(decision.author, 100)}: "
        f"{escape.plain(decision.reason, 300)}"
    )


def coverage(results: Results, material: Material, rank: int, most: int = MAX_GAPS) -> Section:
    """How much was tested, and what was not."""
    brief = gaps_in_brief(results)
    return fold(
        f"Not covered: {brief}" if brief else f"Coverage: {tally(results)}",
        [tally(results), *gaps(results)],
        rank,
        most,
        lambda count: f"{counted(count, 'more line')} about coverage in the {material.report}.",
    )
