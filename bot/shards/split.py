"""Sharding: op groups in parts of about equal expected cost, the same in the plan and in every shard.

Each shard computes the whole split itself, so nothing but ``3/4`` travels between jobs. That works because a split depends
on the op groups' names, their costs (:mod:`bot.shards.costs`, a file) and the number of shards alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bot.errors import OpDiffError

MAX_SHARDS: Final = 256
"""GitHub's own limit of jobs in one matrix."""
MIN_BUDGET: Final = 1.0

_SHARD = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})", re.ASCII)


@dataclass(frozen=True)
class Part:
    """Which part of how many; ``number`` counts from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        """Such as ``3/4``."""
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class Shard:
    """The op groups of one part, sorted, and their expected cost."""

    part: Part
    ops: tuple[str, ...]
    cost: float


def parse_part(text: str) -> Part:
    """``3/4``. Raises OpDiffError."""
    match = _SHARD.fullmatch(text)
    part = Part(int(match[1]), int(match[2])) if match else None
    if part is None or part.number > part.of or part.of > MAX_SHARDS:
        raise OpDiffError(
            f"shard {text[:40]!r} is not K/N with K from 1 to N and N at most {MAX_SHARDS}: as in 1/4"
        )
    return part


def shard_count(ops: Iterable[str], wanted: int) -> int:
    """How many shards make sense: as many as wanted, no more than ops, and one that says so when there is no op."""
    return max(1, min(wanted, len(set(ops)), MAX_SHARDS))


def split(ops: Iterable[str], cost: Callable[[str], float], shards: int) -> tuple[Shard, ...]:
    """Every op in exactly one of ``shards`` parts; a part may be empty.

    Largest first, each to the part with the least so far (R. L. Graham, "Bounds on multiprocessing timing anomalies",
    1969): no part costs more than the mean and the largest op. Ties go by name and by the part's number, so that the
    order in which ops are given does not matter.
    """
    ordered = sorted(set(ops), key=lambda op: (-cost(op), op))
    loads = [0.0] * shards
    shares: list[list[str]] = [[] for _ in range(shards)]
    for op in ordered:
        least = min(range(shards), key=lambda number: (loads[number], len(shares[number]), number))
        loads[least] += cost(op)
        shares[least].append(op)
    return tuple(
        Shard(Part(number, shards), tuple(sorted(share)), load)
        for number, (share, load) in enumerate(zip(shares, loads, strict=True), start=1)
    )


def share_of(
    ops: Iterable[str], cost: Callable[[str], float], part: Part | None
) -> tuple[str, ...]:
    """One part's op groups, sorted; all of them without a part."""
    if part is None:
        return tuple(sorted(set(ops)))
    return split(ops, cost, part.of)[part.number - 1].ops


def budget_of(shard: Shard, shards: Iterable[Shard], total: float) -> float:
    """A shard's seconds of the ``total`` of all shards: by its cost, so that every op gets the same time wherever it is."""
    whole = sum(one.cost for one in shards)
    fraction = shard.cost / whole if whole > 0 else 1.0
    return max(MIN_BUDGET, round(total * fraction, 1))
