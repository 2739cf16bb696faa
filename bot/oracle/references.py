"""References: what NumPy and SciPy make of a cause's program, as a witness that no framework under test has a part in.

A cause's representative runs on the run's targets and on NumPy, as it is and in float64, and all are compared by the
rules for any targets, conventions included. A side that has NumPy with it is right, and those without it are wrong:

- in float64 where the sides differ there too. A difference in float32 alone could be NumPy's own rounding
- by the float64 rule (``float64.py``) with NumPy among the references, where all agree in float64
- as it is for programs that have nothing to widen: integers, bools, float64

NumPy and a framework of another make that agree are two independent witnesses, **strong** unless as many frameworks stand
on a side against them. Of dtypes NumPy says something **weak**: it promotes by rules of its own. So it does alone, where
it passes on an input that is NaN and all others make a number of it (IEEE 754-2019, 6.2.3: an operation on a quiet NaN
delivers one). It **abstains** for gradients, exceptions and random ops, where it lacks the op, and else where it agrees
with nobody or with more than one side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from bot.oracle import float64
from bot.oracle.cause import primary
from bot.oracle.compare import Comparator
from bot.oracle.difference import is_floating, widened
from bot.oracle.exact import decoded
from bot.oracle.finding import Evidence, Mismatch
from bot.oracle.initial import InitialTensors
from bot.oracle.refine import ToFloat64
from bot.oracle.repeat import Confirmation
from bot.oracle.rerun import Case, Group, Runner
from bot.oracle.tensors import TensorRules
from bot.oracle.witness_targets import WitnessTarget, WitnessTargets
from bot.programs.program import decode, digest
from bot.programs.source import SourcedProgram
from bot.targets.outcome import RawOutcome

NUMPY: Final = "numpy"
KINDS: Final = ("value", "nan", "shape", "dtype", "side-effect")

Array = npt.NDArray[Any]
Outcomes = Sequence[RawOutcome]


@dataclass(frozen=True)
class ReferenceJudgement:
    """What NumPy says of a cause, and how much it weighs."""

    line: str
    against: tuple[str, ...]
    strength: Literal["weak", "strong"]

    def as_evidence(self) -> Evidence:
        """The witness's words for a finding."""
        return Evidence("reference", self.line, self.against)


def ask(
    confirmations: Sequence[Confirmation],
    cases: Mapping[str, Case],
    comparator: Comparator,
    runner: Runner,
    to_float64: ToFloat64,
    targets: WitnessTargets,
    in_time: Callable[[], bool],
) -> dict[int, ReferenceJudgement]:
    """What NumPy says, by the place of a cause among the confirmations. Causes left when time is up have no answer."""
    asked = {number: c for number, c in enumerate(confirmations) if _can_be_asked(c, cases)}
    takes_part = NUMPY in {party.framework for party in comparator.parties}
    reference = targets.reference() if asked and not takes_part else None
    if reference is None and not takes_part:
        return {}
    together = _with(comparator, reference)
    programs = {
        number: _programs(cases[c.representative.digest], to_float64) for number, c in asked.items()
    }
    found: dict[int, ReferenceJudgement] = {}
    for number, runs in _run(asked, programs, cases, runner, reference, in_time).items():
        first = primary(asked[number].representative.mismatches)
        judgement = _judge(first, programs[number], runs, together)
        if judgement is not None:
            found[number] = judgement
    return found


def _can_be_asked(confirmation: Confirmation, cases: Mapping[str, Case]) -> bool:
    first = primary(confirmation.representative.mismatches)
    if confirmation.repeat != "stable" or first.kind not in KINDS:
        return False
    if not first.role or first.role == "gradient":
        return False
    origin = decode(cases[confirmation.representative.digest].load())[0].origin
    return not (origin.random or origin.uninitialised)


def _programs(case: Case, to_float64: ToFloat64) -> tuple[SourcedProgram, ...]:
    """The program, and its float64 form where it has one."""
    own = case.program()
    wide = to_float64(own.blob)
    return (own,) if wide is None else (own, SourcedProgram(wide, digest(wide), own.op))


def _with(comparator: Comparator, reference: WitnessTarget | None) -> Comparator:
    parties = [*comparator.parties, *([reference.party] if reference else [])]
    return Comparator(
        [party.label for party in parties],
        [party.framework for party in parties],
        [party.build for party in parties],
        comparator.conventions,
        compiles=[party.compiles for party in parties],
    )


def _run(
    asked: Mapping[int, Confirmation],
    programs: Mapping[int, Sequence[SourcedProgram]],
    cases: Mapping[str, Case],
    runner: Runner,
    reference: WitnessTarget | None,
    in_time: Callable[[], bool],
) -> dict[int, list[tuple[RawOutcome, ...]]]:
    """Each cause's programs on the run's targets and on the reference, which comes last."""

    def groups(with_only: bool) -> Iterator[Group[int]]:
        for number, confirmation in asked.items():
            if not in_time():
                return
            case = cases[confirmation.representative.digest]
            blobs = [program.blob for program in programs[number]]
            yield number, case.op, blobs, case.only if with_only else None

    if reference is None:
        return dict(runner.run_groups(groups(True)))
    alone = Runner(reference.rerun, [reference.party])
    said = {
        number: runs
        for number, runs in alone.run_groups(groups(False))
        if any(decoded(raw).status == "ok" for (raw,) in runs)
    }
    asked = {number: confirmation for number, confirmation in asked.items() if number in said}
    return {
        number: [(*row, own) for row, (own,) in zip(runs, said[number], strict=True)]
        for number, runs in runner.run_groups(groups(True))
    }


