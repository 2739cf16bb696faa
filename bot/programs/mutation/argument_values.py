"""The mutator of arguments: other numbers, flags, words and lists; what is left out is set, what is set left out."""

from __future__ import annotations

from random import Random
from typing import Any, Final, cast

from bot.programs.builder import to_value
from bot.programs.draft import Draft
from bot.programs.mutation.argument_class import argument_class
from bot.programs.mutation.dtypes import ALL as DTYPES
from bot.programs.mutation.gradients import leave_gradients
from bot.programs.mutation.known import Known, Slot, leave_out, put, slots
from bot.programs.mutation.signatures import Parameter
from bot.programs.program import Call, Value

INTS: Final = (0, 1, 2, 3, -1)
RARE_INTS: Final = (-2, 4, 5, 7, 16, -100)
LARGE_INTS: Final = (100, 2**31, -(2**31))
"""Not in lists: paddings and sizes of every dimension would take minutes, and all memory."""
FLOATS: Final = (0.0, 1.0, 0.5, 2.0, -1.0, 1.03, 1.7, 0.25, 1.5, 0.1, 3.0, 1.00001, 20.0)
RARE_FLOATS: Final = (
    -0.0, -0.5, 1e-8, 1e-5, 10.0, 1e30, float("nan"), float("inf"), float("-inf"), 0.99999, 1e-45,
)  # fmt: skip
MEMORY_FORMATS: Final = ("contiguous_format", "preserve_format", "channels_last")
UNTOUCHED: Final = frozenset("device layout generator pin_memory out names".split())
"""Parameters that say where and how, not what."""


def mutate_arguments(draft: Draft, known: Known, random: Random) -> str | None:
    """Change one argument of one call. Returns what was done, None where nothing fits."""
    plain = [slot for slot in slots(draft, known.signatures) if slot.name not in UNTOUCHED]
    calls = [call for call in draft.calls if known.absent(call)]
    roll = random.random()
    if calls and (not plain or roll < 0.3):
        label = _set_absent(draft, random.choice(calls), known, random)
    elif plain and roll < 0.37:
        slot = random.choice(plain)
        label = f"arguments/{slot.name}/left-out" if leave_out(draft, slot) else None
    elif plain:
        slot = random.choice(plain)
        label = _change(draft, slot, known, random)
    else:
        return None
    if label is not None:
        leave_gradients(draft)
    return label


def _set_absent(draft: Draft, call: Call, known: Known, random: Random) -> str | None:
    choices = [
        (n, p) for n, p in known.absent(call) if n not in UNTOUCHED and not n.startswith("_")
    ]
    if not choices:
        return None
    name, parameters = random.choice(choices)
    seen = known.seen(call.fn, name)
    made = [value for p in parameters for value in values_of_type(p, random)]
    options = seen if seen and (not made or random.random() < 0.5) else made
    if not options:
        return None
    value = random.choice(options)
    index = next(i for i, other in enumerate(draft.calls) if other is call)
    excluded = (
        known.excluded(call, name) if value is not None and random.random() < 0.9 else set[str]()
    )
    draft.calls[index] = call.model_copy(update={"kwargs": {**call.kwargs, name: value}})
    for slot in [*slots(draft, known.signatures)]:
        if slot.call == index and slot.name in excluded:
            put(draft, slot, None)
    return f"arguments/{name}/set={argument_class(value)}"


def values_of_type(parameter: Parameter, random: Random) -> list[Value]:
    """Values for a parameter by its schema's type; none for what takes tensors or is not known."""
    kind = parameter.type.rstrip("?")
    many = "[" in kind
    base = kind.partition("[")[0]
    match base:
        case "bool":
            return [True, False]
        case "int" | "SymInt" if many:
            size = _list_size(kind) or random.choice((1, 2, 3))
            return [[n] * size for n in INTS]
        case "int" | "SymInt":
            return [*INTS, random.choice(RARE_INTS)]
        case "float" if many:
            size = _list_size(kind) or random.choice((1, 2))
            return [[to_value(random.choice(FLOATS))] * size]
        case "float" | "number" | "Scalar":
            return [to_value(n) for n in (*FLOATS, random.choice(RARE_FLOATS))]
        case "ScalarType":
            return [{"dtype": name} for name in DTYPES]
        case "MemoryFormat":
            return [{"memory_format": name} for name in MEMORY_FORMATS]
        case _:
            return []


def _list_size(kind: str) -> int | None:
    inside = kind.partition("[")[2].partition("]")[0]
    return int(inside) if inside.isdigit() else None


