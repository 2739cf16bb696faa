"""Names of ops that people write: what nobody knows is refused at once, with near names."""

from __future__ import annotations

import difflib
from functools import cache
from typing import Final

from bot.changes.op_names import torch_names
from bot.programs.op_groups import group_of, op_groups
from bot.programs.op_index import UnknownOpError, short_name
from bot.shards.costs import known_op, known_ops, namesakes
from bot.targets.recipes import load_recipes

MAX_NEAR: Final = 3
_LIKENESS: Final = 0.7


def check_op_name(name: str) -> None:
    """Refuse the name of an op that nobody knows. Raises UnknownOpError, in one line with near names.

    Known are the op groups of programs, PyTorch's public callables, and whatever stands below another framework's own name
    (``oneflow.nn.FusedBatchNorm2d``): of those there is no list.
    """
    plain = name.strip().removeprefix("torch.")
    framework, _, own = plain.partition(".")
    if known_op(name) in _groups() or (own and framework in _other_frameworks()):
        return
    same = namesakes(plain)
    if len(same) > 1:
        raise UnknownOpError(f"op {name!r} is ambiguous: say which of {', '.join(same)}")
    near = near_ops(plain)
    said = f"; near names: {', '.join(near)}" if near else ": see `opdiff ops`"
    raise UnknownOpError(f"no op {name!r} is known{said}")


def is_known_op(name: str) -> bool:
    """Whether :func:`check_op_name` takes the name."""
    try:
        check_op_name(name)
    except UnknownOpError:
        return False
    return True


def near_ops(name: str) -> tuple[str, ...]:
    """At most three op groups whose whole or short names are like this one, the most alike first."""
    whole = difflib.get_close_matches(name, known_ops(), MAX_NEAR, _LIKENESS)
    shorts = {short_name(group) for group in known_ops()}
    short = difflib.get_close_matches(short_name(name), shorts, MAX_NEAR, _LIKENESS)
    found = dict.fromkeys([*whole, *(group for one in short for group in namesakes(one))])
    return tuple(found)[:MAX_NEAR]


@cache
def _groups() -> frozenset[str]:
    return frozenset({*known_ops(), *op_groups().irregular.values(), *map(group_of, torch_names())})


@cache
def _other_frameworks() -> frozenset[str]:
    return frozenset(load_recipes().frameworks()) - {"torch"}
