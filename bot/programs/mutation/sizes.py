"""The mutator of sizes: lengths across vector and block borders, 0 and 1, fewer and more dimensions, broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from bot.programs.draft import Draft, elements
from bot.programs.mutation.gradients import leave_gradients
from bot.programs.mutation.known import Known, put, slots
from bot.programs.mutation.values import shape_tensors
from bot.programs.program import TensorSpec, Value

Array = npt.NDArray[Any]
LENGTHS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 127, 129, 257, 1025)
SMALL: Final = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9)
BLOCKS: Final = (8, 16, 17, 32, 64)
"""Channels: what kernels that work in blocks choose their paths by."""
MAX_ELEMENTS: Final = 1 << 16  # of one tensor after a change


def mutate_sizes(draft: Draft, known: Known, random: Random) -> str | None:
    """Change lengths or the number of dimensions. Output gradients are left to the worker. None where nothing fits."""
    tensors = shape_tensors(draft)
    if not tensors:
        return None
    roll = random.random()
    if roll < 0.45:
        label = _together(draft, known, tensors, random)
    elif roll < 0.55:
        label = _flat(draft, tensors, random)
    elif roll < 0.70:
        label = _alone(draft, tensors, random)
    elif roll < 0.85:
        label = _broadcast(draft, tensors, random)
    else:
        label = _rank(draft, tensors, random)
    if label is not None:
        leave_gradients(draft)
    return label


def _length(random: Random, rank: int) -> int:
    if rank > 2:
        return random.choice(SMALL if random.random() < 0.7 else BLOCKS)
    return random.choice(SMALL if random.random() < 0.4 else LENGTHS)


def _together(draft: Draft, known: Known, tensors: list[TensorSpec], random: Random) -> str | None:
    """Every dimension of one length, in all tensors (and in lists of sizes), so that related tensors stay related."""
    lengths = sorted({n for spec in tensors for n in spec.shape})
    if not lengths:
        return None
    old = random.choice(lengths)
    new = _length(random, max(len(spec.shape) for spec in tensors))
    if new == old:
        return None
    for spec in tensors:
        shape = [new if n == old else n for n in spec.shape]
        if math.prod(shape) > MAX_ELEMENTS:
            return None
    for spec in tensors:
        shape = [new if n == old else n for n in spec.shape]
        if shape != spec.shape:
            draft.put(spec.name, resized(draft.array(spec.name), shape))
        if new and new < old and spec.dtype.startswith(("int", "uint")):
            _fold(draft, spec, old, new)
    for slot in slots(draft, known.signatures):
        changed = _in_list(slot.value, old, new)
        if changed is not None:
            put(draft, slot, changed)
    return f"sizes/together/{size_class(new)}"


def _fold(draft: Draft, spec: TensorSpec, old: int, new: int) -> None:
    """Indices into a dimension that has become shorter."""
    array = draft.array(spec.name)
    if array.size and array.min() >= -old and array.max() < old:
        draft.put(spec.name, np.where(array < 0, -(-array % new), array % new))


def _in_list(value: Value, old: int, new: int) -> Value:
    """A list of sizes with a length replaced; None when it holds none. Lists of equal small numbers are no sizes."""
    if isinstance(value, dict):
        entry = cast("dict[str, Value]", value)
        for kind in ("tuple", "size"):
            if kind in entry:
                changed = _in_list(entry[kind], old, new)
                return None if changed is None else {kind: changed}
        return None
    if not isinstance(value, list):
        return None
    items = cast("list[Value]", value)
    plain = all(isinstance(item, int) and not isinstance(item, bool) for item in items)
    if not plain or old not in items or old < 3:
        return None
    return [new if item == old else item for item in items]


def _flat(draft: Draft, tensors: list[TensorSpec], random: Random) -> str | None:
    """One dimension of a length at a border, for tensors of one shape: how many elements a loop of vectors has."""
    return flatten(draft, tensors, random.choice(LENGTHS))


def flatten(draft: Draft, tensors: list[TensorSpec], length: int) -> str | None:
    """Give all tensors of the largest one's shape one dimension of this length."""
    largest = max(tensors, key=elements)
    alike = [spec for spec in tensors if spec.shape == largest.shape]
    if largest.shape == [length]:
        return None
    for spec in alike:
        draft.put(spec.name, resized(draft.array(spec.name).reshape(-1), [length]))
    return f"sizes/flat/{size_class(length)}"


