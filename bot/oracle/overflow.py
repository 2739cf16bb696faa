"""Overflow on the way: where a result is too large to be told, whether it is infinite or NaN is a matter of the order.

A sum of terms past the largest number is inf, -inf or, with both among them, NaN, and each order of the same operations
gives another of these (IEEE 754-2019, 7.2 and 7.4). So two targets may differ in which it is when

- every one of them has NaN or an infinity at the first element that differs, and
- the result is made of several elements, as far as shapes tell: an op that takes one element of each input, whose shapes
  then broadcast to the result's, has one order only, and
- all floating inputs are finite, with one so large that its square overflows: what comes of smaller ones overflows by a
  power or an exponential only, of which a single result is one of inf and -inf
"""

from __future__ import annotations

import cmath
from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np

from bot.oracle.difference import is_floating, parts, widened
from bot.oracle.finding import Mismatch, Observation
from bot.oracle.initial import InitialTensors
from bot.oracle.tolerance import base_dtype
from bot.programs.dtypes import DTYPES
from bot.programs.program import decode


def explains(mismatch: Mismatch, blob: bytes) -> bool:
    """Whether an overflow on the way explains the mismatch of this program."""
    if mismatch.kind != "nan" or not all(map(_is_special, mismatch.observations)):
        return False
    initial = InitialTensors(*decode(blob))
    arrays = [
        (spec.dtype, array)
        for spec in initial.program.tensors
        if is_floating(spec.dtype) and (array := initial.array(spec.name)) is not None
    ]
    if _is_elementwise([array.shape for _, array in arrays], mismatch.observations[0].shape):
        return False
    large = False
    for dtype, array in arrays:
        limit = _square_root_of_largest(base_dtype(dtype))
        for part in parts(array, dtype):
            magnitudes = np.abs(widened(part))
            if not np.isfinite(magnitudes).all():
                return False
            large |= bool((magnitudes >= limit).any())
    return large


def _is_elementwise(operands: Sequence[tuple[int, ...]], result: tuple[int, ...] | None) -> bool:
    try:
        return np.broadcast_shapes(*operands) == result
    except ValueError:
        return False


def _is_special(observation: Observation) -> bool:
    try:
        return not cmath.isfinite(complex(observation.value or ""))
    except ValueError:
        return False


def _square_root_of_largest(dtype: str) -> float:
    limits = cast("Any", ml_dtypes.finfo)(DTYPES[dtype])
    return float(limits.max) ** 0.5