def _judge(
    first: Mismatch,
    programs: Sequence[SourcedProgram],
    runs: Sequence[Outcomes],
    comparator: Comparator,
) -> ReferenceJudgement | None:
    frameworks = {party.label: party.framework for party in comparator.parties}
    company = _company(first, comparator, programs[-1], runs[-1])
    if company is None:
        return None
    wide = len(programs) > 1
    against = _others(first, company)
    where = " in float64" if wide else ""
    if not against and wide:
        against = _farther(first, programs[0], runs, comparator)
        where = " in float64, of which the others' results are farther"
    right = [
        label
        for side in first.sides
        for label in side
        if label not in against and frameworks[label] != NUMPY
    ]
    if against and not right and _passes_nan_on(first, programs[0], runs[0], comparator):
        line = "NumPy alone passes on an input that is NaN: the others make a number of it"
        return ReferenceJudgement(line, against, "weak")
    if not against or not right:
        return None
    line = f"NumPy agrees with {', '.join(sorted(right))}{where}"
    return ReferenceJudgement(line, against, _strength(first, right, against, frameworks))


def _passes_nan_on(
    first: Mismatch, program: SourcedProgram, outcomes: Outcomes, comparator: Comparator
) -> bool:
    """Whether at the first element that differs an input is NaN, NumPy's result is, and nobody else's."""
    index = first.difference.first_index if first.difference else None
    if first.kind != "nan" or index is None:
        return False
    parsed, data = decode(program.blob)
    initial = InitialTensors(parsed, data)
    inputs = [initial.array(spec.name) for spec in parsed.inputs() if is_floating(spec.dtype)]
    key = (first.role, first.name, first.path)
    given = {True: list[bool](), False: list[bool]()}
    for party, raw in zip(comparator.parties, outcomes, strict=True):
        outcome = decoded(raw)
        there = [t for t in outcome.tensors if (t.role, t.name, t.path) == key]
        for tensor in there if outcome.status == "ok" else ():
            given[party.framework == NUMPY].append(_is_nan(tensor.array, index))
    return (
        any(array is not None and _is_nan(array, index) for array in inputs)
        and given[True] == [True]
        and bool(given[False])
        and not any(given[False])
    )


def _is_nan(array: Array, index: tuple[int, ...]) -> bool:
    """Whether the element there is NaN; an array of another shape has none there."""
    if len(index) != array.ndim or any(i >= n for i, n in zip(index, array.shape, strict=True)):
        return False
    return array.dtype.kind in "fV" and bool(np.isnan(widened(array[index].reshape(1)))[0])


def _strength(
    first: Mismatch,
    right: Sequence[str],
    against: Sequence[str],
    frameworks: Mapping[str, str],
) -> Literal["weak", "strong"]:
    """Strong where NumPy and the frameworks that agree with it are two, and more than any side against them."""
    friends = {frameworks[label] for label in right}
    most = max(
        len({frameworks[label] for label in side} - friends)
        for side in first.sides
        if set(side) & set(against)
    )
    return "weak" if first.kind == "dtype" or most > len(friends) else "strong"


def _company(
    first: Mismatch, comparator: Comparator, program: SourcedProgram, outcomes: Outcomes
) -> set[str] | None:
    """The targets that agree with NumPy at the mismatch's place, by label; None where NumPy has nothing there."""
    key = (first.role, first.name, first.path)
    having = {
        party.label: party.framework
        for party, raw in zip(comparator.parties, outcomes, strict=True)
        if _has(raw, key)
    }
    own = {label for label, framework in having.items() if framework == NUMPY}
    if not own:
        return None
    for mismatch in comparator.compare(program, outcomes).mismatches:
        if (mismatch.role, mismatch.name, mismatch.path) == key:
            return next((set(side) for side in mismatch.sides if own & set(side)), None)
    return set(having)


def _has(raw: RawOutcome, key: tuple[str, str, tuple[int, ...]]) -> bool:
    outcome = decoded(raw)
    return outcome.status == "ok" and key in outcome.by_key


def _others(first: Mismatch, company: Collection[str]) -> tuple[str, ...]:
    """The sides without anybody in NumPy's company, where exactly one side has some."""
    within = [side for side in first.sides if set(side) & set(company)]
    if len(within) != 1:
        return ()
    return tuple(label for side in first.sides if side not in within for label in side)


def _farther(
    first: Mismatch, program: SourcedProgram, runs: Sequence[Outcomes], comparator: Comparator
) -> tuple[str, ...]:
    """Whom the float64 rule names with NumPy among the references."""
    decoded_program, data = decode(program.blob)
    rules = TensorRules(
        InitialTensors(decoded_program, data), program.digest, program.op, comparator.conventions
    )
    narrow, wide = (
        {party.label: decoded(raw) for party, raw in zip(comparator.parties, run, strict=True)}
        for run in runs
    )
    if not float64.can_be_asked(first):
        return ()
    judgement = float64.judge(first, comparator.parties, narrow, wide, rules)
    return judgement.against if judgement.independent else ()
