"""Single changes that every op is given first: the usual suspects, one at a time, on a plain sample.

What is found here is small and needs no luck; the mixtures of :mod:`bot.programs.mutation.op_mutator` find the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

import numpy as np

from bot.programs.builder import to_value
from bot.programs.draft import Draft
from bot.programs.mutation.argument_class import argument_class
from bot.programs.mutation.argument_values import UNTOUCHED, values_of_type
from bot.programs.mutation.dtypes import ALL as DTYPES
from bot.programs.mutation.dtypes import holds_gradients
from bot.programs.mutation.gradients import leave_gradients
from bot.programs.mutation.known import Known, Slot, leave_out, put, slots
from bot.programs.mutation.layouts import LAYOUTS, images
from bot.programs.mutation.sizes import flatten, resized
from bot.programs.mutation.special import special_numbers
from bot.programs.mutation.values import shape_tensors, value_tensors
from bot.programs.program import TensorSpec, Value

INTS: Final = (0, 1, -1, 2, 3, -2, 7, 16)
FLOATS: Final = (
    0.0,
    1.0,
    -1.0,
    float("nan"),
    0.5,
    1.03,
    1.00001,
    1.7,
    float("inf"),
    float("-inf"),
    -0.0,
    1e-8,
)
NUMBERS: Final = (
    "nan", "inf", "-inf", "zero", "minus-zero", "one", "minus-one", "max", "lowest", "min", "subnormal", "half",
    "hundred", "minus-hundred", "true", "false",
)  # fmt: skip
"""Of the special numbers; the others come in tables."""
LENGTHS: Final = (0, 1, 2, 17)
FLAT: Final = (0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 1025)
TABLE: Final = 130.0  # the numbers of a table: no sum or product of them leaves float32's range


@dataclass(frozen=True)
class Single:
    """A change with its label. ``apply`` says whether it fits; ``numeric``: it gives an argument another number, or numbers."""

    label: str
    apply: Callable[[Draft], bool]
    numeric: bool = False


def singles(draft: Draft, known: Known, random: Random) -> list[Single]:
    """The single changes of a draft, in an order of chance."""
    found = [
        *_arguments(draft, known, random),
        *_values(draft),
        *_sizes(draft),
        *_layouts(draft, random),
        *_dtypes(draft),
    ]
    random.shuffle(found)
    return found


def _arguments(draft: Draft, known: Known, random: Random) -> Iterator[Single]:
    for slot in slots(draft, known.signatures):
        if slot.name in UNTOUCHED:
            continue
        seen: set[str] = set()
        for value in [*_alternatives(slot, draft, known, random)]:
            kind = argument_class(value)
            if kind not in seen and value != slot.value:
                seen.add(kind)
                label = f"arguments/{slot.name}/{kind}"
                yield Single(label, _put(slot, value), is_numeric(value))
        yield Single(f"arguments/{slot.name}/left-out", lambda d, slot=slot: leave_out(d, slot))
    for index, call in enumerate(draft.calls):
        for name, parameters in known.absent(call):
            if name in UNTOUCHED or name.startswith("_"):
                continue
            made = known.seen(call.fn, name)
            made += [value for p in parameters for value in values_of_type(p, random)]
            for value in {argument_class(v): v for v in made}.values():
                yield Single(
                    f"arguments/{name}/set={argument_class(value)}", _set(index, name, value, known)
                )


def is_numeric(value: Value) -> bool:
    """Whether a value is a number, or a list or tuple of numbers."""
    if isinstance(value, dict):
        entry = cast("dict[str, Any]", value)
        return "float" in entry or ("tuple" in entry and is_numeric(entry["tuple"]))
    if isinstance(value, list):
        return all(map(is_numeric, cast("list[Value]", value)))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _put(slot: Slot, value: Value) -> Callable[[Draft], bool]:
    def apply(draft: Draft) -> bool:
        put(draft, slot, value)
        leave_gradients(draft)
        return True

    return apply


def _set(index: int, name: str, value: Value, known: Known) -> Callable[[Draft], bool]:
    def apply(draft: Draft) -> bool:
        call = draft.calls[index]
        excluded = known.excluded(call, name) if value is not None else set[str]()
        for slot in [*slots(draft, known.signatures)]:
            if slot.call == index and slot.name in excluded:
                put(draft, slot, None)
        call = draft.calls[index]
        draft.calls[index] = call.model_copy(update={"kwargs": {**call.kwargs, name: value}})
        leave_gradients(draft)
        return True

    return apply


def _alternatives(slot: Slot, draft: Draft, known: Known, random: Random) -> Iterator[Value]:
    fn, value = draft.calls[slot.call].fn, slot.value
    yield from known.seen(fn, slot.name)
    yield from _like(value)
    for parameter in known.signatures.parameters(fn):
        if parameter.name == slot.name:
            yield from values_of_type(parameter, random)


def _like(value: Value) -> Iterator[Value]:
    """Other values of a value's type; of a list, each of its places changed, and all of them."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (*INTS, value + 1, value - 1)
    elif isinstance(value, float):
        yield from map(to_value, (*FLOATS, value * 2, -value))
    elif isinstance(value, list):
        items = cast("list[Value]", value)
        for place in range(min(len(items), 3)):
            for other in _like(items[place]):
                yield [*items[:place], other, *items[place + 1 :]]
        for other in _like(items[0]) if items else ():
            yield [other] * len(items)
        yield items[:-1]
    elif isinstance(value, dict):
        entry = cast("dict[str, Any]", value)
        for kind in ("tuple", "size"):
            if kind in entry:
                yield from ({kind: other} for other in _like(entry[kind]))
        if "dtype" in entry:
            yield from ({"dtype": name} for name in DTYPES)


