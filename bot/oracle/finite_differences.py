"""The finite-difference witness: whose gradient is the slope of the function that all of them compute?

For a cause whose first mismatch is a gradient, its program runs in float64 with gradients; on elements where the targets
still differ, forward results at shifted inputs give the slope (``slopes.py``). Forward results are cheap evidence, for
the targets agreed on them. Then

- a side is **wrong** where the function is smooth and its gradient is NaN, absent (but for a slope of 0) or not the slope
- every gradient is **within** the one-sided slopes of a kink: any of them is a generalised gradient, and each framework
  chooses; nobody is wrong
- the function has **no slope** there, because the input is NaN or infinite
- otherwise the witness abstains: results are not finite, inputs alias each other, or some element names another side

It is *independent* when forward results of two frameworks give the same slope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from bot.oracle.cause import primary
from bot.oracle.exact import decoded
from bot.oracle.finding import Evidence, Mismatch
from bot.oracle.refine import ToFloat64
from bot.oracle.repeat import Confirmation
from bot.oracle.rerun import Case, Runner
from bot.oracle.slopes import SHIFTS, Leaf, Slope, leaf_of, slope_of
from bot.targets.outcome import Outcome

Array = npt.NDArray[Any]
MAX_ELEMENTS: Final = 4  # probed per cause: the first ones that differ
WIDE_RELATIVE: Final = 1e-5  # a float64 gradient's distance from the slope
APART_RELATIVE: Final = 1e-4  # beyond which two float64 gradients are different

Says = Literal["wrong", "within", "no slope", "abstains"]


@dataclass(frozen=True)
class SlopeJudgement:
    """What the witness says of a cause. ``numbers``: label -> its gradient at the element that ``line`` speaks of."""

    says: Says
    line: str = ""
    against: tuple[str, ...] = ()
    independent: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])

    def as_evidence(self) -> Evidence:
        """The witness's words for a finding."""
        finite = {label: value for label, value in self.numbers.items() if np.isfinite(value)}
        return Evidence("finite differences", self.line, self.against, finite)


@dataclass(frozen=True)
class _Question:
    """A cause's float64 program with its leaf, the targets that differ, and their gradients there."""

    leaf: Leaf
    op: str
    gradients: Mapping[str, Array | None]
    elements: tuple[tuple[int, ...], ...]


def ask(
    confirmations: Sequence[Confirmation],
    cases: Mapping[str, Case],
    runner: Runner,
    to_float64: ToFloat64,
) -> dict[int, SlopeJudgement]:
    """What finite differences say, by the place of a cause among the confirmations."""
    leaves: dict[int, tuple[bytes, Leaf, Mismatch, str]] = {}
    for number, confirmation in enumerate(confirmations):
        first = primary(confirmation.representative.mismatches)
        if first.role != "gradient" or confirmation.repeat != "stable":
            continue
        blob = cases[confirmation.representative.digest].load()
        wide = to_float64(blob) or blob
        leaf = leaf_of(wide, first.name)
        if leaf is not None:
            leaves[number] = wide, leaf, first, confirmation.cause.key.op
    questions: dict[int, _Question] = {}
    analytic = ((number, op, [wide]) for number, (wide, _, _, op) in leaves.items())
    for number, (outcomes,) in runner.run_groups(analytic):
        _, leaf, first, op = leaves[number]
        by_label = {label: decoded(raw) for label, raw in runner.by_label(outcomes).items()}
        question = _question(leaf, first, op, by_label)
        if question is not None:
            questions[number] = question
    return dict(_answers(questions, runner))


def _question(
    leaf: Leaf, first: Mismatch, op: str, outcomes: Mapping[str, Outcome]
) -> _Question | None:
    gradients: dict[str, Array | None] = {}
    for label in (label for side in first.sides for label in side):
        outcome = outcomes[label]
        tensor = outcome.by_key.get(("gradient", first.name, ()))
        if (
            tensor is not None
            and tensor.dtype == "float64"
            and tensor.array.shape == tuple(leaf.spec.shape)
        ):
            gradients[label] = tensor.array
        elif outcome.status == "ok" and first.name in outcome.absent:
            gradients[label] = None
    if len(gradients) < 2:
        return None
    elements = tuple(_differing(gradients, tuple(leaf.spec.shape)))
    return _Question(leaf, op, gradients, elements) if elements else None


