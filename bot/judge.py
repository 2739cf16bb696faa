"""Judge: from a run's mismatching programs to findings, with what a report needs to show of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from bot.measure import Measured
from bot.oracle.compare import Comparator
from bot.oracle.counts import Counts, TargetStatus
from bot.oracle.coverage import DIED
from bot.oracle.exact import decoded
from bot.oracle.refine import but_exact
from bot.oracle.rerun import Case
from bot.oracle.settle import Settlement, settle
from bot.oracle.shrink.holds import Shown
from bot.oracle.witness_targets import WitnessTargets
from bot.plan import Role
from bot.programs.program import ProgramError
from bot.programs.transform import with_dtype
from bot.progress import Progress
from bot.report.bundle import FindingBundle, TargetOutcome
from bot.run_directory import Entry, RunDirectory
from bot.targets.job import Job, JobResult
from bot.targets.outcome import NOT_ASKED, Outcome
from bot.targets.pool import Pool

USUAL_SHRINK_SECONDS: Final = 60.0
MOST_SHRINK_SECONDS: Final = 180.0


def judge(
    measured: Measured,
    pool: Pool,
    comparator: Comparator,
    roles: Sequence[Role],
    directory: RunDirectory,
    progress: Progress,
    clock: Callable[[], float],
    shrink_seconds: float,
    others: WitnessTargets,
) -> Settlement:
    """Settle what mismatched: refine, group, shrink, confirm in fresh processes, decide. Raises TargetError.

    The programs that shrinking made are kept in the run directory like those that were measured.
    """

    def rerun(jobs: Iterable[Job], *, fresh: bool = False) -> Iterable[JobResult]:
        if fresh:  # one new process per target for all of them: a process per program costs a start-up each
            pool.renew()
        return pool.run(jobs)

    cases = [_case(entry, directory) for entry in measured.failing]
    to_float64 = but_exact(_to_float64, comparator.conventions)
    settlement = settle(
        cases, comparator, roles, rerun, to_float64, progress.note, clock, shrink_seconds, others
    )
    for shown in settlement.small:
        directory.keep(shown.failing.digest, shown.blob)
    return settlement


def shrink_seconds(budget: float | None) -> float:
    """Seconds for making programs small: a part of what running had, and enough for a few causes in any case."""
    if budget is None:
        return USUAL_SHRINK_SECONDS
    return min(max(30.0, budget / 3), MOST_SHRINK_SECONDS)


def bundles(
    settlement: Settlement,
    measured: Measured,
    pool: Pool,
    comparator: Comparator,
    roles: Sequence[Role],
    directory: RunDirectory,
) -> Iterator[FindingBundle]:
    """Each finding with its program and what every target makes of it, run now: one is in memory at a time."""
    failing = {entry.digest: entry for entry in measured.failing}
    failing |= {shown.failing.digest: _entry(shown) for shown in settlement.small}
    for finding in settlement.findings:
        entry = failing[finding.program]
        blob = _blob(finding.program, directory)
        yield FindingBundle(
            finding,
            blob,
            tuple(
                TargetOutcome(party.label, party.framework, outcome, target.target.device, role)
                for party, outcome, target, role in zip(
                    comparator.parties,
                    _outcomes(blob, entry, pool),
                    pool.targets,
                    roles,
                    strict=True,
                )
            ),
        )


def _entry(shown: Shown) -> Entry:
    failing, comparison = shown.failing, shown.comparison
    deaths = shown.deaths if any(shown.deaths) else ()
    return Entry(
        failing.digest, failing.op, comparison.statuses, Counts(), failing.mismatches, deaths
    )


def _case(entry: Entry, directory: RunDirectory) -> Case:
    asked = {place for place, status in enumerate(entry.statuses) if _was_asked(status)}
    only = None if len(asked) == len(entry.statuses) else frozenset(asked)
    return Case(
        entry.digest, entry.op, entry.mismatches, lambda: _blob(entry.digest, directory), only
    )


def _was_asked(status: TargetStatus) -> bool:
    return not status.reason.endswith(NOT_ASKED)


def _blob(digest: str, directory: RunDirectory) -> bytes:
    blob = directory.failing_blob(digest)
    if blob is None:
        raise ProgramError(f"{directory.path}/failing has lost the program {digest}: run it anew")
    return blob


def _to_float64(blob: bytes) -> bytes | None:
    try:
        wide = with_dtype(blob, "float64")
    except ProgramError:
        return None
    return None if wide == blob else wide


def _outcomes(blob: bytes, entry: Entry, pool: Pool) -> list[Outcome]:
    """What the targets make of a program; where one died, the death on record: no program dies again for a report."""
    died = {
        place: Outcome(status.status, death=entry.deaths[place])
        for place, status in enumerate(entry.statuses)
        if entry.deaths and entry.deaths[place] is not None and status.status in DIED
    }
    asked = {place for place, status in enumerate(entry.statuses) if _was_asked(status)}
    alive = frozenset(asked - died.keys())
    (result,) = pool.run([Job(0, blob, entry.op, alive)])
    return [died.get(place) or decoded(raw) for place, raw in enumerate(result.outcomes)]
