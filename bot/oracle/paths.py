"""The framework's own other paths as witnesses: oneDNN off, another instruction set, another layout, compiled.

None of these may change what an op computes. Of a cause that nothing has settled strongly, the representative runs on
the other paths of every target that takes part, and is compared with what the run's targets make of it. A path that
agrees with another side than its own target's shows that side right: the target's framework computes it both ways, and
differs from itself just where it differs from the others. The target's whole side is wrong, for it has the same result.

It is **strong** where a framework of another make is on the side that the path agrees with, else **weak**. It
**abstains** where no path leaves its target's side, where it refuses (compilers take less than eager code does), where one
agrees with more than one side or with nobody, and where paths of targets on two sides accuse each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bot.oracle.cause import primary
from bot.oracle.compare import Comparator
from bot.oracle.exact import decoded
from bot.oracle.finding import Evidence, Mismatch
from bot.oracle.repeat import DEATHS, Confirmation
from bot.oracle.rerun import Case, Runner
from bot.oracle.witness_targets import WitnessTarget, WitnessTargets
from bot.programs.program import decode
from bot.targets.outcome import RawOutcome

Side = tuple[str, ...]


@dataclass(frozen=True)
class PathsJudgement:
    """What a framework's other path says of a cause, and how much it weighs."""

    line: str
    against: tuple[str, ...]
    strength: Literal["weak", "strong"]

    def as_evidence(self) -> Evidence:
        """The witness's words for a finding."""
        return Evidence("paths", self.line, self.against)


@dataclass(frozen=True)
class _Question:
    """A cause's mismatch with what the run's targets made of its program just now."""

    case: Case
    first: Mismatch
    outcomes: tuple[RawOutcome, ...]


def ask(
    confirmations: Sequence[Confirmation],
    unsettled: Collection[int],
    cases: Mapping[str, Case],
    comparator: Comparator,
    runner: Runner,
    targets: WitnessTargets,
    in_time: Callable[[], bool],
) -> dict[int, PathsJudgement]:
    """What other paths say of the ``unsettled`` causes, by their places. When time is up no further path is started."""
    questions = _questions(confirmations, unsettled, cases, runner, in_time)
    found: dict[int, list[PathsJudgement]] = {}
    asked = {label for question in questions.values() for label in _labels(question.first)}
    labels = [party.label for party in comparator.parties if party.label in asked]
    taking_part = {party.label for party in comparator.parties}
    for label, path in _in_turn(labels, targets, in_time):
        if path.party.label in taking_part:  # what it makes of the program is on a side already
            continue
        with_path = _with(comparator, path)
        own = {n: q for n, q in questions.items() if label in _labels(q.first)}
        alone = Runner(path.rerun, [path.party])
        groups = ((n, q.case.op, (q.case.load(),)) for n, q in own.items() if in_time())
        for number, ((outcome,),) in alone.run_groups(groups):
            judgement = _judge(own[number], label, path, outcome, with_path)
            if judgement is not None:
                found.setdefault(number, []).append(judgement)
    return {number: said[0] for number, said in found.items() if _are_at_one(said)}


def _questions(
    confirmations: Sequence[Confirmation],
    unsettled: Collection[int],
    cases: Mapping[str, Case],
    runner: Runner,
    in_time: Callable[[], bool],
) -> dict[int, _Question]:
    firsts: dict[int, tuple[Case, Mismatch]] = {}
    for number in sorted(unsettled):
        confirmation = confirmations[number]
        case = cases[confirmation.representative.digest]
        first = primary(confirmation.representative.mismatches)
        origin = decode(case.load())[0].origin
        steady = confirmation.repeat == "stable" and first.kind not in DEATHS
        if steady and not (origin.random or origin.uninitialised):
            firsts[number] = case, first
    groups = (
        (number, case.op, (case.load(),), case.only)
        for number, (case, _) in firsts.items()
        if in_time()
    )
    return {
        number: _Question(*firsts[number], outcomes)
        for number, (outcomes,) in runner.run_groups(groups)
    }


def _in_turn(
    labels: Sequence[str], targets: WitnessTargets, in_time: Callable[[], bool]
) -> Iterator[tuple[str, WitnessTarget]]:
    """The first path of every target, then the second of each, and so on, while there is time."""
    waiting = [(label, targets.paths(label)) for label in labels]
    while waiting:
        left: list[tuple[str, Iterator[WitnessTarget]]] = []
        for label, paths in waiting:
            path = next(paths, None) if in_time() else None
            if path is not None:
                left.append((label, paths))
                yield label, path
        waiting = left


def _with(comparator: Comparator, path: WitnessTarget) -> Comparator:
    parties = [*comparator.parties, path.party]
    return Comparator(
        [party.label for party in parties],
        [party.framework for party in parties],
        [party.build for party in parties],
        comparator.conventions,
        compiles=[party.compiles for party in parties],
    )


def _judge(
    question: _Question,
    label: str,
    path: WitnessTarget,
    outcome: RawOutcome,
    comparator: Comparator,
) -> PathsJudgement | None:
    # A path that refuses is no word against a result: compilers take less than eager code does.
    if decoded(outcome).status != "ok":
        return None
    company = _company(question, path, outcome, comparator)
    first = question.first
    homes = [side for side in first.sides if set(side) & company]
    if len(homes) != 1 or label in homes[0]:
        return None
    own: Side = next(side for side in first.sides if label in side)
    frameworks = {party.label: party.framework for party in comparator.parties}
    independent = any(frameworks[other] != frameworks[label] for other in homes[0])
    line = f"{path.party.label} agrees with {', '.join(homes[0])}, and not with {label}"
    return PathsJudgement(line, own, "strong" if independent else "weak")


def _company(
    question: _Question, path: WitnessTarget, outcome: RawOutcome, comparator: Comparator
) -> set[str]:
    """The run's targets that agree with the path at the mismatch's place; nobody where it did not show again."""
    first = question.first
    found = comparator.compare(question.case.program(), (*question.outcomes, outcome)).mismatches
    for mismatch in found:
        if _place(mismatch) == _place(first):
            for side in mismatch.sides:
                if path.party.label in side:
                    return set(side) - {path.party.label}
    return set()


def _place(mismatch: Mismatch) -> tuple[str, str, tuple[int, ...], str]:
    """Where a mismatch is: a tensor's place, or, of exceptions, what kind of one."""
    return mismatch.role, mismatch.name, mismatch.path, "" if mismatch.role else mismatch.kind


def _labels(first: Mismatch) -> set[str]:
    return {label for side in first.sides for label in side}


def _are_at_one(said: Sequence[PathsJudgement]) -> bool:
    return len({judgement.against for judgement in said}) == 1
