"""What the forms of ``ops/numpy.yml`` call where one expression of NumPy does not do: textbook definitions, a few lines each.

Convolutions, pools and resizing are in ``numpy_windows.py``, scatters and sorts in ``numpy_indexing.py``. Argument
names are PyTorch's, as everywhere in the forms.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy

DEFAULT = numpy.dtype("float32")
"""The dtype that PyTorch's factories and its float functions of integers give; NumPy's is float64."""


# Dtypes. NumPy's promotion differs from PyTorch's (int32 with float32 is float64), so operands are cast before.


def result_type(*operands: Any) -> Any:
    """``torch.result_type`` of arrays and plain numbers.

    Arrays of the highest kind (bool, integer, float, complex) decide; among them those with dimensions before those
    without, and plain numbers last.
    """
    ranks: List[List[Any]] = [[], [], []]
    for operand in operands:
        if isinstance(operand, (numpy.ndarray, numpy.generic)):
            ranks[0 if operand.ndim else 1].append(operand.dtype)
        else:
            ranks[2].append(_plain_dtype(operand))
    decided: Any = None
    for dtypes in ranks:
        if dtypes:
            lower = _joined(dtypes)
            decided = lower if decided is None else _combined(decided, lower)
    return decided


def promoted(*operands: Any) -> List[Any]:
    """All operands as arrays of their common dtype."""
    dtype = result_type(*operands)
    return [numpy.asarray(operand).astype(dtype) for operand in operands]


def inexact(operand: Any) -> Any:
    """A float or complex array as it is, any other as float32."""
    array = numpy.asarray(operand)
    return array if array.dtype.kind in "fc" else array.astype(DEFAULT)


def promoted_inexact(*operands: Any) -> List[Any]:
    """All operands as arrays of their common float or complex dtype."""
    dtype = result_type(*operands)
    dtype = dtype if dtype.kind in "fc" else DEFAULT
    return [numpy.asarray(operand).astype(dtype) for operand in operands]


def divides(input: Any, other: Any) -> bool:
    """Whether ``other`` divides: no integer is divided by zero."""
    return result_type(input, other).kind in "fc" or bool(numpy.all(other))


def raises(input: Any, exponent: Any) -> bool:
    """Whether a power is one of NumPy's: no integer to a negative integer."""
    return result_type(input, exponent).kind in "fc" or bool(
        numpy.all(numpy.asarray(exponent) >= 0)
    )


def conj(input: Any) -> Any:
    """The conjugate; of a bool the bool, which NumPy's function turns into an int8."""
    return numpy.conj(input) if input.dtype.kind == "c" else numpy.copy(input)


def summed(input: Any, dtype: Any = None) -> Any:
    """The dtype of a sum or product: integers and bools are summed as int64."""
    return dtype or (input.dtype if input.dtype.kind in "fc" else numpy.dtype("int64"))


def real_dtype(dtype: Any) -> Any:
    """The dtype of a complex dtype's parts; any other dtype as it is."""
    return numpy.empty(0, dtype).real.dtype


def number_dtype(*numbers: Any) -> Any:
    """The dtype of ``arange`` and ``full`` where none is given: int64, bool, or the default float."""
    return _joined([_plain_dtype(number) for number in numbers])


def _plain_dtype(number: Any) -> Any:
    if isinstance(number, (numpy.ndarray, numpy.generic)):
        return number.dtype
    kind = numpy.asarray(number).dtype.kind
    return numpy.dtype(
        {"b": "bool", "i": "int64", "u": "int64", "c": "complex64"}.get(kind, "float32")
    )


def _joined(dtypes: Sequence[Any]) -> Any:
    """Common dtype of equals: a float is not widened by an integer's size."""
    inexacts = [dtype for dtype in dtypes if dtype.kind in "fc"]
    return numpy.result_type(*(inexacts or dtypes))


def _combined(higher: Any, lower: Any) -> Any:
    ranks = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
    if ranks[lower.kind] <= ranks[higher.kind]:
        return higher
    if higher.kind == "f":
        return numpy.result_type(higher, numpy.complex64)
    return lower


