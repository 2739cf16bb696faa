"""Which calls make what a C++ function gives back: near its result, or in passing.

Nothing is evaluated: brackets are matched, and the names of variables are followed one step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

Called = Callable[[tuple[str, ...], int], bool]
"""Whether the token at a place of an expression names the function that is looked for."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
_CLEAR: Final = frozenset(
    {"", "(", "JUST", "CHECK_JUST", "move", "bind", "then", "sequence_function", "return", "="}
)
"""Calls that hand on what they get (oneflow/core/common/maybe.h, oneflow/core/functional/sequence_function.h)."""
_CONTROL: Final = frozenset({"if", "for", "while", "switch"})
_LABELS: Final = frozenset({"case", "default", "public", "private", "protected"})
_TESTS: Final = re.compile(r"\b(?=\w*CHECK(?!_JUST))\w+|^.*_THEN_RETURN")
_BEFORE_BLOCK: Final = frozenset({")", "const", "else", "do", "try", "override", "noexcept", ";", "{", "}", ":"})  # fmt: skip
_HEADS: Final = frozenset({"class", "struct", "namespace"})
_FUNCTIONAL: Final = re.compile(r"\b(?=[A-Z]\w*[a-z])\w+|sequence_function")
_NOTHING: Final = ((), ("Error",), ("Maybe",))
"""How what is returned begins where it is no result (oneflow/core/common/{error,maybe}.h)."""
_NONE: Final = 1 << 30
_NEAR: Final = 1  # calls around one that is a step from the result


@dataclass(frozen=True)
class _Statement:
    """``target`` is the variable that takes the expression; "return" for what is returned, "" for neither."""

    target: str
    tokens: tuple[str, ...]


@dataclass
class _Frame:
    """``around``: the calls that are open; ``nearest``: how many stand around the nearest call within, ``_NONE`` for none."""

    around: int
    nearest: int


def share_of_results(code: str, called: Called) -> float:
    """The share of what a function or class of functions gives back that a call makes, or that is one step from it.

    What is given back are the expressions returned and, for a variable returned, those assigned to it, without those that
    only work on it further; where nothing is returned (``Maybe<void>``), the calls that are statements of their own and fill
    no variable (``&x``).
    """
    statements = list(_statements(code))
    made = {s.target for s in statements if _depth(s.tokens, called) == 0} - {"", "return"}
    hits = others = 0
    for statement in _results(statements):
        if statement.target != "return" and statement.target in statement.tokens:
            continue
        depth = _depth(statement.tokens, called)
        if 0 <= depth <= _NEAR or _holds(statement.tokens, made - {statement.target}):
            hits += 1
        else:
            others += _computes(statement.tokens)
    return hits / (hits + others) if hits else 0.0


def _computes(tokens: tuple[str, ...]) -> bool:
    """Whether an expression calls a functional, or runs an op itself."""
    return "Dispatch" in tokens or any(
        following == "(" and _FUNCTIONAL.fullmatch(token) for token, following in pairwise(tokens)
    )


def _results(statements: list[_Statement]) -> Iterator[_Statement]:
    """The statements that say what is given back."""
    returned = [s for s in statements if s.target == "return"]
    names = {name for s in returned if (name := _variable(s.tokens))}
    for statement in statements:
        if statement.target == "return":
            if not _variable(statement.tokens) and statement.tokens[:1] not in _NOTHING:
                yield statement
        elif statement.target in names:
            yield statement
    if any("void" in s.tokens for s in returned):
        for statement in statements:
            if (
                not statement.target
                and statement.tokens[0] == "JUST"
                and "&" not in statement.tokens
            ):
                yield statement


def _variable(tokens: tuple[str, ...]) -> str:
    """The variable that an expression is, or is an element of; "" for any other expression."""
    rest = [t for t in tokens if t not in ("JUST", "(", ")", "*", "std", "::", "move")]
    if rest and rest[0].isidentifier() and (len(rest) == 1 or rest[1] in ("[", "->", ".")):
        tail = rest[1:]
        return rest[0] if not tail or tail[0] == "[" or tail[1:2] in (["at"], ["get"]) else ""
    return ""


