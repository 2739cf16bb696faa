"""The conditions that rows of ``conventions.yml`` name: which elements of a tensor a convention speaks of.

A condition gets the row, the tensor's place in the program, and what two targets have there. It answers with a mask of
the tensor's shape, or None where it does not apply: when it cannot tell, nothing is excused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt

from bot.oracle.difference import is_floating, widened
from bot.oracle.initial import InitialTensors
from bot.programs.dtypes import DTYPES
from bot.programs.program import Call, Value

Array = npt.NDArray[Any]
ConditionName = Literal[
    "unrepresentable_as_integer",
    "input_is_zero",
    "input_is_limit",
    "input_is_nan",
    "index_of_a_tie",
    "input_is_tied",
    "written_twice",
    "overflows_integer",
    "vector_is_zero",
    "eigenvalue_in_other_place",
    "column_in_other_phase",
    "row_in_other_phase",
    "variance_is_biased",
]
_CLOSE: Final = 1e-3  # of two vectors of unit length, in any dtype


@dataclass(frozen=True)
class Asked:
    """What a row gives to its condition; see :class:`bot.oracle.conventions.Convention`."""

    ops: Collection[str]
    limits: Collection[float]
    dim_position: int | None
    dim_default: int | None
    documented: Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """A tensor that conventions are asked about; ``name`` is its name in the program (a gradient's leaf)."""

    role: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    initial: InitialTensors
    path: tuple[int, ...] = ()


@dataclass(frozen=True)
class Held:
    """What a target of this framework has at a place."""

    framework: str
    array: Array


Condition = Callable[[Asked, Place, Held, Held], "Array | None"]


def has_value(documented: str, place: Place, held: Held) -> Array:
    """Where a side has the number that its framework documents; everywhere, where that is no number.

    A gradient is the documented slope times the gradient of the program's only output, if they have one shape.
    """
    try:
        number = float(documented)
    except ValueError:
        return np.ones(place.shape, bool)
    expected: Array | float = number
    if place.role == "gradient" and number != 0 and not np.isnan(number):
        flowing = _output_gradient(place)
        if flowing is None:
            return np.zeros(place.shape, bool)
        expected = number * widened(flowing)
    values = held.array if held.array.dtype.kind == "c" else widened(held.array)
    with np.errstate(all="ignore"):
        return np.isclose(values, expected, rtol=1e-2, atol=0, equal_nan=True)


def _output_gradient(place: Place) -> Array | None:
    backward = place.initial.program.backward
    if len(backward) != 1 or backward[0].gradient is None:
        return None
    flowing = place.initial.array(backward[0].gradient)
    if flowing is None or flowing.shape != place.shape or flowing.dtype.kind == "c":
        return None
    return flowing


# the program's calls


def _only_call(row: Asked, place: Place) -> Call | None:
    """The program's call of one of the row's ops, if there is just one."""
    calls = [call for call in place.initial.program.calls if call.fn in row.ops]
    return calls[0] if len(calls) == 1 else None


def _argument(call: Call, position: int, name: str, default: Value = None) -> Value:
    if name in call.kwargs:
        return call.kwargs[name]
    return call.args[position] if position < len(call.args) else default


def _tensor_name(value: Value) -> str | None:
    if not isinstance(value, Mapping):
        return None
    reference = cast("Mapping[str, Any]", value)
    return reference["ref"] if "ref" in reference and not reference.get("path") else None


def _tensor(place: Place, value: Value) -> Array | None:
    """The tensor that an argument refers to, as the program begins with it."""
    name = _tensor_name(value)
    return None if name is None else place.initial.array(name)


def _first_operand(call: Call, place: Place) -> Array | None:
    values = _tensor(place, _argument(call, 0, "input"))
    return None if values is None or values.dtype.kind == "V" else values


def _dim(row: Asked, call: Call, rank: int) -> int | Literal["unknown"] | None:
    """The call's dim, not negative; None for all elements."""
    if row.dim_position is None:
        return None
    value = _argument(call, row.dim_position, "dim", row.dim_default)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not -rank <= value < rank:
        return "unknown"
    return value % rank


# single inputs


def _source(place: Place) -> Array | None:
    """The floating input that stands behind each element: the gradient's own leaf, else the op's first input.

    None when its shape is not the tensor's: then no element of the one belongs to an element of the other.
    """
    initial = place.initial
    first = next((spec.name for spec in initial.program.inputs()), "")
    name = place.name if place.role == "gradient" else first
    values = initial.array(name)
    if values is None or values.shape != place.shape or not is_floating(initial.dtype(name)):
        return None
    return values if values.dtype.kind == "c" else widened(values)


def _input_is_zero(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    values = _source(place)
    return None if values is None else np.asarray(values == 0)


def _input_is_nan(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    values = _source(place)
    return None if values is None else np.isnan(values)


def _unrepresentable(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    values = _source(place)
    dtype = DTYPES[place.dtype]
    if values is None or values.dtype.kind == "c" or dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        # int64's largest number rounds up to 2^63 as float64, which is out of range: hence >=.
        above = values >= float(limits.max) + (0 if limits.bits == 64 else 1)
        return ~np.isfinite(values) | above | (np.trunc(values) < float(limits.min))


def _input_is_limit(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    values = _source(place)
    if values is None:
        return None
    limits = sorted({*row.limits, *_numbers(place.initial)})
    return np.isin(values, np.array(limits))


def _numbers(initial: InitialTensors) -> Iterator[float]:
    """The finite numbers among the program's arguments."""
    for call in initial.program.calls:
        values: list[Value] = [*call.args, *call.kwargs.values()]
        for value in values:
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield float(value)


# order and ties


def _index_of_a_tie(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    """Where both indices lead to equal elements of the input."""
    call = _only_call(row, place)
    if call is None or call.kwargs.get("stable") is True or DTYPES[place.dtype].kind not in "iu":
        return None
    values = _first_operand(call, place)
    if values is None or values.ndim == 0 or not values.size:
        return None
    dim = _dim(row, call, values.ndim)
    if dim == "unknown":
        return None
    if dim is None:
        return _leads_to_equal(
            values.reshape(-1), left.array.ravel(), right.array.ravel(), 0, place
        )
    one, other = left.array, right.array
    if one.ndim == values.ndim - 1:
        one, other = np.expand_dims(one, dim), np.expand_dims(other, dim)
    return _leads_to_equal(values, one, other, dim, place)


def _leads_to_equal(
    values: Array, one: Array, other: Array, dim: int, place: Place
) -> Array | None:
    if one.ndim != values.ndim:
        return None
    size = values.shape[dim]
    inside = (one >= 0) & (one < size) & (other >= 0) & (other < size)
    try:
        a, b = (
            np.take_along_axis(values, np.where(inside, index, 0).astype(int), dim)
            for index in (one, other)
        )
    except (ValueError, IndexError):
        return None
    same = (a == b) | ((a != a) & (b != b))
    return np.asarray(inside & same).reshape(place.shape)


def _input_is_tied(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    """Where the leaf has an equal element elsewhere along the dimension."""
    call, values = _only_call(row, place), _source(place)
    if call is None or values is None or values.ndim == 0 or values.dtype.kind == "c":
        return None
    if _tensor_name(_argument(call, 0, "input")) != place.name:
        return None
    dim = _dim(row, call, values.ndim)
    if dim == "unknown":
        return None
    lines = values.reshape(1, -1) if dim is None else np.moveaxis(values, dim, -1)
    tied = np.zeros(lines.shape, bool)
    for place_of_line in np.ndindex(lines.shape[:-1]):
        _, which, counts = np.unique(lines[place_of_line], return_inverse=True, return_counts=True)
        tied[place_of_line] = counts[which.reshape(-1)] > 1
    return tied.reshape(values.shape) if dim is None else np.moveaxis(tied, -1, dim)


# writes


def _written_twice(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    """Elements of the result to which several elements are written; of the source, those written there."""
    call = _only_call(row, place)
    if call is None or "reduce" in call.kwargs or call.kwargs.get("accumulate") is True:
        return None
    is_index_put = "index_put" in call.fn
    source = _argument(call, 2 if is_index_put else 3, "values" if is_index_put else "src")
    if source is None:
        source = call.kwargs.get("source")
    target = _first_operand(call, place)
    if target is None or target.ndim == 0 or (is_index_put and _argument(call, 3, "accumulate")):
        return None
    where = _written_places(call, place, target)
    if where is None:
        return None
    counts = np.zeros(target.shape, np.int64)
    np.add.at(counts, where, 1)
    if place.role != "gradient":
        return counts > 1 if place.shape == target.shape else None
    written = counts[where] > 1
    if place.name != _tensor_name(source) or written.shape != place.shape:
        return None
    return written


def _written_places(call: Call, place: Place, target: Array) -> tuple[Array, ...] | None:
    """Index arrays of one shape into the target, one place for each element written."""
    if "index_put" in call.fn:
        indices = [_tensor(place, value) for value in _members(_argument(call, 1, "indices"))]
        # Of fewer indices than dimensions or masks the rest would have to be followed: nothing is excused.
        if len(indices) != target.ndim or any(
            i is None or i.dtype.kind not in "iu" for i in indices
        ):
            return None
        return _inside(np.broadcast_arrays(*cast("list[Array]", indices)), target)
    dim, index = _argument(call, 1, "dim"), _tensor(place, _argument(call, 2, "index"))
    if not isinstance(dim, int) or index is None or index.dtype.kind not in "iu":
        return None
    dim %= target.ndim
    if "index_copy" in call.fn:
        shape = list(target.shape)
        shape[dim] = index.size
        along = [1] * target.ndim
        along[dim] = index.size
        index = np.broadcast_to(index.reshape(along), shape)
    if index.ndim != target.ndim:
        return None
    places: list[Array] = [*cast("Sequence[Array]", np.indices(index.shape))]
    places[dim] = index
    return _inside(places, target)


def _members(value: Value) -> Sequence[Value]:
    """The values of a list or tuple."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Sequence[Value]]", value).get("tuple", ())
    return cast("Sequence[Value]", value) if isinstance(value, list) else ()


def _inside(places: Sequence[Array], target: Array) -> tuple[Array, ...] | None:
    inside = all(
        index.size == 0 or (-size <= index.min() and index.max() < size)
        for index, size in zip(places, target.shape, strict=True)
    )
    return tuple(places) if inside else None


# integers


def _overflows_integer(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    """Where the exact result of prod, cumprod or pow is no number of the result's integer dtype."""
    call, dtype = _only_call(row, place), DTYPES[place.dtype]
    if call is None or dtype.kind not in "iu":
        return None
    values = _first_operand(call, place)
    if values is None or values.dtype.kind not in "iub":
        return None
    exact = values.astype(object)
    dim = None if "pow" in call.fn else _dim(row, call, values.ndim)
    if dim == "unknown":
        return None
    result: Array
    if "pow" in call.fn:
        exponent = _argument(call, 1, "exponent")
        powers = exponent if isinstance(exponent, int) else _tensor(place, exponent)
        if powers is None or np.min(powers) < 0 or np.max(powers) > 64:
            return None
        result = np.asarray(exact ** np.asarray(powers).astype(object), dtype=object)
    elif "cumprod" in call.fn:
        result = np.cumprod(exact, axis=dim)
    else:
        result = np.asarray(np.prod(exact, axis=dim), dtype=object)
    if result.size != int(np.prod(place.shape, dtype=np.int64)):
        return None
    limits = np.iinfo(dtype)
    outside = (result > int(limits.max)) | (result < int(limits.min))
    return np.asarray(outside, bool).reshape(place.shape)


# norms


def _vector_is_zero(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    """Where all of the leaf's elements that one norm is taken of are 0."""
    call, values = _only_call(row, place), _source(place)
    if call is None or values is None or not values.size:
        return None
    dim = None if row.dim_position is None else _argument(call, row.dim_position, "dim")
    if isinstance(dim, Mapping):
        dim = cast("Mapping[str, Any]", dim).get("tuple")
    axes = tuple(cast("list[int]", dim)) if isinstance(dim, list) else dim
    if values.ndim == 0 or axes == ():
        axes = None
    try:
        zero = np.asarray(values == 0).all(axis=axes, keepdims=True)
    except (TypeError, ValueError):
        return None
    return np.broadcast_to(zero, values.shape).copy()


# decompositions


def _eigenvalue_in_other_place(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    """Matrices of which both sides have the same eigenvalues, in any order."""
    a, b = left.array, right.array
    if a.ndim == 0 or a.shape != b.shape:
        return None
    mask = np.zeros(a.shape, bool)
    for matrix in np.ndindex(a.shape[:-1]):
        mask[matrix] = _same_numbers(a[matrix], b[matrix])
    return mask


def _same_numbers(a: Array, b: Array) -> bool:
    """Whether one is a permutation of the other, each number within a thousandth of the largest."""
    left = list(b)
    scale = float(np.abs(a).max()) if a.size else 0.0
    for number in a:
        distances = [abs(number - other) for other in left]
        nearest = int(np.argmin(distances))
        if not distances[nearest] <= _CLOSE * scale:
            return False
        left.pop(nearest)
    return True


def _column_in_other_phase(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    return _columns_in_other_phase(left.array, right.array)


def _row_in_other_phase(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    if left.array.ndim < 2:
        return None
    turned = (np.swapaxes(held.array, -1, -2) for held in (left, right))
    mask = _columns_in_other_phase(*turned)
    return None if mask is None else np.swapaxes(mask, -1, -2)


def _columns_in_other_phase(a: Array, b: Array) -> Array | None:
    """Columns that are one column of the other side times a number of magnitude 1."""
    if a.ndim < 2 or a.shape != b.shape or a.dtype.kind not in "fc":
        return None
    with np.errstate(all="ignore"):
        products = np.abs(np.swapaxes(a.conj(), -1, -2) @ b)
        long_a, long_b = (np.linalg.norm(side, axis=-2) for side in (a, b))
        lengths = long_a[..., :, None] * long_b[..., None, :]
        alike = np.abs(long_a[..., :, None] - long_b[..., None, :]) <= _CLOSE * long_a[..., :, None]
        parallel = (products >= (1 - _CLOSE) * lengths) & alike & (lengths > 0)
    # One to one: no column of the other side may stand for two of this one.
    alone = (parallel.sum(-1, keepdims=True) == 1) & (parallel.sum(-2, keepdims=True) == 1)
    one_to_one = parallel & alone
    # Here a column of either side is excused where it has its like.
    either = one_to_one.any(-1) & one_to_one.any(-2)
    return np.broadcast_to(either[..., None, :], a.shape).copy()


def _variance_is_biased(row: Asked, place: Place, left: Held, right: Held) -> Array | None:
    """Running variances of which one side took the batch's variance over n, the other over n - 1."""
    began = place.initial.array(place.name)
    first = next((spec.name for spec in place.initial.program.inputs()), "")
    batch = place.initial.array(first)
    if began is None or batch is None or began.shape != place.shape or batch.ndim < 2:
        return None
    if began.shape != (batch.shape[1],) or batch.shape[1] == 0:
        return None
    count = batch.size // batch.shape[1]
    numbers = {
        float(v)
        for call in place.initial.program.calls
        if (v := call.kwargs.get("momentum")) is not None and isinstance(v, int | float)
    }
    numbers |= {float(n) for n in _numbers(place.initial)} | {0.1}
    channels = np.moveaxis(widened(batch), 1, 0).reshape(batch.shape[1], -1)
    mask = np.zeros(place.shape, bool)
    if count < 2:
        return mask
    with np.errstate(all="ignore"):
        biased = channels.var(axis=1)
    unbiased = biased * count / (count - 1)
    for momentum in numbers:
        kept = (1 - momentum) * widened(began)
        as_documented = np.ones(place.shape, bool)
        for held in (left, right):
            batch_variance = biased if row.documented[held.framework] == "over n" else unbiased
            expected = kept + momentum * batch_variance
            as_documented &= np.isclose(widened(held.array), expected, rtol=1e-3)
        mask |= as_documented
    return mask


CONDITIONS: Final[dict[ConditionName, Condition]] = {
    "unrepresentable_as_integer": _unrepresentable,
    "input_is_zero": _input_is_zero,
    "input_is_limit": _input_is_limit,
    "input_is_nan": _input_is_nan,
    "index_of_a_tie": _index_of_a_tie,
    "input_is_tied": _input_is_tied,
    "written_twice": _written_twice,
    "overflows_integer": _overflows_integer,
    "vector_is_zero": _vector_is_zero,
    "eigenvalue_in_other_place": _eigenvalue_in_other_place,
    "column_in_other_phase": _column_in_other_phase,
    "row_in_other_phase": _row_in_other_phase,
    "variance_is_biased": _variance_is_biased,
}
