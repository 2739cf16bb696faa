"""The float64 witness: is a difference in a narrower dtype more than rounding, and whose is it?

The caller runs a mismatching program again with float64 in place of float16, bfloat16 or float32 (complex128 for
complex64). The inputs' values stay what they were, so the float64 results are a reference for the narrow ones, as in
PyTorch Dynamo's ``same(..., fp64_ref)``:

- the float64 runs must agree with each other on every element in question, to a hundredth of the narrow tolerance.
  Where they don't, the difference is no rounding, and this witness says no more: a wrong formula is wrong in float64 too
- a side's error is the largest distance of its results from the reference, in units of the tolerance there. A side is
  **wrong** when its error is over k times the best side's plus a slack; k = 2, 3 for half types and for fewer than 1,000
  elements. The slack is what approximations of one function may differ by (:data:`SLACK`). NaN and each infinity are
  values of their own, in the reference too: next to one, only the same is right
- a side that would be wrong is judged anew by what its error is beyond the *conditioning* (``conditioning.py``): four times
  what the reference itself moves when the inputs are rounded otherwise
- when no side is wrong and every error is within half of the dtype's digits (``sqrt(eps)`` of the element or of the
  tensor's median magnitude), it is **rounding**: the mismatch is dismissed and counted
- when no side is wrong but the errors are larger, both are **far** from the reference: ill-conditioned or both wrong,
  and the mismatch stands with nobody blamed

The reference is *independent* when float64 runs of two frameworks agree in it. From one framework alone it is weak: it may
dismiss, and it may name a side with weak confidence only. Between two builds of one framework that is all it can do,
for a formula that both share wrongly is out of its sight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from bot.oracle import conditioning
from bot.oracle.difference import parts, widened
from bot.oracle.finding import Mismatch
from bot.oracle.tensors import Party, TensorRules
from bot.oracle.tolerance import Bound, base_dtype
from bot.programs.dtypes import DTYPES
from bot.targets.outcome import Outcome, Tensor

Array = npt.NDArray[Any]
WIDE: Final[dict[str, str]] = {
    "float16": "float64",
    "bfloat16": "float64",
    "float32": "float64",
    "complex32": "complex128",
    "complex64": "complex128",
}
"""Narrow dtype -> the dtype of its reference."""

SMALL_ELEMENTS: Final = 1000
SLACK: Final[dict[str, float]] = {"float16": 4.0, "bfloat16": 2.0, "float32": 8.0}
"""In units of the tolerance. float32's own relative one, 1.3e-6, is 11 ULP: that much tells two sums in another order
apart, but not two approximations of a special function. NVIDIA's CUDA C++ Programming Guide allows its float32 Bessel
functions 9 ULP and 2.2e-6 absolute; PyTorch 2.13's polygamma was seen 21 ULP off SciPy's float64 on its own samples. 8
units are 87 ULP. The half types' tolerances are 1 ULP and 2; a few steps that are each rounded to them cost so much more. A
side that computes in float64 and rounds at the end must not convict one that does not.
"""
REFERENCE_SHARE: Final = 0.01  # of the narrow tolerance, within which references must agree

LIMIT_SHARE: Final = 0.99  # of a dtype's largest number, from where on it may round to infinity
_LARGEST: Final[dict[str, float]] = {
    "float16": 65504.0,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
    "float32": (2 - 2.0**-23) * 2.0**127,
}

_EPSILON: Final[dict[str, float]] = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
}


@dataclass(frozen=True)
class Float64Judgement:
    """What the witness says of one mismatch. ``errors``: label -> error in units of the tolerance."""

    says: Literal["rounding", "wrong", "far", "abstains"]
    line: str
    against: tuple[str, ...] = ()
    independent: bool = False
    errors: dict[str, float] = field(default_factory=dict[str, float])


def can_be_asked(mismatch: Mismatch) -> bool:
    """Whether a mismatch is one of narrow floating values, with a tensor on every target."""
    return mismatch.difference is not None and all(
        observation.dtype in WIDE for observation in mismatch.observations
    )


def judge(
    mismatch: Mismatch,
    parties: Sequence[Party],
    narrow: Mapping[str, Outcome],
    wide: Mapping[str, Outcome],
    rules: TensorRules,
    moved: Sequence[Mapping[str, Outcome]] = (),
) -> Float64Judgement:
    """Judge a mismatch by the outcomes (by label) of its program and of its float64 form.

    ``moved``: those of the programs that :func:`bot.oracle.conditioning.moved` gives, where they were run.
    """
    labels = [label for side in mismatch.sides for label in side]
    tensors = {label: _tensor(narrow.get(label), mismatch) for label in labels}
    found = [tensor for tensor in tensors.values() if tensor is not None]
    if len(found) < len(labels) or len({(t.dtype, t.array.shape) for t in found}) != 1:
        return Float64Judgement("abstains", "the program did not run as before")
    dtype, shape = found[0].dtype, found[0].array.shape
    references = {
        party.label: tensor
        for party in parties
        if (tensor := _tensor(wide.get(party.label), mismatch)) is not None
        and tensor.dtype == WIDE.get(dtype)
        and tensor.array.shape == shape
    }
    if not references:
        return Float64Judgement("abstains", "no target ran it in float64")
    frameworks = {party.framework for party in parties if party.label in references}
    bound = rules.bound(mismatch.role, dtype, found[0].array.size)
    values = {label: _flat(t.array, t.dtype) for label, t in tensors.items() if t is not None}
    wide_values = [_flat(t.array, t.dtype) for _, t in sorted(references.items())]
    spread = np.zeros(wide_values[0].shape)
    if moved:
        results = [_tensor(outcomes.get(min(references)), mismatch) for outcomes in moved]
        spread = conditioning.spread(
            wide_values[0], [None if t is None else _flat(t.array, t.dtype) for t in results]
        )
    independent = len(frameworks) > 1
    return _weigh(mismatch, base_dtype(dtype), bound, values, wide_values, spread, independent)


def _weigh(
    mismatch: Mismatch,
    dtype: str,
    bound: Bound,
    values: Mapping[str, Array],
    references: Sequence[Array],
    spread: Array,
    independent: bool,
) -> Float64Judgement:
    reference = references[0]
    with np.errstate(all="ignore"):
        allowed = bound.allowed(reference, reference)
        settled = np.ones(reference.shape, bool)
        for other in references[1:]:
            settled &= _is_within(_distance(other, reference), REFERENCE_SHARE * allowed)
        in_question = _in_question(values, bound)
        if not in_question.any():
            return Float64Judgement("abstains", "the outcomes did not differ again")
        if (in_question & ~settled).any():
            return Float64Judgement(
                "abstains", "the float64 runs differ as well: it is no rounding"
            )
        rounded = _rounded(reference, dtype)
        distances = {
            label: np.where(_at_the_limit(value, rounded, dtype), 0.0, _distance(value, rounded))
            for label, value in values.items()
        }
        # Where no side is in question, an overflow that all share says nothing about any of them.
        shared = np.isfinite(sum(distances.values(), np.zeros(reference.shape)))
        judged = settled & (in_question | shared)
        conditioned = conditioning.ROUNDINGS * spread[judged]
        distances = {
            label: np.maximum(distance[judged] - conditioned, 0.0)
            for label, distance in distances.items()
        }
        errors = {
            label: float(_in_units(distance, allowed[judged]).max(initial=0.0))
            for label, distance in distances.items()
        }
        magnitude = np.abs(reference[judged])
        finite = magnitude[np.isfinite(magnitude)]
        median = float(np.median(finite)) if finite.size else 0.0
        digits = bound.atol + _EPSILON[dtype] ** 0.5 * np.maximum(magnitude, median)
        near = all(bool(_is_within(distance, digits).all()) for distance in distances.values())
    k = 3 if dtype != "float32" or reference.size < SMALL_ELEMENTS else 2
    by_side = {side: max(errors[label] for label in side) for side in mismatch.sides}
    best = min(by_side.values())
    wrong = tuple(
        label
        for side, error in by_side.items()
        if error > k * best + SLACK[dtype]
        for label in side
    )
    kind = "of independent frameworks" if independent else "of one framework"
    shown = ", ".join(f"{label} {error:.3g}" for label, error in errors.items())
    line = f"against float64 runs {kind}, largest error in units of the tolerance: {shown}"
    if spread.any():
        line += " (beyond what rounding the inputs explains)"
    if wrong:
        return Float64Judgement("wrong", line, wrong, independent, errors)
    return Float64Judgement("rounding" if near else "far", line, (), independent, errors)


def _in_question(values: Mapping[str, Array], bound: Bound) -> Array:
    """The elements on which any two targets are out of tolerance."""
    arrays = list(values.values())
    mask = np.zeros(arrays[0].shape, bool)
    for i, a in enumerate(arrays):
        for b in arrays[i + 1 :]:
            distance = _distance(a, b)
            # An infinite side makes the limit infinite as well.
            mask |= (distance > bound.allowed(a, b)) | np.isinf(distance)
    return mask


def _distance(a: Array, b: Array) -> Array:
    """|a - b|; 0 where both are NaN or the same infinity, infinite where only one is, or they differ in sign."""
    special = ~(np.isfinite(a) & np.isfinite(b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(special, np.where(same, 0.0, np.inf), np.abs(a - b))


def _is_within(distance: Array, limit: Array) -> Array:
    """Whether distances are within limits. Beside NaN or an infinity there is no limit: only the same is near."""
    return (distance == 0.0) | (np.isfinite(distance) & (distance <= limit))


def _in_units(distance: Array, limit: Array) -> Array:
    """Distances in units of their limits: 0 for the same, infinite for a NaN or an infinity on one side alone."""
    special = ~np.isfinite(distance) | (distance == 0.0)
    return np.where(special, distance, distance / limit)


def _rounded(reference: Array, dtype: str) -> Array:
    """The reference as the narrow dtype can hold it: what overflows there is infinite there."""
    return widened(reference.astype(DTYPES[dtype]))


def _at_the_limit(value: Array, reference: Array, dtype: str) -> Array:
    """Where an infinity stands for a number at the very end of the dtype: a rounding on the way there is enough."""
    near = np.abs(reference) >= LIMIT_SHARE * _LARGEST[dtype]
    result: Array = np.isinf(value) & np.isfinite(reference) & (value * reference > 0) & near
    return result


def _tensor(outcome: Outcome | None, mismatch: Mismatch) -> Tensor | None:
    if outcome is None:
        return None
    return outcome.by_key.get((mismatch.role, mismatch.name, mismatch.path))  # type: ignore[arg-type]


def _flat(array: Array, dtype: str) -> Array:
    """The real parts of an array as one float64 vector."""
    return np.concatenate([widened(part).ravel() for part in parts(array, dtype)])
