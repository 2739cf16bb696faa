"""Sorts with indices, and scatters, by their definitions."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy


def argsort(input: Any, dim: int = -1, descending: bool = False) -> Any:
    """Stable, NaN last (first where descending), int64."""
    if input.ndim == 0:
        return numpy.zeros((), numpy.int64)
    if not descending:
        return numpy.argsort(input, axis=dim, kind="stable")
    # Equal elements keep their order: the array is sorted back to front, and the result turned round.
    backward = numpy.argsort(numpy.flip(input, dim), axis=dim, kind="stable")
    return input.shape[dim] - 1 - numpy.flip(backward, dim)


def sort(input: Any, dim: int = -1, descending: bool = False) -> Tuple[Any, Any]:
    """Sorted elements and where they were."""
    indices = argsort(input, dim, descending)
    return (
        (input, indices)
        if input.ndim == 0
        else (numpy.take_along_axis(input, indices, dim), indices)
    )


def kth(input: Any, k: int, dim: int, keepdim: bool) -> Tuple[Any, Any]:
    """The k-th smallest element, from 1, and where it is."""
    values, indices = sort(input, dim)
    if input.ndim == 0:
        return values, indices
    if not 1 <= k <= input.shape[dim]:
        raise ValueError("selected index k out of range")
    picked = [numpy.take(x, [k - 1] if keepdim else k - 1, axis=dim) for x in (values, indices)]
    return picked[0], picked[1]


def median(input: Any, dim: int, keepdim: bool) -> Tuple[Any, Any]:
    """The lower median and where it is; NaN where there is one."""
    length = input.shape[dim] if input.ndim else 1
    values, indices = kth(input, (length + 1) // 2, dim, keepdim)
    if input.dtype.kind != "f":
        return values, indices
    missing = numpy.isnan(input)
    first = numpy.argmax(missing, axis=dim, keepdims=keepdim) if input.ndim else indices
    found = numpy.any(missing, axis=dim, keepdims=keepdim) if input.ndim else missing
    return numpy.where(found, numpy.nan, values).astype(input.dtype), numpy.where(
        found, first, indices
    )


def nanmedian(input: Any, dim: int, keepdim: bool) -> Tuple[Any, Any]:
    """The lower median of what is no NaN, and where it is."""
    if input.ndim == 0:
        return input, numpy.zeros((), numpy.int64)
    values, indices = sort(input, dim)
    count = numpy.sum(~numpy.isnan(input), axis=dim, keepdims=True)
    place = numpy.maximum(count - 1, 0) // 2
    picked = [numpy.take_along_axis(x, place, dim) for x in (values, indices)]
    return tuple(x if keepdim else numpy.squeeze(x, dim) for x in picked)  # type: ignore[return-value]


def extreme(input: Any, dim: int, keepdim: bool, how: str) -> Tuple[Any, Any]:
    """The ``max`` or ``min`` along a dimension, and where it is first."""
    if input.ndim == 0:
        return input, numpy.zeros((), numpy.int64)
    find = numpy.argmax if how == "max" else numpy.argmin
    indices = find(input, axis=dim, keepdims=True)
    values = numpy.take_along_axis(input, indices, dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def cumulative(input: Any, dim: int, how: str) -> Tuple[Any, Any]:
    """The ``max`` or ``min`` so far, and where the last one of it is."""
    if input.ndim == 0:
        return input, numpy.zeros((), numpy.int64)
    best = numpy.maximum if how == "max" else numpy.minimum
    values = best.accumulate(input, axis=dim)
    shape = [-1 if i == dim % input.ndim else 1 for i in range(input.ndim)]
    steps = numpy.arange(input.shape[dim]).reshape(shape)
    here = (input == values) | ((input != input) & (values != values))
    return values, numpy.maximum.accumulate(numpy.where(here, steps, 0), axis=dim)


def topk(input: Any, k: int, dim: int, largest: bool) -> Tuple[Any, Any]:
    """The ``k`` largest or smallest elements in order, and where they were."""
    values, indices = sort(input, dim, largest)
    if input.ndim == 0:
        return values, indices
    if k > input.shape[dim]:
        raise ValueError("selected index k out of range")
    first = numpy.arange(k)
    return numpy.take(values, first, axis=dim), numpy.take(indices, first, axis=dim)


def searchsorted(sequence: Any, values: Any, right: bool, sorter: Any, out_int32: bool) -> Any:
    """Row by row over all dimensions but the last."""
    side = "right" if right else "left"
    dtype = numpy.int32 if out_int32 else numpy.int64
    found = numpy.asarray(values)
    if sequence.ndim == 1:
        return numpy.asarray(numpy.searchsorted(sequence, found, side, sorter)).astype(dtype)
    count = math.prod(sequence.shape[:-1])
    rows = sequence.reshape(count, sequence.shape[-1])
    order = [None] * count if sorter is None else list(sorter.reshape(rows.shape))
    looked = found.reshape(count, found.shape[-1])
    result = [numpy.searchsorted(r, v, side, o) for r, v, o in zip(rows, looked, order)]
    return numpy.asarray(result, dtype).reshape(found.shape)


def unique_consecutive(
    input: Any, return_inverse: bool, return_counts: bool, dim: Optional[int]
) -> Any:
    """The first of each run of equal elements (or slices), each element's run, and the runs' lengths."""
    moved = input.reshape(-1) if dim is None else numpy.moveaxis(input, dim, 0)
    flat = moved.reshape(len(moved), -1) if moved.size else moved.reshape(len(moved), 0)
    starts = numpy.ones(len(moved), bool)
    starts[1:] = numpy.any(flat[1:] != flat[:-1], axis=1)
    kept = moved[starts]
    values = kept if dim is None else numpy.moveaxis(kept, 0, dim)
    runs = numpy.cumsum(starts) - 1
    inverse = runs.reshape(input.shape) if dim is None else runs
    counts = numpy.bincount(runs) if len(moved) else numpy.zeros(0, numpy.int64)
    extra = ([inverse] if return_inverse else []) + ([counts] if return_counts else [])
    return (values, *extra) if extra else values


def unique(input: Any, return_inverse: bool, return_counts: bool, dim: Optional[int]) -> Any:
    """Sorted. A tuple where more than the elements is asked for."""
    found = numpy.unique(
        input, return_inverse=return_inverse, return_counts=return_counts, axis=dim
    )
    if not return_inverse:
        return found
    values, inverse, *counts = found
    return (values, inverse.reshape(-1 if dim is not None else input.shape), *counts)


# Scatters.


def _grid(index: Any, dim: int) -> Tuple[Any, ...]:
    """Open grids of the index's shape, with the index itself along ``dim``."""
    grids: List[Any] = list(numpy.ogrid[tuple(slice(n) for n in index.shape)])
    grids[dim % index.ndim] = index
    return tuple(grids)


