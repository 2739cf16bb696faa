"""How far apart two arrays are: counts, largest distances, ULPs, and values as text that reads back exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bot.oracle.finding import Difference
from bot.oracle.tolerance import base_dtype

Array = npt.NDArray[Any]

_BITS: dict[str, tuple[type[Any], int]] = {
    "float16": (np.uint16, 15),
    "bfloat16": (np.uint16, 15),
    "float32": (np.uint32, 31),
    "float64": (np.uint64, 63),
}
"""Real floating dtype -> the unsigned integer of its size, and the number of its sign bit."""


def parts(array: Array, dtype: str) -> tuple[Array, ...]:
    """The real arrays that an array is compared by: (real, imaginary) for complex dtypes, else itself."""
    if dtype == "complex32":
        return array["real"], array["imag"]
    if dtype in ("complex64", "complex128"):
        numbers = cast("npt.NDArray[np.complex128]", array)
        return numbers.real, numbers.imag
    return (array,)


def is_floating(dtype: str) -> bool:
    """Whether the dtype is real or complex floating (the small 8-bit floats too)."""
    return dtype.startswith(("float", "bfloat", "complex"))


def widened(array: Array) -> Array:
    """A real array as float64: exact for every real floating dtype."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is one all the same
        return cast("Array", array.astype(np.float64))


def ulp_distance(a: Array, b: Array, dtype: str) -> Array:
    """How many representable numbers of ``dtype`` lie between a and b, per element, as uint64.

    The real float16, bfloat16, float32 or float64 arrays must be free of NaN. Both zeros are one number; infinity comes
    after the largest finite number. Exact over the whole range, for float64 too.
    """
    x, y = _ordered(a, dtype), _ordered(b, dtype)
    high, low = np.maximum(x, y), np.minimum(x, y)
    # The distance of two int64 fits uint64, where subtraction wraps around to it.
    return cast("Array", high.view(np.uint64) - low.view(np.uint64))


def _ordered(array: Array, dtype: str) -> Array:
    """Signed integers in the order of the numbers: sign and magnitude turned into two's complement."""
    unsigned, sign_bit = _BITS[dtype]
    bits = np.ascontiguousarray(array).view(unsigned).astype(np.uint64)
    magnitude = (bits & np.uint64((1 << sign_bit) - 1)).astype(np.int64)
    negative = (bits >> np.uint64(sign_bit)).astype(bool)
    return np.where(negative, -magnitude, magnitude)


def measure(a: Array, b: Array, dtype: str, differing: Array) -> Difference:
    """The difference of two arrays of one shape and dtype; ``differing`` marks the elements out of tolerance.

    The largest distances are over differing elements that are finite on both sides; relative ones are relative to b
    and leave out b = 0.
    """
    absolute: float | None = None
    relative: float | None = None
    ulp: int | None = None
    for x, y in zip(parts(a, dtype), parts(b, dtype), strict=True):
        with np.errstate(all="ignore"):
            wide_x, wide_y = widened(x), widened(y)
            use = differing & np.isfinite(wide_x) & np.isfinite(wide_y)
            if not use.any():
                continue
            distance = _distance(x[use], y[use], dtype)
            absolute = _larger(absolute, float(distance.max()))
            base = np.abs(wide_y[use])
            if (base > 0).any():
                relative = _larger(relative, float((distance[base > 0] / base[base > 0]).max()))
            if base_dtype(dtype) in _BITS:
                counted = int(ulp_distance(x[use], y[use], base_dtype(dtype)).max())
                ulp = counted if ulp is None else max(ulp, counted)
    return Difference(
        differing=int(differing.sum()),
        elements=int(a.size),
        largest_absolute=absolute,
        largest_relative=relative,
        largest_ulp=ulp,
        first_index=first_index(differing),
    )


def _distance(x: Array, y: Array, dtype: str) -> Array:
    if is_floating(dtype):
        return np.abs(widened(x) - widened(y))
    # Python integers: the distance of two int64 overflows int64, and float64 does not hold every int64.
    exact: Array = x.astype(object) - y.astype(object)
    return np.abs(exact).astype(np.float64)


def _larger(first: float | None, second: float) -> float:
    return second if first is None else max(first, second)


def first_index(mask: Array) -> tuple[int, ...] | None:
    """The index of the first true element in C order."""
    if not mask.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask.ravel())), mask.shape))


def exact_text(value: Any, dtype: str) -> str:
    """An element as the shortest text that reads back to it exactly in its dtype; ``nan``, ``inf``, ``-0.0`` too."""
    if dtype == "complex32":
        return _complex_text(value["real"], value["imag"], "float16")
    if dtype in ("complex64", "complex128"):
        return _complex_text(value.real, value.imag, base_dtype(dtype))
    if dtype.startswith(("bfloat", "float8")):
        return _small_float_text(value)
    return str(value)


def _complex_text(real: Any, imaginary: Any, part: str) -> str:
    text = exact_text(imaginary, part)
    sign = "" if text.startswith("-") else "+"
    return f"({exact_text(real, part)}{sign}{text}j)"


def _small_float_text(value: Any) -> str:
    number = float(value)
    if not np.isfinite(number):
        return repr(number)
    kind = cast("Callable[[float], Any]", type(value))
    for digits in range(1, 18):
        text = f"{number:.{digits}g}"
        if float(kind(float(text))) == number:
            return repr(float(text))
    return repr(number)
