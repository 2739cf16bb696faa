"""Passes over the arguments that are no tensors: fewer of them, and simpler ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

from bot.oracle.shrink.order import hardness
from bot.programs.builder import to_value
from bot.programs.draft import Draft
from bot.programs.program import Call, Value


def drop_arguments(draft: Draft) -> Iterator[Draft]:
    """Without a named argument, without the last positional ones, with None for one."""
    for index, call in enumerate(draft.calls):
        if len(call.kwargs) > 1:
            yield _with(draft, index, call.model_copy(update={"kwargs": {}}))
        for key in call.kwargs:
            rest = {other: value for other, value in call.kwargs.items() if other != key}
            yield _with(draft, index, call.model_copy(update={"kwargs": rest}))
        for count in range(1, len(call.args)):
            yield _with(draft, index, call.model_copy(update={"args": call.args[:count]}))
        for place, value in enumerate(call.args):
            if place and value is not None:
                args = [*call.args[:place], None, *call.args[place + 1 :]]
                yield _with(draft, index, call.model_copy(update={"args": args}))


def simplify_arguments(draft: Draft) -> Iterator[Draft]:
    """With a simpler value for one argument."""
    for index, call in enumerate(draft.calls):
        for place, value in enumerate(call.args):
            for simpler in simpler_values(value):
                args = [*call.args[:place], simpler, *call.args[place + 1 :]]
                yield _with(draft, index, call.model_copy(update={"args": args}))
        for key, value in call.kwargs.items():
            for simpler in simpler_values(value):
                kwargs = {**call.kwargs, key: simpler}
                yield _with(draft, index, call.model_copy(update={"kwargs": kwargs}))


def simpler_values(value: Value) -> Iterator[Value]:
    """Values that are easier to read than this one, the easiest first; none for references."""
    if isinstance(value, bool):
        if value:
            yield False
    elif isinstance(value, int | float):
        yield from map(to_value, simpler_numbers(value))
    elif isinstance(value, list):
        yield from _simpler_lists(cast("list[Value]", value))
    elif isinstance(value, dict):
        entry = cast("dict[str, Any]", value)
        if "tuple" in entry:
            items = cast("list[Value]", entry["tuple"])
            yield from ({"tuple": made} for made in _simpler_lists(items))
            if len(items) == 1 or (items and all(item == items[0] for item in items)):
                yield items[0]


def _simpler_lists(items: list[Value]) -> Iterator[list[Value]]:
    if items and all(isinstance(item, int) for item in items):
        for number in (0, 1, 2):
            if any(item != number for item in items):
                yield [number] * len(items)
    for index in range(len(items)):
        if len(items) > 1:
            yield [*items[:index], *items[index + 1 :]]
        for simpler in simpler_values(items[index]):
            yield [*items[:index], simpler, *items[index + 1 :]]


def simpler_numbers(value: float) -> Iterator[float]:
    """Numbers that are easier to read, the easiest first: 0, 1, a half, fewer digits, nearer to 0; of the same type."""
    proposed: list[float] = [0, 1, 2, -1]
    if isinstance(value, int):
        proposed += [value // 2, value - 1] if value > 0 else [-value, value + 1]
    elif math.isfinite(value):
        proposed += [0.5, 1.5, -0.5, float(round(value)), 100.0, -100.0]
        proposed += [float(f"{value:.{digits}g}") for digits in (1, 2, 3)]
    kind = type(value)
    seen: set[float] = set()
    for number in proposed:
        made = kind(number)
        if made not in seen and made != value and hardness(made) < hardness(value):
            seen.add(made)
            yield made


def _with(draft: Draft, index: int, call: Call) -> Draft:
    made = draft.copy()
    made.calls[index] = call
    return made
