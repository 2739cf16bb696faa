"""Shares: who runs which program of a run with a budget, worked out by hand."""

from __future__ import annotations

from bot.programs.source import SourcedProgram
from bot.shares import Shares
from bot.targets.lane_events import WorkerCounts


def _counts(*seconds: float) -> list[WorkerCounts]:
    """Targets that have answered 100 programs in so many seconds."""
    return [WorkerCounts(busy_seconds=s, answered=100) for s in seconds]


def _ask(shares: Shares, programs: int) -> list[frozenset[int] | None]:
    return [shares.of(SourcedProgram(b"", f"{number:08x}", "add")) for number in range(programs)]


def test_a_target_of_ten_times_the_bound_runs_the_first_two_and_one_program_in_ten() -> None:
    # The median pace is 0.01 s, so that the bound is 0.04 s; the slow target takes 0.4 s.
    shares = Shares(lambda: _counts(1, 1, 40), always=())
    asked = _ask(shares, 102)
    assert asked[:2] == [None, None]
    assert [n for n, only in enumerate(asked) if only is None] == [0, 1, *range(10, 102, 10)]
    assert all(only == {0, 1} for only in asked if only is not None)
    assert list(shares.notes(["a", "b", "c"])) == [
        "c takes over 4 times as long a program as the median target: 12 of 102 programs were run on it"
    ]


def test_the_candidate_runs_everything_however_slow() -> None:
    shares = Shares(lambda: _counts(1, 1, 40), always=[2])
    assert _ask(shares, 50) == [None] * 50
    assert list(shares.notes(["a", "b", "c"])) == []


def test_targets_of_about_one_pace_run_everything() -> None:
    assert _ask(Shares(lambda: _counts(1, 2, 3.9), always=()), 50) == [None] * 50


def test_no_pace_is_believed_before_it_has_settled() -> None:
    counts = [*_counts(1, 1), WorkerCounts(busy_seconds=60, answered=15)]
    assert _ask(Shares(lambda: counts, always=()), 50) == [None] * 50
