"""What of a C++ definition changes nothing that it computes: log messages without side effects."""

from __future__ import annotations

import re
from typing import Final

_LOG: Final = re.compile(
    r"\b(?:[A-Z]+_)?[DV]?V?LOG(?:_EVERY_N|_FIRST_N|_IF)?|(?:mgb|megdnn)_log(?:_debug|_warn)?"
)
"""Log messages (glog, and the wrappers of MindSpore and MegEngine); those of errors count as code."""
_LEVEL: Final = re.compile(r"INFO|WARNING|DEBUG|\d+")
_BEFORE: Final = frozenset({";", "{", "}"})
_SOLE_BODY: Final = frozenset({")", "else", "do"})
_MAX_TOKENS: Final = 500  # of a message; what is longer is compared
_BINDS: Final = frozenset(
    {"++", "--", "new", "delete", "throw", "return", "goto", "{", "}", "#", "co_await", "co_yield"}
)
_MUTATES: Final = re.compile(
    r"\b\w+_|(?:fetch|compare_exchange|push|pop|emplace|set|Set|mutable|add|Add|Push|Pop)_?\w*|swap|move|release|Release"
    r"|reset|Reset|exchange|insert|erase|clear|Clear|resize|Resize|fill|exit|abort|memcpy|memset|store|assign|Update\w*"
)
"""Calls that change what they are given: in place by PyTorch's underscore, or by the standard library's names."""


def without_logs(values: list[str]) -> list[str]:
    """The tokens of a definition without its log messages, in time proportional to their number.

    A message that is all of a branch (``if (x) LOG(INFO) << y;``) leaves its semicolon, or the next statement would
    become the branch. A message that binds, counts or changes something stays, and so does one that is no statement.
    """
    kept: list[str] = []
    token = 0
    while token < len(values):
        before = values[token - 1] if token else ""
        if _LOG.fullmatch(values[token]) and (before in _BEFORE or before in _SOLE_BODY):
            end, quiet = _message(values, token)
            if not quiet:
                kept += values[token:end]
            elif before in _SOLE_BODY:
                kept.append(";")
            token = end
        else:
            kept.append(values[token])
            token += 1
    return kept


def _message(values: list[str], first: int) -> tuple[int, bool]:
    """The token after a message, and whether it can be left out; of another thing, the tokens that were seen."""
    following = values[first + 1 : first + 3]
    by_level = not values[first].startswith(("mgb", "megdnn"))
    if following[:1] != ["("] or (by_level and not _LEVEL.fullmatch("".join(following[1:]))):
        return first + 1, False
    depth = 0
    for token in range(first + 1, min(first + _MAX_TOKENS, len(values))):
        value = values[token]
        if value in ("(", "["):
            depth += 1
        elif value in (")", "]"):
            depth -= 1
            if depth < 0:
                return token, False
        elif value == ";":
            return token + 1, depth == 0
        elif (
            value in _BINDS
            or (value == "," and depth == 0)
            or _assigns(values, token)
            or (
                values[token + 1 : token + 2] == ["("]
                and _MUTATES.fullmatch(value)
                and token > first
            )
        ):
            return token, False
    return min(first + _MAX_TOKENS, len(values)), False


def _assigns(values: list[str], token: int) -> bool:
    """Whether a token is the ``=`` of an assignment, not of a comparison."""
    if values[token] != "=" or values[token + 1 : token + 2] == ["="]:
        return False
    before, earlier = values[token - 1], values[token - 2]
    return before not in ("=", "!", "<", ">") or (before in ("<", ">") and earlier == before)
