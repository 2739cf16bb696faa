"""What a run has measured so far, added up from its journal's entries."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bot.run_directory import Entry


@dataclass
class OpTally:
    """One op group: programs seen, programs in which something was compared, and each target's endings."""

    programs: int = 0
    compared: int = 0
    failing: int = 0
    statuses: list[Counter[str]] = field(default_factory=list[Counter[str]])  # one per target
    not_compared: Counter[str] = field(default_factory=Counter[str])


@dataclass
class Tally:
    """Totals of a run. ``failing`` keeps the entries with mismatches, in the order measured."""

    programs: int = 0
    compared_programs: int = 0
    compared: Counter[str] = field(
        default_factory=Counter[str]
    )  # outputs, gradients, ... -> tensors
    not_compared: Counter[str] = field(
        default_factory=Counter[str]
    )  # reason -> programs or tensors
    ops: dict[str, OpTally] = field(default_factory=dict[str, OpTally])
    done: set[str] = field(default_factory=set[str])
    failing: list[Entry] = field(default_factory=list[Entry])
    deaths: int = 0

    def add(self, entry: Entry) -> None:
        """Count one program in; a program counted before is ignored."""
        if entry.digest in self.done:
            return
        self.done.add(entry.digest)
        self.programs += 1
        op = self.ops.setdefault(entry.op, OpTally())
        op.programs += 1
        if not op.statuses:
            op.statuses = [Counter() for _ in entry.statuses]
        for counter, status in zip(op.statuses, entry.statuses, strict=True):
            counter[status] += 1
        self.deaths += sum(status in ("crash", "hang", "memory") for status in entry.statuses)
        if entry.compared or entry.mismatches:
            self.compared_programs += 1
            op.compared += 1
        self.compared.update(entry.compared)
        self.not_compared.update(entry.not_compared)
        op.not_compared.update(entry.not_compared)
        if entry.mismatches:
            op.failing += 1
            self.failing.append(entry)
