"""Shares: who runs which program of a run with a budget, worked out by hand."""

from __future__ import annotations

from collections.abc import Collection

from bot.programs.source import SourcedProgram
from bot.shares import PILOT, QUEUE, QUEUE_OF_NEW_OPS, Shares
from bot.targets.lane_events import WorkerCounts


class _Pool:
    """Three targets; the third takes 0.5 s a program, the others 0.01."""

    def __init__(self, always: Collection[int] = (), slow_seconds: float = 0.5) -> None:
        self.counts = [WorkerCounts(), WorkerCounts(), WorkerCounts()]
        self._pace = [0.01, 0.01, slow_seconds]
        self.shares = Shares(lambda: self.counts, always)

    def answer(self, place: int, programs: int) -> None:
        self.counts[place].answered += programs
        self.counts[place].busy_seconds += programs * self._pace[place]

    def ask(self, programs: int, op: str = "add") -> list[frozenset[int] | None]:
        return [self.shares.of(SourcedProgram(b"", "", op)) for _ in range(programs)]

    def pilot(self) -> None:
        assert self.ask(PILOT) == [None] * PILOT
        for place in range(3):
            self.answer(place, PILOT)


FAST = frozenset([0, 1])


def test_a_slow_target_is_asked_what_it_can_answer() -> None:
    pool = _Pool()
    pool.pilot()
    assert pool.ask(5) == [None] * QUEUE + [FAST] * (5 - QUEUE)
    pool.answer(2, 1)
    assert pool.ask(2) == [None, FAST]
    assert list(pool.shares.notes(["a", "b", "c"])) == [
        "c takes over 4 times as long a program as the median target: 35 of 39 programs were run on it"
    ]


def test_an_op_that_it_has_not_met_may_wait_in_a_longer_queue() -> None:
    pool = _Pool()
    pool.pilot()
    pool.ask(QUEUE)
    asked = [pool.ask(1, f"op{n}")[0] for n in range(QUEUE_OF_NEW_OPS)]
    assert asked == [None] * (QUEUE_OF_NEW_OPS - QUEUE) + [FAST] * QUEUE


def test_the_candidate_runs_everything_however_slow() -> None:
    pool = _Pool(always=[2])
    pool.pilot()
    assert pool.ask(50) == [None] * 50
    assert list(pool.shares.notes(["a", "b", "c"])) == []


def test_targets_of_about_one_pace_run_everything() -> None:
    pool = _Pool(slow_seconds=0.039)
    pool.pilot()
    assert pool.ask(50) == [None] * 50
