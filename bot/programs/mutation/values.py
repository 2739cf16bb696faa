"""The mutator of values: special numbers in one place, in a row, everywhere; ties; thresholds; degenerate matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from bot.programs.draft import Draft
from bot.programs.mutation.known import Known, slots
from bot.programs.mutation.special import special_numbers
from bot.programs.program import TensorSpec

Array = npt.NDArray[Any]
Change = Callable[[Array, Random], str | None]
MAX_THRESHOLDS = 6  # numbers among the arguments that are combined

FAVOURED = ("nan", "inf", "-inf", "zero", "minus-zero", "max", "one")
INTEGER_CHOICES = ("zero", "one", "minus-one")


def mutate_values(draft: Draft, known: Known, random: Random) -> str | None:
    """Change the numbers in one tensor (now and then in all alike). Returns what was done, None where nothing fits."""
    inputs = [spec for spec in value_tensors(draft) if 0 not in spec.shape]
    if not inputs:
        return None
    if random.random() < 0.3:
        numbers = thresholds(draft, known)
        if numbers:
            spec = random.choice(inputs)
            return _thresholds(draft, spec, numbers, random)
    spec = random.choice(inputs)
    label = _change(draft, spec, random)
    if label is not None and len(inputs) > 1 and random.random() < 0.15:
        for other in inputs:
            if other.name != spec.name:
                _change(draft, other, random)
        return f"values/all/{label}"
    return None if label is None else f"values/{spec.name}/{label}"


def value_tensors(draft: Draft) -> list[TensorSpec]:
    """The inputs, and the parameters of modules, whose numbers can be edited: not those of odd dtypes."""
    gradients = {entry.gradient for entry in draft.backward}
    return [
        spec
        for name, spec in draft.tensors.items()
        if name not in gradients
        and not spec.dtype.startswith("float8")
        and spec.dtype != "complex32"
        and len(spec.shape) <= 32
    ]


def shape_tensors(draft: Draft) -> list[TensorSpec]:
    """Those of them whose shapes a user may choose: a module makes its parameters' shapes itself."""
    state = {name for names in draft.state.values() for name in names.values()}
    return [spec for spec in value_tensors(draft) if spec.name not in state]


def _change(draft: Draft, spec: TensorSpec, random: Random) -> str | None:
    array = draft.array(spec.name)
    if spec.dtype == "bool":
        label = _booleans(array, random)
    elif array.dtype.kind in "iu":
        label = _integers(array, random)
    else:
        label = _floats(array, spec.dtype, random)
    if label is not None:
        _put_in_place(draft, spec, array)
    return label


def _put_in_place(draft: Draft, spec: TensorSpec, array: Array) -> None:
    """Put values back at the tensor's own strides, save where elements share their memory."""
    overlaps = any(s == 0 and n > 1 for n, s in zip(spec.shape, spec.strides, strict=True))
    if overlaps or draft.shares_storage(spec.name):
        draft.put(spec.name, array)
        return
    draft.put(
        spec.name, array, strides=spec.strides, offset=spec.offset, conj=spec.conj, neg=spec.neg
    )


def _booleans(array: Array, random: Random) -> str:
    match random.randrange(3):
        case 0:
            array[...] = False
            return "false"
        case 1:
            array[...] = True
            return "true"
        case _:
            np.logical_not(array, out=array)
            return "flipped"


def _integers(array: Array, random: Random) -> str:
    """Integers are often indices: mostly values that are there already, now and then any."""
    flat = array.reshape(-1)
    match random.randrange(6):
        case 0:
            array[...] = flat[random.randrange(flat.size)]
            return "repeated"
        case 1:
            array[...] = np.sort(flat)[::-1].reshape(array.shape)
            return "descending"
        case 2:
            array[...] = 0
            return "zero"
        case 3:
            position = _position(array, random)
            array[position] = flat[0]
            return "duplicate"
        case _:
            numbers = special_numbers(array.dtype.name)
            name = random.choice([*numbers, *(n for n in INTEGER_CHOICES if n in numbers)])
            if random.random() < 0.7:
                array[_position(array, random)] = numbers[name]
                return f"one-{name}"
            array[...] = numbers[name]
            return f"all-{name}"


def _floats(array: Array, dtype: str, random: Random) -> str | None:
    numbers = special_numbers(dtype)
    roll = random.random()
    if roll < 0.40:
        name = random.choice(FAVOURED if random.random() < 0.6 else list(numbers))
        if name not in numbers:
            name = "nan"
        return _place(array, numbers[name], random) + name
    if roll < 0.55:
        return _cycle(array, list(numbers.values()), random)
    change = random.choice(_SHAPED)
    with np.errstate(all="ignore"):
        return change(array, random)


def _place(array: Array, number: Any, random: Random) -> str:
    """One element, a whole row along some dimension, two elements, or all of them."""
    roll = random.random()
    if roll < 0.5 or array.ndim == 0:
        array[_position(array, random)] = number
        return "one-"
    if roll < 0.65:
        dim = random.randrange(array.ndim)
        line: list[Any] = [
            slice(None) if d == dim else random.randrange(n) for d, n in enumerate(array.shape)
        ]
        array[tuple(line)] = number
        return "line-"
    if roll < 0.8:
        array[_position(array, random)] = number
        array[_position(array, random)] = number
        return "two-"
    array[...] = number
    return "all-"


