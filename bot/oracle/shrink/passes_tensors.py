"""Passes over the tensors: smaller shapes, plain layouts, float32, simple elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from bot.oracle.shrink.order import is_plain
from bot.oracle.shrink.passes_arguments import simpler_numbers
from bot.programs.draft import Draft, elements
from bot.programs.program import ProgramError, Value

Array = npt.NDArray[Any]
MAX_SINGLE: Final = 32  # elements that are simplified one by one
FLOATS: Final = ("float64", "float16", "bfloat16", "float32")


def shrink_sizes(draft: Draft) -> Iterator[Draft]:
    """All dimensions of one length shorter together, arguments of that value with them; then one dimension of one tensor.

    The short ones first: that one row is left, and then its elements go, is more often possible than the reverse.
    """
    names = _editable(draft)
    lengths = {n for name in names for n in draft.tensors[name].shape if n > 1}
    for length in sorted(lengths):
        places = [
            (name, dim)
            for name in names
            for dim, n in enumerate(draft.tensors[name].shape)
            if n == length
        ]
        for shorter in _shorter(length):
            for at in _windows(length, shorter):
                yield _resized(draft, places, shorter, at)
            yield _with_integers(_resized(draft, places, shorter, 0), length, shorter)
    for name in names:
        for dim, length in enumerate(draft.tensors[name].shape):
            for shorter in _shorter(length):
                for at in _windows(length, shorter):
                    yield _resized(draft, [(name, dim)], shorter, at)


def drop_dimensions(draft: Draft) -> Iterator[Draft]:
    """Without a dimension of length 1: the first, or the last, of all tensors that have it; then of one tensor."""
    names = _editable(draft)
    for dim in (0, -1):
        having = [name for name in names if _has_single(draft, name, dim)]
        if len(having) > 1:
            yield _squeezed(draft, having, dim)
        for name in having:
            yield _squeezed(draft, [name], dim)


def plain_layouts(draft: Draft) -> Iterator[Draft]:
    """All tensors contiguous in storages of their own; then one of them."""
    odd = [
        name
        for name in _editable(draft)
        if not is_plain(draft.tensors[name]) or draft.shares_storage(name)
    ]
    for chosen in [odd, *([name] for name in odd)] if odd else []:
        made = draft.copy()
        for name in chosen:
            made.put(name, draft.array(name))
        yield made


def plain_dtypes(draft: Draft) -> Iterator[Draft]:
    """All floating tensors in float32, or in float64; then one of them, or an integer one in int64."""
    names = _editable(draft, with_gradients=True)
    floats = [name for name in names if draft.tensors[name].dtype in FLOATS]
    for dtype in ("float32", "float64"):
        for chosen in [floats, *([name] for name in floats)]:
            if any(draft.tensors[name].dtype != dtype for name in chosen):
                made = draft.copy()
                for name in chosen:
                    made.put(name, draft.array(name), dtype)
                yield made
    for name in names:
        if draft.tensors[name].dtype in ("int8", "int16", "int32", "uint8"):
            made = draft.copy()
            made.put(name, draft.array(name), "int64")
            yield made


def simplify_tensors(draft: Draft) -> Iterator[Draft]:
    """All elements of a tensor simpler; then half of them; then each for itself.

    A leaf whose gradient is asked for keeps away from 0 and whole numbers: functions have their kinks there, and where
    there is no slope nobody can be shown to be wrong.
    """
    for name in _editable(draft, with_gradients=True):
        array = draft.array(name)
        if not array.size:
            continue
        if draft.tensors[name].requires_grad:
            yield from (_put(draft, name, made) for made in _between_kinks(array))
            continue
        for made in _simpler_arrays(array):
            yield _put(draft, name, made)
        if array.size > 1:
            half = array.size // 2
            for part in (slice(None, half), slice(half, None)):
                for plain in (0, 1):
                    yield _put(draft, name, _filled(array, part, plain))
        if array.size <= MAX_SINGLE:
            for index in range(array.size):
                for plain in _simpler_elements(array.ravel()[index]):
                    yield _put(draft, name, _filled(array, index, plain))


def _editable(draft: Draft, with_gradients: bool = False) -> list[str]:
    """The tensors that something uses and NumPy can hold, in the program's order."""
    gradients = {entry.gradient for entry in draft.backward}
    hidden = frozenset[str | None]() if with_gradients else gradients
    used = draft.used()
    found: list[str] = []
    for name, spec in draft.tensors.items():
        if name in used and name not in hidden and elements(spec) <= 1 << 20:
            try:
                draft.array(name)
            except ProgramError:
                continue
            found.append(name)
    return found


