"""From the oracle's and the changes' dataclasses to rows of ``results.json``: clipped, finite, JSON only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, cast

from bot.changes.change import Changes
from bot.oracle.finding import Difference, Evidence, Finding, Mismatch, Observation
from bot.report.results import (
    MAX_LINES,
    MAX_NOTES,
    MAX_TEXT,
    ChangedOpRow,
    ChangesRow,
    DifferenceRow,
    EvidenceRow,
    FindingRow,
    LinesRow,
    Measured,
    MismatchRow,
    ObservationRow,
    UnmappedRow,
)

MAX_NAME = 500
MAX_ITEMS = 100
MAX_JSON_DEPTH = 6


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """At most ``limit`` characters, valid UTF-8 (lone surrogates escaped), a cut marked by an ellipsis."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Texts clipped to a name's length, at most 100 of them."""
    return tuple(clip(text, MAX_NAME) for text in texts[:MAX_ITEMS])


def note_rows(notes: Sequence[str]) -> tuple[str, ...]:
    """Notes clipped, as many as ``results.json`` takes; the last one then says how many were left out."""
    if len(notes) <= MAX_NOTES:
        return tuple(clip(note) for note in notes)
    kept = [clip(note) for note in notes[: MAX_NOTES - 1]]
    return (*kept, f"{len(notes) - len(kept)} more notes were left out")


def measured(value: float | None) -> Measured | None:
    """A number as JSON can hold it."""
    if value is None or math.isfinite(value):
        return None if value is None else float(value)
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def plain_json(value: Any, depth: int = 0) -> Any:
    """Any value as finite, shallow, bounded JSON; what JSON lacks becomes text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return measured(value)
    if isinstance(value, str):
        return clip(value, MAX_NAME)
    if depth < MAX_JSON_DEPTH and isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        rows = list(entries.items())[:MAX_ITEMS]
        return {clip(str(key), MAX_NAME): plain_json(inner, depth + 1) for key, inner in rows}
    if depth < MAX_JSON_DEPTH and isinstance(value, list | tuple | set | frozenset):
        items = list(cast("list[Any]", value))
        if isinstance(value, set | frozenset):
            items.sort(key=str)
        return [plain_json(item, depth + 1) for item in items[:MAX_ITEMS]]
    return clip(str(value), MAX_NAME)


def changes_row(
    changes: Changes, base: str = "", head: str = "", pull_request: int | None = None
) -> ChangesRow:
    """What a diff changes; ``base`` and ``head`` are its commits, when it has any."""
    return ChangesRow(
        framework=changes.framework,
        base=clip(base, MAX_NAME),
        head=clip(head, MAX_NAME),
        pull_request=pull_request,
        ops=tuple(
            ChangedOpRow(
                op=clip(op.op, MAX_NAME),
                how=op.how,
                path=tuple(clip(step) for step in op.path[:MAX_ITEMS]),
                aliases=names(op.aliases),
                lines=tuple(
                    LinesRow(file=clip(lines.file), first=lines.first, last=lines.last)
                    for lines in op.lines[:MAX_LINES]
                ),
            )
            for op in changes.ops
        ),
        tests=tuple(clip(test) for test in changes.tests),
        unmapped=tuple(UnmappedRow(file=clip(u.file), why=clip(u.why)) for u in changes.unmapped),
        notes=tuple(clip(note) for note in changes.notes),
    )


def finding_row(finding: Finding, folder: str = "") -> FindingRow:
    """A finding, with its folder relative to ``results.json``."""
    return FindingRow(
        fingerprint=clip(finding.fingerprint, MAX_NAME),
        op=clip(finding.op, MAX_NAME),
        kind=finding.kind,
        verdict=finding.verdict,
        blamed=names(finding.blamed),
        confidence=finding.confidence,
        status=finding.status,
        sides=_sides(finding.sides),
        program=clip(finding.program, MAX_NAME),
        mismatches=tuple(mismatch_row(m) for m in finding.mismatches[:MAX_ITEMS]),
        evidence=tuple(_evidence_row(e) for e in finding.evidence[:MAX_ITEMS]),
        programs=names(finding.programs),
        count=finding.count,
        argument_class=plain_json(finding.argument_class),
        known_to_suite=None if finding.known_to_suite is None else clip(finding.known_to_suite),
        ops=names(finding.ops),
        folder=clip(folder),
    )


def finding_from_row(row: FindingRow) -> Finding:
    """The finding that a (validated) row speaks of."""
    return Finding(
        fingerprint=row.fingerprint,
        op=row.op,
        kind=row.kind,
        verdict=row.verdict,
        blamed=row.blamed,
        confidence=row.confidence,
        status=row.status,
        sides=row.sides,
        program=row.program,
        mismatches=tuple(_mismatch(m, row.program) for m in row.mismatches),
        evidence=tuple(
            Evidence(e.rung, e.says, e.against, {k: float(v) for k, v in e.numbers.items()})
            for e in row.evidence
        ),
        programs=row.programs,
        count=row.count,
        argument_class=dict(row.argument_class),
        known_to_suite=row.known_to_suite,
        ops=row.ops,
    )


def mismatch_row(mismatch: Mismatch) -> MismatchRow:
    """One mismatch."""
    return MismatchRow(
        kind=mismatch.kind,
        role=clip(mismatch.role, MAX_NAME),
        name=clip(mismatch.name, MAX_NAME),
        path=mismatch.path,
        label=clip(mismatch.label, MAX_NAME),
        sides=_sides(mismatch.sides),
        observations=tuple(_observation_row(o) for o in mismatch.observations[:MAX_ITEMS]),
        difference=None if mismatch.difference is None else _difference_row(mismatch.difference),
        note=clip(mismatch.note),
    )


def _sides(sides: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(names(side) for side in sides[:MAX_ITEMS])


def _observation_row(observation: Observation) -> ObservationRow:
    return ObservationRow(
        target=clip(observation.target, MAX_NAME),
        dtype=observation.dtype,
        shape=observation.shape,
        value=None if observation.value is None else clip(observation.value),
        happened=None if observation.happened is None else clip(observation.happened),
    )


def _difference_row(difference: Difference) -> DifferenceRow:
    return DifferenceRow(
        differing=difference.differing,
        elements=difference.elements,
        largest_absolute=measured(difference.largest_absolute),
        largest_relative=measured(difference.largest_relative),
        largest_ulp=difference.largest_ulp,
        first_index=difference.first_index,
    )


def _evidence_row(evidence: Evidence) -> EvidenceRow:
    numbers: dict[str, Measured] = {}
    for key, value in list(evidence.numbers.items())[:MAX_ITEMS]:
        number = measured(value)
        if number is not None:
            numbers[clip(key, MAX_NAME)] = number
    return EvidenceRow(
        rung=clip(evidence.rung, MAX_NAME),
        says=clip(evidence.says),
        against=names(evidence.against),
        numbers=numbers,
    )


def _mismatch(row: MismatchRow, program: str) -> Mismatch:
    d = row.difference
    difference = d and Difference(
        d.differing,
        d.elements,
        _number(d.largest_absolute),
        _number(d.largest_relative),
        d.largest_ulp,
        d.first_index,
    )
    return Mismatch(
        program=program,
        kind=row.kind,
        role=row.role,
        name=row.name,
        path=row.path,
        sides=row.sides,
        observations=tuple(
            Observation(o.target, o.dtype, o.shape, o.value, o.happened) for o in row.observations
        ),
        difference=difference,
        note=row.note,
    )


def _number(value: float | Literal["nan", "inf", "-inf"] | None) -> float | None:
    return None if value is None else float(value)
