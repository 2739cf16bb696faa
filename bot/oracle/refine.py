"""Refinement: mismatching programs before the float64 witness, so that rounding is dismissed before grouping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bot.oracle import conditioning, float64
from bot.oracle.compare import Comparator
from bot.oracle.conventions import Conventions
from bot.oracle.exact import decoded
from bot.oracle.finding import Evidence, Mismatch
from bot.oracle.float64 import Float64Judgement
from bot.oracle.initial import InitialTensors
from bot.oracle.rerun import Case, Group, Runner
from bot.oracle.tensors import TensorRules
from bot.oracle.tolerance import base_dtype
from bot.programs.program import ProgramError, decode
from bot.programs.transform import with_dtype
from bot.targets.outcome import RawOutcome

ToFloat64 = Callable[[bytes], bytes | None]
"""A program's blob with float64 in place of its floating dtypes, or None when it has none to replace."""


def as_float64(blob: bytes) -> bytes | None:
    """The program in float64, by :func:`bot.programs.transform.with_dtype`; None where that changes or can do nothing."""
    try:
        wide = with_dtype(blob, "float64")
    except ProgramError:
        return None
    return None if wide == blob else wide


def but_exact(to_float64: ToFloat64, conventions: Conventions) -> ToFloat64:
    """``to_float64``, but None for programs whose result in float64 is another number by definition."""

    def to_wide(blob: bytes) -> bytes | None:
        return None if conventions.is_exact(decode(blob)[0]) else to_float64(blob)

    return to_wide


@dataclass(frozen=True)
class Refined:
    """A case with the mismatches that stand, and what the witness said of each."""

    case: Case
    standing: tuple[Mismatch, ...]
    judgements: dict[Mismatch, Float64Judgement] = field(
        default_factory=dict[Mismatch, Float64Judgement]
    )

    @property
    def dismissed(self) -> int:
        """How many mismatches were rounding."""
        return len(self.case.mismatches) - len(self.standing)


def refine(
    cases: Sequence[Case],
    comparator: Comparator,
    runner: Runner,
    to_float64: ToFloat64 = as_float64,
) -> list[Refined]:
    """Put every mismatch of narrow floating values before the witness; the result is in the order of the cases."""
    asked = {
        index: [m for m in case.mismatches if float64.can_be_asked(m)]
        for index, case in enumerate(cases)
    }
    refined = {
        index: Refined(case, case.mismatches)
        for index, case in enumerate(cases)
        if not asked[index]
    }

    def groups() -> Iterator[Group[int]]:
        for index, questions in asked.items():
            if not questions:
                continue
            blob = cases[index].load()
            wide = to_float64(blob)
            if wide is None:
                refined[index] = Refined(cases[index], cases[index].mismatches)
                continue
            yield index, cases[index].op, (blob, wide), cases[index].only

    for index, (narrow, wide) in runner.run_groups(groups()):
        refined[index] = _judged(cases[index], asked[index], narrow, wide, (), comparator, runner)
    _refine_by_conditioning(refined, cases, asked, comparator, runner, to_float64)
    # A pool that was stopped gives fewer results; what it did not judge stands.
    return [refined.get(index, Refined(case, case.mismatches)) for index, case in enumerate(cases)]


def _refine_by_conditioning(
    refined: dict[int, Refined],
    cases: Sequence[Case],
    asked: Mapping[int, Sequence[Mismatch]],
    comparator: Comparator,
    runner: Runner,
    to_float64: ToFloat64,
) -> None:
    """Judge anew what would be wrong, with the moves of the exact result beside it."""

    def groups() -> Iterator[Group[int]]:
        for index in sorted(refined):
            said = refined[index].judgements.items()
            dtypes = {
                observation.dtype
                for mismatch, judgement in said
                if judgement.says == "wrong"
                for observation in mismatch.observations
            }
            roundoffs = [
                conditioning.ROUNDOFF[base_dtype(dtype)] for dtype in dtypes if dtype is not None
            ]
            if roundoffs:
                blob = cases[index].load()
                wide = to_float64(blob)
                if wide is not None:
                    blobs = (blob, wide, *conditioning.moved(wide, max(roundoffs)))
                    yield index, cases[index].op, blobs, cases[index].only

    for index, (narrow, wide, *moved) in runner.run_groups(groups()):
        refined[index] = _judged(
            cases[index], asked[index], narrow, wide, moved, comparator, runner
        )


def _judged(
    case: Case,
    questions: Sequence[Mismatch],
    narrow: Sequence[RawOutcome],
    wide: Sequence[RawOutcome],
    moved: Sequence[Sequence[RawOutcome]],
    comparator: Comparator,
    runner: Runner,
) -> Refined:
    program, data = decode(case.load())
    rules = TensorRules(InitialTensors(program, data), case.digest, case.op, comparator.conventions)
    by_label = [
        {label: decoded(raw) for label, raw in runner.by_label(outcomes).items()}
        for outcomes in (narrow, wide, *moved)
    ]
    judgements = {
        mismatch: float64.judge(
            mismatch, comparator.parties, by_label[0], by_label[1], rules, by_label[2:]
        )
        for mismatch in questions
        if not (program.origin.random or program.origin.uninitialised)
    }
    standing = tuple(
        mismatch
        for mismatch in case.mismatches
        if (said := judgements.get(mismatch)) is None or said.says != "rounding"
    )
    return Refined(case, standing, judgements)


def as_evidence(judgement: Float64Judgement) -> Evidence:
    """The witness's words for a finding."""
    return Evidence("float64", judgement.line, judgement.against, dict(judgement.errors))