def _differing(
    gradients: Mapping[str, Array | None], shape: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """The first elements on which two float64 gradients are apart; an absent one stands for zeros."""
    arrays = [np.zeros(shape) if array is None else array for array in gradients.values()]
    apart = np.zeros(shape, bool)
    with np.errstate(invalid="ignore"):
        for one in arrays:
            for other in arrays:
                limit = APART_RELATIVE * np.maximum(np.abs(one), np.abs(other))
                apart |= (np.isnan(one) != np.isnan(other)) | (np.abs(one - other) > limit)
    for index in np.argwhere(apart)[:MAX_ELEMENTS]:
        yield tuple(int(i) for i in index)


def _answers(
    questions: Mapping[int, _Question], runner: Runner
) -> Iterator[tuple[int, SlopeJudgement]]:
    frameworks = {party.label: party.framework for party in runner.parties}
    groups = (
        (
            number,
            question.op,
            [blob for index in _moved(question) for blob in question.leaf.probes(index)],
        )
        for number, question in questions.items()
        if _moved(question)
    )
    answered: set[int] = set()
    for number, outcomes in runner.run_groups(groups):
        question = questions[number]
        answered.add(number)
        said: list[SlopeJudgement] = []
        for place, index in enumerate(_moved(question)):
            probes = outcomes[place * len(SHIFTS) : (place + 1) * len(SHIFTS)]
            rows = [runner.by_label(row) for row in probes]
            slopes = {
                label: found
                for label in frameworks
                if (found := slope_of(question.leaf, index, [decoded(row[label]) for row in rows]))
            }
            said.append(judge(index, _at(question, index), slopes, frameworks))
        yield number, together(said)
    for number, question in questions.items():
        if number not in answered:
            index = question.elements[0]
            where = ", ".join(map(str, index))
            yield (
                number,
                SlopeJudgement(
                    "no slope",
                    f"the input is not finite at [{where}]: there is no derivative to compare with",
                ),
            )


def _moved(question: _Question) -> tuple[tuple[int, ...], ...]:
    return tuple(index for index in question.elements if question.leaf.is_finite(index))


def _at(question: _Question, index: tuple[int, ...]) -> dict[str, float | None]:
    return {
        label: None if array is None else float(array[index])
        for label, array in question.gradients.items()
    }


def judge(
    index: Sequence[int],
    gradients: Mapping[str, float | None],
    slopes: Mapping[str, Slope],
    frameworks: Mapping[str, str],
) -> SlopeJudgement:
    """Judge one element: the targets' gradients (None: absent) by the slopes of the targets' forward results."""
    where = f"[{', '.join(map(str, index))}]"
    found = list(slopes.values())
    if not found:
        return SlopeJudgement("abstains", f"results near {where} are not finite, or cannot be had")
    reference = found[0]
    if not all(_alike(reference, other) for other in found[1:]):
        return SlopeJudgement(
            "abstains", f"the targets' results near {where} have different slopes"
        )
    independent = len({frameworks[label] for label in slopes}) > 1
    numbers = {label: float("nan") if g is None else g for label, g in gradients.items()}
    if not reference.is_smooth:
        kink = (
            f"there is a kink at {where}: the slope is {reference.left:.6g} on its left and "
            f"{reference.right:.6g} on its right"
        )
        outside = _apart(gradients, lambda g: reference.is_between(g, WIDE_RELATIVE))
        if not outside:
            line = f"{kink}, and every gradient lies between them"
            return SlopeJudgement("within", line, (), independent, numbers)
        return SlopeJudgement("wrong", f"{kink}", outside, independent, numbers)
    wrong = _apart(gradients, lambda g: reference.holds(g, WIDE_RELATIVE))
    shown = ", ".join(
        f"{label} {'none' if g is None else format(g, '.6g')}" for label, g in gradients.items()
    )
    line = f"finite differences in float64 give {reference.value:.6g} at {where}; gradients there: {shown}"
    if not wrong or (len(wrong) == len(gradients) and reference.error > abs(reference.value)):
        return SlopeJudgement("abstains", line, (), independent, numbers)
    return SlopeJudgement("wrong", line, wrong, independent, numbers)


def _apart(
    gradients: Mapping[str, float | None], holds: Callable[[float], bool]
) -> tuple[str, ...]:
    return tuple(
        label
        for label, gradient in gradients.items()
        if not holds(0.0 if gradient is None else gradient)
    )


def _alike(one: Slope, other: Slope) -> bool:
    if one.is_smooth != other.is_smooth:
        return False
    if one.is_smooth:
        return abs(one.value - other.value) <= 1e-6 * abs(one.value) + 4 * (one.error + other.error)
    slack = 1e-3 * max(abs(one.left), abs(one.right)) + 4 * (one.error + other.error)
    return abs(one.left - other.left) <= slack and abs(one.right - other.right) <= slack


def together(said: Sequence[SlopeJudgement]) -> SlopeJudgement:
    """One judgement of several elements: all that accuse must accuse the same; kinks count where none accuses."""
    accusing = [judgement for judgement in said if judgement.says == "wrong"]
    if accusing:
        if len({judgement.against for judgement in accusing}) == 1:
            return next((j for j in accusing if j.independent), accusing[0])
        return replace(accusing[0], says="abstains", against=())
    return next((j for j in said if j.says == "within"), said[0])
