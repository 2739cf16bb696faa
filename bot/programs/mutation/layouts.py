"""The mutator of layouts: the same values in memory that is transposed, has gaps, is shared, or is channels-last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import numpy as np

from bot.programs.builder import contiguous_strides
from bot.programs.draft import Draft, elements
from bot.programs.mutation.gradients import leave_gradients
from bot.programs.mutation.known import Known
from bot.programs.mutation.values import shape_tensors, value_tensors
from bot.programs.program import TensorSpec

Layout = Callable[[Sequence[int], Random], list[int] | None]
"""Strides (elements) for a shape, None where it has no such layout."""


def permuted(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The strides of a tensor whose dimensions lie in memory in this order, outermost first."""
    inner = contiguous_strides([shape[dim] for dim in order])
    strides = [0] * len(shape)
    for dim, stride in zip(order, inner, strict=True):
        strides[dim] = stride
    return strides


def _transposed(shape: Sequence[int], random: Random) -> list[int] | None:
    if len(shape) < 2:
        return None
    order = list(range(len(shape)))
    order[-1], order[-2] = order[-2], order[-1]
    return permuted(shape, order)


def _reversed(shape: Sequence[int], random: Random) -> list[int] | None:
    return permuted(shape, range(len(shape) - 1, -1, -1)) if len(shape) > 1 else None


def _any_order(shape: Sequence[int], random: Random) -> list[int] | None:
    if len(shape) < 3:
        return None
    order = list(range(len(shape)))
    random.shuffle(order)
    return permuted(shape, order)


def channels_last(shape: Sequence[int]) -> list[int] | None:
    """Strides of N, spatial, C for 4 or 5 dimensions."""
    if len(shape) not in (4, 5):
        return None
    return permuted(shape, [0, *range(2, len(shape)), 1])


def _gaps(shape: Sequence[int], random: Random) -> list[int] | None:
    if not shape:
        return None
    step = random.choice((2, 3))
    return [stride * step for stride in contiguous_strides(shape)]


def _wide_rows(shape: Sequence[int], random: Random) -> list[int] | None:
    """Rows of a wider matrix."""
    if len(shape) < 2:
        return None
    wide = [*shape]
    wide[-1] += random.choice((1, 3))
    return contiguous_strides(wide)


def _odd_ones(shape: Sequence[int], random: Random) -> list[int] | None:
    """Strides of dimensions of size 1 are anything: they never matter, and kernels look at them."""
    if 1 not in shape:
        return None
    return [
        random.choice((1, 7, 64)) if n == 1 else s
        for n, s in zip(shape, contiguous_strides(shape), strict=True)
    ]


LAYOUTS: dict[str, Layout] = {
    "transposed": _transposed,
    "reversed": _reversed,
    "any-order": _any_order,
    "channels-last": lambda shape, random: channels_last(shape),
    "gaps": _gaps,
    "wide-rows": _wide_rows,
    "odd-ones": _odd_ones,
}


CHANNELS_LAST: Final = 4
"""How much more often than another layout, for images: convolutions and pools have kernels of their own for it."""


def mutate_layouts(draft: Draft, known: Known, random: Random) -> str | None:
    """Give one tensor, or all of them, another layout. Returns what was done, None where nothing fits."""
    tensors = value_tensors(draft)
    if not tensors:
        return None
    if len(tensors) > 1 and random.random() < 0.2:
        done = [_channels_last(draft, spec) for spec in tensors]
        if any(done):
            return "layouts/all/channels-last"
    if random.random() < 0.05 and images(draft, shape_tensors(draft) or tensors):
        return "layouts/images"
    pictures = [spec for spec in shape_tensors(draft) if len(spec.shape) in (4, 5)]
    if pictures and random.random() < 0.15:
        return _one(draft, pictures, random)
    spec = random.choice(tensors)
    roll = random.random()
    written = draft.origin.form == "inplace" or any(c.fn.endswith("_") for c in draft.calls)
    if roll < (0.02 if written else 0.15):  # no op may write to memory that elements share
        return _expanded(draft, spec, random)
    if roll < 0.3:
        offset = random.choice((1, 2, 3, 8))
        draft.put(spec.name, draft.array(spec.name), offset=offset)
        return f"layouts/{spec.name}/offset"
    if roll < 0.45 and spec.dtype.startswith("complex"):
        conj, neg = random.choice(((True, False), (False, True), (True, True)))
        draft.put(spec.name, draft.array(spec.name), conj=conj, neg=neg)
        return f"layouts/{spec.name}/{'conj' if conj else ''}{'neg' if neg else ''}"
    fitting = [
        (name, strides)
        for name, layout in LAYOUTS.items()
        if (strides := layout(spec.shape, random))
    ]
    if not fitting:
        return None
    weights = [CHANNELS_LAST if name == "channels-last" else 1 for name, _ in fitting]
    ((name, strides),) = random.choices(fitting, weights)
    draft.put(spec.name, draft.array(spec.name), strides=strides, offset=random.choice((0, 0, 1)))
    return f"layouts/{spec.name}/{name}"


def images(draft: Draft, tensors: list[TensorSpec]) -> bool:
    """Make images of tensors of fewer dimensions (those of the largest one's shape), and lay them channels-last."""
    largest = max(tensors, key=elements)
    if (
        not 0 < len(largest.shape) < 4
        or 2 ** (4 - len(largest.shape)) * elements(largest) > 1 << 14
    ):
        return False
    shape = [*[2] * (4 - len(largest.shape)), *largest.shape]
    for spec in tensors:
        if spec.shape == largest.shape:
            array = np.broadcast_to(draft.array(spec.name), shape)
            draft.put(spec.name, array, strides=channels_last(shape))
    leave_gradients(draft)
    return True


def _one(draft: Draft, pictures: list[TensorSpec], random: Random) -> str:
    """One channel, or one pixel, in all images alike, and one of them channels-last: its strides then look like others'."""
    what = random.choice(("channel", "channel", "pixel"))
    last = random.choice(pictures)
    for spec in pictures:
        array = draft.array(spec.name)
        dims = (1,) if what == "channel" else range(2, array.ndim)
        for dim in dims:
            array = array[(slice(None),) * dim + (slice(0, 1),)]
        strides = channels_last(array.shape) if spec is last else None
        draft.put(spec.name, array, strides=strides)
    leave_gradients(draft)
    return f"layouts/{last.name}/one-{what}"


def _channels_last(draft: Draft, spec: TensorSpec) -> bool:
    strides = channels_last(spec.shape)
    if strides is not None:
        draft.put(spec.name, draft.array(spec.name), strides=strides)
    return strides is not None


def _expanded(draft: Draft, spec: TensorSpec, random: Random) -> str | None:
    """Repeat the first slice along a dimension by a stride of 0: the values change to those of one slice."""
    dims = [dim for dim, n in enumerate(spec.shape) if n > 1]
    if not dims or 0 in spec.shape:
        return None
    dim = random.choice(dims)
    array = draft.array(spec.name)
    first = np.take(array, [0], axis=dim)
    strides = contiguous_strides(first.shape)
    strides[dim] = 0
    draft.put(spec.name, np.broadcast_to(first, array.shape), strides=strides)
    return f"layouts/{spec.name}/expanded"
