"""Measuring: every program once, written down before the next, until the deadline; then on from where it ended."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bot.errors import InterruptedRunError
from bot.measure import Measured, Measurement
from bot.oracle.compare import Comparison
from bot.oracle.counts import Counts, TargetStatus
from bot.oracle.finding import Mismatch
from bot.plan import Plan, PlannedTarget
from bot.programs.source import SourcedProgram
from bot.progress import Progress
from bot.run_directory import RunDirectory
from bot.targets.job import Job, JobResult
from bot.targets.outcome import Death, RawOutcome, dead

PLAN = Plan(command="run", targets=(PlannedTarget(spec="a:cpu"), PlannedTarget(spec="b:cpu")))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class StandInPool:
    """Answers jobs ``window`` at a time, the last taken first; each costs a second of the clock."""

    def __init__(self, clock: Clock, window: int = 1, dies_after: int | None = None) -> None:
        self.clock = clock
        self.window = window
        self.dies_after = dies_after
        self.ran: list[str] = []
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def run(self, jobs: Iterable[Job]) -> Iterator[JobResult]:
        taken: list[Job] = []
        numbers: set[int] = set()
        for job in jobs:
            assert job.id not in numbers  # a pool refuses an id that is given twice
            numbers.add(job.id)
            taken.append(job)
            if len(taken) == self.window:
                yield from self._answer(taken)
        yield from self._answer(taken)

    def _answer(self, taken: list[Job]) -> Iterator[JobResult]:
        while taken and not self.stopped:
            job = taken.pop()
            if self.dies_after == len(self.ran):
                raise KeyboardInterrupt
            self.ran.append(job.blob.decode())
            self.clock.now += 1
            right = RawOutcome(b"{}", b"")
            wrong = (
                dead("crash", Death("SIGFPE", "words", True)) if job.blob[:4] == b"dies" else right
            )
            yield JobResult(job, (wrong, right))


class StandInComparator:
    """Programs whose name begins with ``bad`` or ``dies`` mismatch."""

    def compare(self, program: SourcedProgram, outcomes: Sequence[RawOutcome]) -> Comparison:
        found: tuple[Mismatch, ...] = ()
        status = "ok"
        if program.digest.startswith(("bad", "dies")):
            status = "crash" if outcomes[0].death else "ok"
            kind: Any = "crash" if outcomes[0].death else "value"
            found = (Mismatch(program.digest, kind, "", "", (), (("a",), ("b",)), ()),)
        skipped = ("an exception on both sides",) if program.digest.startswith("skip") else ()
        counts = Counts(compared=1 - len(skipped), outputs=2, gradients=1, skipped=skipped)
        return Comparison(found, counts, (TargetStatus(status), TargetStatus("ok")))  # type: ignore[arg-type]


def programs(*names: str) -> list[SourcedProgram]:
    return [SourcedProgram(name.encode(), name, "add") for name in names]


def measure(
    folder: Path,
    offered: Iterable[SourcedProgram],
    *,
    deadline: float | None = None,
    resume: bool = False,
    **pool_options: Any,
) -> tuple[Measured, StandInPool, str]:
    clock = Clock()
    pool = StandInPool(clock, **pool_options)
    out = io.StringIO()
    progress = Progress(Console(file=out, width=200), clock=clock)
    open_directory = RunDirectory.resume(folder) if resume else RunDirectory.create(folder, PLAN)
    measured = Measured()
    with open_directory as directory:
        for entry in directory.entries():
            measured.add(entry)
        measurement = Measurement(pool, StandInComparator(), directory, progress, clock)  # type: ignore[arg-type]
        measurement.run(offered, measured, deadline)
    return measured, pool, out.getvalue()


def journal(folder: Path) -> list[str]:
    with RunDirectory.resume(folder) as directory:
        return [entry.digest for entry in directory.entries()]


@pytest.mark.parametrize("window", [1, 3, 100])
def test_every_program_is_run_and_written_down_once(tmp_path: Path, window: int) -> None:
    names = ["p1", "p2", "p1", "bad3", "p2", "bad3", "p4"]
    measured, pool, _ = measure(tmp_path, programs(*names), window=window)
    assert sorted(pool.ran) == ["bad3", "p1", "p2", "p4"]
    assert [entry.digest for entry in measured.entries] == pool.ran == journal(tmp_path)
    assert [entry.digest for entry in measured.failing] == ["bad3"]
    assert measured.compared == {"compared": 4, "outputs": 8, "gradients": 4}
    assert not measured.out_of_time


def test_what_was_not_compared_is_counted_by_reason(tmp_path: Path) -> None:
    measured, _, _ = measure(tmp_path, programs("p1", "skip2", "skip3"))
    assert measured.not_compared == {"an exception on both sides": 2}
    assert measured.compared["compared"] == 1


def test_a_death_is_on_record_with_its_blob(tmp_path: Path) -> None:
    measured, _, said = measure(tmp_path, programs("p1", "dies2"))
    (failing,) = measured.failing
    assert failing.deaths == (Death("SIGFPE", "words", True), None)
    assert measured.entries[0].deaths == ()
    with RunDirectory.resume(tmp_path) as directory:
        assert directory.failing_blob("dies2") == b"dies2"
        assert list(directory.entries())[1] == failing
    assert said.splitlines()[-1] == "   2 programs, 1/s, 1 mismatching, 1 death, at add"


def test_no_program_is_begun_after_the_deadline(tmp_path: Path) -> None:
    offered = iter(programs("p1", "p2", "p3", "p4", "p5"))
    measured, pool, _ = measure(tmp_path, offered, deadline=2.0)
    assert pool.ran == ["p1", "p2"]
    assert measured.out_of_time
    assert len(list(offered)) == 2  # nothing more was even made, but for the one that came too late


def test_a_run_is_whole_when_only_extra_programs_are_left(tmp_path: Path) -> None:
    extra = [replace(program, extra=True) for program in programs("p2", "p3", "p4")]
    measured, pool, _ = measure(tmp_path, [*programs("p1"), *extra], deadline=2.0)
    assert pool.ran == ["p1", "p2"]
    assert not measured.out_of_time


def test_what_was_begun_before_the_deadline_is_kept(tmp_path: Path) -> None:
    measured, pool, _ = measure(tmp_path, programs("p1", "p2", "p3"), deadline=2.0, window=3)
    assert len(measured.entries) == len(pool.ran) == 3
    assert not measured.out_of_time


def test_what_is_under_way_may_overrun_the_deadline_a_little(tmp_path: Path) -> None:
    """At a second each, programs taken before the deadline at 2 s have until 12 s; the rest is run when resumed."""
    names = [f"p{number}" for number in range(30)]
    measured, pool, _ = measure(tmp_path, programs(*names), deadline=2.0, window=30)
    assert len(pool.ran) == len(measured.entries) == 12
    assert measured.out_of_time
    resumed, rest, _ = measure(tmp_path, programs(*names), resume=True)
    assert sorted(pool.ran + rest.ran) == sorted(names)
    assert not resumed.out_of_time


def test_a_deadline_that_nothing_is_left_for_is_no_shortfall(tmp_path: Path) -> None:
    measure(tmp_path, programs("p1", "p2"))
    measured, pool, _ = measure(tmp_path, programs("p1", "p2"), deadline=0.0, resume=True)
    assert pool.ran == []
    assert not measured.out_of_time


@pytest.mark.parametrize("after", range(5))
def test_an_interrupted_run_goes_on_and_ends_the_same(tmp_path: Path, after: int) -> None:
    names = ["p1", "bad2", "p3", "dies4", "p1", "skip5"]
    whole, pool, _ = measure(tmp_path / "whole", programs(*names))
    with pytest.raises(InterruptedRunError, match="go on with opdiff run --resume"):
        measure(tmp_path / "cut", programs(*names), dies_after=after)
    before = journal(tmp_path / "cut")
    assert before == pool.ran[:after]
    resumed, rest, said = measure(tmp_path / "cut", programs(*names), resume=True)
    assert rest.ran == pool.ran[after:]
    assert resumed == whole
    assert "5 programs" in said.splitlines()[-1]


def test_programs_are_taken_as_they_are_needed(tmp_path: Path) -> None:
    """Nothing reads all programs before the first has run: there can be hundreds of thousands."""
    made: list[str] = []

    def lazily() -> Iterator[SourcedProgram]:
        for program in programs("p1", "p2", "p3"):
            assert len(made) - len(journal_lines(tmp_path)) <= 1
            made.append(program.digest)
            yield program

    measure(tmp_path, lazily())
    assert made == ["p1", "p2", "p3"]


def journal_lines(folder: Path) -> list[bytes]:
    return (folder / "journal.jsonl").read_bytes().splitlines()
