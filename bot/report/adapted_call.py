"""A call as a framework takes it, where that is not as PyTorch does: the rows of ``bot/worker/ops``, on source level.

A worker adapts the values of a call; here the same rows adapt its JSON, so that a script calls what the worker called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.programs.program import Call, Value
from bot.targets.op_mapping import OpRow


class NotAdaptedError(ValueError):
    """The framework has no such call; the message is one line."""


def adapted(call: Call, rows: Mapping[str, OpRow]) -> Call:
    """The call with its framework's own form, argument names, order and defaults. Raises NotAdaptedError."""
    row = rows.get(call.fn)
    fn, args, kwargs = call.fn, list(call.args), _without_defaults(call)
    if row is not None:
        if row.unsupported:
            raise NotAdaptedError(f"{call.fn}: {row.unsupported}")
        fn = row.same_as or fn
        args, kwargs = _adapt(row, args, kwargs)
    return call.model_copy(update={"fn": fn, "args": args, "kwargs": kwargs})


def _without_defaults(call: Call) -> dict[str, Value]:
    """Keyword arguments; of a module's class without the device and dtype that are the default anyway.

    Not every framework's module classes take them.
    """
    owner, _, name = call.fn.rpartition(".")
    if owner.split(".")[-1] != "nn" or not name[:1].isupper():
        return dict(call.kwargs)
    default = {"device": {"device": "target"}, "dtype": {"dtype": "float32"}}
    return {key: value for key, value in call.kwargs.items() if value != default.get(key, call)}


def _adapt(
    row: OpRow, args: list[Value], kwargs: dict[str, Value]
) -> tuple[list[Value], dict[str, Value]]:
    if row.positional and len(args) > row.keep:
        if len(args) > len(row.positional):
            raise NotAdaptedError("more positional arguments than there are names for")
        named = dict(zip(row.positional[row.keep :], args[row.keep :], strict=False))
        args, kwargs = args[: row.keep], named | kwargs
    for key, allowed in row.only.items():
        if key in kwargs and not _one_of(kwargs[key], allowed):
            raise NotAdaptedError(f"{key} cannot be that")
    if row.pack is not None and len(args) > row.pack and isinstance(args[row.pack], int):
        args = [*args[: row.pack], args[row.pack :]]
    kept = {
        row.rename.get(key, key): value
        for key, value in kwargs.items()
        if key not in row.drop or (row.drop[key] and not _one_of(value, row.drop[key]))
    }
    return args, row.defaults | kept


def _one_of(value: Value, allowed: list[Any]) -> bool:
    """Whether a plain value is listed; ``True`` is not ``1`` here."""
    return any(type(value) is type(item) and value == item for item in allowed)
