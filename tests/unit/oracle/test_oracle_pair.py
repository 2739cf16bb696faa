"""The rules for pairs of elements look closely at few: what they say must be what the rules say of all.

The reference is the rules of ``bot/oracle/pair.py`` written out for one element at a time, in Python's floats.
"""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bot.oracle.pair import differing_elements
from bot.oracle.tolerance import Bound

BOUNDS = (Bound(), Bound(1.3e-6, 1e-5), Bound(1e-3, 1e-5, 1e-3), Bound(0.0, 1e-7, 0.5))


def median(values: list[float]) -> float:
    finite = [Fraction(abs(value)) for value in values if math.isfinite(value)]
    return float(statistics.median(finite)) if finite else 0.0


def differs(x: float, y: float, bound: Bound, m: float) -> bool:
    if not (math.isfinite(x) and math.isfinite(y)):
        return not (x == y or (math.isnan(x) and math.isnan(y)))
    return abs(x - y) > bound.atol + bound.rtol * max(abs(x), abs(y)) + bound.growth * m


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(data=st.data())
def test_every_element_is_judged_by_the_rules(dtype: str, data: st.DataObject) -> None:
    kind = np.dtype(dtype)
    values = st.floats(width=kind.itemsize * 8)  # type: ignore[arg-type]
    a = data.draw(arrays.arrays(kind, st.integers(1, 12), elements=values))
    near = data.draw(
        arrays.arrays(np.float64, a.shape, elements=st.sampled_from([0, 1e-7, 2e-6, 1e-3, 1]))
    )
    bound = data.draw(st.sampled_from(BOUNDS))
    with np.errstate(all="ignore"):
        b = (a * (1 + near) + data.draw(st.sampled_from([0.0, 9e-6, 1e-4]))).astype(kind)
    for position in data.draw(st.lists(st.integers(0, a.size - 1), max_size=3)):
        b[position] = data.draw(values)
    x, y = a.astype(np.float64).tolist(), b.astype(np.float64).tolist()
    m = max(median(x), median(y))
    expected = [differs(p, q, bound, m) for p, q in zip(x, y, strict=True)]
    found = differing_elements(a, b, dtype, bound, zero_sign=False)
    assert found.differing.tolist() == expected
    special = [
        wrong and not (math.isfinite(p) and math.isfinite(q))
        for wrong, p, q in zip(expected, x, y, strict=True)
    ]
    assert found.nonfinite.tolist() == special


def test_the_median_of_the_largest_numbers_is_no_infinity() -> None:
    """Two magnitudes of 1e308 have the median 1e308 though their sum is none; a thousandth of it does not take 0 for 1e308."""
    a, b = np.array([1e308, 1e308]), np.array([1e308, 0.0])
    bound = Bound(0.0, 0.0, 1e-3)
    assert differing_elements(a, b, "float64", bound, zero_sign=False).differing.tolist() == [
        False,
        True,
    ]


def test_a_zero_of_the_other_sign_differs_only_where_that_counts() -> None:
    a, b = np.array([0.0, 1.0], np.float32), np.array([-0.0, 1.0], np.float32)
    bound = Bound(1.3e-6, 1e-5)
    assert differing_elements(a, b, "float32", bound, zero_sign=True).differing.tolist() == [
        True,
        False,
    ]
    assert not differing_elements(a, b, "float32", bound, zero_sign=False).differing.any()
