"""Tolerances, ULP distances, texts, signatures: values worked out by hand."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.oracle.difference import exact_text, measure, ulp_distance
from bot.oracle.signature import death_signature, exception_signature, normalised
from bot.oracle.tolerance import EXACT, accumulated_terms, bound_for
from bot.targets.outcome import Death, Error

BF16 = ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("dtype", "a", "b", "ulps"),
    [
        # 1 and its neighbour 1 + epsilon
        ("float16", 1, 1 + 2**-10, 1),
        ("bfloat16", 1, 1 + 2**-7, 1),
        ("float32", 1, 1 + 2**-23, 1),
        ("float64", 1, 1 + 2**-52, 1),
        # 1 to 2: one binade of 2^mantissa numbers
        ("float16", 1, 2, 2**10),
        ("bfloat16", 1, 2, 2**7),
        ("float32", 1, 2, 2**23),
        ("float64", 1, 2, 2**52),
        # the smallest subnormals on either side of zero; both zeros are one number
        ("float16", -(2**-24), 2**-24, 2),
        ("float32", -(2.0**-149), 2.0**-149, 2),
        ("float64", -5e-324, 5e-324, 2),
        ("float32", -0.0, 0.0, 0),
        # from the largest finite number to infinity
        ("float16", 65504, np.inf, 1),
        ("float32", np.finfo("f4").max, np.inf, 1),
        # -inf to inf: 2 * 0x7c00, 2 * 0x7f80, 2 * 0x7f800000, 2 * 0x7ff0000000000000
        ("float16", -np.inf, np.inf, 2 * 0x7C00),
        ("bfloat16", -np.inf, np.inf, 2 * 0x7F80),
        ("float32", -np.inf, np.inf, 2 * 0x7F800000),
        ("float64", -np.inf, np.inf, 2 * 0x7FF0000000000000),
    ],
)
def test_ulp_distances(dtype, a, b, ulps):
    kind = BF16 if dtype == "bfloat16" else dtype
    x, y = np.array([a], kind), np.array([b], kind)
    assert int(ulp_distance(x, y, dtype)[0]) == ulps
    assert int(ulp_distance(y, x, dtype)[0]) == ulps


@given(st.floats(width=32, allow_nan=False), st.integers(0, 1000))
def test_stepping_n_numbers_is_n_ulps(value, steps):
    x = np.array([value], "f4")
    y = x.copy()
    for _ in range(steps % 20):
        y = np.nextafter(y, np.float32(np.inf))
    if np.isfinite(y).all():
        assert int(ulp_distance(x, y, "float32")[0]) == steps % 20


def test_measuring_two_arrays():
    a = np.array([[1, 2, 3], [4, np.nan, 6]], "f4")
    b = np.array([[1, 2.5, 3], [2, 5, 6]], "f4")
    differing = np.array([[False, True, False], [True, True, False]])
    found = measure(a, b, "float32", differing)
    assert (found.differing, found.elements, found.first_index) == (3, 6, (0, 1))
    assert found.largest_absolute == 2
    assert found.largest_relative == 1  # |4 - 2| / 2
    assert found.largest_ulp == 2**23  # 2 to 4 is one binade
    integers = measure(np.array([5, 7]), np.array([5, 9]), "int64", np.array([False, True]))
    assert (integers.largest_absolute, integers.largest_ulp) == (2, None)


def test_measuring_zero_dimensions():
    found = measure(np.array(1.0), np.array(2.0), "float64", np.array(True))
    assert (found.first_index, found.largest_absolute) == ((), 1)


@given(st.floats(width=32))
def test_float32_texts_read_back(value):
    x = np.float32(value)
    back = np.float32(float(exact_text(x, "float32")))
    assert back == x or (np.isnan(back) and np.isnan(x))
    assert np.signbit(back) == np.signbit(x) or np.isnan(x)


@given(st.integers(0, 2**16 - 1))
def test_bfloat16_texts_read_back(bits):
    x = np.array([bits], "u2").view(BF16)[0]
    back = BF16(float(exact_text(x, "bfloat16")))
    assert back == x or (np.isnan(back) and np.isnan(x))


def test_texts_are_short():
    assert exact_text(np.float32(0.1), "float32") == "0.1"
    assert exact_text(np.float16(0.1), "float16") == "0.1"
    assert exact_text(BF16(0.1), "bfloat16") == "0.1"
    assert exact_text(np.float64(-0.0), "float64") == "-0.0"
    assert exact_text(np.complex64(1 - 2j), "complex64") == "(1.0-2.0j)"
    assert exact_text(np.int64(-3), "int64") == "-3"
    assert exact_text(np.bool_(True), "bool") == "True"


def test_the_table_of_assert_close():
    expected = {
        "float16": (1e-3, 1e-5),
        "bfloat16": (1.6e-2, 1e-5),
        "float32": (1.3e-6, 1e-5),
        "float64": (1e-7, 1e-7),
        "complex64": (1.3e-6, 1e-5),
        "complex128": (1e-7, 1e-7),
    }
    assert {name: (bound_for(name).rtol, bound_for(name).atol) for name in expected} == expected
    assert bound_for("int32", 1000) == bound_for("bool") == EXACT


def test_growth_with_the_number_of_terms():
    """2 * sqrt(10^6) * 2^-24 = 1.19e-4 in float32; at 100 terms 1.19e-6 is still inside the base."""
    assert bound_for("float32", 10**6).rtol == pytest.approx(1.192e-4, rel=1e-3)
    assert bound_for("float32", 100).rtol == 1.3e-6
    assert bound_for("float16", 10**6).rtol == 1e-3  # accumulated in float32


def test_terms_from_element_counts():
    assert accumulated_terms([1000], 1) == 1000  # a full sum
    assert accumulated_terms([6 * 50], 6) == 50  # a sum over one dimension
    assert accumulated_terms([8 * 32, 32 * 4], 8 * 4) == 32  # a matrix product
    assert accumulated_terms([100], 100) == 1  # elementwise
    assert accumulated_terms([10**6, 10**6], 10**6) == 1000  # elementwise, two operands
    assert accumulated_terms([], 5) == accumulated_terms([7], 0) == 1


def test_a_few_digits_of_growth_do_not_hide_small_elements():
    """One huge element among ones must not widen the bound of the others: the median is 1."""
    a = np.array([1e30, 1, 1, 1, 1])
    allowed = bound_for("float32", 100).allowed(a, a)
    assert allowed[1] < 2e-5


def test_exception_signatures_hold_no_numbers_shapes_or_paths():
    one = Error("RuntimeError", "shape [2, 3] is invalid for input of size 5\nmore")
    two = Error("RuntimeError", "shape [20, 30, 1] is invalid for input of size 77")
    assert exception_signature(one) == exception_signature(two)
    assert exception_signature(one) != exception_signature(Error("ValueError", one.message))
    assert normalised("at 0x7f12ab in /usr/lib/x.so, 1.5e-3") == "at # in x.so, #"
    assert normalised("not implemented for float16") == normalised("not implemented for double")


def test_death_signatures_find_the_telling_line():
    words = "loading\nF20240101 12:00:00.123456 4242 pool.cpp:77] Check failed: k > 0 (0 vs. 0)\n*** trace ***\n  @ 0x7f"
    again = words.replace("4242", "17").replace("12:00:00.123456", "13:01:02.5")
    death = Death("SIGABRT", words, True)
    assert death_signature(death) == death_signature(Death("SIGABRT", again, True))
    assert death_signature(death).startswith("SIGABRT: pool.cpp: Check failed: k > #")
    assert death_signature(Death("SIGFPE", "", True)) == "SIGFPE"
    other = Death("SIGABRT", words.replace("k > 0", "stride > 0"), True)
    assert death_signature(other) != death_signature(death)
