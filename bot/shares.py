"""Shares: in a run with a budget, a target that takes far longer than the others runs a share of the programs.

Targets answer the same programs, so the slowest one sets the pace of all: JAX compiles what it has not seen in this shape
before, at 100 to 300 ms where others take 2. The first programs of every op go to every target; of the rest, a slow one
is asked so many that it takes about as long as a target of :data:`SLOW` times the median pace would for all. Candidate
and baseline are asked everything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import median
from typing import Final

from bot.oracle.roles import Role
from bot.programs.source import SourcedProgram
from bot.targets.lane_events import WorkerCounts

FIRST: Final = 2  # programs of each op that every target runs
SLOW: Final = 4.0  # times the median target's seconds a program
SETTLED: Final = 16  # programs answered before a target's pace is believed


def spared_none(roles: Sequence[Role]) -> list[int]:
    """The places of the targets that a pull request is about."""
    return [place for place, role in enumerate(roles) if role in ("candidate", "baseline")]


class Shares:
    """Which targets a program goes to, by their places. ``counts`` are the pool's, ``always`` the places spared none."""

    def __init__(
        self, counts: Callable[[], Sequence[WorkerCounts]], always: Collection[int]
    ) -> None:
        self._counts = counts
        self._always = frozenset(always)
        self._of_op: Counter[str] = Counter()
        self._left_out: Counter[int] = Counter()
        self._asked = 0

    def of(self, program: SourcedProgram) -> frozenset[int] | None:
        """The places of the targets to run a program on; None for all."""
        self._asked += 1
        self._of_op[program.op] += 1
        if self._of_op[program.op] <= FIRST:
            return None
        strides = self._strides()
        number = int(program.digest[:8], 16)
        left_out = {place for place, stride in enumerate(strides) if number % stride}
        if not left_out:
            return None
        self._left_out.update(left_out)
        return frozenset(range(len(strides))) - left_out

    def notes(self, labels: Sequence[str]) -> Iterator[str]:
        """What a report should say: a line for each target that was not asked everything."""
        for place, count in sorted(self._left_out.items()):
            yield (
                f"{labels[place]} takes over {SLOW:g} times as long a program as the median target: "
                f"{self._asked - count:,} of {self._asked:,} programs were run on it"
            )

    def _strides(self) -> list[int]:
        """For each target the n of \"one program in n\"."""
        counts = self._counts()
        paces = [c.busy_seconds / c.answered if c.answered >= SETTLED else None for c in counts]
        known = [pace for pace in paces if pace is not None]
        if len(known) < 2 or median(known) <= 0:
            return [1] * len(paces)
        bound = SLOW * median(known)
        return [
            1 if pace is None or place in self._always else max(1, math.ceil(pace / bound))
            for place, pace in enumerate(paces)
        ]
