"""Windows over arrays: convolutions, pools, unfolding, padding and resizing by their definitions."""

from __future__ import annotations

import itertools
import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy
from numpy.lib.stride_tricks import sliding_window_view


def each(value: Any, n: int) -> List[Any]:
    """One value per dimension: a number, or a list of one, stands for all of them."""
    if isinstance(value, (list, tuple)):
        return list(value) * n if len(value) == 1 else list(value)
    return [value] * n


def lowest(dtype: Any) -> Any:
    """What is below every number of a dtype."""
    return (
        -numpy.inf if dtype.kind == "f" else (numpy.iinfo(dtype).min if dtype.kind in "iu" else 0)
    )


def windows(
    input: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Any:
    """All windows over the last dimensions: ``(..., *positions, *kernel)``."""
    n = len(kernel)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    seen = sliding_window_view(input, spans, axis=tuple(range(-n, 0)))
    steps = [slice(None, None, s) for s in stride] + [slice(None, None, d) for d in dilation]
    return seen[(..., *steps)]


# Padding.


def pad(
    input: Any, pads: Sequence[int], mode: str = "constant", value: Optional[float] = None
) -> Any:
    """PyTorch's order of pads, the last dimension first. Negative ones cut: ``circular`` goes round what is left."""
    widths = [(0, 0)] * input.ndim
    for i in range(len(pads) // 2):
        widths[input.ndim - 1 - i] = (pads[2 * i], pads[2 * i + 1])
    grown = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "circular":
        return numpy.pad(_cut(input, widths), grown, "wrap")
    if mode == "constant":
        result = numpy.pad(input, grown, constant_values=0 if value is None else value)
    else:
        result = numpy.pad(input, grown, "edge" if mode == "replicate" else "reflect")
    return _cut(result, widths)


def _cut(array: Any, widths: Sequence[Tuple[int, int]]) -> Any:
    kept = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, array.shape)]
    return array[tuple(kept)]


def _padded(input: Any, before: Sequence[int], after: Sequence[int], value: Any = 0) -> Any:
    widths = [(0, 0)] * (input.ndim - len(before)) + list(zip(before, after))
    return numpy.pad(input, widths, constant_values=value)


# Convolution.


