"""The program's value grammar inside a worker: JSON to arguments, and results that are no tensors back to JSON.

``bot/programs/program.py`` documents the grammar. The bot has validated a program before it sends it; what is checked
here is only what keeps the worker itself from going wrong.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, Sequence, Tuple

from framework import Framework, RefusedError

Environment = Dict[str, Any]
"""Tensor or result name -> object."""

MAX_TEXT = 2000
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-0.0": -0.0}


def reference(entry: Dict[str, Any], environment: Environment) -> Any:
    """The object that ``{"ref": name, "path": [i]}`` points to. Raises RefusedError when there is none."""
    try:
        target = environment[entry["ref"]]
        path = entry.get("path")
        return follow(target, path) if path else target
    except (KeyError, IndexError, TypeError) as error:
        raise RefusedError(
            "reference %r leads nowhere: %s" % (entry, type(error).__name__)
        ) from None


def decode(value: Any, environment: Environment, framework: Framework) -> Any:
    """An argument from its JSON. Raises RefusedError for what is not in the grammar, UnsupportedError from the framework."""
    kind = type(value)
    if kind is dict:
        if "ref" in value:
            return reference(value, environment)
        return _decode_entry(value, environment, framework)
    if kind is list:
        return [decode(item, environment, framework) for item in value]
    return value


def _decode_entry(entry: Dict[str, Any], environment: Environment, framework: Framework) -> Any:
    if len(entry) != 1:
        raise RefusedError("not a value: %r" % (entry,))
    ((key, inner),) = entry.items()
    if key == "tuple":
        return tuple([decode(item, environment, framework) for item in inner])
    if key == "float":
        return _float(inner)
    if key == "complex":
        return complex(_float(inner[0]), _float(inner[1]))
    if key == "slice":
        return slice(*[decode(item, environment, framework) for item in inner])
    if key == "dict":
        return {
            decode(k, environment, framework): decode(v, environment, framework) for k, v in inner
        }
    if key == "ellipsis":
        return Ellipsis
    if key == "fn":
        return framework.lookup(inner)
    if key == "size":
        return framework.argument(key, [decode(item, environment, framework) for item in inner])
    return framework.argument(key, inner)


def _float(value: Any) -> float:
    if isinstance(value, str):
        if value not in _FLOATS:
            raise RefusedError("not a number: %r" % value)
        return _FLOATS[value]
    return float(value)


def encode(result: Any, framework: Framework) -> Any:
    """A result that is no tensor, in the grammar. What the grammar cannot say becomes ``{"object": class name}``."""
    if result is None or result is True or result is False:
        return result
    kind = type(result)
    if kind is int:
        return result
    if kind is float:
        return _encode_float(result)
    if kind is str:
        return result[:MAX_TEXT]
    if kind is complex:
        return {"complex": [_plain(result.real), _plain(result.imag)]}
    return framework.value(result)


def _plain(value: float) -> Any:
    if value != value:
        return "nan"
    if value in (math.inf, -math.inf):
        return "inf" if value > 0 else "-inf"
    if value == 0 and math.copysign(1.0, value) < 0:
        return "-0.0"
    return value


def _encode_float(value: float) -> Any:
    plain = _plain(value)
    return {"float": plain} if isinstance(plain, str) else plain


def follow(target: Any, path: Sequence[int]) -> Any:
    """One member of a nested result. Raises IndexError or TypeError when the path leads nowhere."""
    for index in path:
        if isinstance(target, dict):
            target = list(target.values())
        elif not isinstance(target, (list, tuple)):
            target = tuple(target)
        target = target[index]
    return target


def leaves(
    result: Any, path: Tuple[int, ...], framework: Framework
) -> Iterator[Tuple[Tuple[int, ...], Any]]:
    """``(path, leaf)`` for every tensor or plain value in any nesting of sequences and dicts."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)) and not framework.is_plain_sequence(result):
        for index, item in enumerate(result):
            yield from leaves(item, (*path, index), framework)
    else:
        yield path, result
