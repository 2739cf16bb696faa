"""Judge: from a run's mismatching programs to findings, with what a report needs to show of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bot.measure import Measured
from bot.oracle.compare import Comparator
from bot.oracle.coverage import DIED
from bot.oracle.exact import decoded
from bot.oracle.finding import Finding
from bot.oracle.rerun import Case
from bot.oracle.settle import Settlement, settle
from bot.plan import Role
from bot.programs.program import ProgramError
from bot.programs.transform import with_dtype
from bot.progress import Progress
from bot.report.bundle import FindingBundle, TargetOutcome
from bot.run_directory import Entry, RunDirectory
from bot.targets.job import Job, JobResult
from bot.targets.outcome import Outcome
from bot.targets.pool import Pool


@dataclass(frozen=True)
class Judged:
    """The findings with their programs and outcomes, and how many mismatches turned out to be rounding."""

    bundles: tuple[FindingBundle, ...]
    settlement: Settlement


def judge(
    measured: Measured,
    pool: Pool,
    comparator: Comparator,
    roles: Sequence[Role],
    directory: RunDirectory,
    progress: Progress,
) -> Judged:
    """Settle what mismatched: refine, group, confirm in fresh processes, decide. Raises TargetError."""

    def rerun(jobs: Iterable[Job], *, fresh: bool = False) -> Iterable[JobResult]:
        if fresh:  # one new process per target for all of them: a process per program costs a start-up each
            pool.renew()
        return pool.run(jobs)

    failing = {entry.digest: entry for entry in measured.failing}
    cases = [_case(entry, directory) for entry in failing.values()]
    settlement = settle(
        cases, comparator, roles, rerun, _to_float64, progress=lambda text: progress.note(text)
    )
    outcomes = _outcomes(settlement.findings, failing, pool, comparator, directory)
    return Judged(
        tuple(
            FindingBundle(finding, _blob(finding.program, directory), targets)
            for finding, targets in (
                (finding, _target_outcomes(outcomes[finding.program], comparator, roles, pool))
                for finding in settlement.findings
            )
        ),
        settlement,
    )


def _case(entry: Entry, directory: RunDirectory) -> Case:
    return Case(entry.digest, entry.op, entry.mismatches, lambda: _blob(entry.digest, directory))


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


def _outcomes(
    findings: Sequence[Finding],
    failing: Mapping[str, Entry],
    pool: Pool,
    comparator: Comparator,
    directory: RunDirectory,
) -> dict[str, list[Outcome]]:
    """What every target made of each finding's program. Where it died, the death on record: no program dies again."""
    programs = {finding.program: failing[finding.program] for finding in findings}
    found: dict[str, list[Outcome]] = {
        digest: [_recorded_death(entry, index) for index in range(len(comparator.parties))]
        for digest, entry in programs.items()
    }
    for index in range(len(comparator.parties)):
        alive = [digest for digest in programs if found[digest][index].death is None]
        jobs = [
            Job(number, _blob(digest, directory), programs[digest].op)
            for number, digest in enumerate(alive)
        ]
        for result in pool.only(index).run(jobs):
            found[alive[result.job.id]][index] = decoded(result.outcomes[0])
    return found


def _recorded_death(entry: Entry, index: int) -> Outcome:
    status = entry.statuses[index].status
    death = entry.deaths[index] if entry.deaths else None
    return Outcome(status if status in DIED else "ok", death=death)


def _target_outcomes(
    outcomes: Sequence[Outcome], comparator: Comparator, roles: Sequence[Role], pool: Pool
) -> tuple[TargetOutcome, ...]:
    return tuple(
        TargetOutcome(party.label, party.framework, outcome, target.target.device, role)
        for party, outcome, target, role in zip(
            comparator.parties, outcomes, pool.targets, roles, strict=True
        )
    )
