"""Which overload of a C++ function a definition may call: by the number of arguments, and by pointers' types.

Nothing is resolved as a compiler would: an overload is ruled out only where every call that is written out passes
another number of arguments, or a variable that is declared as a pointer to another arithmetic type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, cast

from bot.changes.definition import Definition
from bot.changes.sources.cpp_names import declared
from bot.changes.sources.cpp_pieces import cut
from bot.changes.sources.cpp_tokens import token_list

_ARITHMETIC: Final = frozenset(
    {
        "bool", "char", "short", "int", "long", "float", "double", "half", "__half", "__fp16", "int8_t", "uint8_t",
        "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "size_t", "bfloat16", "__nv_bfloat16",
        "dt_int8", "dt_uint8", "dt_int16", "dt_int32", "dt_float32", "dt_float16",
    }
)  # fmt: skip
"""Types that are never the same and never convert as pointers (MegEngine's ``dt_`` names are typedefs of its dtypes)."""
_SAME: Final = {
    "dt_int8": "int8_t", "dt_uint8": "uint8_t", "dt_int16": "int16_t", "dt_int32": "int32_t", "int": "int32_t",
    "dt_float32": "float", "short": "int16_t", "dt_float16": "half", "__half": "half", "__fp16": "half",
    "__nv_bfloat16": "bfloat16",
}  # fmt: skip
_CALLED: Final = frozenset({"function", "declaration"})
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_QUALIFIERS: Final = frozenset(
    {"const", "__restrict__", "__restrict", "restrict", "volatile", "RESTRICT", "std", "::"}
)


MAX_OVERLOADS: Final = 256
"""Of more definitions of one name none is ruled out: each is compared with each other."""

MAX_READ: Final = 200_000
"""Tokens of the calls by one name in one definition. Those beyond it may be of any overload."""

MAX_ANGLES: Final = 500
"""Tokens of a list of template arguments; a longer one is not told from comparisons."""

MAX_SEARCHED: Final = 100_000
"""Characters of a definition in which variables' declarations are looked for."""


@dataclass(frozen=True)
class Signature:
    """How many arguments a function takes at least and (None: without end) at most, and which arithmetic type each
    pointer among its parameters points to ("" for a parameter that is anything else).
    """

    least: int
    most: int | None
    pointers: tuple[str, ...]


@lru_cache(maxsize=4096)
def signature(definition: Definition) -> Signature | None:
    """The signature of a function's definition; None when it has none to read."""
    tokens = token_list(definition.code.rpartition("\n")[2])
    piece = next(iter(cut(tokens)), None)
    if definition.kind not in ("function", "declaration") or piece is None or piece.is_macro:
        return None
    found = declared(tokens, piece)
    if found.parameters is None:
        return None
    first, end = found.parameters
    parameters = [p for p in _arguments(tokens.values[first:end]) if p != ["void"]]
    if any(map(_is_pack, parameters)):
        return Signature(sum(not _is_pack(p) for p in parameters), None, ())
    least = sum("=" not in p for p in parameters)
    return Signature(least, len(parameters), tuple(map(_pointed, parameters)))


def users_of_overload(
    changed: Definition, name: str, naming: Sequence[Definition]
) -> tuple[Definition, ...]:
    """Those of the definitions that name a function which may call just this overload of it.

    All of them when there is no other overload among them, or too many, or when the change is no function of that name.
    """
    own = [d for d in naming if d.name in (name, changed.name) and d.kind in _CALLED]
    mine = set(map(id, own))
    users = [d for d in naming if id(d) not in mine]
    if len(own) > MAX_OVERLOADS:
        return tuple(users)
    called = signature(changed)
    others = {signature(d) for d in own if d.kind == "function" and d.name == changed.name} - {
        called
    }
    if called is None or not others or changed.name.rpartition("::")[2] != name:
        return tuple(users)
    defaults = [
        s for d in own if d.kind == "declaration" and (s := signature(d)) and s.most == called.most
    ]
    # A method's defaults stand in its class, which is not looked for here.
    least = 0 if "::" in changed.name else min([called.least, *(s.least for s in defaults)])
    reached = [replace(called, least=least)]
    waiting = [d for d in own if d.kind == "function" and d.code != changed.code]
    while passing := [d for d in waiting if any(may_call(d, name, s) for s in reached)]:
        waiting = [d for d in waiting if d not in passing]
        reached += [replace(s, least=0) for d in passing if (s := signature(d))]
    return tuple(d for d in users if any(may_call(d, name, s) for s in reached))


def may_call(user: Definition, name: str, called: Signature) -> bool:
    """Whether a definition's code can mean the function of this signature by the name."""
    code = user.code
    if user.name.rpartition("::")[2] == name:  # its own head is no call
        code = code.partition("{")[2]
    return any(_matches(call, called, user.code) for call in _calls(code, name))


Call = tuple[tuple[str, ...], ...] | None
"""The arguments of a call, each as its tokens; None for what is no call."""


def _matches(arguments: Call, called: Signature, code: str) -> bool:
    if arguments is None:
        return True
    count = len(arguments)
    if count < called.least or (called.most is not None and count > called.most):
        return False
    for argument, pointed in zip(arguments, called.pointers, strict=False):
        passed = _declared_pointer(argument[0], code) if pointed and len(argument) == 1 else ""
        if passed and passed != pointed:
            return False
    return True


@lru_cache(maxsize=512)
def _calls(code: str, name: str) -> tuple[Call, ...]:
    """The arguments of each call by a name; None where the name stands for something else than a call."""
    found: list[Call] = []
    values = token_list(code).values
    left = MAX_READ
    for place, value in enumerate(values):
        if value != name:
            continue
        following = place + 1
        if following < len(values) and values[following] == "<":
            following = _after_angles(values, following)
        if following >= len(values) or values[following] != "(":
            found.append(None)
            continue
        end = _closing(values, following, left)
        left -= end - following
        if left <= 0:
            return (*found, None)
        passed = values[following + 1 : end]
        packed = _is_pack(passed) or "__VA_ARGS__" in passed
        found.append(None if packed else tuple(map(tuple, _arguments(passed))))
    return tuple(found)


def _is_pack(values: list[str]) -> bool:
    return any(values[n : n + 3] == [".", ".", "."] for n in range(len(values) - 2))


def _after_angles(values: Sequence[str], place: int) -> int:
    depth = 0
    for following in range(place, min(len(values), place + MAX_ANGLES)):
        depth += (values[following] == "<") - (values[following] == ">")
        if depth == 0:
            return following + 1
        if values[following] in (";", "{"):
            break
    return place


def _closing(values: Sequence[str], place: int, limit: int) -> int:
    depth = 0
    last = min(len(values), place + limit)
    for following in range(place, last):
        depth += (values[following] in _OPEN) - (values[following] in _CLOSE)
        if depth == 0:
            return following
    return last


def _arguments(values: Sequence[str]) -> list[list[str]]:
    """Parts between commas that are in no bracket and no template argument list."""
    parts: list[list[str]] = [[]]
    depth = angles = 0
    for place, value in enumerate(values):
        depth += (value in _OPEN) - (value in _CLOSE)
        if value == "<" and place and _is_type_list(values, place):
            angles += 1
        elif value == ">" and angles:
            angles -= 1
        if value == "," and depth == 0 and angles == 0:
            parts.append([])
        else:
            parts[-1].append(value)
    return parts if parts != [[]] else []


def _is_type_list(values: Sequence[str], place: int) -> bool:
    """Whether a ``<`` opens template arguments: its ``>`` comes before anything that no type holds."""
    depth = 0
    for following in range(place, min(len(values), place + MAX_ANGLES)):
        value = values[following]
        depth += (value == "<") - (value == ">")
        if depth == 0:
            return True
        if value in ("&&", "||", ";", "{", "}", "=", "+", "/", "-", "?") or value.startswith('"'):
            return False
    return False


def _pointed(parameter: Sequence[str]) -> str:
    """The arithmetic type to which a parameter points, in one spelling; "" for any other parameter."""
    written = [v for v in parameter[: parameter.index("=")] if v] if "=" in parameter else parameter
    plain = [v for v in written if v not in _QUALIFIERS]
    if plain.count("*") != 1 or len(plain) > 3 or plain[0] not in _ARITHMETIC or plain[1] != "*":
        return ""
    return _SAME.get(plain[0], plain[0])


@lru_cache(maxsize=4096)
def _declared_pointer(name: str, code: str) -> str:
    """What a variable points to, when all that the code declares by the name are pointers to one arithmetic type."""
    if not name.isidentifier() or len(code) > MAX_SEARCHED:
        return ""
    found = re.findall(
        rf"\b(\w+) (?:const )?\* (?:const |(?:__)?restrict(?:__)? |RESTRICT )*{name} [,)=;]", code
    )
    others = re.search(rf"(?:auto|&|>|\* \*) (?:const )?{name} [,)=;:]", code)
    types: set[str] = {_SAME.get(t, t) for t in cast("list[str]", found)}
    return next(iter(types)) if len(types) == 1 and types <= _ARITHMETIC and not others else ""
