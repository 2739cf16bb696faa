"""What a run did not cover: its shards, targets, ops, files and programs, each as one line of Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bot.report import escape
from bot.report.results import Results
from bot.report.wording import counted, number, unsupported

UNISOLATED: Final = "unisolated"
MAX_REASONS: Final = 5


def gaps(results: Results) -> list[str]:
    """Everything that was left out, the gravest first."""
    return list(dict.fromkeys(_gaps(results)))


def gaps_in_brief(results: Results) -> str:
    """``1 shard lost, 1 target failed, 2 ops not tested``; empty when nothing of the kind happened."""
    lost = sum(shard.state != "whole" for shard in results.shards)
    failed = sum(target.failed is not None for target in results.targets)
    untested = sum(not row.tested for row in results.coverage)
    unmapped = len(results.changes.unmapped) if results.changes is not None else 0
    parts = [
        f"{counted(lost, 'shard')} lost" if lost else "",
        f"{counted(failed, 'target')} failed" if failed else "",
        f"{counted(untested, 'op')} not tested" if untested else "",
        f"{counted(unmapped, 'changed file')} without a proven op" if unmapped else "",
    ]
    return ", ".join(filter(None, parts))


def first_shortfall(results: Results) -> str:
    """The first reason why the run is incomplete, and how many there are beside it; Markdown."""
    if not results.shortfalls:
        return gaps_in_brief(results) or "it does not say why"
    more = len(results.shortfalls) - 1
    tail = f" (and {counted(more, 'more reason')})" if more else ""
    return escape.plain(results.shortfalls[0], 300).rstrip(".") + tail


def _gaps(results: Results) -> Iterator[str]:
    for shard in results.shards:
        if shard.state != "whole":
            name = escape.code(shard.shard or "?", 40)
            device = f" on {escape.code(shard.device, 40)}" if shard.device else ""
            yield f"shard {name}{device} is {shard.state}: {escape.plain(shard.note, 300) or '–'}"
    for target in results.targets:
        if target.failed is not None:
            yield f"target {escape.code(target.label, 100)} failed: {escape.plain(target.failed, 300)}"
    untested = {row.op for row in results.coverage if not row.tested}
    for note in results.shortfalls:
        op, said, _ = note.partition(" is not tested:")
        if not (said and op in untested):
            yield escape.plain(note, 300)
    for row in results.coverage:
        if not row.tested:
            yield f"{escape.code(row.op, 80)} is not tested: {escape.plain(row.reason, 300) or 'no reason given'}"
    for target in results.targets:
        if target.isolation.startswith(UNISOLATED):
            yield f"{escape.code(target.label, 100)} ran {escape.plain(target.isolation, 300)}"
    for row in results.changes.unmapped if results.changes is not None else ():
        yield f"{escape.code(row.file, 200)}: no op could be proven: {escape.plain(row.why, 300)}"
    for row in results.coverage:
        reasons = unsupported(row)
        if reasons:
            yield f"{escape.code(row.op, 80)}: programs that a target cannot run: {reasons}"
    skipped = sorted(results.counts.skipped.items(), key=lambda item: (-item[1], item[0]))
    for reason, count in skipped[:MAX_REASONS]:
        if not reason.startswith("unsupported on "):  # said per op above
            yield f"{number(count)} × {escape.plain(reason, 300)}"
    shortfalls = set(results.shortfalls)
    for note in results.notes:
        if note not in shortfalls and f" ran {UNISOLATED}" not in note:
            yield escape.plain(note, 300)
