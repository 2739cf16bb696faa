"""``opdiff plan``: which jobs a check is split into. It reads the diff, runs nothing and needs no environment.

Every shard of the matrix finds its own share again from the same diff; the matrix only says which, on what, for how long.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

from bot.check import cost
from bot.report.escape import log_line
from bot.shards.split import MAX_SHARDS, budget_of, shard_count, split
from bot.subject import Subject


@dataclass(frozen=True)
class PlannedShard:
    """One job. ``budget`` is its own, in seconds; None is no bound."""

    shard: str
    device: str
    ops: int
    cost: float
    budget: float | None


@dataclass(frozen=True)
class ShardPlan:
    """The jobs of a check. ``asked`` are the ops that a person named beside the changed ones, ``accepted`` the
    fingerprints of findings that a person called an expected change."""

    subject: Subject
    asked: tuple[str, ...]
    shards: tuple[PlannedShard, ...]
    pull_request: int | None = None
    notes: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()

    def matrix(self) -> dict[str, Any]:
        """For a job's ``strategy.matrix``. ``ops`` are those asked for, by comma; a ``budget`` of 0 is no bound."""
        return {
            "include": [
                {
                    "shard": one.shard,
                    "device": one.device,
                    "ops": ",".join(self.asked),
                    "op-count": one.ops,
                    "cost": one.cost,
                    "budget": one.budget or 0,
                }
                for one in self.shards
            ]
        }

    def to_json(self) -> dict[str, Any]:
        """What ``opdiff plan --json`` prints."""
        subject, changes = self.subject, self.subject.changes
        return {
            "framework": subject.framework,
            "base": subject.change.base,
            "head": subject.change.head,
            "pull-request": self.pull_request,
            "ops": list(subject.ops),
            "asked": list(self.asked),
            "unmapped": [entry.file for entry in changes.unmapped] if changes else [],
            "notes": list(self.notes),
            "matrix": self.matrix(),
        }

    def output_lines(self) -> list[str]:
        """``name=value`` lines for ``$GITHUB_OUTPUT``: the matrix, how many jobs a merge must expect, and what it excuses."""
        return [
            f"matrix={json.dumps(self.matrix())}",
            f"shards={len(self.shards)}",
            f"accepted={','.join(self.accepted)}",
        ]

    def print(self, console: Console) -> None:
        """A line for each job."""
        subject = self.subject
        number = len(subject.ops)
        what = f"all {number} ops" if subject.changes is None else f"{number} changed ops"
        console.print(f"{escape(subject.framework)}: {what}")
        for one in self.shards:
            seconds = "no budget" if one.budget is None else f"{one.budget:g} s"
            console.print(
                f"shard {one.shard} on {escape(one.device)}: {one.ops} ops, cost {one.cost:g}, {seconds}"
            )
        for note in self.notes:
            console.print(f"note: {escape(log_line(note))}")


def plan_shards(
    subject: Subject,
    devices: Sequence[str] = (),
    shards: int | None = None,
    budget: float | None = None,
    asked: Sequence[str] = (),
    pull_request: int | None = None,
    notes: Sequence[str] = (),
    accepted: Sequence[str] = (),
) -> ShardPlan:
    """The jobs of a check; what is None or empty is the configuration's, else one shard on the CPU without a bound.

    No more shards than ops, no more jobs than GitHub takes, and one shard for no op at all: it says so. ``budget`` is for all shards of a device together.
    """
    config = subject.config
    devices = tuple(devices or config.devices or ("cpu",))
    wanted = min(shards or config.shards or 1, MAX_SHARDS // len(devices))
    count = shard_count(subject.ops, wanted)
    total = budget if budget is not None else config.budget
    parts = split(subject.ops, cost(subject), count)
    rows = tuple(
        PlannedShard(
            shard=str(part.part),
            device=device,
            ops=len(part.ops),
            cost=round(part.cost, 1),
            budget=None if total is None else budget_of(part, parts, total),
        )
        for device in devices
        for part in parts
    )
    said = subject.changes.notes if subject.changes is not None else ()
    return ShardPlan(subject, tuple(asked), rows, pull_request, (*notes, *said), tuple(accepted))