def _shorter(length: int) -> list[int]:
    proposed = (1, 2, 3, length // 2, 3 * length // 4, length - 1, 0)
    return [n for n in dict.fromkeys(proposed) if 0 <= n < length]


def _windows(length: int, shorter: int) -> list[int]:
    """Where a part of a dimension may begin: at its start, at its end, in the middle."""
    last = length - shorter
    return list(dict.fromkeys((0, last, last // 2))) if shorter else [0]


def _resized(draft: Draft, places: Sequence[tuple[str, int]], length: int, at: int) -> Draft:
    made = draft.copy()
    for name in dict.fromkeys(name for name, _ in places):
        window = [slice(None)] * len(draft.tensors[name].shape)
        for other, dim in places:
            if other == name:
                window[dim] = slice(at, at + length)
        made.put(name, draft.array(name)[tuple(window)])
    made.generate_gradients()
    return made


def _with_integers(draft: Draft, old: int, new: int) -> Draft:
    """Where an argument says the length that has changed, let it say the new one."""

    def changed(value: Value) -> Value:
        if isinstance(value, int) and not isinstance(value, bool) and value == old:
            return new
        if isinstance(value, list):
            return [changed(item) for item in cast("list[Value]", value)]
        if isinstance(value, dict):
            entry = cast("dict[str, Any]", value)
            return {
                key: changed(item) if key in ("tuple", "size") else item
                for key, item in entry.items()
            }
        return value

    draft.calls = [
        call.model_copy(
            update={
                "args": [changed(value) for value in call.args],
                "kwargs": {key: changed(value) for key, value in call.kwargs.items()},
            }
        )
        for call in draft.calls
    ]
    return draft


def _has_single(draft: Draft, name: str, dim: int) -> bool:
    shape = draft.tensors[name].shape
    return bool(shape) and shape[dim] == 1


def _squeezed(draft: Draft, names: Sequence[str], dim: int) -> Draft:
    made = draft.copy()
    for name in names:
        made.put(name, np.squeeze(draft.array(name), dim))
    made.generate_gradients()
    return made


def _put(draft: Draft, name: str, array: Array) -> Draft:
    """The same layout with other elements; a tensor that shares its storage gets one of its own."""
    made, spec = draft.copy(), draft.tensors[name]
    expanded = any(s == 0 and n > 1 for s, n in zip(spec.strides, spec.shape, strict=True))
    if draft.shares_storage(name) or expanded:
        made.put(name, array)
    else:
        made.put(
            name, array, strides=spec.strides, offset=spec.offset, conj=spec.conj, neg=spec.neg
        )
    return made


def _simpler_arrays(array: Array) -> Iterator[Array]:
    yield np.zeros_like(array)
    yield np.ones_like(array)
    if array.dtype.kind == "b":
        return
    flat = np.arange(array.size).reshape(array.shape)
    yield flat.astype(array.dtype)
    yield (flat + 1).astype(array.dtype)
    if array.dtype.kind in "iu":
        return
    with np.errstate(all="ignore"):
        wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        for decimals in (0, 1, 2):
            yield np.round(wide, decimals).astype(array.dtype)
        yield np.nan_to_num(wide, nan=0.0, posinf=0.0, neginf=0.0).astype(array.dtype)


def _between_kinks(array: Array) -> Iterator[Array]:
    """Halves, and fewer digits, for all elements; then for each."""
    with np.errstate(all="ignore"):
        wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        yield np.full_like(array, 0.5)
        yield np.full_like(array, -0.5)
        yield np.where(wide.real < 0, -0.5, 0.5).astype(array.dtype)
        for decimals in (1, 2):
            yield np.round(wide, decimals).astype(array.dtype)
    if array.size <= MAX_SINGLE:
        for index in range(array.size):
            for plain in (0.5, -0.5, 1.5, *_rounded(wide.ravel()[index].real)):
                yield _filled(array, index, plain)


def _rounded(value: float) -> Iterator[float]:
    if math.isfinite(value):
        yield from (float(f"{value:.{digits}g}") for digits in (1, 2, 3))


def _filled(array: Array, part: int | slice, value: Any) -> Array:
    made = array.copy().reshape(-1)
    with np.errstate(all="ignore"):
        made[part] = np.asarray(value).astype(array.dtype)
    return made.reshape(array.shape)


def _simpler_elements(element: Any) -> Iterator[Any]:
    if element.dtype.kind == "b":
        if element:
            yield False
    elif element.dtype.kind == "c":
        yield from (0, 1)
    else:
        value = float(element)
        yield from simpler_numbers(value if math.isfinite(value) else 1e30)
