"""Running programs again: what the settling needs of a pool of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol, TypeVar

from bot.oracle.finding import Mismatch
from bot.oracle.tensors import Party
from bot.programs.source import SourcedProgram
from bot.targets.job import Job, JobResult
from bot.targets.outcome import RawOutcome

K = TypeVar("K")
Group = tuple[K, str, Sequence[bytes]] | tuple[K, str, Sequence[bytes], frozenset[int] | None]


class Rerun(Protocol):
    """Runs jobs on the run's targets, results in any order; ``fresh`` in newly started workers. ``Pool.run`` is one."""

    def __call__(self, jobs: Iterable[Job], *, fresh: bool = False) -> Iterable[JobResult]:
        """Run the jobs."""
        ...


@dataclass(frozen=True)
class Case:
    """A program whose outcomes mismatched; ``load`` reads its blob when it is needed."""

    digest: str
    op: str
    mismatches: tuple[Mismatch, ...]
    load: Callable[[], bytes]
    only: frozenset[int] | None = (
        None  # the targets to ask again, by their places: those that were asked before
    )

    def program(self) -> SourcedProgram:
        """The program, read now."""
        return SourcedProgram(self.load(), self.digest, self.op)


class Runner:
    """Gives jobs their ids and brings the outcomes of several programs together."""

    def __init__(self, rerun: Rerun, parties: Sequence[Party]) -> None:
        self._rerun = rerun
        self._ids = count()
        self.parties = tuple(parties)

    def run_groups(
        self, groups: Iterable[Group[K]], *, fresh: bool = False
    ) -> Iterator[tuple[K, list[tuple[RawOutcome, ...]]]]:
        """Run groups of blobs ``(key, op, blobs)``; yields each key when all outcomes of its group are there.

        A group's outcomes are in the order of its blobs, each in the order of the targets. A fourth member says on which
        targets alone to run them, by their places.
        """
        waiting: dict[int, tuple[K, dict[int, int], list[tuple[RawOutcome, ...]]]] = {}

        def jobs() -> Iterator[Job]:
            for key, op, blobs, *rest in groups:
                only = rest[0] if rest else None
                places: dict[int, int] = {}
                made: list[Job] = []
                for place, blob in enumerate(blobs):
                    job = Job(next(self._ids), blob, op, only)
                    places[job.id] = place
                    made.append(job)
                group = (key, places, [()] * len(blobs))
                for job in made:
                    waiting[job.id] = group
                yield from made

        for result in self._rerun(jobs(), fresh=fresh):
            key, places, outcomes = waiting.pop(result.job.id)
            outcomes[places.pop(result.job.id)] = result.outcomes
            if not places:
                yield key, outcomes

    def by_label(self, outcomes: Sequence[RawOutcome]) -> Mapping[str, RawOutcome]:
        """Outcomes by their targets' labels."""
        return {party.label: raw for party, raw in zip(self.parties, outcomes, strict=True)}
