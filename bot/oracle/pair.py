"""The exact rules by which two tensors of one program agree or differ.

In this order, and the first that fails gives the kind:

1. shapes are equal; nothing is ever broadcast
2. dtypes are equal
3. the same positions are NaN, the same are infinite, with the same signs (complex: for each part)
4. integers and bool are equal; floats are within :class:`bot.oracle.tolerance.Bound` (complex: each part)
5. where the sign of a zero is the op's documented result (``conventions.yml``), zeros have the same sign;
   elsewhere 0.0 and -0.0 agree

Two NaNs agree whatever their payload bits. An empty tensor has a shape and a dtype, which are compared like any other's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from bot.oracle.difference import is_floating, parts, widened
from bot.oracle.tolerance import Bound

Array = npt.NDArray[Any]
PairKind = Literal["shape", "dtype", "nan", "value"]
_MARGIN = 0.999  # for what rounding in the elements' own precision can add
SEVERITY: tuple[PairKind, ...] = ("shape", "dtype", "nan", "value")


@dataclass(frozen=True)
class Elements:
    """Which elements of two equally shaped arrays differ, and how."""

    differing: Array  # bool, out of tolerance in any way
    nonfinite: Array  # bool, those of them where NaN or infinity stands on one side only or with another sign


def differing_elements(a: Array, b: Array, dtype: str, bound: Bound, zero_sign: bool) -> Elements:
    """Rules 3 to 5 for two arrays of the same shape and dtype."""
    if not is_floating(dtype):
        differing = np.asarray(a != b)
        return Elements(differing, np.zeros_like(differing))
    differing = np.zeros(a.shape, bool)
    nonfinite = np.zeros(a.shape, bool)
    for x, y in zip(parts(a, dtype), parts(b, dtype), strict=True):
        with np.errstate(all="ignore"):
            if zero_sign:
                differing |= (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
            undecided = ~_surely_agree(x, y, bound)
            if undecided.any():
                grown = bound.grown(x, y)
                bad, bad_special = _apart(
                    widened(x[undecided]), widened(y[undecided]), bound, grown
                )
                differing[undecided] |= bad
                nonfinite[undecided] |= bad_special
    return Elements(differing, nonfinite)


def _surely_agree(x: Array, y: Array, bound: Bound) -> Array:
    """Which elements agree by the bound without its growth. Computed in the elements' own precision, so with a margin.

    False says nothing: those are few, and :func:`_apart` judges them in float64.
    """
    if x.dtype.itemsize < 4:
        x, y = x.astype(np.float32), y.astype(np.float32)
    limit = np.abs(y)
    limit *= bound.rtol * _MARGIN
    limit += bound.atol * _MARGIN
    # An infinite limit would let a number pass for infinity.
    return cast("Array", (np.abs(x - y) <= limit) & (limit != np.inf))


def _apart(x: Array, y: Array, bound: Bound, grown: float) -> tuple[Array, Array]:
    """Rules 3 and 4 for float64 elements: which differ, and which of them by NaN or infinity."""
    same_special = np.where(np.isnan(x), np.isnan(y), x == y)
    special = ~(np.isfinite(x) & np.isfinite(y))
    apart = np.abs(x - y) > bound.allowed_beside(x, y, grown)
    bad_special = special & ~same_special
    return bad_special | (~special & apart), bad_special


def kind_of(elements: Elements) -> PairKind | None:
    """``nan`` when any differing element does so by being NaN or infinite, ``value`` for others, None for none."""
    if not elements.differing.any():
        return None
    return "nan" if (elements.nonfinite & elements.differing).any() else "value"


def contract_kind(a: Array, b: Array, inputs_finite: bool) -> PairKind | None:
    """Random results, by contract: finiteness and range.

    They differ when one side is finite throughout, the other is not, and the inputs were; or when, with at least 16
    elements each, the two ranges of finite values do not overlap at all. Chance alone separates two samples of 16 from one
    continuous distribution with probability ``2 / C(32, 16)``, about 3e-9.
    """
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub" or not a.size or not b.size:
        return None
    with np.errstate(all="ignore"):
        x, y = widened(a), widened(b)
        finite_x, finite_y = np.isfinite(x), np.isfinite(y)
    if inputs_finite and bool(finite_x.all()) != bool(finite_y.all()):
        return "nan"
    x, y = x[finite_x], y[finite_y]
    if min(x.size, y.size) >= 16 and (x.max() < y.min() or y.max() < x.min()):
        return "value"
    return None
