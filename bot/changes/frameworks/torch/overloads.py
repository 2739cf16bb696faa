"""Which overload of a C++ function a call means, as far as text tells: by the number of arguments and by the types it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.torch.macros import closing, split_arguments

MAX_READ: Final = 200_000
"""Characters of the calls and heads of one name in one piece of code. Of those beyond it nothing is ruled out."""

_WORD: Final = re.compile(r"[A-Za-z_]\w+")
_BODY: Final = re.compile(r" (?:const |noexcept ){0,4}\{")


@dataclass(frozen=True)
class Overload:
    """One overload's parameters: how many arguments a call may have, and the words of its types.

    There is no least number: defaults are written at the declaration, which may stand in another file.
    """

    most: int
    types: frozenset[str]


def overload(definition: Definition) -> Overload | None:
    """The parameters of a function; None when they cannot be read."""
    return next(iter(overloads(definition.code, definition.name.rpartition("::")[2])), None)


def overloads(code: str, name: str) -> Iterator[Overload]:
    """The parameters of every function of a name that the code defines; calls have no body behind them."""
    left = MAX_READ
    for match in re.finditer(rf"\b{re.escape(name)} (?:< [^(]{{0,400}} > )?\(", code):
        end = closing(code, match.end(), left)
        left -= end - match.end()
        if left <= 0:
            return
        if _BODY.match(code, end, end + 40):
            yield _parameters(code[match.end() : end])


def _parameters(head: str) -> Overload:
    parameters = [p for p in split_arguments(head, 0) if p not in ("", "void")]
    types: set[str] = set()
    for parameter in parameters:
        words = _WORD.findall(parameter.partition(" = ")[0])
        types |= set(words[:-1] if len(words) > 1 else words)
    packed = any("..." in p or ". . ." in p for p in parameters)
    most = 99 if packed else len(parameters)
    return Overload(most, frozenset(types))


def may_call(code: str, name: str, meant: Overload, others: tuple[Overload, ...]) -> bool:
    """Whether some call of ``name`` in the code can mean the overload rather than one of the others.

    A call counts against the overload when its number of arguments does not fit, or when its arguments name more of
    another overload's types. A mention that is no call (a function's address) means any of them.
    """
    said = False
    left = MAX_READ
    for match in re.finditer(rf"\b{re.escape(name)} (?:< [^(;]{{0,400}} > )?\(", code):
        said = True
        end = closing(code, match.end(), left)
        left -= end - match.end()
        if left <= 0:
            return True
        arguments = [a for a in split_arguments(code, match.end(), end) if a]
        if len(arguments) > meant.most:
            continue
        words = set(_WORD.findall(" ".join(arguments)))
        fitting = [other for other in others if len(arguments) <= other.most]
        if all(len(words & meant.types) >= len(words & other.types) for other in fitting):
            return True
    return not said
