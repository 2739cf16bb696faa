"""What the forms of ``ops/jax.yml`` call where one of JAX's functions does not do: PyTorch's dtypes and dims, and compositions.

Convolutions, pools and resizing are in ``jax_windows.py``. Argument names are PyTorch's, as everywhere in the forms.
"""

from __future__ import annotations

import itertools
from typing import Any, List, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy

DEFAULT = numpy.dtype("float32")
"""The dtype that PyTorch's factories and its float functions of integers give; JAX's, with 64 bits on, is float64."""

_RANKS = ((jnp.bool_, 0), (jnp.integer, 1), (jnp.floating, 2), (jnp.complexfloating, 3))


# Dtypes.


def rank(dtype: Any) -> int:
    """0 for bool, 1 for integers, 2 for floats, 3 for complex dtypes."""
    return next(number for kind, number in _RANKS if jnp.issubdtype(dtype, kind))


def result_type(*operands: Any) -> Any:
    """``torch.result_type``: the highest kind decides; of one kind tensors with dimensions, those without, plain numbers."""
    ranks: List[List[Any]] = [[], [], []]
    for operand in operands:
        if isinstance(operand, jax.Array):
            ranks[0 if operand.ndim else 1].append(operand.dtype)
        else:
            ranks[2].append(number_dtype(operand))
    decided: Any = None
    for dtypes in ranks:
        if dtypes:
            lower = jnp.promote_types(dtypes[0], dtypes[-1])
            for dtype in dtypes:
                lower = jnp.promote_types(lower, dtype)
            decided = lower if decided is None else _combined(decided, lower)
    return decided


def _combined(higher: Any, lower: Any) -> Any:
    if rank(lower) <= rank(higher):
        return higher
    return jnp.promote_types(higher, numpy.complex64) if rank(higher) == 2 else lower


def number_dtype(*numbers: Any) -> Any:
    """The dtype that PyTorch gives plain numbers: bool, int64, float32 or complex64, the highest of theirs."""
    kinds = [bool, int, float, complex]
    found = max((kinds.index(type(number)) for number in numbers), default=2)
    return numpy.dtype(("bool", "int64", "float32", "complex64")[found])


def cast(operand: Any, dtype: Any) -> Any:
    """An array of the dtype; a plain number stays one where JAX takes it for that dtype."""
    if isinstance(operand, jax.Array):
        return operand if operand.dtype == dtype else operand.astype(dtype)
    return operand if rank(number_dtype(operand)) == rank(dtype) else jnp.asarray(operand, dtype)


def promoted(*operands: Any) -> List[Any]:
    """All operands in their common dtype."""
    dtype = result_type(*operands)
    return [cast(operand, dtype) for operand in operands]


def inexact(operand: Any) -> Any:
    """A float or complex array as it is, any other as float32."""
    return operand if rank(operand.dtype) >= 2 else operand.astype(DEFAULT)


def promoted_inexact(*operands: Any) -> List[Any]:
    """All operands in their common float or complex dtype."""
    dtype = result_type(*operands)
    dtype = dtype if rank(dtype) >= 2 else DEFAULT
    return [cast(operand, dtype) for operand in operands]


def summed(input: Any, dtype: Any = None) -> Any:
    """The dtype of a sum or product: integers and bools are summed as int64."""
    return dtype or (input.dtype if rank(input.dtype) >= 2 else numpy.dtype("int64"))


def scaled(operand: Any, factor: Any) -> Any:
    """``operand * factor`` in the operand's dtype; itself for a factor of 1."""
    return (
        operand
        if type(factor) is not bool and factor == 1
        else operand * cast_number(factor, operand)
    )


def cast_number(number: Any, like: Any) -> Any:
    """A number in the dtype of an array."""
    return jnp.asarray(number, like.dtype)


# Dimensions.


def axes(dim: Any, input: Any) -> Any:
    """JAX's axis of PyTorch's dim: None and an empty list are all dimensions, and 0 is one of an array without any."""
    if isinstance(dim, (list, tuple)):
        dim = tuple(dim) or None
    if input.ndim == 0 and dim in (0, -1, (0,), (-1,)):
        return None
    return dim


def ones_of(input: Any, dim: Any) -> Tuple[int, ...]:
    """Those of the dimensions that have length 1: what ``squeeze`` takes away."""
    dims = dim if isinstance(dim, (list, tuple)) else (dim,)
    return tuple(d for d in dims if input.ndim and input.shape[d] == 1)


