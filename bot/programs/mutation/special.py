"""The numbers at which kernels go wrong, by dtype. Data, with the reason of each row."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from bot.programs.dtypes import DTYPES

NONFINITE: Final = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}

FLOATS: Final[dict[str, float]] = {
    "zero": 0.0,
    "minus-zero": -0.0,  # 1/x, atan2, copysign
    "one": 1.0,
    "minus-one": -1.0,
    "half": 0.5,  # ties of rounding, both ways
    "one-half": 1.5,
    "two-half": 2.5,
    "minus-half": -0.5,
    "minus-two-half": -2.5,
    "below-half": 0.49999997,  # floor(x + 0.5) is 1 in float32
    "near-one": 1.0000001,
    "below-one": 0.99999994,
    "small": 1e-4,  # series and cut-offs around zero
    "tiny-square": 1e-8,  # 1 + x is 1 in float32
    "three": 3.0,  # edges of hardswish, relu6
    "six": 6.0,
    "minus-three": -3.0,
    "pi": 3.1415927,
    "half-pi": 1.5707964,
    "twenty": 20.0,  # softplus' threshold
    "hundred": 100.0,
    "minus-hundred": -100.0,
    "exp32": 88.8,  # exp overflows float32
    "minus-exp32": -104.0,  # exp is below float32's subnormals
    "exp64": 710.0,  # exp overflows float64
    "minus-exp64": -746.0,
    "exp16": 11.1,  # exp overflows float16
    "minus-exp16": -17.5,
    "max16": 65504.0,
    "int8": 127.5,
    "uint8": 255.5,
    "int24": 16777217.0,  # float32 counts no further
    "int31": 2147483648.0,  # conversions to int32
    "int63": 9.3e18,  # conversions to int64
    "square32": 2e19,  # its square overflows float32
    "small-square32": 1e-23,  # its square is 0 in float32
    "large-angle": 1e6,  # argument reduction of sin, cos, tan
}

INTEGERS: Final[dict[str, int]] = {
    "zero": 0,
    "one": 1,
    "minus-one": -1,
    "two": 2,
    "three": 3,
    "minus-seven": -7,  # signs of remainders and of floor division
    "int8": 127,
    "over-int8": 128,
    "uint8": 255,
    "int24": 16777217,  # not exact in float32
    "int31": 2147483647,
    "root-int63": 3037000500,  # its square overflows int64
    "int53": 9007199254740993,  # not exact in float64
}


@cache
def special_numbers(dtype: str) -> dict[str, Any]:
    """Name -> number for a dtype, in order of interest; numbers that the dtype cannot hold are not there."""
    kind = np.dtype(DTYPES[dtype])
    if dtype == "bool":
        return {"false": False, "true": True}
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(kind)
        fitting = {name: n for name, n in INTEGERS.items() if info.min <= n <= info.max}
        return fitting | {
            "max": int(info.max),
            "min": int(info.min),
            "half-max": int(info.max) // 2,
        }
    if dtype.startswith("complex"):
        numbers: dict[str, Any] = dict(NONFINITE)
        numbers |= {
            "zero": 0j, "one": 1 + 0j, "i": 1j, "minus-one": -1 + 0j, "minus-i": complex(-0.0, -1.0),
            "below-cut": complex(-1.0, -0.0), "nan-i": complex(0.0, float("nan")),
            "inf-i": complex(0.0, float("inf")), "large": 1e30 + 1e30j, "small": 1e-30 + 1e-30j,
            "exp32": 88.8 + 1j, "inf-inf": complex(float("inf"), float("inf")),
        }  # fmt: skip
        return numbers
    limits = cast("Any", ml_dtypes.finfo)(kind)
    numbers = dict(NONFINITE)
    largest = float(limits.max)
    numbers |= {name: x for name, x in FLOATS.items() if abs(x) <= largest}
    numbers |= {
        "max": largest,
        "lowest": -largest,
        "tiny": float(limits.smallest_normal),
        "subnormal": float(limits.smallest_subnormal),
        "minus-subnormal": -float(limits.smallest_subnormal),
        "eps": float(limits.eps),
        "above-one": 1.0 + float(limits.eps),
    }
    return numbers