def _change(draft: Draft, slot: Slot, known: Known, random: Random) -> str | None:
    seen = known.seen(draft.calls[slot.call].fn, slot.name)
    value: Value = None
    if len(seen) > 1 and random.random() < (0.25 if _is_number(slot.value) else 0.5):
        value = random.choice(seen)
    else:
        value = _alternative(slot, draft, known, random)
    if value is not None and slot.value is None and random.random() < 0.9:
        excluded = known.excluded(draft.calls[slot.call], slot.name)
        for other in [*slots(draft, known.signatures)]:
            if other.call == slot.call and other.name in excluded:
                put(draft, other, None)
    if value == slot.value and type(value) is type(slot.value):
        return None
    put(draft, slot, value)
    return f"arguments/{slot.name}/{argument_class(value)}"


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _alternative(slot: Slot, draft: Draft, known: Known, random: Random) -> Value:
    """Another value of the same type, or of another that the parameter takes."""
    value = slot.value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return _int(value, slot, draft, known, random)
    if isinstance(value, float) or (isinstance(value, dict) and "float" in value):
        return _float(value, random)
    if isinstance(value, str):
        words = [
            word
            for word in known.seen(draft.calls[slot.call].fn, slot.name)
            if isinstance(word, str)
        ]
        return random.choice(words) if words else value
    if isinstance(value, list):
        return _list(cast("list[Value]", value), slot, draft, known, random)
    if isinstance(value, dict):
        return _constructed(cast("dict[str, Any]", value), slot, draft, known, random)
    fn = draft.calls[slot.call].fn
    options = [
        v
        for p in known.signatures.parameters(fn)
        if p.name == slot.name
        for v in values_of_type(p, random)
    ]
    return random.choice(options) if options else value


def _int(value: int, slot: Slot, draft: Draft, known: Known, random: Random) -> Value:
    types = known.signatures.types(draft.calls[slot.call].fn, slot.name)
    if random.random() < 0.5 and any(kind.startswith(("float", "Scalar")) for kind in types):
        return _float(float(value), random)
    roll = random.random()
    if roll < 0.35:
        return value + random.choice((1, -1))
    if roll < 0.75:
        return random.choice(INTS)
    if roll < 0.83:
        large = isinstance(slot.value, int) and random.random() < 0.15
        return random.choice(LARGE_INTS if large else RARE_INTS)
    shapes = [spec.shape for spec in draft.inputs()]
    if roll < 0.92 or not any(shapes):
        rank = len(random.choice(shapes)) if shapes else 1
        return random.choice((-rank, rank - 1, rank, -value, value * 2))
    return random.choice([n for shape in shapes for n in shape]) + random.choice((0, 0, 1, -1))


def _float(value: Value, random: Random) -> Value:
    number = value if isinstance(value, float) else None
    roll = random.random()
    if number is not None and roll < 0.25:
        return to_value(number * random.choice((0.5, 2.0, -1.0, 1.03, 0.97)))
    if roll < 0.85:
        return to_value(random.choice(FLOATS))
    return to_value(random.choice(RARE_FLOATS))


def _list(items: list[Value], slot: Slot, draft: Draft, known: Known, random: Random) -> Value:
    """One entry changed, all the same, one fewer or more, or in place of a list its only number."""
    if not items:
        return [random.choice(INTS)]
    roll = random.random()
    place = random.randrange(len(items))
    if roll < 0.5:
        other = _entry(items[place], slot, draft, known, random)
        return [*items[:place], other, *items[place + 1 :]]
    if roll < 0.8:
        return [_entry(items[place], slot, draft, known, random)] * len(items)
    if roll < 0.87:
        return items[:-1]
    if roll < 0.92:
        return [*items, items[-1]]
    if roll < 0.96 or not _is_number(items[0]):
        return [items[-1], *items[:-1]]
    return items[0]


def _entry(value: Value, slot: Slot, draft: Draft, known: Known, random: Random) -> Value:
    """Another value for one place of a list."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _int(value, slot, draft, known, random)
    entry = Slot(slot.call, slot.key, slot.name, value)
    return _alternative(entry, draft, known, random)


def _constructed(
    value: dict[str, Any], slot: Slot, draft: Draft, known: Known, random: Random
) -> Value:
    for kind in ("tuple", "size"):
        if kind in value:
            changed = _list(value[kind], slot, draft, known, random)
            if isinstance(changed, list):
                return {kind: cast("list[Value]", changed)}
            return changed
    if "dtype" in value:
        return {"dtype": random.choice(known.dtypes or DTYPES if random.random() < 0.6 else DTYPES)}
    if "memory_format" in value:
        return {"memory_format": random.choice(MEMORY_FORMATS)}
    if "slice" in value:
        part = random.randrange(3)
        number = random.choice((None, 0, 1, 2, 3, -1, -2, 100) if part < 2 else (None, 1, 2, 3))
        return {"slice": [*value["slice"][:part], number, *value["slice"][part + 1 :]]}
    if "generator" in value:
        return {"generator": random.choice((0, 1, 42))}
    return value
