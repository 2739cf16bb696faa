"""Rows of several shards' results as one: targets, coverage, counts, and the copies of one finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bot.report.results import (
    MAX_ROWS,
    Counts,
    FindingRow,
    OpCoverage,
    Results,
    TargetCoverage,
    TargetFacts,
)
from bot.report.rows import clip, names

MAX_REASONS: Final = 200
MAX_TARGETS: Final = 100


def merged_targets(whole: Sequence[Results]) -> tuple[TargetFacts, ...]:
    """Every target once, by label; one that failed somewhere is shown as failed."""
    targets: dict[str, TargetFacts] = {}
    for results in whole:
        for target in results.targets:
            known = targets.setdefault(target.label, target)
            if known.failed is None and target.failed is not None:
                targets[target.label] = target
    return tuple(targets.values())[:MAX_TARGETS]


def merged_coverage(whole: Sequence[Results]) -> tuple[OpCoverage, ...]:
    """One row per op, with all shards' targets: tested when on every device one shard tested it."""
    rows: dict[str, dict[str, list[OpCoverage]]] = {}
    for results in whole:
        for row in results.coverage:
            by_device = rows.setdefault(row.op, {})
            by_device.setdefault(results.run.device, []).append(row)
    return tuple(_op_row(op, rows[op]) for op in sorted(rows))[:MAX_ROWS]


def _op_row(op: str, by_device: Mapping[str, Sequence[OpCoverage]]) -> OpCoverage:
    reasons: dict[str, None] = {}
    for device, rows in by_device.items():
        if not any(row.tested for row in rows):
            on = f"on {device}: " if device and len(by_device) > 1 else ""
            reasons |= dict.fromkeys(f"{on}{row.reason or 'no reason was given'}" for row in rows)
    targets: dict[str, TargetCoverage] = {}
    for row in (row for rows in by_device.values() for row in rows):
        for target in row.targets:
            known = targets.get(target.target)
            targets[target.target] = target if known is None else _added(known, target)
    return OpCoverage(
        op=op,
        tested=not reasons,
        reason=clip("; ".join(reasons)),
        targets=tuple(targets.values()),
    )


def _added(one: TargetCoverage, other: TargetCoverage) -> TargetCoverage:
    return TargetCoverage(
        target=one.target,
        programs=one.programs + other.programs,
        compared=one.compared + other.compared,
        unsupported=_summed([one.unsupported, other.unsupported]),
        died=one.died + other.died,
    )


def merged_counts(counts: Sequence[Counts]) -> Counts:
    """Everything added up."""
    numbers = {
        name: sum(getattr(one, name) for one in counts)
        for name in Counts.model_fields
        if name not in ("skipped", "dismissed")
    }
    return Counts(
        **numbers,
        skipped=_summed([one.skipped for one in counts]),
        dismissed=_summed([one.dismissed for one in counts]),
    )


def _summed(maps: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by reason, the most frequent first; the rest is one line, so that nothing is left uncounted."""
    total: Counter[str] = Counter()
    for one in maps:
        total.update(one)
    ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    kept, rest = ordered[:MAX_REASONS], ordered[MAX_REASONS:]
    if rest:
        kept.append((f"{len(rest)} rarer reasons", sum(count for _, count in rest)))
    summed: Counter[str] = Counter()
    for reason, count in kept:
        summed[reason] += count
    return dict(summed)


def merged_finding(copies: Sequence[FindingRow]) -> FindingRow:
    """The copy that says most, with all copies' programs; ignored only where every copy is."""
    shown = min(copies, key=preference)
    programs = tuple(dict.fromkeys(p for row in copies for p in (*row.programs, row.program)))
    listed = sum(len({*row.programs, row.program}) for row in copies)
    count = max(sum(row.count for row in copies) - (listed - len(programs)), len(programs), 1)
    ignored = shown.ignored if all(row.ignored is not None for row in copies) else None
    others = {op for row in copies for op in (row.op, *row.ops)} - {shown.op}
    return shown.model_copy(
        update={
            "ops": names(tuple(sorted(others))),
            "programs": names((shown.program, *(p for p in programs if p != shown.program))),
            "count": count if len(copies) > 1 else shown.count,
            "ignored": ignored,
        }
    )


def preference(row: FindingRow) -> tuple[object, ...]:
    """A copy with a folder first, then the smallest program: fewest elements, else by digest."""
    elements = [m.difference.elements for m in row.mismatches if m.difference is not None]
    return (not row.folder, max(elements, default=0), row.program, row.model_dump_json())