def _values(draft: Draft) -> Iterator[Single]:
    for spec in value_tensors(draft):
        if 0 in spec.shape:
            continue
        numbers = special_numbers(spec.dtype)
        for name in NUMBERS:
            if name in numbers:
                yield Single(
                    f"values/{spec.name}/one-{name}", _number(spec, numbers[name], whole=False)
                )
                yield Single(
                    f"values/{spec.name}/all-{name}", _number(spec, numbers[name], whole=True)
                )
        table = [number for number in numbers.values() if abs(number) <= TABLE]
        yield Single(f"values/{spec.name}/table-moderate", _table(spec, table))
        yield Single(f"values/{spec.name}/table-all", _table(spec, list(numbers.values())))


def _number(spec: TensorSpec, number: Any, *, whole: bool) -> Callable[[Draft], bool]:
    def apply(draft: Draft) -> bool:
        array = draft.array(spec.name)
        array[... if whole else (0,) * array.ndim] = number
        draft.put(spec.name, array)
        return True

    return apply


def _table(spec: TensorSpec, numbers: list[Any]) -> Callable[[Draft], bool]:
    def apply(draft: Draft) -> bool:
        draft.put(spec.name, np.resize(np.asarray(numbers), spec.shape))
        return True

    return apply


def _sizes(draft: Draft) -> Iterator[Single]:
    for spec in shape_tensors(draft):
        yield Single(f"sizes/{spec.name}/scalar", _scalar(spec))
        for dim in range(len(spec.shape)):
            for length in LENGTHS:
                shape = [*spec.shape]
                shape[dim] = length
                if shape != spec.shape:
                    yield Single(f"sizes/{spec.name}/{length}", _shape({spec.name: shape}))
    tensors = shape_tensors(draft)
    for old in sorted({n for spec in tensors for n in spec.shape}):
        for length in LENGTHS:
            shapes = {
                s.name: [length if n == old else n for n in s.shape]
                for s in tensors
                if old in s.shape
            }
            if length != old and len(shapes) > 1:
                yield Single(f"sizes/together/{length}", _shape(shapes))
    for length in FLAT if tensors else ():
        yield Single(f"sizes/flat/{length}", _flat(length))


def _flat(length: int) -> Callable[[Draft], bool]:
    def apply(draft: Draft) -> bool:
        leave_gradients(draft)
        return flatten(draft, shape_tensors(draft), length) is not None

    return apply


def _scalar(spec: TensorSpec) -> Callable[[Draft], bool]:
    def apply(draft: Draft) -> bool:
        array = draft.array(spec.name)
        if not array.ndim or not array.size:
            return False
        draft.put(spec.name, array.reshape(-1)[0])
        leave_gradients(draft)
        return True

    return apply


def _shape(shapes: dict[str, list[int]]) -> Callable[[Draft], bool]:
    def apply(draft: Draft) -> bool:
        for name, shape in shapes.items():
            draft.put(name, resized(draft.array(name), shape))
        leave_gradients(draft)
        return True

    return apply


def _layouts(draft: Draft, random: Random) -> Iterator[Single]:
    yield Single("layouts/images", _images)
    for spec in value_tensors(draft):
        for name, layout in LAYOUTS.items():
            strides = layout(spec.shape, random)
            if strides is not None and strides != spec.strides:
                yield Single(f"layouts/{spec.name}/{name}", _strides(spec, strides))


def _images(draft: Draft) -> bool:
    tensors = shape_tensors(draft)
    return bool(tensors) and images(draft, tensors)


def _strides(spec: TensorSpec, strides: list[int]) -> Callable[[Draft], bool]:
    def apply(draft: Draft) -> bool:
        draft.put(spec.name, draft.array(spec.name), strides=strides)
        return True

    return apply


def _dtypes(draft: Draft) -> Iterator[Single]:
    tensors = value_tensors(draft)
    for old in dict.fromkeys(spec.dtype for spec in tensors):
        names = [spec.name for spec in tensors if spec.dtype == old]
        state = any(name in held.values() for held in draft.state.values() for name in names)
        for dtype in DTYPES:
            if dtype != old and (not state or holds_gradients(dtype)):
                yield Single(f"dtypes/all/{dtype}", _cast(names, dtype))


def _cast(names: list[str], dtype: str) -> Callable[[Draft], bool]:
    def apply(draft: Draft) -> bool:
        for name in names:
            array = draft.array(name)
            real = array.dtype.kind == "c" and not dtype.startswith("complex")
            draft.put(name, np.real(array) if real else array, dtype)
        leave_gradients(draft)
        return True

    return apply
