"""Shares: in a run with a budget, a target that takes far longer than the others runs a share of the programs.

Targets answer the same programs, so the slowest one would set the pace of all: JAX compiles what it has not seen in this
shape before, at 100 to 300 ms where others take 2. A slow target is therefore asked as many as it can answer, and the rest
goes past it: a program is for it when few wait there already, and more may wait when it has not met their op yet.
Candidate and baseline are asked everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import median
from typing import Final

from bot.oracle.roles import Role
from bot.programs.source import SourcedProgram
from bot.targets.lane_events import WorkerCounts

PILOT: Final = 32  # programs that all targets answer before a pace is believed
SLOW: Final = 4.0  # times the median target's seconds a program
SLOW_SECONDS: Final = 0.02  # a program; who is faster than that holds nobody up
QUEUE: Final = 2  # programs that may wait for a slow target
QUEUE_OF_NEW_OPS: Final = 12  # where it has not met the program's op


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
        self._done_before = [_done(c) for c in counts()]
        self._asked = [0] * len(self._done_before)
        self._met: set[tuple[int, str]] = set()
        self._left_out: Counter[int] = Counter()
        self._programs = 0

    def of(self, program: SourcedProgram) -> frozenset[int] | None:
        """The places of the targets to run a program on; None for all."""
        self._programs += 1
        slow = self._slow() if self._programs > PILOT else ()
        left_out = {place for place in slow if not self._has_room(place, program.op)}
        for place in range(len(self._asked)):
            if place not in left_out:
                self._asked[place] += 1
                self._met.add((place, program.op))
        self._left_out.update(left_out)
        return frozenset(range(len(self._asked))) - left_out if left_out else None

    def notes(self, labels: Sequence[str]) -> Iterator[str]:
        """What a report should say: a line for each target that was not asked everything."""
        for place, count in sorted(self._left_out.items()):
            yield (
                f"{labels[place]} takes over {SLOW:g} times as long a program as the median target: "
                f"{self._programs - count:,} of {self._programs:,} programs were run on it"
            )

    def _has_room(self, place: int, op: str) -> bool:
        done = _done(self._counts()[place]) - self._done_before[place]
        room = QUEUE if (place, op) in self._met else QUEUE_OF_NEW_OPS
        return self._asked[place] - done < room

    def _slow(self) -> list[int]:
        counts = self._counts()
        paces = [c.busy_seconds / max(c.answered, 1) for c in counts]
        bound = max(SLOW * median(paces), SLOW_SECONDS)
        return [p for p, pace in enumerate(paces) if pace > bound and p not in self._always]


def _done(counts: WorkerCounts) -> int:
    """Programs that wait for the target no longer: answered, or put off to the end."""
    return counts.answered + counts.deferred
