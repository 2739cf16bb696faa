"""Repetition: is a cause's program wrong again, on the same workers and on freshly started ones?

For each cause its smallest programs are tried in turn, up to :data:`ATTEMPTS`: the first that shows the cause in both
runs, with every target the same in both, represents it; else the steadiest of them. A target whose two runs of one program differ from each other, by the rules for two runs of one
build, is *unstable*. Deaths are not repeated here: the pool has run each again, alone in a fresh worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bot.oracle.cause import Cause, CauseKey, FailingProgram, by_sides, cause_key, primary
from bot.oracle.compare import Comparator, Comparison
from bot.oracle.difference import exact_text
from bot.oracle.exact import decoded
from bot.oracle.finding import Evidence, Kind, Mismatch, Observation
from bot.oracle.observe import dead_targets, is_confirmed
from bot.oracle.rerun import Case, Group, Runner
from bot.oracle.tensors import same_value
from bot.oracle.tolerance import bound_for
from bot.oracle.verdict import Repeat
from bot.programs.program import decode
from bot.programs.source import SourcedProgram
from bot.targets.outcome import Outcome, RawOutcome

ATTEMPTS: Final = 3
REPEATS: Final = 2  # on the workers there are, and on fresh ones
_STEADINESS: Final[dict[Repeat, int]] = {"stable": 0, "unstable": 1, "unrepeated": 2}
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
    best: dict[int, Confirmation] = {}
    for index, cause in enumerate(causes):
        if cause.key.kind in DEATHS:
            best[index] = _of_a_death(cause)
    for attempt in range(ATTEMPTS):
        tried = {
            index: cause.programs[attempt]
            for index, cause in enumerate(causes)
            if attempt < len(cause.programs)
            and cause.key.kind not in DEATHS
            and (index not in best or best[index].repeat != "stable")
        }
        if not tried:
            break
        trials = _run_twice(tried, cases, runner)
        for index, program in tried.items():
            confirmation = _judge(causes[index], program, trials[index], comparator)
            if (
                index not in best
                or _STEADINESS[confirmation.repeat] < _STEADINESS[best[index].repeat]
            ):
                best[index] = confirmation
    return [best[index] for index in range(len(causes))]


def _of_a_death(cause: Cause) -> Confirmation:
    """The smallest program on which the death was confirmed; else the smallest one, and it was seen once."""
    for program in cause.programs:
        if is_confirmed(primary(program.mismatches)):
            return Confirmation(cause, program, "stable", (), None)
    program = cause.programs[0]
    dead = dead_targets(primary(program.mismatches))
    evidence = Evidence("repeat", "the program ran again, alone, and did not end so", dead)
    return Confirmation(cause, program, "unrepeated", (), evidence)


def _run_twice(
    programs: dict[int, FailingProgram], cases: dict[str, Case], runner: Runner
) -> dict[int, _Trial]:
    """Each program once on the workers there are, and once on fresh ones."""
    trials = {
        index: _Trial(cases[program.digest].program(), []) for index, program in programs.items()
    }

    def groups() -> Iterator[Group[int]]:
        for index, trial in trials.items():
            only = cases[programs[index].digest].only
            yield index, trial.program.op, (trial.program.blob,), only

    for fresh in (False, True):
        for index, outcomes in runner.run_groups(groups(), fresh=fresh):
            trials[index].runs.append(outcomes[0])
    return trials


def _judge(
    cause: Cause, program: FailingProgram, trial: _Trial, comparator: Comparator
) -> Confirmation:
    if len(trial.runs) < REPEATS:
        evidence = Evidence("repeat", "it could not be run again")
        return Confirmation(cause, program, "unrepeated", (), evidence)
    seen = [shows(cause.key, program, comparator.compare(trial.program, run)) for run in trial.runs]
    involved = {label for side in primary(program.mismatches).sides for label in side}
    unstable = tuple(
        label
        for label in unstable_targets(trial.program, trial.runs, comparator)
        if label in involved
    )
    if unstable:
        repeat: Repeat = "unstable"
        says = "two runs of the same program differ on " + ", ".join(unstable)
    elif all(seen):
        repeat = "stable"
        says = "the same again on the same workers and in a fresh process"
    else:
        repeat = "unrepeated"
        unstable = changed_targets(primary(program.mismatches), trial.runs, comparator)
        says = f"seen in {sum(seen)} of {len(seen)} further runs"
        if unstable:
            says += "; what changed is the result of " + ", ".join(unstable)
    return Confirmation(cause, program, repeat, unstable, Evidence("repeat", says, unstable))


def shows(key: CauseKey, program: FailingProgram, comparison: Comparison) -> bool:
    """Whether a comparison of the program shows the cause."""
    return any(
        cause_key(program.op, program.facts, mismatches) == key
        for mismatches in by_sides(comparison.mismatches)
    )


def changed_targets(
    mismatch: Mismatch, runs: Sequence[Sequence[RawOutcome]], comparator: Comparator
) -> tuple[str, ...]:
    """The targets that no longer say what was written down of them when the mismatch was first seen.

    Of a tensor that is the first differing element, out of the dtype's base tolerance; of an exception whether there was one.
    """
    then = {observation.target: observation for observation in mismatch.observations}
    return tuple(
        party.label
        for index, party in enumerate(comparator.parties)
        if party.label in then
        and any(_changed(mismatch, then[party.label], decoded(run[index])) for run in runs)
    )


def _changed(mismatch: Mismatch, then: Observation, now: Outcome) -> bool:
    if not mismatch.role:
        return (now.status == "exception") != (then.happened or "").startswith("raised")
    tensor = now.by_key.get((mismatch.role, mismatch.name, mismatch.path))  # type: ignore[arg-type]
    index = mismatch.difference.first_index if mismatch.difference else None
    if tensor is None or index is None or then.value is None or then.shape != tensor.array.shape:
        return tensor is not None and then.shape is not None and then.shape != tensor.array.shape
    text = exact_text(tensor.array[index], tensor.dtype)
    try:
        before, after = float(then.value), float(text)
    except ValueError:  # a complex number, a bool
        return text != then.value
    return not same_value(before, after, bound_for(tensor.dtype))


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
            if len(m.sides) > 1  # dying both times, alike, is not unsteady
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
