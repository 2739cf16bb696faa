"""What op groups cost to run, before anything has run: ``costs.yml``, the same on every machine.

A plan and its shards split the op groups on different machines, whatever their caches hold; so the costs come from a file
that is shipped with OpDiff and not from an environment. :mod:`bot.shards.measure_costs` writes it anew for another pinned
release.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.programs.op_groups import group_of
from bot.programs.op_index import short_name

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
    found = namesakes(short_name(plain))
    return found[0] if len(found) == 1 else group


def namesakes(short: str) -> tuple[str, ...]:
    """The op groups whose last name is this one: ``unfold`` -> ``Tensor.unfold``, ``nn.functional.unfold``."""
    return _short_names().get(short, ())


@cache
def _short_names() -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for group in known_ops():
        short = short_name(group)
        names[short] = (*names.get(short, ()), group)
    return names
