"""Conventions: where frameworks document different results, element by element. The table is ``conventions.yml``.

A row of ``elements`` takes elements away between two targets when both of their frameworks are in its ``documented`` with
different values, or one documents that the value is free (``undefined``, ``unspecified``). Two builds of one framework are
held to each other everywhere but where their framework calls the value free. A documented number must be what that side
really has (times the output's gradient, for a gradient): any other value there is still a mismatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy.typing as npt
import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from bot.oracle.convention_conditions import (
    CONDITIONS,
    Asked,
    ConditionName,
    Held,
    Place,
    has_value,
)
from bot.programs.program import Program

Array = npt.NDArray[Any]
TABLE = Path(__file__).with_name("conventions.yml")
FREE: Final = frozenset({"undefined", "unspecified"})


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ZeroSign(_Row):
    """Ops whose documented result includes the sign of a zero."""

    ops: list[str]
    source: str


class Exact(_Row):
    """Ops whose results are numbers of their operand's dtype by definition, not rounded to it."""

    ops: list[str]
    source: str


class Convention(_Row):
    """One predicate over elements; see the table's head."""

    name: str
    ops: list[str] = Field(min_length=1)
    role: Literal["output", "gradient", "any"]
    condition: ConditionName
    path: list[int] | None = None  # the member of a nested result; any when left out
    limits: list[
        float
    ] = []  # input_is_limit: the op's default limits, beside the numbers among its arguments
    dim_position: int | None = None  # where the op's calls have ``dim``
    dim_default: int | None = None  # None: over all elements
    documented: dict[str, str] = Field(min_length=1)
    source: str

    @model_validator(mode="after")
    def _tells_apart(self) -> Convention:
        values = set(self.documented.values())
        if len(values) < 2 and not values & FREE:
            raise ValueError(f"{self.name}: all frameworks document one value: nothing is excused")
        return self

    @cached_property
    def asked(self) -> Asked:
        """What its condition reads."""
        return Asked(
            frozenset(self.ops), self.limits, self.dim_position, self.dim_default, self.documented
        )

    def speaks_of(self, left: str, right: str) -> bool:
        """Whether these two frameworks document different values here, or one of them a free one."""
        values = {self.documented.get(left), self.documented.get(right)}
        return None not in values and (len(values) > 1 or bool(values & FREE))


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


class NoScalars(_Row):
    """Frameworks whose tensors of no dimension are a likeness made of one-element tensors."""

    name: str
    frameworks: list[str]
    source: str


class NoState(_Row):
    """A module's parameter or buffer that frameworks do not have."""

    name: str
    entry: str
    frameworks: list[str]
    source: str


class Contract(_Row):
    """Frameworks that document one interface, so that what one of them must refuse the others must too."""

    name: str
    frameworks: list[str]
    source: str


class ByMapping(_Row):
    """A difference of defaults that no comparison sees, for our calls state the argument."""

    name: str
    ops: list[str]
    documented: dict[str, str]
    stated: str
    source: str


class Conventions(_Row):
    """The whole table."""

    contracts: list[Contract] = []
    no_scalars: list[NoScalars] = []
    no_state: list[NoState] = []
    by_mapping: list[ByMapping] = []
    unordered: list[Unordered] = []
    exact: list[Exact] = []
    zero_sign: list[ZeroSign] = []
    elements: list[Convention] = []
    dtypes: list[DtypeConvention] = []

    @cached_property
    def exact_ops(self) -> frozenset[str]:
        """Ops whose results are compared without a tolerance."""
        return frozenset(op for row in self.exact for op in row.ops)

    def is_exact(self, program: Program) -> bool:
        """Whether a program is one call of such an op."""
        return len(program.calls) == 1 and program.calls[0].fn in self.exact_ops

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

    def contract(self, framework: str) -> str:
        """The name of the interface that a framework documents: its own, or one that it shares."""
        named = (row.name for row in self.contracts if framework in row.frameworks)
        return next(named, framework)

    def without_scalars(self, framework: str) -> str | None:
        """The name of the convention by which (1,) stands for () in this framework, if any."""
        named = (row.name for row in self.no_scalars if framework in row.frameworks)
        return next(named, None)

    def lacks(self, framework: str, role: str, name: str) -> str | None:
        """The name of the convention by which this framework's modules have no such parameter or buffer, if any."""
        if role not in ("parameter", "buffer"):
            return None
        entry = name.rpartition(".")[2]
        named = (
            row.name for row in self.no_state if row.entry == entry and framework in row.frameworks
        )
        return next(named, None)

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

    def excused(
        self, op: str, place: Place, left: Held, right: Held
    ) -> Iterator[tuple[str, Array]]:
        """The name and mask (of the tensor's shape) of every convention that speaks of elements of these two tensors."""
        wanted = "gradient" if place.role == "gradient" else "output"
        for row in self._by_op.get(op, ()):
            if (
                row.role not in (wanted, "any")
                or (row.path is not None and tuple(row.path) != place.path)
                or not row.speaks_of(left.framework, right.framework)
            ):
                continue
            mask = CONDITIONS[row.condition](row.asked, place, left, right)
            for held in (left, right):
                if mask is not None and mask.any():
                    mask = mask & has_value(row.documented[held.framework], place, held)
            if mask is not None and mask.any():
                yield row.name, mask


@cache
def load_conventions(path: Path = TABLE) -> Conventions:
    """Read and validate the table. Raises pydantic's ValidationError for a row that does not add up."""
    return Conventions.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
