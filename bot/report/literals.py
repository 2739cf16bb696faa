"""Tensors as Python source: readable literals that read back exactly, else the exact bytes as base64."""

from __future__ import annotations

import base64
import textwrap
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from bot.programs.dtypes import DTYPES

Array = npt.NDArray[Any]

MAX_LITERAL_ELEMENTS = 64
WIDTH = 72

_CARRIERS = {
    "bfloat16": np.dtype(np.float32),
    "float8_e4m3fn": np.dtype(np.float32),
    "float8_e5m2": np.dtype(np.float32),
    "float8_e4m3fnuz": np.dtype(np.float32),
    "float8_e5m2fnuz": np.dtype(np.float32),
    "complex32": np.dtype(np.complex64),
}
"""dtypes that plain NumPy lacks -> the NumPy dtype that holds their every value exactly."""


def carrier(dtype: str) -> np.dtype[Any]:
    """The plain NumPy dtype in which a script holds values of this canonical dtype."""
    return _CARRIERS.get(dtype) or DTYPES.get(dtype) or np.dtype(dtype)


def carried(array: Array, dtype: str) -> Array:
    """The values in their carrier dtype."""
    if dtype == "complex32":
        widened = np.empty(array.shape, np.complex64)
        widened.real, widened.imag = array["real"], array["imag"]
        return widened
    return array.astype(carrier(dtype), copy=False)


def literal(array: Array) -> str | None:
    """A nested list that, made an array of the same dtype, has the same bytes; None for one too large or unfit.

    Floats are the shortest text that reads back exactly. Unfit: NaNs whose sign or payload a literal cannot say.
    The script must define ``nan`` and ``inf``.
    """
    if array.size > MAX_LITERAL_ELEMENTS or array.size == 0:
        return None
    texts = [_scalar(value, array.dtype) for value in array.reshape(-1)]
    back = np.array([_read(text, array.dtype) for text in texts], array.dtype)
    if back.tobytes() != np.ascontiguousarray(array).tobytes():
        return None
    return wrap(_nest(texts, array.shape))


def stored(array: Array) -> str:
    """A call of the script's ``stored`` with the array's exact bytes, compressed."""
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
    # Cut here: textwrap takes quadratic time over one long word, minutes for some megabytes.
    parts = [packed[at : at + WIDTH] for at in range(0, len(packed), WIDTH)]
    lines = "\n".join(f'    "{part}"' for part in parts)
    return f"stored(\n{lines},\n    {array.dtype.name!r}, {array.shape!r},\n)"


def array_code(array: Array) -> str:
    """An expression for a plain NumPy array with exactly these bytes."""
    if array.size == 0:
        return f"np.zeros({array.shape!r}, {array.dtype.name!r})"
    text = literal(array)
    return stored(array) if text is None else f"np.array({text}, {array.dtype.name!r})"


def wrap(text: str) -> str:
    """A bracketed literal broken at blanks when it is long."""
    if len(text) <= WIDTH:
        return text
    lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n        ".join(lines)


def _scalar(value: Any, dtype: np.dtype[Any]) -> str:
    if dtype.kind == "b":
        return "True" if value else "False"
    if dtype.kind in "iu":
        return repr(int(value))
    if dtype.kind == "c":
        part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
        return f"complex({_float(value.real, part)}, {_float(value.imag, part)})"
    return _float(value, dtype)


def _float(value: Any, dtype: np.dtype[Any]) -> str:
    shortest = str(value)
    # The shortest text names this float among its dtype's; rounding it by way of float64 must name it too.
    same = dtype.type(float(shortest)) == dtype.type(value) or value != value
    return shortest if same else repr(float(value))


def _read(text: str, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return text == "True"
    if dtype.kind in "iu":
        return int(text)
    if dtype.kind == "c":
        real, imaginary = text.removeprefix("complex(").removesuffix(")").split(", ")
        return complex(float(real), float(imaginary))
    return float(text)


def _nest(texts: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return texts[0]
    if len(shape) == 1:
        return f"[{', '.join(texts)}]"
    step = len(texts) // shape[0]
    rows = [_nest(texts[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(rows)}]"
