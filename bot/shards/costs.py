"""What op groups cost to run, before anything has run: ``costs.yml``, the same on every machine.

A plan and its shards split the op groups on different machines, whatever their caches hold; so the costs come from a file
that is shipped with OpDiff and not from an environment. ``python -m bot.shards.costs`` writes it anew for another pinned
release (about an hour of tracing on one core).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console

from bot.atomic_file import write_atomically
from bot.plan import CHECK_DTYPES
from bot.programs.op_groups import group_of
from bot.programs.op_index import short_name
from bot.programs.opinfo_source import PINNED_RELEASE, OpInfoSource
from bot.programs.source import SourceCounts, SourceEntry, SourceRequest
from bot.progress import Progress
from bot.targets.environment_store import EnvironmentStore
from bot.workshop import Workshop

FILE: Final = Path(__file__).with_name("costs.yml")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, much quicker
START_COST: Final = 1.0
"""Of any op, so that ops without programs are spread too."""

Programs = Annotated[int, Field(ge=0)]
Row = tuple[Programs, Programs]


class OpCosts(BaseModel):
    """``costs.yml``: the op groups that programs exist for, each with its cost.

    A row: programs of all kinds and forms in all dtypes of a check, and of those the float32 ones.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    release: str
    groups: dict[str, Row]


@cache
def op_costs() -> OpCosts:
    """The shipped costs. Raises ValueError for a file that does not add up."""
    return load_op_costs(FILE.read_text(encoding="utf-8"))


def load_op_costs(text: str) -> OpCosts:
    """Costs from the YAML text. Raises ValueError (pydantic's too)."""
    try:
        return OpCosts.model_validate(yaml.load(text, _LOADER))
    except ValidationError as error:
        raise ValueError(f"{FILE.name}: {error}") from None


def cost_of(op: str, *, float32_alone: bool = False) -> float:
    """The expected cost of an op group: its programs, which take about the same time (a hundredth of a second or less)."""
    programs, few = op_costs().groups.get(op, (0, 0))
    return START_COST + (few if float32_alone else programs)


def known_ops() -> tuple[str, ...]:
    """Every op group that programs exist for, sorted."""
    return tuple(sorted(op_costs().groups))


def known_op(name: str) -> str:
    """The op group that a person means by ``softplus``, ``torch.add``, ``nn.Softplus`` or ``Tensor.add_``.

    A name of which no group is known, or several, is a group of its own: no program exists for it, and the report
    says so.
    """
    plain = name.strip().removeprefix("torch.")
    group = group_of(plain)
    if group in op_costs().groups or "." in plain:
        return group
    found = _short_names().get(short_name(plain), ())
    return found[0] if len(found) == 1 else group


@cache
def _short_names() -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for group in known_ops():
        short = short_name(group)
        names[short] = (*names.get(short, ()), group)
    return names


def measured_costs(source: OpInfoSource) -> dict[str, Row]:
    """The rows of ``costs.yml``, by tracing everything that the source has."""
    index = source.index()
    entries = {entry: _entry_cost(entry, source) for entry in source.entries()}
    return {group: _sum(entries[e] for e in index.entries_of(group)) for group in index.groups}


def _entry_cost(entry: SourceEntry, source: OpInfoSource) -> Row:
    others = tuple(d for d in CHECK_DTYPES if d != "float32" and d in entry.dtypes)
    narrow = tuple(d for d in ("float32",) if d in entry.dtypes)
    # Error inputs have dtypes of their own.
    few = _traced(SourceRequest(entry, narrow), source)
    return few + _traced(SourceRequest(entry, others, ("sample", "reference")), source), few


def _traced(request: SourceRequest, source: OpInfoSource) -> int:
    return sum(1 for _ in source.programs([request], SourceCounts()))


def _sum(rows: Iterable[Row]) -> Row:
    programs, few = zip(*rows, strict=True)
    return sum(programs), sum(few)


def op_costs_text(rows: dict[str, Row]) -> str:
    """The text of ``costs.yml``."""
    return "".join(_lines(rows))


def _lines(rows: dict[str, Row]) -> Iterator[str]:
    yield "# What each op group costs. Written by `python -m bot.shards.costs`; see bot/shards/costs.py.\n"
    yield "# group: [programs in all dtypes of a check, programs in float32]\n"
    yield f"source: OpInfos and ModuleInfos of {PINNED_RELEASE}, traced\n"
    yield f"release: {PINNED_RELEASE}\n"
    yield "groups:\n"
    for group, (programs, few) in sorted(rows.items()):
        yield f"  {group}: [{programs}, {few}]\n"


def main() -> None:
    """Write ``costs.yml`` anew."""
    progress = Progress(Console(stderr=True), quiet=False)
    with (
        EnvironmentStore(progress=progress.note) as store,
        Workshop(store, progress).source() as source,
    ):
        text = op_costs_text(measured_costs(source))
    write_atomically(FILE, text.encode())


if __name__ == "__main__":
    main()