def _statements(code: str) -> Iterator[_Statement]:
    """The statements of all bodies in a definition; a lambda is part of the statement that it stands in."""
    tokens: list[str] = []
    nested: list[str] = []  # the token before each bracket that is open within the statement
    closed = ""  # the token before the bracket that was closed last
    for match in _TOKEN.finditer(code):
        token = match[0]
        last = tokens[-1] if tokens else ";"
        if token == "{" and not nested and _is_block(last, closed, tokens):
            yield from _read(tokens)
            tokens = []
            continue
        if token in ("}", ";") and not nested:
            yield from _read(tokens)
            tokens = []
            continue
        if token in ("(", "{", "["):
            nested.append(last)
        elif token in (")", "}", "]") and nested:
            closed = nested.pop()
        tokens.append(token)
    yield from _read(tokens)


def _is_block(last: str, closed: str, tokens: list[str]) -> bool:
    """Whether a brace opens a block: not a list of values, and not the body of a lambda."""
    is_lambda = last == "]" or (last == ")" and closed == "]")
    return not is_lambda and (last in _BEFORE_BLOCK or bool(_HEADS.intersection(tokens[:4])))


def _read(tokens: list[str]) -> Iterator[_Statement]:
    """One statement, without the conditions that it stands under."""
    start = 0
    while start < len(tokens):
        token = tokens[start]
        if token in ("else", "do"):
            start += 1
        elif token in _CONTROL:
            start = _after(tokens, start + 1)
        elif token in _LABELS:
            start = next(
                (p + 1 for p in range(start, len(tokens)) if tokens[p] == ":"), len(tokens)
            )
        else:
            break
    rest = tuple(tokens[start:])
    if not rest or _TESTS.fullmatch(rest[0]):
        return
    if rest[0] == "return":
        yield _Statement("return", rest[1:])
        return
    equals = _assigned_at(rest)
    if equals > 0:
        names = [token for token in _left(rest[:equals]) if token.isidentifier()]
        yield _Statement(names[-1] if names else "", rest[equals + 1 :])
    else:
        yield _Statement("", rest)


def _after(tokens: list[str], start: int) -> int:
    """The place after the bracket that opens at or after a place."""
    depth = 0
    for place in range(start, len(tokens)):
        depth += (tokens[place] == "(") - (tokens[place] == ")")
        if depth == 0 and tokens[place] == ")":
            return place + 1
    return len(tokens)


def _assigned_at(tokens: tuple[str, ...]) -> int:
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
        if token == "=" and depth == 0:
            return place
    return -1


def _left(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """What stands left of an assignment, without an index: ``( * outputs ) [ 0 ]``, ``in_grads -> at ( 0 )``."""
    for place, token in enumerate(tokens):
        if token in ("->", ".") or (token == "[" and place):
            return tokens[:place]
    return tokens


def _depth(tokens: tuple[str, ...], called: Called) -> int:
    """How many calls stand around the one that is looked for, at its nearest; -1 when it is not part of the result.

    It is not where more is done with what it gives: a member of it is asked for, or a chain of functions goes on.
    """
    frames = [_Frame(0, _NONE)]  # the statement, and each bracket that is open
    done = _NONE
    for place, token in enumerate(tokens):
        last = frames[-1]
        if token in ("(", "{", "["):
            around = last.around + (_callee(tokens, place) not in _CLEAR)
            own = token == "(" and place > 0 and called(tokens, place - 1)
            frames.append(_Frame(around, last.around if own else _NONE))
        elif token in (")", "}", "]") and len(frames) > 1:
            nearest = frames.pop().nearest
            following = tokens[place + 1 : place + 3]
            if following[:1] not in (("->",), (".",)):
                frames[-1].nearest = min(frames[-1].nearest, nearest)
            elif following[1:] == ("call",):
                done = min(done, nearest)
        elif tokens[place + 1 : place + 2] != ("(",) and called(tokens, place):
            last.nearest = min(last.nearest, last.around)  # handed over by its name
    nearest = min(done, *(frame.nearest for frame in frames))
    return -1 if nearest == _NONE else nearest


def _callee(tokens: tuple[str, ...], place: int) -> str:
    """What a bracket belongs to: a function's name; "" for a lambda's body and brackets that only group."""
    if not place:
        return ""
    token = tokens[place]
    before = tokens[place - 1]
    if token == "(":
        return before if before.isidentifier() or before == ">" else ""
    return "" if token == "{" else "["


def _holds(tokens: tuple[str, ...], names: set[str]) -> bool:
    """Whether an expression has one of some variables, at most one call around it."""
    return bool(names) and 0 <= _depth(tokens, lambda all_, at: all_[at] in names) <= _NEAR