def _position(array: Array, random: Random) -> tuple[int, ...]:
    """The first element, the last, or any."""
    roll = random.random()
    if roll < 0.3:
        return (0,) * array.ndim
    if roll < 0.5:
        return tuple(n - 1 for n in array.shape)
    return tuple(random.randrange(n) for n in array.shape)


def _cycle(array: Array, numbers: list[Any], random: Random) -> str:
    """Special numbers through the elements, from a random one on: mostly those whose sums and products stay in range.

    Where large numbers are summed, whether NaN or infinity comes out depends on the order, which nobody promises.
    """
    name, bound = random.choices(
        (("moderate", 130.0), ("finite", 1e300), ("all", math.inf)), (6, 1, 2)
    )[0]
    chosen = [n for n in numbers if abs(n) <= bound or bound == math.inf]
    start, step = random.randrange(len(chosen)), random.choice((1, 1, 5, 7))
    length = min(array.size, len(chosen))
    values = [chosen[(start + step * i) % len(chosen)] for i in range(length)]
    array[...] = np.resize(
        np.asarray(values, complex if array.dtype.kind == "c" else float), array.shape
    )
    return f"table-{name}"


def _ties(array: Array, random: Random) -> str:
    array[...] = np.round(array * 2) / 2
    return "halves"


def _whole(array: Array, random: Random) -> str:
    array[...] = np.round(array)
    return "whole"


def _repeated(array: Array, random: Random) -> str:
    array[...] = array.reshape(-1)[random.randrange(array.size)]
    return "repeated"


def _few(array: Array, random: Random) -> str:
    array[...] = np.resize(array.reshape(-1)[:2], array.shape)
    return "two-values"


def _large(array: Array, random: Random) -> str:
    exponent = random.choice((1, 2, 3, 4, 10, 18, 19, 30))
    array[...] = array * 10.0**exponent
    return f"times-1e{exponent}"


def _small(array: Array, random: Random) -> str:
    exponent = random.choice((2, 4, 8, 19, 30, 38))
    array[...] = array * 10.0**-exponent
    return f"times-1e-{exponent}"


def _negative(array: Array, random: Random) -> str:
    array[...] = -np.abs(array)
    return "negative"


def _positive(array: Array, random: Random) -> str:
    array[...] = np.abs(array)
    return "positive"


def _unit(array: Array, random: Random) -> str:
    array[...] = np.mod(np.abs(array), 1)
    return "unit"


def _counting(array: Array, random: Random) -> str:
    array[...] = np.arange(array.size).reshape(array.shape) - random.choice((0, array.size // 2))
    return "counting"


def _equal_rows(array: Array, random: Random) -> str | None:
    """Rows that are the same, or multiples: singular matrices, ties along a dimension."""
    if array.ndim < 2 or array.shape[-2] < 2:
        return None
    array[..., 1:, :] = array[..., :1, :]
    return "equal-rows"


def _zero_row(array: Array, random: Random) -> str | None:
    if array.ndim < 2:
        return None
    array[..., random.randrange(array.shape[-2]), :] = 0
    return "zero-row"


def _identity(array: Array, random: Random) -> str | None:
    if array.ndim < 2:
        return None
    array[...] = np.eye(array.shape[-2], array.shape[-1])
    return "identity"


def _nearly_zero_rows(array: Array, random: Random) -> str | None:
    if array.ndim < 2 or array.shape[-2] < 2:
        return None
    array[..., 0, :] = array[..., -1, :] * 2
    return "dependent-rows"


_SHAPED: tuple[Change, ...] = (
    _ties, _whole, _repeated, _few, _large, _small, _negative, _positive, _unit, _counting, _equal_rows,
    _zero_row, _identity, _nearly_zero_rows, _large, _repeated,
)  # fmt: skip


def thresholds(draft: Draft, known: Known) -> list[float]:
    """The numbers among a draft's arguments and scalars, their products and quotients: where formulas switch."""
    numbers: list[float] = []
    for slot in slots(draft, known.signatures):
        value = slot.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers.append(float(value))
    numbers = [n for n in dict.fromkeys(numbers) if abs(n) < 1e30][:MAX_THRESHOLDS]
    found = dict.fromkeys(numbers)
    for a in numbers:
        for b in numbers:
            if a is not b:
                found.setdefault(a * b)
                if b:
                    found.setdefault(a / b)
    found.update(dict.fromkeys([-n for n in numbers]))
    return [n for n in found if math.isfinite(n)]


def _thresholds(draft: Draft, spec: TensorSpec, numbers: list[float], random: Random) -> str | None:
    """Thresholds, their neighbours and what lies a little to either side, through a tensor."""
    array = draft.array(spec.name)
    if array.dtype.kind not in "fViu" and spec.dtype != "bfloat16":
        return None
    if spec.dtype == "bool":
        return None
    places: list[float] = []
    for n in numbers:
        step = abs(n) if n else 1.0
        places += [
            n,
            n - step * 0.05,
            n + step * 0.05,
            n - step * 0.3,
            n + step * 0.3,
            n - step * 0.8,
        ]
        with np.errstate(over="ignore"):
            near = np.float32(n)
        places += [
            float(np.nextafter(near, np.float32(-np.inf))),
            float(np.nextafter(near, np.float32(np.inf))),
        ]
    random.shuffle(places)
    with np.errstate(all="ignore"):
        array[...] = np.resize(np.asarray(places), array.shape)
    _put_in_place(draft, spec, array)
    return f"values/{spec.name}/thresholds"
