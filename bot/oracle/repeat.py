"""Repetition: is a cause's program wrong again, on the same workers and on freshly started ones?

For each cause its smallest programs are tried in turn, up to :data:`ATTEMPTS`: the first that shows the cause in both
runs represents it. A target whose two runs of one program differ from each other, by the rules for two runs of one
build, is *unstable*. Deaths are not repeated here: the pool has confirmed each, alone in a fresh worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bot.oracle.cause import Cause, CauseKey, FailingProgram, by_sides, cause_key
from bot.oracle.compare import Comparator, Comparison
from bot.oracle.finding import Evidence, Kind
from bot.oracle.rerun import Case, Runner
from bot.oracle.verdict import Repeat
from bot.programs.program import decode
from bot.programs.source import SourcedProgram
from bot.targets.outcome import RawOutcome

ATTEMPTS: Final = 3
DEATHS: Final[tuple[Kind, ...]] = ("crash", "hang", "memory")


@dataclass(frozen=True)
class Confirmation:
    """What came of repeating a cause: the program that represents it, and how steady it is."""

    cause: Cause
    representative: FailingProgram
    repeat: Repeat
    unstable: tuple[str, ...]
    evidence: Evidence | None


@dataclass
class _Trial:
    program: SourcedProgram
    runs: list[tuple[RawOutcome, ...]]


def confirm(
    causes: Sequence[Cause], cases: dict[str, Case], comparator: Comparator, runner: Runner
) -> list[Confirmation]:
    """Repeat every cause's smallest programs; in the order of the causes. ``cases`` are by digest."""
    done: dict[int, Confirmation] = {}
    unrepeated: dict[int, Confirmation] = {}
    for index, cause in enumerate(causes):
        if cause.key.kind in DEATHS:
            done[index] = Confirmation(cause, cause.programs[0], "stable", (), None)
    for attempt in range(ATTEMPTS):
        tried = {
            index: cause.programs[attempt]
            for index, cause in enumerate(causes)
            if index not in done and attempt < len(cause.programs)
        }
        if not tried:
            break
        trials = _run_twice(tried, cases, runner)
        for index, program in tried.items():
            confirmation = _judge(causes[index], program, trials[index], comparator)
            if confirmation.repeat == "unrepeated":
                unrepeated.setdefault(index, confirmation)
            else:
                done[index] = confirmation
    return [done.get(i) or unrepeated[i] for i in range(len(causes))]


def _run_twice(
    programs: dict[int, FailingProgram], cases: dict[str, Case], runner: Runner
) -> dict[int, _Trial]:
    """Each program once on the workers there are, and once on fresh ones."""
    trials = {
        index: _Trial(cases[program.digest].program(), []) for index, program in programs.items()
    }

    def groups() -> Iterator[tuple[int, str, Sequence[bytes]]]:
        for index, trial in trials.items():
            yield index, trial.program.op, (trial.program.blob,)

    for fresh in (False, True):
        for index, outcomes in runner.run_groups(groups(), fresh=fresh):
            trials[index].runs.append(outcomes[0])
    return trials


def _judge(
    cause: Cause, program: FailingProgram, trial: _Trial, comparator: Comparator
) -> Confirmation:
    seen = [shows(cause.key, program, comparator.compare(trial.program, run)) for run in trial.runs]
    unstable = unstable_targets(trial.program, trial.runs, comparator)
    repeat: Repeat = (
        "stable" if all(seen) else "unstable" if unstable or any(seen) else "unrepeated"
    )
    if all(seen) and unstable:
        repeat = "unstable"
    if repeat == "stable":
        says = "the same again on the same workers and in a fresh process"
    elif unstable:
        says = "two runs of the same program differ on " + ", ".join(unstable)
    elif any(seen):
        says = "seen in one of two further runs"
    else:
        says = "not seen again in two further runs"
    return Confirmation(cause, program, repeat, unstable, Evidence("repeat", says, unstable))


def shows(key: CauseKey, program: FailingProgram, comparison: Comparison) -> bool:
    """Whether a comparison of the program shows the cause."""
    return any(
        cause_key(program.op, program.facts, mismatches) == key
        for mismatches in by_sides(comparison.mismatches)
    )


def unstable_targets(
    program: SourcedProgram, runs: Sequence[Sequence[RawOutcome]], comparator: Comparator
) -> tuple[str, ...]:
    """The targets whose runs of one program differ from each other, beyond the op's known nondeterminism."""
    allowed = decode(program.blob)[0].origin.nondeterminism_tolerance
    unstable: list[str] = []
    for index, party in enumerate(comparator.parties):
        labels = [f"run {number}" for number in range(1, len(runs) + 1)]
        itself = Comparator(
            labels,
            [party.framework] * len(runs),
            [party.build] * len(runs),
            comparator.conventions,
        )
        found = itself.compare(program, [run[index] for run in runs]).mismatches
        differing = [
            m
            for m in found
            if m.kind not in DEATHS
            and (
                m.difference is None
                or m.difference.largest_absolute is None
                or m.kind == "nan"
                or m.difference.largest_absolute > allowed
            )
        ]
        if differing:
            unstable.append(party.label)
    return tuple(unstable)
