"""Windows over arrays by ``jax.lax``: convolutions, pools, padding, unfolding and resizing."""

from __future__ import annotations

import itertools
import math
from typing import Any, List, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy


def each(value: Any, n: int) -> List[Any]:
    """One number per dimension: a number, or a list of one, stands for all of them."""
    if isinstance(value, (list, tuple)):
        return list(value) * n if len(value) == 1 else list(value)
    return [value] * n


def pad(
    input: Any, pads: Sequence[int], mode: str = "constant", value: Optional[float] = None
) -> Any:
    """PyTorch's order of pads, the last dimension first; negative ones cut."""
    widths = [(0, 0)] * input.ndim
    for i in range(len(pads) // 2):
        widths[input.ndim - 1 - i] = (pads[2 * i], pads[2 * i + 1])
    if mode == "constant":
        filling = jnp.asarray(0 if value is None else value, input.dtype)
        return jax.lax.pad(input, filling, [(a, b, 0) for a, b in widths])
    named = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    result = jnp.pad(input, [(max(a, 0), max(b, 0)) for a, b in widths], mode=named[mode])
    cut = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, result.shape)]
    return result[tuple(cut)]


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
    """``jax.lax.conv_general_dilated``; a sample without a batch dimension too."""
    n = weight.ndim - 2
    if input.ndim == n + 1:
        return conv(input[None], weight, bias, stride, padding, dilation, groups)[0]
    dilation = each(dilation, n)
    if padding == "same":
        # The odd element of an even kernel is padded at the end, as PyTorch says; XLA's "SAME" depends on the stride.
        totals = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation)]
        pads = [(t // 2, t - t // 2) for t in totals]
    else:
        pads = [(p, p) for p in each(0 if padding == "valid" else padding, n)]
    result = jax.lax.conv_general_dilated(
        input, weight, each(stride, n), pads, rhs_dilation=dilation, feature_group_count=groups
    )
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
    """The transpose of ``conv``: a convolution of the dilated input with the flipped kernel, channels exchanged."""
    n = weight.ndim - 2
    if input.ndim == n + 1:
        whole = (input[None], weight, bias, stride, padding, output_padding, groups, dilation)
        return conv_transpose(*whole)[0]
    dilation = each(dilation, n)
    kernel = weight.shape[2:]
    pads = [
        (d * (k - 1) - p, d * (k - 1) - p + o)
        for k, d, p, o in zip(kernel, dilation, each(padding, n), each(output_padding, n))
    ]
    grouped = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    exchanged = jnp.swapaxes(grouped, 1, 2).reshape(-1, weight.shape[0] // groups, *kernel)
    result = jax.lax.conv_general_dilated(
        input,
        jnp.flip(exchanged, tuple(range(2, n + 2))),
        [1] * n,
        pads,
        lhs_dilation=each(stride, n),
        rhs_dilation=dilation,
        feature_group_count=groups,
    )
    return result if bias is None else result + bias.reshape(-1, *[1] * n)


def unfold(input: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Blocks of images as columns by ``jax.lax.conv_general_dilated_patches``: ``(N, C * taps, positions)``."""
    if input.ndim == 3:
        return unfold(input[None], kernel_size, dilation, padding, stride)[0]
    pads = [(p, p) for p in each(padding, 2)]
    found = jax.lax.conv_general_dilated_patches(
        input, each(kernel_size, 2), each(stride, 2), pads, rhs_dilation=each(dilation, 2)
    )
    return found.reshape(*found.shape[:2], -1)


# Pools.


def _geometry(
    n: int,
    sizes: Sequence[int],
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> Tuple[List[int], List[int], List[int], List[int], List[int]]:
    """Kernel, stride, dilation, and padding before and after, so that windows are those of ``ceil_mode``."""
    kernel = each(kernel_size, n)
    steps = kernel if stride is None or stride in ((), []) else each(stride, n)
    before, dilations = each(padding, n), each(dilation, n)
    after: List[int] = []
    for size, k, s, p, d in zip(sizes, kernel, steps, before, dilations):
        span = d * (k - 1) + 1
        fits = (size + 2 * p - span) / s
        count = (math.ceil(fits) if ceil_mode else math.floor(fits)) + 1
        if ceil_mode and (count - 1) * s >= size + p:
            # No window begins beyond the input and its padding on the left.
            count -= 1
        after.append(max((count - 1) * s + span - size - p, 0))
    return kernel, steps, dilations, before, after


def _window(
    input: Any,
    start: Any,
    combine: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[Tuple[int, int]],
) -> Any:
    extra = [1] * (input.ndim - len(kernel))
    return jax.lax.reduce_window(
        input,
        # A constant of NumPy's: JAX knows a sum or maximum, which has a gradient, by its start.
        numpy.asarray(start, input.dtype)[()],
        combine,
        (*extra, *kernel),
        (*extra, *stride),
        [*[(0, 0)] * len(extra), *pads],
        window_dilation=(*extra, *dilation),
    )


def max_pool(
    n: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    """Greatest element of each window over the last ``n`` dimensions, by ``jax.lax.reduce_window``."""
    kernel, steps, dilations, before, after = _geometry(
        n, input.shape[-n:], kernel_size, stride, padding, dilation, ceil_mode
    )
    if any(2 * p > k for p, k in zip(before, kernel)):
        raise ValueError("pad should be at most half of effective kernel size")
    lowest = -numpy.inf if jnp.issubdtype(input.dtype, jnp.floating) else jnp.iinfo(input.dtype).min
    pads = list(zip(before, after))
    return _window(input, lowest, jax.lax.max, kernel, steps, dilations, pads)


def _summed(input: Any, geometry: Tuple[List[int], ...], pads: Sequence[Tuple[int, int]]) -> Any:
    return _window(input, 0, jax.lax.add, geometry[0], geometry[1], geometry[2], pads)


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
    geometry = _geometry(n, input.shape[-n:], kernel_size, stride, padding, 1, ceil_mode)
    before, after = geometry[3:]
    pads = list(zip(before, after))
    total = _summed(input, geometry, pads)
    if divisor_override is not None:
        return total / divisor_override
    ones = jnp.ones(input.shape[-n:], input.dtype)
    if not count_include_pad:
        return total / _summed(ones, geometry, pads)
    own = jnp.pad(ones, [(p, min(a, p)) for p, a in zip(before, after)], constant_values=1)
    return total / _summed(own, geometry, [(0, max(a - p, 0)) for p, a in zip(before, after)])


def lp_pool(
    n: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Any:
    """``(sum(x ** p)) ** (1 / p)`` of each window."""
    geometry = _geometry(n, input.shape[-n:], kernel_size, stride, 0, 1, ceil_mode)
    pads = list(zip(*geometry[3:]))
    return _summed(input**norm_type, geometry, pads) ** (1 / norm_type)


def adaptive_avg_pool(n: int, input: Any, output_size: Any) -> Any:
    """Mean over each cell, from ``floor(i * size / count)`` to ``ceil((i + 1) * size / count)``, by one matrix a dimension."""
    result = input
    for axis, count in zip(range(-n, 0), adaptive_sizes(input, n, output_size)):
        size = result.shape[axis]
        weights = numpy.zeros((count, size))
        for i in range(count):
            first, last = i * size // count, -(-(i + 1) * size // count)
            weights[i, first:last] = 1 / (last - first)
        moved = jnp.moveaxis(result, axis, -1) @ jnp.asarray(weights.T, input.dtype)
        result = jnp.moveaxis(moved, -1, axis)
    return result


def window_sums(input: Any, size: int) -> Any:
    """Sums of ``size`` neighbouring channels around each one."""
    window = (1, size, *[1] * (input.ndim - 2))
    pads = [(0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (input.ndim - 2)]
    zero = numpy.asarray(0, input.dtype)[()]
    return jax.lax.reduce_window(input, zero, jax.lax.add, window, (1,) * input.ndim, pads)


def max_pool_with_indices(
    n: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Tuple[Any, Any]:
    """Greatest element of each window, and its flat place in the last ``n`` dimensions, by an index of all windows."""
    sizes = input.shape[-n:]
    kernel, steps, dilations, before, after = _geometry(
        n, sizes, kernel_size, stride, padding, dilation, ceil_mode
    )
    starts = [
        [numpy.arange(k) * d + i * s - p for i in range((size + p + a - (k - 1) * d - 1) // s + 1)]
        for size, k, s, d, p, a in zip(sizes, kernel, steps, dilations, before, after)
    ]
    return _greatest(input, starts)


def adaptive_max_pool(n: int, input: Any, output_size: Any) -> Tuple[Any, Any]:
    """Greatest element of each cell, and its flat place in the last ``n`` dimensions."""
    sizes = input.shape[-n:]
    cells = [
        [numpy.arange(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        for size, count in zip(sizes, adaptive_sizes(input, n, output_size))
    ]
    return _greatest(input, cells)


def adaptive_sizes(input: Any, n: int, output_size: Any) -> List[int]:
    """How many cells there are; None keeps a dimension's length."""
    given = each(output_size, n)
    return [size if count is None else count for size, count in zip(input.shape[-n:], given)]


def _greatest(input: Any, windows: List[List[Any]]) -> Tuple[Any, Any]:
    """Greatest elements, and where; ``windows`` lists each dimension's windows, each by the places that it covers."""
    n = len(windows)
    sizes = input.shape[-n:]
    counts = [len(along) for along in windows]
    rows: List[Any] = []
    for chosen in itertools.product(*windows):
        places = numpy.zeros((1,), numpy.int64)
        for size, row in zip(sizes, chosen):
            inside = numpy.where((row >= 0) & (row < size), row, -1)
            joined = places[:, None] * size + inside
            places = numpy.where((places[:, None] < 0) | (inside < 0), -1, joined).reshape(-1)
        rows.append(places)
    width = max((len(row) for row in rows), default=1)
    index = numpy.full((len(rows), width), -1, numpy.int64)
    for number, row in enumerate(rows):
        index[number, : len(row)] = row
    flat = input.reshape(*input.shape[:-n], -1)
    # A window is never empty: of equal elements the first one in it is taken, not the padding.
    lowest = -numpy.inf if jnp.issubdtype(input.dtype, jnp.floating) else jnp.iinfo(input.dtype).min
    seen = jnp.where(index >= 0, flat[..., numpy.maximum(index, 0)], lowest)
    best = jnp.argmax(seen, axis=-1, keepdims=True)
    values = jnp.take_along_axis(seen, best, -1)[..., 0]
    where = jnp.take_along_axis(jnp.broadcast_to(index, seen.shape), best, -1)[..., 0]
    shape = (*input.shape[:-n], *counts)
    return values.reshape(shape), where.reshape(shape)


# Resizing.


def _sizes(
    input: Any, size: Any, scale_factor: Any, recompute: Any
) -> Tuple[List[int], List[float]]:
    """Sizes of the result, and the scales by which its places are computed: given ones, or those of the sizes."""
    n = input.ndim - 2
    given = input.shape[2:]
    if size is not None:
        sizes = each(size, n)
        return sizes, [count / length for count, length in zip(sizes, given)]
    factors = [float(factor) for factor in each(scale_factor, n)]
    sizes = [math.floor(length * factor) for length, factor in zip(given, factors)]
    if recompute:
        factors = [count / length for count, length in zip(sizes, given)]
    return sizes, factors


def linear(input: Any, size: Any, scale_factor: Any, align_corners: Any, recompute: Any) -> Any:
    """``jax.image.scale_and_translate`` by linear interpolation, without antialiasing."""
    sizes, scales = _sizes(input, size, scale_factor, recompute)
    if align_corners:
        given = input.shape[2:]
        scales = [(c - 1) / (n - 1) if c > 1 and n > 1 else 1.0 for c, n in zip(sizes, given)]
    shifts = [0.5 - 0.5 * scale if align_corners else 0.0 for scale in scales]
    return jax.image.scale_and_translate(
        input,
        (*input.shape[:2], *sizes),
        tuple(range(2, input.ndim)),
        jnp.asarray(scales, input.dtype),
        jnp.asarray(shifts, input.dtype),
        "linear",
        antialias=False,
    )


def nearest(input: Any, size: Any, scale_factor: Any, recompute: Any) -> Any:
    """PyTorch's ``nearest``, the element at ``floor(i / scale)``; ``jax.image.resize`` has its ``nearest-exact``."""
    sizes, scales = _sizes(input, size, scale_factor, recompute)
    result = input
    for axis, (count, scale) in enumerate(zip(sizes, scales), 2):
        places = numpy.floor(numpy.arange(count) / scale).astype(numpy.int64)
        result = jnp.take(result, numpy.minimum(places, input.shape[axis] - 1), axis=axis)
    return result


def resize(input: Any, size: Any, scale_factor: Any, method: str) -> Any:
    """``jax.image.resize`` without antialiasing; sizes by factors are rounded down."""
    sizes, _ = _sizes(input, size, scale_factor, None)
    return jax.image.resize(input, (*input.shape[:2], *sizes), method, antialias=False)
