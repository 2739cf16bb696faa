"""The comparison that a repro script makes, made here on what was observed, to see whether the script would tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bot.oracle.tolerance import Bound

Array = npt.NDArray[Any]


def passes(got: Array, want: Array, bound: Bound) -> bool:
    """Whether a script without a test of zeros' signs would call these equally shaped arrays the same."""
    got, want = _parts(got), _parts(want)
    if got.dtype.kind != "f":
        return bool((got == want).all())
    with np.errstate(all="ignore"):
        near = (
            np.isfinite(got) & np.isfinite(want) & (np.abs(got - want) <= bound.allowed(got, want))
        )
        same = near | (got == want) | (np.isnan(got) & np.isnan(want))
    return bool(same.all())


def _parts(array: Array) -> Array:
    if array.dtype.kind == "c":
        array = np.stack([np.real(array), np.imag(array)], -1)
    return array.astype(np.float64) if array.dtype.kind == "f" else array