# Dimensions.


def axes(dim: Any, input: Any) -> Any:
    """NumPy's axis of PyTorch's dim: None and an empty list are all dimensions, and 0 is one of an array without any."""
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
    return numpy.broadcast_to(input, shape)


def summed_to(input: Any, shape: Sequence[int]) -> Any:
    """The sum over what broadcasting ``shape`` to the input's shape would repeat."""
    if input.shape == tuple(shape):
        return input
    extra = input.ndim - len(shape)
    kept = tuple(i + extra for i, n in enumerate(shape) if n == 1 and input.shape[i + extra] != 1)
    axis = (*range(extra), *kept)
    return numpy.sum(input, axis=axis, keepdims=True, dtype=summed(input)).reshape(shape)


def diag_embed(input: Any, offset: int, dim1: int, dim2: int) -> Any:
    """Matrices over two new dimensions, with the last dimension on a diagonal."""
    n = input.shape[-1] + abs(offset)
    result = numpy.zeros((*input.shape[:-1], n, n), input.dtype)
    steps = numpy.arange(input.shape[-1])
    result[..., steps + max(-offset, 0), steps + max(offset, 0)] = input
    return numpy.moveaxis(result, (-2, -1), (dim1, dim2))


def splits(length: int, size: int) -> List[int]:
    """Where pieces of a size end, but for the last."""
    return list(range(size, length, size)) if size else []


# Losses and normalisation.


def reduced(loss: Any, reduction: str) -> Any:
    """``mean``, ``sum`` or ``none`` of a loss; anything else is a ValueError."""
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise ValueError("%s is not a valid value for reduction" % reduction)
    return numpy.mean(loss) if reduction == "mean" else numpy.sum(loss)


def softmax(input: Any, dim: int) -> Any:
    """``exp(x - m) / sum(exp(x - m))`` with m the maximum along ``dim``."""
    if input.size == 0:
        return input
    exponentials = numpy.exp(input - numpy.max(input, axis=dim, keepdims=True))
    return exponentials / numpy.sum(exponentials, axis=dim, keepdims=True)


def log_softmax(input: Any, dim: int) -> Any:
    """``x - m - log(sum(exp(x - m)))`` with m the maximum along ``dim``."""
    if input.size == 0:
        return input
    shifted = input - numpy.max(input, axis=dim, keepdims=True)
    return shifted - numpy.log(numpy.sum(numpy.exp(shifted), axis=dim, keepdims=True))


