"""Strings that make a regular expression slow: its own parts, repeated, with something behind that never fits."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    sre_parse: Any = importlib.import_module(
        "sre_parse"
    )  # the one reader of patterns that there is

PROBE = "aAz_1 \n\t.,:;()<>{}[]\"'*&#/\\=-!@?"
"""A character of each kind that sources are made of."""

QUOTES = (
    '\\"',
    "\\'",
    '"',
    "/*",
    "{",
    "(",
    "[",
    "<",
    "a<",
    "a::",
    " ",
    "\n",
    ", ",
    "a ",
    "A_",
    "_",
)
"""Units for every pattern, whatever it says."""

_CALLS = {"compile", "sub", "search", "match", "findall", "finditer", "split", "fullmatch"}
_CLASSES = {"SPACE": str.isspace, "DIGIT": str.isdigit, "WORD": lambda c: c.isalnum() or c == "_"}
_MANY = 100

Unit = tuple[str, str]
"""A prefix, and what is repeated behind it."""


def patterns_of(package: ModuleType) -> dict[str, re.Pattern[str]]:
    """Every pattern of a package: those that its modules keep, and those that stand in a call of ``re``."""
    found: dict[tuple[str, int], tuple[str, re.Pattern[str]]] = {}
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                text = _of_text(value)
                found.setdefault((text.pattern, text.flags), (f"{info.name}.{name}", text))
        for line, written, flags in _written(Path(str(module.__file__))):
            text = re.compile(written, flags)
            found.setdefault((text.pattern, text.flags), (f"{info.name}:{line}", text))
    return dict(found.values())


def _of_text(pattern: re.Pattern[Any]) -> re.Pattern[str]:
    if isinstance(pattern.pattern, str):
        return pattern
    return re.compile(pattern.pattern.decode(), pattern.flags)


def _written(file: Path) -> Iterator[tuple[int, str, int]]:
    """Line, text and flags of patterns in calls; ``name`` stands where a name is put in."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        function = node.func
        if not (isinstance(function.value, ast.Name) and function.value.id == "re"):
            continue
        text = _literal(node.args[0]) if function.attr in _CALLS else None
        if text:
            words = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            kinds = ("VERBOSE", "DOTALL", "MULTILINE", "IGNORECASE")
            flags = sum(int(getattr(re, kind)) for kind in kinds if kind in words)
            yield node.lineno, text, flags


def _literal(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        return node.value if isinstance(node.value, str) else node.value.decode()
    if isinstance(node, ast.JoinedStr):
        return "".join(
            (_literal(part) or "") if isinstance(part, ast.Constant) else "name"
            for part in node.values
        )
    return None


def pumps(pattern: re.Pattern[str]) -> tuple[Unit, ...]:
    """What to repeat: each repeated part, with and without all that stands before it."""
    found: dict[Unit, None] = {("", unit): None for unit in QUOTES}
    for before, bodies in _repeats(list(sre_parse.parse(pattern.pattern, pattern.flags))):
        for body in bodies:
            found["", body] = None
            for prefix in before:
                found[prefix, body] = found["", prefix + body] = None
                if prefix:
                    found["", prefix] = found["", prefix + "\n"] = None
    return tuple(unit for unit in found if unit[1])


def _repeats(
    items: list[Any], prefixes: tuple[str, ...] = ("",)
) -> Iterator[tuple[list[str], list[str]]]:
    """Of each part that may be repeated without end: what matches before it, and what matches it once."""
    for place, (op, value) in enumerate(items):
        ahead = _samples(items[:place], 2)
        before = [prefix + sample for prefix in prefixes[:2] for sample in ahead][:4]
        kind = str(op)
        if kind.endswith("REPEAT"):
            _, most, inner = value
            if most > _MANY:
                yield before, _samples(list(inner), 12)
            yield from _repeats(list(inner), tuple(before))
        elif kind in ("SUBPATTERN", "ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):
            inner = value if kind == "ATOMIC_GROUP" else value[-1]
            yield from _repeats(list(inner), tuple(before))
        elif kind == "BRANCH":
            for branch in value[1]:
                yield from _repeats(list(branch), tuple(before))


def _samples(items: list[Any], limit: int) -> list[str]:
    """Some strings that a sequence matches, assertions aside."""
    found = [""]
    for op, value in items:
        found = list(
            dict.fromkeys(head + tail for tail in _options(str(op), value, limit) for head in found)
        )
        step = max(1.0, len(found) / limit)
        found = [found[int(n * step)] for n in range(min(limit, len(found)))]
    return found


def _options(kind: str, value: Any, limit: int) -> list[str]:
    characters = [c for c in PROBE if _holds(kind, value, c)]
    if kind == "LITERAL":
        return [chr(value)]
    if kind in ("NOT_LITERAL", "ANY", "IN"):
        outside = (
            [
                chr(v[0] if isinstance(v, tuple) else v)
                for op, v in value
                if str(op) in ("LITERAL", "RANGE")
            ]
            if kind == "IN"
            else []
        )
        return characters or outside
    if kind.endswith("REPEAT"):
        least, _, inner = value
        once = _samples(list(inner), limit)
        return [*([""] if least == 0 else []), *(sample * max(least, 1) for sample in once)]
    if kind == "SUBPATTERN":
        return _samples(list(value[-1]), limit)
    if kind == "ATOMIC_GROUP":
        return _samples(list(value), limit)
    if kind == "BRANCH":
        return [sample for branch in value[1] for sample in _samples(list(branch), limit)]
    return [""]


def _holds(kind: str, value: Any, character: str) -> bool:
    if kind == "ANY":
        return True
    if kind in ("LITERAL", "NOT_LITERAL"):
        return (ord(character) == value) == (kind == "LITERAL")
    if kind == "RANGE":
        return value[0] <= ord(character) <= value[1]
    if kind == "CATEGORY":
        word = str(value).removeprefix("CATEGORY_")
        return _CLASSES[word.removeprefix("NOT_")](character) != word.startswith("NOT_")
    if kind == "IN":
        negated = str(value[0][0]) == "NEGATE"
        within = any(
            _holds(str(op), inner, character) for op, inner in value if str(op) != "NEGATE"
        )
        return within != negated
    return False