def gather(input: Any, dim: int, index: Any) -> Any:
    """``input[i][index[i][j]]`` along ``dim``; the index may be smaller elsewhere."""
    if index.ndim == 0:
        return input.reshape(1)[index]
    if index.size == 0:
        return numpy.empty(index.shape, input.dtype)
    return input.reshape(input.shape or (1,))[_grid(index, dim)]


def scatter(
    input: Any, dim: int, index: Any, src: Any, how: str = "", include_self: bool = True
) -> Any:
    """The input with ``src`` put, or combined by ``how``, where the index says along ``dim``."""
    if index.ndim == 0:
        one = scatter(input.reshape(1), 0, index.reshape(1), _one(src), how, include_self)
        return one.reshape(input.shape)
    part = src
    if getattr(src, "ndim", 0):
        part = src[tuple(slice(n) for n in index.shape)]
    return _combined(input, _grid(index, dim), part, index.shape, how, include_self)


def _one(src: Any) -> Any:
    return src.reshape(1) if getattr(src, "ndim", None) == 0 else src


_COMBINE: Dict[str, Any] = {
    "add": numpy.add, "sum": numpy.add, "mean": numpy.add, "multiply": numpy.multiply, "prod": numpy.multiply,
    "amax": numpy.maximum, "amin": numpy.minimum,
}  # fmt: skip


def _combined(
    input: Any,
    places: Tuple[Any, ...],
    src: Any,
    shape: Sequence[int],
    how: str,
    include_self: bool,
) -> Any:
    result = numpy.array(input)
    if not how:
        result[places] = src
        return result
    src = numpy.broadcast_to(numpy.asarray(src).astype(result.dtype), shape)
    if not include_self:
        # What is combined starts at the operation's neutral element.
        floats = result.dtype.kind == "f"
        bounds = (
            None if floats else (numpy.iinfo(result.dtype) if result.dtype.kind in "iu" else None)
        )
        neutral = {"multiply": 1, "prod": 1}.get(how, 0)
        if how in ("amax", "amin"):
            low, high = (-numpy.inf, numpy.inf) if bounds is None else (bounds.min, bounds.max)
            neutral = low if how == "amax" else high
        result[places] = neutral
    _COMBINE[how].at(result, places, src)
    if how == "mean":
        counts = numpy.full(result.shape, 1 if include_self else 0)
        numpy.add.at(counts, places, 1)
        counts = numpy.maximum(counts, 1)
        result = result // counts if result.dtype.kind in "iu" else result / counts
    return result.astype(input.dtype)


def along(input: Any, dim: int, index: Any) -> Tuple[Any, ...]:
    """The place of whole slices ``index`` of a dimension."""
    return (*[slice(None)] * (dim % max(input.ndim, 1)), index)


def index_put(input: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    """The input with values put, or added, at the places that an advanced index gives."""
    result = numpy.array(input)
    if accumulate:
        numpy.add.at(result, tuple(indices), values)
    else:
        result[tuple(indices)] = values
    return result


def index_combine(
    input: Any, dim: int, index: Any, source: Any, how: str, include_self: bool = True
) -> Any:
    """The input with slices of ``source`` put, or combined by ``how``, at the index of a dimension."""
    shaped = input.reshape(input.shape or (1,))
    index = index.reshape(-1)
    shape = [len(index) if i == dim % shaped.ndim else n for i, n in enumerate(shaped.shape)]
    places = along(shaped, dim, index)
    part = source if not getattr(source, "ndim", 0) else source.reshape(shape)
    return _combined(shaped, places, part, shape, how, include_self).reshape(input.shape)


def put(input: Any, place: Any, value: Any) -> Any:
    """A copy of the input with a value at a basic index."""
    result = numpy.array(input)
    result[place] = value
    return result


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """The input, broadcast with the mask, with the first elements of ``source`` where the mask holds."""
    shape = numpy.broadcast_shapes(input.shape, mask.shape)
    result = numpy.array(numpy.broadcast_to(input, shape))
    where = numpy.broadcast_to(mask, shape)
    result[where] = source.reshape(-1)[: int(where.sum())]
    return result


def diagonal_scatter(input: Any, src: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The input with ``src`` on a diagonal of two dimensions."""
    result = numpy.array(input)
    matrices = numpy.moveaxis(result, (dim1, dim2), (-2, -1))
    length = numpy.diagonal(matrices, offset, -2, -1).shape[-1]
    steps = numpy.arange(length)
    matrices[..., steps + max(-offset, 0), steps + max(offset, 0)] = src
    return result