def _alone(draft: Draft, tensors: list[TensorSpec], random: Random) -> str | None:
    fitting = [spec for spec in tensors if spec.shape]
    if not fitting:
        return None
    spec = random.choice(fitting)
    dim = random.randrange(len(spec.shape))
    shape = [*spec.shape]
    shape[dim] = _length(random, len(shape))
    if shape == spec.shape or math.prod(shape) > MAX_ELEMENTS:
        return None
    draft.put(spec.name, resized(draft.array(spec.name), shape))
    return f"sizes/{spec.name}/{size_class(shape[dim])}"


def _broadcast(draft: Draft, tensors: list[TensorSpec], random: Random) -> str | None:
    """A dimension of size 1, or no leading dimensions, in one of several tensors."""
    if len(tensors) < 2:
        return None
    fitting = [spec for spec in tensors if spec.shape]
    if not fitting:
        return None
    spec = random.choice(fitting)
    array = draft.array(spec.name)
    if random.random() < 0.6:
        dim = random.randrange(array.ndim)
        if array.shape[dim] < 2:
            return None
        draft.put(spec.name, np.take(array, [0], axis=dim))
        return f"sizes/{spec.name}/broadcast"
    drop = random.randint(1, array.ndim)
    if 0 in array.shape[:drop]:
        return None
    draft.put(spec.name, array[(0,) * drop])
    return f"sizes/{spec.name}/fewer-dims"


def _rank(draft: Draft, tensors: list[TensorSpec], random: Random) -> str | None:
    """0-dim; one leading dimension less or more: in one tensor, or in all of the same rank."""
    spec = random.choice(tensors)
    alike = [other for other in tensors if len(other.shape) == len(spec.shape)]
    chosen = alike if random.random() < 0.6 else [spec]
    what = random.choice(("scalar", "less", "more", "more"))
    for each in chosen:
        array = draft.array(each.name)
        if what == "more":
            extra = random.choice((1, 1, 2))
            if array.size * extra > MAX_ELEMENTS or array.ndim > 6:
                return None
            draft.put(each.name, np.broadcast_to(array, (extra, *array.shape)))
            continue
        if not array.ndim or 0 in array.shape:
            return None
        draft.put(each.name, array[0] if what == "less" else array.reshape(-1)[0])
    return f"sizes/{'all' if len(chosen) > 1 else spec.name}/{what}"


def resized(array: Array, shape: Sequence[int]) -> Array:
    """The array with other lengths: cut off, or begun again where it ends. What had no element becomes a ramp."""
    if array.size == 0 and 0 not in shape:
        ramp = np.arange(math.prod(shape)) % 7 / 4 - 0.5
        with np.errstate(all="ignore"):
            return ramp.reshape(shape).astype(array.dtype)
    for dim, length in enumerate(shape):
        old = array.shape[dim]
        if length != old:
            array = (
                np.take(array, np.arange(length) % max(old, 1), axis=dim)
                if old
                else _empty(array, dim, length)
            )
    return array


def _empty(array: Array, dim: int, length: int) -> Array:
    shape = [*array.shape]
    shape[dim] = length
    return np.zeros(shape, array.dtype)


def size_class(length: int) -> str:
    """The class of a length: exact up to 9 and around the borders, else between which it lies."""
    if length <= 9 or length in LENGTHS:
        return str(length)
    return next((f"<{bound}" for bound in (16, 32, 64, 128, 256, 1024) if length < bound), "large")
