"""Outcomes as rows of ``finding.json`` and tensor files beside it, in both directions.

A row keeps what a script is written from: how the program ended, which tensors the file holds and, of the results that
are no tensors and the leaves without a gradient, those that the finding's mismatches speak of.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field

from bot.oracle.tolerance import Bound
from bot.report.bundle import Key, TargetOutcome
from bot.report.results import Json, Measured, Name, Text
from bot.report.rows import MAX_NAME, clip, measured
from bot.report.untrusted_json import Row
from bot.targets.outcome import Death, Error, Outcome, Role, Status, Tensor

Array = npt.NDArray[Any]
Stored = Mapping[str, tuple[str, Array]]
"""What a tensor file holds: label -> canonical dtype and array."""

MAX_VALUE_CHARACTERS: Final = 500
MAX_STEPS: Final = 16
_DEATHS: Final = frozenset(("crash", "hang", "memory"))


class PlaceRow(Row):
    """Where something was observed."""

    role: Role
    name: Name
    path: Annotated[
        tuple[Annotated[int, Field(ge=0, lt=1 << 31)], ...], Field(max_length=MAX_STEPS)
    ] = ()

    @property
    def label(self) -> str:
        """As people read it, and the key in a tensor file: ``output r0[1]``, ``gradient of x``."""
        return Tensor(self.role, self.name, self.path, "", np.zeros(0)).label

    @property
    def key(self) -> Key:
        """As mismatches name it."""
        return (self.role, self.name, self.path)


class ValueRow(PlaceRow):
    """A result that is no tensor."""

    value: Json
    """In the program's value grammar."""


class BoundRow(PlaceRow):
    """The tolerance that the comparison used at one place; where there is none the dtype's own holds."""

    relative: Measured
    absolute: Measured
    growth: Measured = 0.0
    """Relative to the tensor's median magnitude: rounding of the terms that an element sums."""


class OutcomeRow(Row):
    """How one target ended the program."""

    target: Name
    framework: Name = ""
    device: Annotated[str, Field(pattern=r"^(cpu|cuda(\.\d{1,3})?)$")] = "cpu"
    role: Literal["candidate", "baseline", "peer"] = "peer"
    status: Status
    phase: Name = "forward"
    """Where it stopped: ``build``, ``forward`` or ``backward``."""
    error: Text = ""
    """The exception, or the signal and last words of a worker that died."""
    confirmed: bool = True
    """False for a death that did not come again when the program ran alone."""
    tensors: Name = ""
    """The file of its tensors in this folder."""
    observed: tuple[PlaceRow, ...] = ()
    """What that file holds, in order."""
    values: tuple[ValueRow, ...] = ()
    """Results that are no tensors, where the finding's mismatches speak of them."""
    absent: tuple[Name, ...] = ()
    """Leaves that got no gradient, where the finding's mismatches speak of them."""


def outcome_row(entry: TargetOutcome, file: str, wanted: Collection[Key]) -> OutcomeRow:
    """The row of an outcome whose tensors are in ``file``; ``wanted`` are the mismatches' places."""
    outcome = entry.outcome
    names = {name for _, name, _ in wanted}
    return OutcomeRow(
        target=clip(entry.label, MAX_NAME),
        framework=entry.framework,
        device=entry.device,
        role=entry.role,
        status=outcome.status,
        phase=outcome.phase,
        error=_error_text(outcome),
        confirmed=outcome.death is None or outcome.death.confirmed,
        tensors=file if outcome.tensors else "",
        observed=tuple(row for row, _ in kept_tensors(outcome)),
        values=tuple(
            ValueRow(role=cast("Role", role), name=name, path=path, value=value)
            for role, name, path, value in outcome.values
            if (role, name, path) in wanted and len(json.dumps(value)) <= MAX_VALUE_CHARACTERS
        ),
        absent=tuple(name for name in outcome.absent if name in names),
    )


def kept_tensors(outcome: Outcome) -> Iterator[tuple[PlaceRow, Tensor]]:
    """The tensors that a file keeps: of those with one label the first."""
    seen: set[str] = set()
    for tensor in outcome.tensors:
        place = PlaceRow(role=tensor.role, name=clip(tensor.name, MAX_NAME), path=tensor.path)
        if place.label not in seen:
            seen.add(place.label)
            yield place, tensor


def outcome_of(row: OutcomeRow, stored: Stored) -> Outcome:
    """The outcome that a row and its file speak of. Raises ValueError where they do not agree."""
    tensors = tuple(_tensors(row.observed, stored))
    if len(tensors) != len(stored):
        raise ValueError(
            f"{row.tensors or 'no file'} does not hold the tensors that finding.json names"
        )
    first, _, rest = row.error.partition(": ")
    dead = row.status in _DEATHS
    return Outcome(
        status=row.status,
        phase=row.phase,
        error=None if dead or row.status == "ok" else Error(first, rest),
        tensors=tensors,
        values=tuple((value.role, value.name, value.path, value.value) for value in row.values),
        absent=row.absent,
        death=Death(first, rest, row.confirmed) if dead else None,
    )


def bound_rows(bounds: Mapping[Key, Bound], wanted: Iterable[Key]) -> tuple[BoundRow, ...]:
    """The tolerances at the mismatches' places."""
    return tuple(
        BoundRow(
            role=cast("Role", role),
            name=name,
            path=path,
            relative=_number(bounds[role, name, path].rtol),
            absolute=_number(bounds[role, name, path].atol),
            growth=_number(bounds[role, name, path].growth),
        )
        for role, name, path in sorted(set(wanted))
        if role and (role, name, path) in bounds
    )


def _number(value: float) -> Measured:
    number = measured(value)
    return 0.0 if number is None else number


def bounds_of(rows: Iterable[BoundRow]) -> dict[Key, Bound]:
    """The tolerances that rows speak of."""
    return {r.key: Bound(float(r.relative), float(r.absolute), float(r.growth)) for r in rows}


def _tensors(rows: Iterable[PlaceRow], stored: Stored) -> Iterator[Tensor]:
    seen: set[str] = set()
    for row in rows:
        label = row.label
        entry = stored.get(label)
        if entry is None or label in seen:
            raise ValueError(f"there is no tensor {label[:80]!a}")
        seen.add(label)
        yield Tensor(row.role, row.name, row.path, *entry)


def _error_text(outcome: Outcome) -> str:
    if outcome.error is not None:
        return clip(f"{outcome.error.type}: {outcome.error.message}")
    if outcome.death is not None:
        return clip(f"{outcome.death.signal}: {outcome.death.last_words}")
    return ""
