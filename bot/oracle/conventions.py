"""Conventions: where frameworks document different results, element by element. The table is ``conventions.yml``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import yaml
from pydantic import BaseModel, ConfigDict

from bot.oracle.difference import is_floating, widened
from bot.oracle.initial import InitialTensors
from bot.programs.dtypes import DTYPES
from bot.programs.program import Program, Value

Array = npt.NDArray[Any]
TABLE = Path(__file__).with_name("conventions.yml")
ConditionName = Literal[
    "unrepresentable_as_integer", "input_is_zero", "input_is_limit", "input_is_nan"
]


@dataclass(frozen=True)
class Place:
    """A tensor that conventions are asked about; ``name`` is its name in the program (a gradient's leaf)."""

    role: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    initial: InitialTensors


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ZeroSign(_Row):
    """Ops whose documented result includes the sign of a zero."""

    ops: list[str]
    source: str


class Convention(_Row):
    """One predicate over elements; see the table's head."""

    name: str
    ops: list[str]
    role: Literal["output", "gradient", "any"]
    condition: ConditionName
    limits: list[
        float
    ] = []  # input_is_limit: the op's default limits, beside the numbers among its arguments
    documented: dict[str, str]
    source: str


class DtypeConvention(_Row):
    """A result whose dtype frameworks document differently; its values are compared all the same."""

    name: str
    ops: list[str]
    path: list[int] | None = None  # the member of a nested result; any when left out
    documented: dict[str, str]  # framework -> dtype
    source: str


class Unordered(_Row):
    """A result whose elements come in any order when an argument has a value."""

    name: str
    ops: list[str]
    argument: str
    value: bool | int | str
    source: str


class Conventions(_Row):
    """The whole table."""

    unordered: list[Unordered] = []
    zero_sign: list[ZeroSign] = []
    elements: list[Convention] = []
    dtypes: list[DtypeConvention] = []

    @cached_property
    def zero_sign_ops(self) -> frozenset[str]:
        """Ops of which the sign of zero is compared."""
        return frozenset(op for row in self.zero_sign for op in row.ops)

    @cached_property
    def _by_op(self) -> dict[str, list[Convention]]:
        rows: dict[str, list[Convention]] = {}
        for row in self.elements:
            for op in row.ops:
                rows.setdefault(op, []).append(row)
        return rows

    def documented_dtypes(
        self, op: str, path: tuple[int, ...], results: Mapping[str, str]
    ) -> str | None:
        """The name of the convention by which these frameworks' results have these (different) dtypes, if any."""
        for row in self.dtypes:
            if (
                op in row.ops
                and (row.path is None or tuple(row.path) == path)
                and all(row.documented.get(framework) == d for framework, d in results.items())
            ):
                return row.name
        return None

    def is_unordered(self, op: str, program: Program) -> bool:
        """Whether the program asks for a result in no particular order."""
        return any(
            op in row.ops
            and any(call.kwargs.get(row.argument) == row.value for call in program.calls)
            for row in self.unordered
        )

    def excused(self, op: str, place: Place) -> Iterator[tuple[str, Array]]:
        """The name and mask (of the tensor's shape) of every convention that speaks of elements of this tensor."""
        for row in self._by_op.get(op, ()):
            wanted = "gradient" if place.role == "gradient" else "output"
            if row.role in (wanted, "any"):
                mask = _CONDITIONS[row.condition](row, place)
                if mask is not None and mask.any():
                    yield row.name, mask


@cache
def load_conventions(path: Path = TABLE) -> Conventions:
    """Read and validate the table. Raises pydantic's ValidationError for a row that does not add up."""
    return Conventions.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


Condition = Callable[[Convention, Place], "Array | None"]


def _source(place: Place) -> Array | None:
    """The floating input that stands behind each element: the gradient's own leaf, else the op's first input.

    None when its shape is not the tensor's: then no element of the one belongs to an element of the other.
    """
    initial = place.initial
    first = next((spec.name for spec in initial.program.inputs()), "")
    name = place.name if place.role == "gradient" else first
    values = initial.array(name)
    if values is None or values.shape != place.shape or not is_floating(initial.dtype(name)):
        return None
    return values if values.dtype.kind == "c" else widened(values)


def _input_is_zero(row: Convention, place: Place) -> Array | None:
    values = _source(place)
    return None if values is None else np.asarray(values == 0)


def _input_is_nan(row: Convention, place: Place) -> Array | None:
    values = _source(place)
    return None if values is None else np.isnan(values)


def _unrepresentable(row: Convention, place: Place) -> Array | None:
    values = _source(place)
    dtype = DTYPES[place.dtype]
    if values is None or values.dtype.kind == "c" or dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        # int64's largest number rounds up to 2^63 as float64, which is out of range: hence >=.
        above = values >= float(limits.max) + (0 if limits.bits == 64 else 1)
        return ~np.isfinite(values) | above | (np.trunc(values) < float(limits.min))


def _input_is_limit(row: Convention, place: Place) -> Array | None:
    values = _source(place)
    if values is None:
        return None
    limits = sorted({*row.limits, *_numbers(place.initial)})
    return np.isin(values, np.array(limits))


def _numbers(initial: InitialTensors) -> Iterator[float]:
    """The finite numbers among the program's arguments."""
    for call in initial.program.calls:
        values: list[Value] = [*call.args, *call.kwargs.values()]
        for value in values:
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield float(value)


_CONDITIONS: dict[ConditionName, Condition] = {
    "unrepresentable_as_integer": _unrepresentable,
    "input_is_zero": _input_is_zero,
    "input_is_limit": _input_is_limit,
    "input_is_nan": _input_is_nan,
}