def conv(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation over all dimensions but samples and channels; a sample without a batch dimension too."""
    n = weight.ndim - 2
    if input.ndim == n + 1:
        return conv(input[None], weight, bias, stride, padding, dilation, groups)[0]
    kernel = weight.shape[2:]
    stride, dilation = each(stride, n), each(dilation, n)
    if padding == "same":
        total = [d * (k - 1) for k, d in zip(kernel, dilation)]
        before = [t // 2 for t in total]
        after = [t - b for t, b in zip(total, before)]
    else:
        before = after = each(0 if padding == "valid" else padding, n)
    seen = windows(_padded(input, before, after), kernel, stride, dilation)
    taps = [-1 - i for i in range(n)]
    parts = [
        numpy.tensordot(part, kernels, axes=([1, *taps], [1, *taps]))
        for part, kernels in zip(numpy.split(seen, groups, 1), numpy.split(weight, groups, 0))
    ]
    result = numpy.moveaxis(numpy.concatenate(parts, -1), -1, 1)
    return result if bias is None else result + bias.reshape(-1, *[1] * n)


def conv_transpose(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Each input element times the kernel, added up where it lands; ``padding`` is cut off, ``output_padding`` added."""
    n = weight.ndim - 2
    if input.ndim == n + 1:
        whole = conv_transpose(
            input[None], weight, bias, stride, padding, output_padding, groups, dilation
        )
        return whole[0]
    stride, padding, dilation = each(stride, n), each(padding, n), each(dilation, n)
    kernel = weight.shape[2:]
    sizes = input.shape[2:]
    full = [
        (i - 1) * s + d * (k - 1) + 1 + o
        for i, s, d, k, o in zip(sizes, stride, dilation, kernel, each(output_padding, n))
    ]
    channels = weight.shape[1]
    result = numpy.zeros((input.shape[0], channels * groups, *full), input.dtype)
    for group, (part, kernels) in enumerate(
        zip(numpy.split(input, groups, 1), numpy.split(weight, groups, 0))
    ):
        target = result[:, group * channels : (group + 1) * channels]
        for tap in itertools.product(*map(range, kernel)):
            places = tuple(
                slice(t * d, t * d + (i - 1) * s + 1, s)
                for t, d, i, s in zip(tap, dilation, sizes, stride)
            )
            landed = numpy.tensordot(part, kernels[(..., *tap)], axes=([1], [0]))
            target[(..., *places)] += numpy.moveaxis(landed, -1, 1)
    result = result[(..., *[slice(p, f - p) for p, f in zip(padding, full)])]
    return result if bias is None else result + bias.reshape(-1, *[1] * n)


def unfold(input: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Blocks of images as columns: ``(N, C * taps, positions)``."""
    if input.ndim == 3:
        return unfold(input[None], kernel_size, dilation, padding, stride)[0]
    kernel, pads = each(kernel_size, 2), each(padding, 2)
    seen = windows(_padded(input, pads, pads), kernel, each(stride, 2), each(dilation, 2))
    ordered = numpy.moveaxis(seen, (-2, -1), (2, 3))
    positions = ordered.shape[-2] * ordered.shape[-1]
    return ordered.reshape(input.shape[0], input.shape[1] * kernel[0] * kernel[1], positions)


# Pools.


def _pool_padding(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> List[int]:
    """Padding after each dimension, so that the windows are those of ``ceil_mode``: none starts beyond the input."""
    after: List[int] = []
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation):
        span = d * (k - 1) + 1
        steps = (size + 2 * p - span) / s
        count = (math.ceil(steps) if ceil_mode else math.floor(steps)) + 1
        if ceil_mode and (count - 1) * s >= size + p:
            count -= 1
        after.append(max((count - 1) * s + span - size - p, 0))
    return after


def _geometry(
    n: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any
) -> Tuple[Any, ...]:
    kernel = each(kernel_size, n)
    steps = kernel if stride is None or stride in ((), []) else each(stride, n)
    return kernel, steps, each(padding, n), each(dilation, n)


def max_pool(
    n: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Tuple[Any, Any]:
    """Greatest element of each window over the last ``n`` dimensions, and its flat place in them."""
    kernel, stride, padding, dilation = _geometry(n, kernel_size, stride, padding, dilation)
    if any(2 * p > k for p, k in zip(padding, kernel)):
        raise ValueError("pad should be at most half of effective kernel size")
    sizes = input.shape[-n:]
    after = _pool_padding(sizes, kernel, stride, padding, dilation, ceil_mode)
    places = numpy.arange(math.prod(sizes)).reshape(sizes)
    taps = tuple(range(-n, 0))
    flat = (*[-1] * 0, -1)
    seen = windows(_padded(input, padding, after, lowest(input.dtype)), kernel, stride, dilation)
    seen = seen.reshape(*seen.shape[: seen.ndim - len(taps)], *flat)
    where = windows(_padded(places, padding, after, -1), kernel, stride, dilation)
    where = where.reshape(*where.shape[: where.ndim - len(taps)], *flat)
    # Padding is not in a window: an element of the input is there first where both are the lowest number.
    best = numpy.argmax(numpy.where(where >= 0, seen, lowest(input.dtype)), axis=-1)[..., None]
    first = numpy.argmax(where >= 0, axis=-1)[..., None]
    chosen = numpy.where(
        numpy.take_along_axis(numpy.broadcast_to(where, seen.shape), best, -1) >= 0, best, first
    )
    values = numpy.take_along_axis(seen, chosen, -1)[..., 0]
    return values, numpy.take_along_axis(numpy.broadcast_to(where, seen.shape), chosen, -1)[..., 0]


def avg_pool(
    n: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Optional[int] = None,
) -> Any:
    """Mean of each window; padding counts where asked for, what ``ceil_mode`` adds never."""
    kernel, stride, padding, ones = _geometry(n, kernel_size, stride, padding, 1)
    sizes = input.shape[-n:]
    after = _pool_padding(sizes, kernel, stride, padding, ones, ceil_mode)
    counted = numpy.ones(sizes, input.dtype)
    if count_include_pad:
        counted = _padded(counted, padding, [min(a, p) for a, p in zip(after, padding)], 1)
        counts = _padded(counted, [0] * n, [max(a - p, 0) for a, p in zip(after, padding)])
    else:
        counts = _padded(counted, padding, after)
    taps = tuple(range(-n, 0))
    total = windows(_padded(input, padding, after), kernel, stride, ones).sum(axis=taps)
    if divisor_override is not None:
        return (total / divisor_override).astype(input.dtype)
    return total / windows(counts, kernel, stride, ones).sum(axis=taps)


def lp_pool(
    n: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Any:
    """``(sum(x ** p)) ** (1 / p)`` of each window."""
    kernel, stride, none, ones = _geometry(n, kernel_size, stride, 0, 1)
    after = _pool_padding(input.shape[-n:], kernel, stride, none, ones, ceil_mode)
    seen = windows(_padded(input, none, after), kernel, stride, ones)
    return (seen**norm_type).sum(axis=tuple(range(-n, 0))) ** (1 / norm_type)


def _cells(size: int, count: int) -> List[slice]:
    """The adaptive windows: from ``floor(i * size / count)`` to ``ceil((i + 1) * size / count)``."""
    return [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive_sizes(input: Any, n: int, output_size: Any) -> List[int]:
    given = each(output_size, n)
    return [size if count is None else count for size, count in zip(input.shape[-n:], given)]


def adaptive_avg_pool(n: int, input: Any, output_size: Any) -> Any:
    """Mean over each cell, one dimension after the other."""
    result = input
    for axis, count in zip(range(-n, 0), _adaptive_sizes(input, n, output_size)):
        moved = numpy.moveaxis(result, axis, 0)
        cells = [moved[cell].mean(axis=0) for cell in _cells(moved.shape[0], count)]
        stacked = numpy.stack(cells) if cells else moved[:0]
        result = numpy.moveaxis(stacked, 0, axis)
    return result


def adaptive_max_pool(n: int, input: Any, output_size: Any) -> Tuple[Any, Any]:
    """Greatest element of each cell, and its flat place in the last ``n`` dimensions."""
    sizes = input.shape[-n:]
    counts = _adaptive_sizes(input, n, output_size)
    places = numpy.arange(math.prod(sizes)).reshape(sizes)
    values = numpy.empty((*input.shape[:-n], *counts), input.dtype)
    where = numpy.empty(values.shape, numpy.int64)
    cells = [_cells(size, count) for size, count in zip(sizes, counts)]
    for index in itertools.product(*map(range, counts)):
        cell = tuple(cells[i][c] for i, c in enumerate(index))
        seen = input[(..., *cell)].reshape(*input.shape[:-n], -1)
        best = numpy.argmax(seen, axis=-1)
        values[(..., *index)] = numpy.take_along_axis(seen, best[..., None], -1)[..., 0]
        where[(..., *index)] = places[cell].reshape(-1)[best]
    return values, where


# Resizing.


def interpolate(
    input: Any, size: Any, scale_factor: Any, mode: str, align_corners: Any, recompute: Any
) -> Any:
    """Each dimension after samples and channels is multiplied by its matrix of weights."""
    n = input.ndim - 2
    scales: List[Optional[float]] = [None] * n
    if size is None:
        factors = [float(factor) for factor in each(scale_factor, n)]
        sizes = [math.floor(length * f) for length, f in zip(input.shape[2:], factors)]
        scales = scales if recompute else [1 / f for f in factors]
    else:
        sizes = each(size, n)
    if mode == "area":
        return adaptive_avg_pool(n, input, sizes)
    result = input
    for axis, (count, scale) in enumerate(zip(sizes, scales), 2):
        weights = _weights(input.shape[axis], count, scale, mode, bool(align_corners))
        moved = numpy.tensordot(result, weights.astype(input.dtype), axes=([axis], [1]))
        result = numpy.moveaxis(moved, -1, axis)
    return result


def _weights(size: int, count: int, scale: Optional[float], mode: str, align: bool) -> Any:
    """``(count, size)``: how much of each element goes into each result along one dimension."""
    step = size / count if scale is None else scale
    steps = numpy.arange(count)
    if mode in ("nearest", "nearest-exact"):
        centre = steps * step if mode == "nearest" else (steps + 0.5) * step
        return numpy.eye(size)[numpy.minimum(numpy.floor(centre).astype(int), size - 1)]
    if align:
        centre = steps * ((size - 1) / (count - 1) if count > 1 else 0.0)
    else:
        centre = (steps + 0.5) * step - 0.5
    if mode != "bicubic":
        centre = numpy.maximum(centre, 0)
    base = numpy.floor(centre).astype(int)
    part = centre - base
    if mode == "bicubic":
        taps = [
            (-1, _cubic(part + 1)),
            (0, _cubic(part)),
            (1, _cubic(1 - part)),
            (2, _cubic(2 - part)),
        ]
    else:
        taps = [(0, 1 - part), (1, part)]
    weights = numpy.zeros((count, size))
    for offset, weight in taps:
        numpy.add.at(weights, (steps, numpy.clip(base + offset, 0, size - 1)), weight)
    return weights


def _cubic(distance: Any, a: float = -0.75) -> Any:
    """Keys' convolution kernel (IEEE Transactions on Acoustics, Speech and Signal Processing 29, 1981)."""
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return numpy.where(distance <= 1, near, far)
