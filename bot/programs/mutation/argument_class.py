"""Classes of argument values: what a novelty signature and a label say of them."""

from __future__ import annotations

import math
from typing import Any, cast

from bot.programs.program import Value


def argument_class(value: Value) -> str:
    """The class of an argument's value: small numbers and words exactly, others by kind and magnitude."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return (
            str(value)
            if -2 <= value <= 3
            else ("negative" if value < 0 else "few" if value < 20 else "many")
        )
    if isinstance(value, float):
        return _float_class(value)
    if isinstance(value, str):
        return value[:40]
    if isinstance(value, list):
        return "[" + ",".join(dict.fromkeys(map(argument_class, cast("list[Value]", value)))) + "]"
    entry = cast("dict[str, Any]", value)
    if "ref" in entry:
        return "tensor"
    ((kind, inner),) = [*entry.items()][:1] or [("empty", None)]
    return f"{kind}:{argument_class(inner)}" if kind != "dict" else "dict"


def _float_class(value: float) -> str:
    if value in (0.0, 1.0, -1.0, 0.5, 2.0):
        return f"{value:.1f}"
    size = abs(value)
    if 0 < abs(size - 1) < 1e-3:
        return "hardly-one" if value > 0 else "-hardly-one"
    near = (
        "near-one"
        if abs(size - 1) < 0.1
        else "below-one"
        if size < 1
        else "whole"
        if value == math.floor(value)
        else "fraction"
    )
    return ("-" if value < 0 else "") + ("tiny" if size < 1e-3 else "huge" if size > 1e4 else near)