def nll_loss(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """``-w[t] * x[t]``, over classes in dimension 1 (0 for one sample); the mean is weighted."""
    scores = numpy.moveaxis(input, 1, -1) if input.ndim > 1 else input
    counted = target != ignore_index
    picked = numpy.where(counted, target, 0)
    chosen = numpy.take_along_axis(scores, picked[..., None], -1)[..., 0]
    weights = counted.astype(input.dtype)
    if weight is not None:
        weights = weights * weight[picked]
    loss = -chosen * weights
    return numpy.sum(loss) / numpy.sum(weights) if reduction == "mean" else reduced(loss, reduction)


def cross_entropy(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    """Of class indices or, where ``target`` is float, of class probabilities."""
    dim = 1 if input.ndim > 1 else 0
    logs = log_softmax(input, dim)
    classes = input.shape[dim]
    shape = [classes if i == dim else 1 for i in range(input.ndim)]
    weights = numpy.ones(classes, input.dtype) if weight is None else weight
    if target.dtype.kind == "f":
        smoothed = target * (1 - smoothing) + smoothing / classes
        loss = -numpy.sum(logs * smoothed * weights.reshape(shape), axis=dim)
        count = loss.size
        return numpy.sum(loss) / count if reduction == "mean" else reduced(loss, reduction)
    nll = nll_loss(logs, target, weight, ignore_index, "none")
    counted = target != ignore_index
    even = -numpy.sum(logs * weights.reshape(shape), axis=dim) * counted
    loss = (1 - smoothing) * nll + smoothing / classes * even
    if reduction != "mean":
        return reduced(loss, reduction)
    return numpy.sum(loss) / numpy.sum(weights[numpy.where(counted, target, 0)] * counted)


def normalized(input: Any, axis: Tuple[int, ...], eps: float) -> Tuple[Any, Any, Any]:
    """``(x - mean) / sqrt(var + eps)`` over ``axis``, the mean, and ``1 / sqrt(var + eps)``."""
    mean = numpy.mean(input, axis=axis, keepdims=True)
    scale = 1 / numpy.sqrt(numpy.var(input, axis=axis, keepdims=True) + eps)
    return (input - mean) * scale, mean, scale


def affine(input: Any, weight: Any, bias: Any) -> Any:
    """``x * weight + bias`` with the channels in dimension 1."""
    shape = (1, -1) + (1,) * (input.ndim - 2)
    scaled = input if weight is None else input * weight.reshape(shape)
    return scaled if bias is None else scaled + bias.reshape(shape)


def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> Any:
    """Over the last dimensions: the result, the means, and the reciprocal deviations."""
    axis = tuple(range(-len(normalized_shape), 0))
    result, mean, scale = normalized(input, axis, eps)
    result = result if weight is None else result * weight
    return (result if bias is None else result + bias), mean, scale


def group_norm(input: Any, groups: int, weight: Any, bias: Any, eps: float) -> Any:
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
    momentum: float,
    eps: float,
) -> Tuple[Any, Any, Any]:
    """The result, and the batch's means and reciprocal deviations; running statistics are updated in place.

    The running variance is moved towards the unbiased one.
    """
    axis = (0, *range(2, input.ndim))
    if not training:
        shape = (1, -1) + (1,) * (input.ndim - 2)
        scale = 1 / numpy.sqrt(running_var + eps)
        result = (input - running_mean.reshape(shape)) * scale.reshape(shape)
        none = numpy.zeros(0, input.dtype)
        return affine(result, weight, bias), none, none
    result, mean, scale = normalized(input, axis, eps)
    if running_mean is not None and running_var is not None:
        count = input.size // max(input.shape[1], 1)
        unbiased = numpy.var(input, axis=axis) * count / (count - 1)
        running_mean[...] = (1 - momentum) * running_mean + momentum * mean.reshape(-1)
        running_var[...] = (1 - momentum) * running_var + momentum * unbiased
    return affine(result, weight, bias), mean.reshape(-1), scale.reshape(-1)


def instance_norm(
    input: Any,
    mean: Any,
    var: Any,
    weight: Any,
    bias: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Over each sample's channel; running statistics are updated in place by their means over the samples."""
    axis = tuple(range(2, input.ndim))
    if not use_input_stats:
        return batch_norm(input, mean, var, weight, bias, False, momentum, eps)[0]
    if mean is not None and var is not None:
        sample_means = numpy.mean(input, axis=axis)
        sample_vars = numpy.var(input, axis=axis, ddof=1)
        mean[...] = (1 - momentum) * mean + momentum * numpy.mean(sample_means, axis=0)
        var[...] = (1 - momentum) * var + momentum * numpy.mean(sample_vars, axis=0)
    return affine(normalized(input, axis, eps)[0], weight, bias)


def attention(
    query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: Optional[float]
) -> Any:
    """``softmax(Q K^T * scale + mask) V``; a bool mask says what takes part."""
    scores = query @ numpy.swapaxes(key, -1, -2)
    scores = scores * (1 / numpy.sqrt(query.shape[-1]) if scale is None else scale)
    scores = scores.astype(query.dtype)
    if is_causal:
        mask = numpy.tri(*scores.shape[-2:], dtype=bool)
    if mask is not None:
        scores = numpy.where(mask, scores, -numpy.inf) if mask.dtype == bool else scores + mask
    return softmax(scores.astype(query.dtype), -1) @ value