def expanded(input: Any, sizes: Sequence[int]) -> Any:
    """``input`` broadcast to ``sizes``, in which -1 stands for its own length."""
    offset = len(sizes) - input.ndim
    shape = [input.shape[i - offset] if n == -1 else n for i, n in enumerate(sizes)]
    return jnp.broadcast_to(input, shape)


def summed_to(input: Any, shape: Sequence[int]) -> Any:
    """The sum over what broadcasting ``shape`` to the input's shape would repeat."""
    extra = input.ndim - len(shape)
    kept = tuple(i + extra for i, n in enumerate(shape) if n == 1 and input.shape[i + extra] != 1)
    return jnp.sum(input, axis=(*range(extra), *kept), keepdims=True).reshape(shape)


def pieces(input: Any, size: Any, dim: int) -> List[Any]:
    """``torch.split``: pieces of a size, or of the sizes listed."""
    length = input.shape[dim]
    if isinstance(size, (list, tuple)):
        if sum(size) != length:
            raise ValueError("split_with_sizes expects sizes that sum to %d" % length)
        ends = [int(end) for end in numpy.cumsum(size)[:-1]]
    else:
        ends = list(range(size, length, size)) if size else []
    return list(jnp.split(input, ends, axis=dim))


def diag_embed(input: Any, offset: int, dim1: int, dim2: int) -> Any:
    """Matrices over two new dimensions, with the last dimension on a diagonal."""
    n = input.shape[-1] + abs(offset)
    steps = numpy.arange(input.shape[-1])
    result = jnp.zeros((*input.shape[:-1], n, n), input.dtype)
    result = result.at[..., steps + max(-offset, 0), steps + max(offset, 0)].set(input)
    return jnp.moveaxis(result, (-2, -1), (dim1, dim2))


def nested(value: Any) -> Any:
    """An index as JAX takes it: lists of numbers as arrays."""
    if isinstance(value, tuple):
        return tuple(map(nested, value))
    return jnp.asarray(value) if isinstance(value, list) else value


# Sorting and picking.


def sort(input: Any, dim: int = -1, descending: bool = False) -> Tuple[Any, Any]:
    """Sorted elements and where they were; stable."""
    if input.ndim == 0:
        return input, jnp.zeros((), jnp.int64)
    indices = jnp.argsort(input, axis=dim, stable=True, descending=descending)
    return jnp.take_along_axis(input, indices, dim), indices


