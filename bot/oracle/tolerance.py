"""How far two correct results may lie apart: per dtype, per op, per number of accumulated terms.

The base is the table of ``torch.testing.assert_close`` (documented with that function): relative and absolute
tolerance per dtype, complex numbers by part, every other dtype exactly. Two things widen it, and nothing narrows it:

- the op's own override (an OpInfo's tolerance for this dtype, ``program.origin.tolerance``);
- reduction length. Summing n terms in another order changes the result by about ``sqrt(n) * u`` relative to the terms
  (Higham & Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019), where the
  worst case is ``n * u``. Here u is the dtype's unit roundoff; for float16 and bfloat16 it is float32's, as all
  frameworks accumulate those in float32. The growth counts twice, for both sides round. It is relative to the element
  and to the median magnitude of the tensor, for an element in which the terms cancelled carries the error of its terms.

The number of terms is bounded from counts of elements alone (:func:`accumulated_terms`). What still exceeds the bound
is put before the float64 witness before anybody hears of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bot.programs.program import Tolerance

Array = npt.NDArray[Any]

ASSERT_CLOSE: dict[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
}
"""Real floating dtype -> (relative, absolute) tolerance of ``torch.testing.assert_close``."""

PART: dict[str, str] = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""Complex dtype -> the dtype of its two parts."""

_ROUNDOFF: dict[str, float] = {
    "float16": 2.0**-24,
    "bfloat16": 2.0**-24,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
}
MAX_TERMS = 1 << 24  # beyond it float32 itself stops counting


@dataclass(frozen=True)
class Bound:
    """Two elements agree when ``|a - b| <= atol + rtol * max(|a|, |b|) + growth * m``.

    ``m`` is the larger one of the two tensors' median magnitudes. The larger magnitude is taken in both places so
    that the rule is symmetric.
    """

    rtol: float = 0.0
    atol: float = 0.0
    growth: float = 0.0

    def allowed(self, a: Array, b: Array) -> Array:
        """The allowed distance per element of two real float64 arrays of one shape."""
        return self.allowed_beside(a, b, self.grown(a, b))

    def allowed_beside(self, a: Array, b: Array, grown: float) -> Array:
        """The same for some elements (float64) of two arrays, given what :meth:`grown` says of the whole ones."""
        magnitude = np.maximum(np.abs(a), np.abs(b))
        limit: Array = self.atol + self.rtol * magnitude + grown
        return limit

    def grown(self, a: Array, b: Array) -> float:
        """The part of the bound that is the same for all elements of two real arrays: ``growth * m``."""
        if not self.growth:
            return 0.0
        return self.growth * max(_median_magnitude(a), _median_magnitude(b))


EXACT = Bound()


def _median_magnitude(values: Array) -> float:
    """The median of the finite elements' magnitudes. The order of float32 is that of float64, at half the price."""
    magnitudes = np.abs(values if values.dtype.itemsize >= 4 else values.astype(np.float32))
    finite = np.isfinite(magnitudes)
    magnitudes = magnitudes.ravel() if finite.all() else magnitudes[finite]
    if not magnitudes.size:
        return 0.0
    middle = magnitudes.size // 2
    ordered = np.partition(magnitudes, middle)
    upper = float(ordered[middle])
    if magnitudes.size % 2:
        return upper
    return float(ordered[:middle].max()) / 2 + upper / 2  # a sum of the two can overflow


def base_dtype(dtype: str) -> str:
    """The real dtype whose tolerance counts: a complex dtype's part, else the dtype itself."""
    return PART.get(dtype, dtype)


def bound_for(dtype: str, terms: int = 1, override: Tolerance | None = None) -> Bound:
    """The bound for a tensor of this dtype whose elements accumulate at most ``terms`` terms each."""
    real = base_dtype(dtype)
    if real not in ASSERT_CLOSE:
        return EXACT
    rtol, atol = ASSERT_CLOSE[real]
    growth = 2 * math.sqrt(min(terms, MAX_TERMS)) * _ROUNDOFF[real] if terms > 1 else 0.0
    rtol = max(rtol, growth)
    if override is not None:
        rtol, atol = max(rtol, override.rtol), max(atol, override.atol)
    return Bound(rtol, atol, growth)


def coarser(first: str, second: str) -> str:
    """Of two dtypes the one with the wider tolerance; the first when neither floats."""
    return max((first, second), key=lambda name: ASSERT_CLOSE.get(base_dtype(name), (0.0, 0.0)))


def accumulated_terms(operands: Sequence[int], elements: int) -> int:
    """About how many terms one of ``elements`` result elements accumulates, given the operands' element counts.

    For one operand of A elements it is A / C: a reduction to C elements sums that many each. For a contraction of A and
    B elements to C it is ``sqrt(A * B / C)``: for ``(m, k) @ (k, n)`` that is exactly k, for a convolution the
    size of its window within a small factor, and for an elementwise op of N elements ``sqrt(N)``, whose growth stays
    below the base for every N under 10^8. Scans and normalisations of N elements to N are given nothing by the first rule.
    """
    if elements < 1 or not operands:
        return 1
    largest = sorted(operands, reverse=True)[:2]
    terms = largest[0] / elements
    if len(largest) == 2:
        terms = max(terms, math.sqrt(largest[0] * largest[1] / elements))
    return max(1, min(math.ceil(terms), MAX_TERMS))
