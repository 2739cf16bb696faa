"""Adapters from PyTorch's way of calling an op to a framework's: argument names, order, defaults, and what is refused.

The rows come with ``hello``; ``bot/targets/op_mapping.py`` documents and validates them.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

from framework import Adapter, UnsupportedError

Arguments = Tuple[List[Any], Dict[str, Any]]


def adapters(mapping: Dict[str, Any]) -> Dict[str, Adapter]:
    """Canonical name -> adapter, for every op that the mapping has a row of."""
    return {name: _adapter(name, row) for name, row in mapping.get("ops", {}).items()}


def _adapter(name: str, row: Dict[str, Any]) -> Adapter:
    if row.get("unsupported"):
        return _refuse("%s: %s" % (name, row["unsupported"]))
    positional: List[str] = row.get("positional", [])
    keep: int = row.get("keep", 0)
    rename: Dict[str, str] = row.get("rename", {})
    defaults: Dict[str, Any] = row.get("defaults", {})
    drop: Dict[str, List[Any]] = row.get("drop", {})
    only: Dict[str, List[Any]] = row.get("only", {})

    def adapt(args: List[Any], kwargs: Dict[str, Any]) -> Arguments:
        if positional and len(args) > keep:
            args, kwargs = _by_name(name, args, kwargs, positional, keep)
        for key, allowed in only.items():
            if key in kwargs and not _one_of(kwargs[key], allowed):
                raise UnsupportedError("%s: %s=%r is not supported" % (name, key, kwargs[key]))
        kept = {}
        for key, value in kwargs.items():
            if key in drop and (not drop[key] or _one_of(value, drop[key])):
                continue
            kept[rename.get(key, key)] = value
        for key, value in defaults.items():
            kept.setdefault(key, value)
        return args, kept

    return adapt


def _refuse(reason: str) -> Callable[[List[Any], Dict[str, Any]], Arguments]:
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
