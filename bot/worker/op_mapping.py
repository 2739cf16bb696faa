"""Adapters from PyTorch's way of calling an op to a framework's: argument names, order, defaults, and what is refused.

The rows come with ``hello``; ``bot/targets/op_mapping.py`` documents and validates them.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from framework import Adapter, Arguments, UnsupportedError

Decode = Callable[[Any], Any]
IsTensor = Callable[[Any], bool]


def adapters(mapping: Dict[str, Any], decode: Decode, is_tensor: IsTensor) -> Dict[str, Adapter]:
    """Canonical name -> adapter, for every op that the mapping has a row of; those with call forms are bound by them instead.

    ``decode`` turns a value of the program's grammar into the framework's.
    """
    rows = mapping.get("ops", {})
    return {
        name: _adapter(name, row, decode, is_tensor)
        for name, row in rows.items()
        if not row.get("call")
    }


def add_aliases(mapping: Dict[str, Any], table: Dict[str, Callable[..., Any]]) -> None:
    """Give an op that the framework lacks the callable of another form of it, where a row says so."""
    for name, row in mapping.get("ops", {}).items():
        other = table.get(row.get("same_as", ""))
        if other is not None:
            table.setdefault(name, other)


def chain(first: Adapter, second: Adapter) -> Adapter:
    """Both adapters, one after the other."""
    return lambda args, kwargs: second(*first(args, kwargs))


def _adapter(name: str, row: Dict[str, Any], decode: Decode, is_tensor: IsTensor) -> Adapter:
    if row.get("unsupported"):
        return _refuse("%s: %s" % (name, row["unsupported"]))
    positional: List[str] = row.get("positional", [])
    keep: int = row.get("keep", 0)
    not_bool: List[int] = row.get("not_bool", [])
    not_tensor: List[Any] = row.get("not_tensor", [])
    only: Dict[str, List[Any]] = row.get("only", {})
    pack = row.get("pack")
    drop: Dict[str, List[Any]] = row.get("drop", {})
    rename: Dict[str, str] = row.get("rename", {})
    defaults = {key: decode(value) for key, value in row.get("defaults", {}).items()}

    def adapt(args: List[Any], kwargs: Dict[str, Any]) -> Arguments:
        if positional and len(args) > keep:
            args, kwargs = _by_name(name, args, kwargs, positional, keep)
        for position in not_bool:
            if len(args) > position and isinstance(args[position], bool):
                raise UnsupportedError("%s: a bool as argument %d" % (name, position + 1))
        for place in not_tensor:
            value = args[place] if place in range(len(args)) else kwargs.get(place)
            if is_tensor(value):
                raise UnsupportedError("%s: a tensor as argument %s" % (name, place))
        for key, allowed in only.items():
            if key in kwargs and not _one_of(kwargs[key], allowed):
                raise UnsupportedError("%s: %s=%r is not supported" % (name, key, kwargs[key]))
        if pack is not None and len(args) > pack and isinstance(args[pack], int):
            args = [*args[:pack], list(args[pack:])]
        kept: Dict[str, Any] = {}
        for key, value in kwargs.items():
            if key in drop and (not drop[key] or _one_of(value, drop[key])):
                continue
            kept[rename.get(key, key)] = value
        for key, value in defaults.items():
            kept.setdefault(key, value)
        return args, kept

    return adapt


def _refuse(reason: str) -> Adapter:
    def refuse(args: List[Any], kwargs: Dict[str, Any]) -> Arguments:
        raise UnsupportedError(reason)

    return refuse


def _by_name(
    name: str, args: List[Any], kwargs: Dict[str, Any], positional: List[str], keep: int
) -> Arguments:
    """Arguments after the first ``keep`` by PyTorch's names for them."""
    if len(args) > len(positional):
        raise UnsupportedError("%s: more positional arguments than PyTorch has names for" % name)
    named = dict(zip(positional[keep:], args[keep:]))
    named.update(kwargs)
    return args[:keep], named


def _one_of(value: Any, allowed: List[Any]) -> bool:
    """Whether a plain value is listed; ``True`` is not ``1`` here."""
    return any(type(value) is type(item) and value == item for item in allowed)