def extreme(input: Any, dim: int, keepdim: bool, how: str) -> Tuple[Any, Any]:
    """The ``max`` or ``min`` along a dimension, and where it is first."""
    if input.ndim == 0:
        return input, jnp.zeros((), jnp.int64)
    indices = (jnp.argmax if how == "max" else jnp.argmin)(input, axis=dim, keepdims=True)
    values = jnp.take_along_axis(input, indices, dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def cumulative(input: Any, dim: int, how: str) -> Tuple[Any, Any]:
    """The ``max`` or ``min`` so far, and where the last one of it is."""
    if input.ndim == 0:
        return input, jnp.zeros((), jnp.int64)
    dim %= input.ndim
    values = (jax.lax.cummax if how == "max" else jax.lax.cummin)(input, dim)
    steps = jax.lax.broadcasted_iota(jnp.int64, input.shape, dim)
    here = (input == values) | (jnp.isnan(input) & jnp.isnan(values))
    return values, jax.lax.cummax(jnp.where(here, steps, 0), dim)


def topk(input: Any, k: int, dim: int, largest: bool) -> Tuple[Any, Any]:
    """The ``k`` largest elements in order by ``jax.lax.top_k``, or the smallest by sorting, and where they were."""
    if input.ndim == 0:
        return input, jnp.zeros((), jnp.int64)
    if not largest:
        values, indices = sort(input, dim)
        return tuple(jax.lax.slice_in_dim(x, 0, k, axis=dim) for x in (values, indices))  # type: ignore[return-value]
    values, indices = jax.lax.top_k(jnp.moveaxis(input, dim, -1), k)
    return jnp.moveaxis(values, -1, dim), jnp.moveaxis(indices, -1, dim).astype(jnp.int64)


def kth(input: Any, k: int, dim: int, keepdim: bool) -> Tuple[Any, Any]:
    """The k-th smallest element, from 1, and where it is."""
    values, indices = sort(input, dim)
    if input.ndim == 0:
        return values, indices
    picked = [
        jnp.take(x, jnp.asarray([k - 1]) if keepdim else k - 1, axis=dim) for x in (values, indices)
    ]
    return picked[0], picked[1]


def median(input: Any, dim: int, keepdim: bool) -> Tuple[Any, Any]:
    """The lower median, which JAX's own is not, and where it is."""
    return kth(input, ((input.shape[dim] if input.ndim else 1) + 1) // 2, dim, keepdim)


def grid(index: Any, dim: int) -> Tuple[Any, ...]:
    """Open grids of the index's shape, with the index itself along ``dim``."""
    grids: List[Any] = list(numpy.ogrid[tuple(slice(n) for n in index.shape)])
    grids[dim % index.ndim] = index
    return tuple(grids)


def gather(input: Any, dim: int, index: Any) -> Any:
    """``input[i][index[i][j]]`` along ``dim``; the index may be smaller elsewhere."""
    if index.ndim == 0:
        return input.reshape(1)[index.reshape(1)].reshape(())
    return input.reshape(input.shape or (1,))[grid(index, dim)]


def scatter(input: Any, dim: int, index: Any, src: Any, how: str = "set") -> Any:
    """``input.at[...]`` with ``set``, ``add``, ``multiply``, ``max`` or ``min`` of ``src`` along ``dim``."""
    if index.ndim == 0:
        one = src.reshape(1) if isinstance(src, jax.Array) else src
        return scatter(input.reshape(1), 0, index.reshape(1), one, how).reshape(input.shape)
    if isinstance(src, jax.Array) and src.ndim:
        src = src[tuple(slice(n) for n in index.shape)]
    return getattr(input.reshape(input.shape or (1,)).at[grid(index, dim)], how)(src).reshape(
        input.shape
    )


def index_combine(input: Any, dim: int, index: Any, source: Any, how: str) -> Any:
    """``input.at[:, index]`` with ``set`` or ``add`` of slices of ``source``."""
    shaped = input.reshape(input.shape or (1,))
    index = index.reshape(-1)
    if isinstance(source, jax.Array) and source.ndim < shaped.ndim and source.size == 1:
        source = source.reshape((1,) * shaped.ndim)
    places = (*[slice(None)] * (dim % shaped.ndim), index)
    return getattr(shaped.at[places], how)(source).reshape(input.shape)


# Losses and normalisation.


def reduced(loss: Any, reduction: str) -> Any:
    """``mean``, ``sum`` or ``none`` of a loss; anything else is a ValueError."""
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise ValueError("%s is not a valid value for reduction" % reduction)
    return jnp.mean(loss) if reduction == "mean" else jnp.sum(loss)


def nll_loss(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """``-w[t] * x[t]``, over classes in dimension 1 (0 for one sample); the mean is weighted."""
    scores = jnp.moveaxis(input, 1, -1) if input.ndim > 1 else input
    counted = target != ignore_index
    picked = jnp.where(counted, target, 0)
    chosen = jnp.take_along_axis(scores, picked[..., None], -1)[..., 0]
    weights = counted.astype(input.dtype) if weight is None else weight[picked] * counted
    loss = jnp.where(counted, -chosen * weights, 0)
    return jnp.sum(loss) / jnp.sum(weights) if reduction == "mean" else reduced(loss, reduction)


def cross_entropy(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    """Of class indices or, where ``target`` is float, of class probabilities, over ``jax.nn.log_softmax``."""
    dim = 1 if input.ndim > 1 else 0
    logs = jax.nn.log_softmax(input, axis=dim)
    classes = input.shape[dim]
    shape = [classes if i == dim else 1 for i in range(input.ndim)]
    weights = jnp.ones(classes, input.dtype) if weight is None else weight
    if jnp.issubdtype(target.dtype, jnp.floating):
        smoothed = target * (1 - smoothing) + smoothing / classes
        loss = -jnp.sum(logs * smoothed * weights.reshape(shape), axis=dim)
        return jnp.sum(loss) / loss.size if reduction == "mean" else reduced(loss, reduction)
    if not smoothing:
        return nll_loss(logs, target, weight, ignore_index, reduction)
    counted = target != ignore_index
    even = -jnp.sum(logs * weights.reshape(shape), axis=dim) * counted
    loss = (1 - smoothing) * nll_loss(
        logs, target, weight, ignore_index, "none"
    ) + smoothing / classes * even
    if reduction != "mean":
        return reduced(loss, reduction)
    return jnp.sum(loss) / jnp.sum(weights[jnp.where(counted, target, 0)] * counted)


def normalized(input: Any, axis: Tuple[int, ...], eps: float) -> Tuple[Any, Any, Any]:
    """``(x - mean) / sqrt(var + eps)`` over ``axis``, the mean, and ``1 / sqrt(var + eps)``."""
    mean = jnp.mean(input, axis=axis, keepdims=True)
    scale = jax.lax.rsqrt(jnp.var(input, axis=axis, keepdims=True) + eps)
    return (input - mean) * scale, mean, scale


def affine(input: Any, weight: Any, bias: Any) -> Any:
    """``x * weight + bias`` with the channels in dimension 1."""
    shape = (1, -1) + (1,) * (input.ndim - 2)
    scaled = input if weight is None else input * weight.reshape(shape)
    return scaled if bias is None else scaled + bias.reshape(shape)


def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> Tuple[Any, Any, Any]:
    """Over the last dimensions: the result, the means, and the reciprocal deviations."""
    result, mean, scale = normalized(input, tuple(range(-len(normalized_shape), 0)), eps)
    result = result if weight is None else result * weight
    return (result if bias is None else result + bias), mean, scale


def group_norm(input: Any, groups: int, weight: Any, bias: Any, eps: float) -> Tuple[Any, Any, Any]:
    """Over each group of channels: the result, the means, and the reciprocal deviations, both by sample and group."""
    grouped = input.reshape(input.shape[0], groups, -1)
    result, mean, scale = normalized(grouped, (2,), eps)
    return affine(result.reshape(input.shape), weight, bias), mean[..., 0], scale[..., 0]


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: bool,
    eps: float,
) -> Any:
    """By the batch's statistics, or by the running ones."""
    if training:
        return affine(normalized(input, (0, *range(2, input.ndim)), eps)[0], weight, bias)
    shape = (1, -1) + (1,) * (input.ndim - 2)
    scale = jax.lax.rsqrt(running_var + eps)
    return affine((input - running_mean.reshape(shape)) * scale.reshape(shape), weight, bias)


def attention(
    query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: Optional[float]
) -> Any:
    """``softmax(Q K^T * scale + mask) V``; a bool mask says what takes part."""
    scores = query @ jnp.swapaxes(key, -1, -2)
    scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        mask = jnp.tri(*scores.shape[-2:], dtype=bool)
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
    return jax.nn.softmax(scores, -1) @ value


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any) -> Any:
    """``x1^T W x2 + b``."""
    result = jnp.einsum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else result + bias


# Linear algebra.


def fft_swapped(norm: Optional[str]) -> str:
    """The normalisation of the inverse transform that scales as this one of the transform does."""
    return {"forward": "backward", "ortho": "ortho"}.get(norm or "backward", "forward")


def lu(input: Any) -> Tuple[Any, Any, Any]:
    """P, L and U by ``jax.lax.linalg.lu``."""
    packed, _, permutation = jax.lax.linalg.lu(input)
    m, n = input.shape[-2:]
    k = min(m, n)
    lower = jnp.tril(packed[..., :k], -1) + jnp.eye(m, k, dtype=input.dtype)
    upper = jnp.triu(packed[..., :k, :])
    rows = jnp.swapaxes(jax.nn.one_hot(permutation, m, dtype=input.dtype), -1, -2)
    return rows, lower, upper


def block_diag(tensors: Sequence[Any]) -> Any:
    """``jax.scipy.linalg.block_diag`` in the tensors' common dtype."""
    return jax.scipy.linalg.block_diag(*(jnp.atleast_2d(x) for x in promoted(*tensors)))


def along(input: Any, dim: int, index: Any) -> Tuple[Any, ...]:
    """The place of an index or slice of one dimension."""
    return (*[slice(None)] * (dim % max(input.ndim, 1)), index)


def last(dim: int, input: Any) -> int:
    """A dimension counted from the front; an error where there is no such one."""
    if not -input.ndim <= dim < input.ndim:
        raise IndexError("dimension %d of an array with %d" % (dim, input.ndim))
    return dim % input.ndim


def combinations(length: int, r: int, with_replacement: bool) -> Any:
    """All index combinations of ``r`` out of ``length``, one a row."""
    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(chosen(range(length), r))
    return numpy.asarray(rows, numpy.int64).reshape(len(rows), r)


def diagonal_scatter(input: Any, src: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The input with ``src`` on a diagonal of two dimensions."""
    moved = jnp.moveaxis(input, (dim1, dim2), (-2, -1))
    steps = numpy.arange(src.shape[-1])
    result = moved.at[..., steps + max(-offset, 0), steps + max(offset, 0)].set(src)
    return jnp.moveaxis(result, (-2, -1), (dim1, dim2))


def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """Windows of a dimension, each in a new last dimension."""
    shaped = input.reshape(input.shape or (1,))
    axis = dimension % shaped.ndim
    count = (shaped.shape[axis] - size) // step + 1
    places = numpy.arange(count)[:, None] * step + numpy.arange(size)
    result = jnp.moveaxis(jnp.take(shaped, places, axis=axis), axis + 1, -1)
    return result if input.ndim else result[0]
