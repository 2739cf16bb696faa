"""Measure: run programs on every target, compare what comes back, and write it down at once.

programs -> jobs -> pool -> comparison -> journal. Nothing here judges; that is the oracle's, afterwards.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from bot.oracle.compare import Comparator
from bot.oracle.coverage import DIED
from bot.oracle.exact import decoded
from bot.programs.draft import with_written_gradients
from bot.programs.program import digest
from bot.programs.source import SourcedProgram
from bot.progress import Progress, RunProgress
from bot.run_directory import Entry, RunDirectory
from bot.shares import PILOT, Shares
from bot.targets.job import Job
from bot.targets.outcome import RawOutcome
from bot.targets.pool import Pool

OVERRUN_SECONDS: Final = 10.0  # for what is under way when the budget ends


@dataclass
class Measured:
    """What a run has measured so far. ``entries`` has one entry per program, in the order measured."""

    compared: Counter[str] = field(default_factory=Counter[str])  # programs, outputs, gradients...
    not_compared: Counter[str] = field(default_factory=Counter[str])  # reason -> programs
    entries: list[Entry] = field(default_factory=list[Entry])
    done: set[str] = field(default_factory=set[str])
    out_of_time: bool = False

    def add(self, entry: Entry) -> None:
        """Count one program in; one that was counted before is ignored."""
        if entry.digest in self.done:
            return
        self.done.add(entry.digest)
        self.entries.append(entry)
        self.compared.update(entry.counts.by_name)
        self.not_compared.update(entry.counts.not_compared)

    @property
    def failing(self) -> list[Entry]:
        """The entries with mismatches."""
        return [entry for entry in self.entries if entry.mismatches]


@dataclass
class Measurement:
    """Runs programs through a pool and keeps what comes of them, in memory and in the run directory."""

    pool: Pool
    comparator: Comparator
    directory: RunDirectory
    progress: Progress
    clock: Callable[[], float] = time.monotonic
    shares: Shares | None = None  # None: every program goes to every target
    told: Callable[[SourcedProgram, Entry], None] | None = None  # told what came of each program

    def run(
        self, programs: Iterable[SourcedProgram], measured: Measured, deadline: float | None
    ) -> None:
        """Measure every program that ``measured`` does not hold yet, until the deadline (on this clock, seconds).

        After the deadline no program is taken, and those under way have :data:`OVERRUN_SECONDS` to end: a target that
        dies on them puts hundreds off to the end, each of which costs it a start. ``measured.out_of_time`` says so.
        """
        shown = RunProgress(started=self.clock(), done=len(measured.done))
        sent: dict[int, SourcedProgram] = {}
        jobs = self._jobs(programs, measured, deadline, sent)
        results = self.pool.run(jobs)
        if self.shares is not None:  # all have answered the first few before any may be passed by
            results = chain(self.pool.run(islice(jobs, PILOT)), results)
        for result in results:
            program = sent.pop(result.job.id)
            sent_as = program
            comparison = self.comparator.compare(program, result.outcomes)
            if comparison.mismatches:
                written = _with_written_gradients(program, result.outcomes)
                if written.digest != program.digest:  # what is kept says all of itself
                    measured.done.add(program.digest)
                    program = written
                    comparison = self.comparator.compare(program, result.outcomes)
            deaths = tuple(outcome.death for outcome in result.outcomes)
            entry = Entry(
                program.digest,
                program.op,
                comparison.statuses,
                comparison.counts,
                comparison.mismatches,
                deaths if any(deaths) else (),
            )
            self.directory.record(entry, program.blob)
            measured.add(entry)
            if self.told is not None:
                self.told(sent_as, entry)
            shown.done += 1
            shown.op = program.op
            shown.mismatching += bool(entry.mismatches)
            shown.deaths += sum(status.status in DIED for status in entry.statuses)
            self.progress.update(shown)
            if deadline is not None and sent and self.clock() >= deadline + OVERRUN_SECONDS:
                measured.out_of_time = not all(program.extra for program in sent.values())
                self.pool.stop()
        self.progress.finish(shown)

    def _jobs(
        self,
        programs: Iterable[SourcedProgram],
        measured: Measured,
        deadline: float | None,
        sent: dict[int, SourcedProgram],
    ) -> Iterator[Job]:
        seen = set(measured.done)
        for number, program in enumerate(programs):
            if program.digest in seen:
                continue
            if deadline is not None and self.clock() >= deadline:
                measured.out_of_time = measured.out_of_time or not program.extra
                return
            seen.add(program.digest)
            sent[number] = program
            only = None if self.shares is None else self.shares.of(program)
            yield Job(number, program.blob, program.group or program.op, only)


def _with_written_gradients(
    program: SourcedProgram, outcomes: Sequence[RawOutcome]
) -> SourcedProgram:
    """A program with the output gradients written down that workers generated, for the outputs of the first that has any."""
    for raw in outcomes:
        outcome = decoded(raw)
        shapes = {
            (tensor.name, tensor.path): (tensor.dtype, tensor.array.shape)
            for tensor in outcome.tensors
            if tensor.role in ("output", "intermediate")
        }
        if shapes and outcome.status == "ok":
            blob = with_written_gradients(program.blob, shapes)
            return (
                program if blob is program.blob else SourcedProgram(blob, digest(blob), program.op)
            )
    return program
