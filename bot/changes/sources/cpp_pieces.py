"""C++ source cut into pieces (functions, classes, macro calls, ``#define`` blocks) by its brackets.

Sources are read as they are written, before any macro is replaced: a grammar's error at one odd macro would move the
borders of everything that follows it. Brackets hold, and what they do not hold is set right at the next line that
closes a body in the first column.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bot.changes.sources.cpp_tokens import TokenList

_OPENS: Final = {")": "(", "]": "[", "}": "{"}
_STRUCTURE: Final = frozenset("()[]{};#") | {"namespace", "template"}
_ACCESS: Final = frozenset({"public", "private", "protected", "signals", "slots"})
CLASS_KEYS: Final = frozenset({"class", "struct", "union", "enum"})
_AFTER_BODY: Final = frozenset({",", "{", "catch", "else"})
_AFTER_VALUE: Final = _AFTER_BODY | frozenset("=().[]<>+-*&|?:/") | {"->", "::", "while"}
AFTER_PARAMETERS: Final = frozenset(
    {"const", "noexcept", "override", "final", "throw", "requires", "try", "mutable", "volatile"}
)
_PREFIX: Final = re.compile(
    r"LAUNCH_BOUNDS|ATTRIBUTE|DEPRECATED|ALIGN|NODISCARD|EXPORT|INLINE|^TEMPLATE|HOST|DEVICE_FUNC|^__|AVAILABLE|TARGET"
    r"|^(?:alignas|decltype|requires|extern)$"
)
"""Macros that stand before what they mark: compiler attributes of CUDA, GCC, Clang and their wrappers."""
_MAX_REPAIRS: Final = 20
_MAX_CONDITION: Final = 4000  # characters of nested conditions; beyond, a digest stands for them
_MAX_DEPTH: Final = 500  # brackets that are remembered for the other branch of an ``#if``


@dataclass(frozen=True)
class Piece:
    """Tokens from ``first`` up to, not including, ``end``. ``body`` is the token of the first brace outside
    parentheses, or ``end`` when there is none. ``condition`` holds the ``#if`` lines that it stands under.
    """

    first: int
    end: int
    body: int
    condition: str
    is_macro: bool = False


@dataclass
class _Conditional:
    opened: int  # token
    depth: tuple[str, ...]  # brackets open at the time
    asked: str
    outer: str  # the conditions around it


def cut(tokens: TokenList, first: int = 0, end: int | None = None) -> Iterator[Piece]:
    """The pieces of a file, or of the part of it between two tokens (a class's body)."""
    return _Cutter(tokens, len(tokens.values) if end is None else end).pieces(first)


def _capped(condition: str) -> str:
    """A condition, or what stands for a long one: hundreds that are nested would be repeated in each definition."""
    if len(condition) <= _MAX_CONDITION:
        return condition
    return f"#if {hashlib.sha256(condition.encode(errors='replace')).hexdigest()}\n"


class _Cutter:
    def __init__(self, tokens: TokenList, end: int) -> None:
        self.tokens = tokens
        self.values = tokens.values
        self.end = end
        self.conditionals: list[_Conditional] = []
        self.repairs = 0
        self.told: tuple[int, int, str] = (
            -1,
            -1,
            "",
        )  # of the last item: where it begins, its body, its kind

    def pieces(self, token: int) -> Iterator[Piece]:
        while token < self.end:
            value = self.values[token]
            if value == "#" and self._begins_line(token):
                after = self.tokens.line_end(token)
                named = min(after, self.end) > token + 2  # a bare ``#define`` is no macro
                if (
                    named
                    and self._value(token + 1) == "define"
                    and not self._is_guard(token, after)
                ):
                    yield Piece(
                        token, min(after, self.end), min(after, self.end), self._condition(), True
                    )
                self._directive(token, after, [], token)
                token = after
            elif value in (";", "}", ")", "]"):
                token += 1
            elif value in _ACCESS and self._value(token + 1) == ":":
                token += 2
            elif (inside := self._opened(token)) is not None:
                token = inside
            else:
                condition = self._condition()
                first = token
                token, body = self._item(first)
                yield Piece(first, token, min(body, token), condition)

    def _value(self, token: int) -> str:
        return self.values[token] if token < self.end else ""

    def _begins_line(self, token: int) -> bool:
        return self.tokens.begins_line(token)

    # Conditions

    def _condition(self) -> str:
        return _capped(self._last_condition())

    def _last_condition(self) -> str:
        return (
            self.conditionals[-1].outer + self.conditionals[-1].asked if self.conditionals else ""
        )

    def _is_guard(self, token: int, after: int) -> bool:
        """``#define NAME`` right after the file's first line, ``#ifndef NAME``: neither it nor its condition says anything."""
        name = self._value(token + 2)
        if after != token + 3 or len(self.conditionals) != 1:
            return False
        conditional = self.conditionals[-1]
        asked = "".join(self.values[conditional.opened + 1 : token])
        first = "".join(self.values[: conditional.opened]) in ("", "#pragmaonce")
        if not first or asked not in (f"ifndef{name}", f"if!defined({name})", f"if!defined{name}"):
            return False
        conditional.asked = ""
        return True

    def _directive(self, token: int, after: int, stack: list[str], item: int) -> None:
        """Follow ``#if`` and its kin; brackets of branches are counted once."""
        kind = self._value(token + 1)
        if kind in ("if", "ifdef", "ifndef"):
            asked = " ".join(self.values[token + 2 : after])
            open_ = tuple(stack[-_MAX_DEPTH:])
            outer = self._condition()
            self.conditionals.append(_Conditional(token, open_, f"#{kind} {asked}\n", outer))
        elif not self.conditionals:
            return
        elif kind == "endif":
            self.conditionals.pop()
        elif kind in ("else", "elif", "elifdef", "elifndef"):
            conditional = self.conditionals[-1]
            stack[:] = conditional.depth if conditional.opened >= item else ()
            asked = " ".join(["#" + kind, *self.values[token + 2 : after]])
            conditional.asked = _capped(conditional.asked) + asked + "\n"

    # Scopes that are looked into

    def _opened(self, token: int) -> int | None:
        """The token after a namespace's or an ``extern "C"``'s brace, or after a using directive; else None."""
        value = self.values[token]
        if value == "inline" and self._value(token + 1) == "namespace":
            return self._opened(token + 1)
        if value == "namespace":
            for following in range(token + 1, min(token + 64, self.end)):
                if self.values[following] == "{":
                    return following + 1
                if self.values[following] in (";", "="):
                    return self._after_semicolon(following)
            return token + 1
        if value == "using":
            after = self._after_semicolon(token)
            return None if "=" in self.values[token:after] else after
        if value == "extern" and self._value(token + 2) == "{" and self._is_text(token + 1):
            return token + 3
        return None

    def _is_text(self, token: int) -> bool:
        return self.tokens.kinds[token] == "text"

    def _after_semicolon(self, token: int) -> int:
        while token < self.end and self.values[token] != ";":
            if self.values[token] in ("{", "}") or (
                self.values[token] == "#" and self._begins_line(token)
            ):
                return token
            token += 1
        return token + 1

    # One item

    def _item(self, first: int) -> tuple[int, int]:
        """The end of the item that begins at a token, and its body."""
        values, end = self.values, self.end
        stack: list[str] = []
        body = end
        call = first  # where the next name of a chain of macro calls would stand
        token = first
        while token < end:
            value = values[token]
            if value not in _STRUCTURE:
                token += 1
            elif value in ("(", "[", "{"):
                if not stack and value == "{" and body == end:
                    if (
                        token - first >= 2
                        and values[token - 2] == "extern"
                        and self._is_text(token - 1)
                    ):
                        return token - 2, end
                    body = token
                if not stack and (value != "(" or token != call + 1):
                    call = -1
                stack.append(value)
                token += 1
            elif value == "}":
                while stack and stack[-1] != "{":
                    stack.pop()
                if not stack:
                    return token, body
                stack.pop()
                token += 1
                if not stack and self._ends_after(first, body, token):
                    token = self._close_conditionals(first, token, stack)
                    if not stack:
                        return token + (self._value(token) == ";"), body
            elif value in (")", "]"):
                if stack and stack[-1] == _OPENS[value]:
                    stack.pop()
                token += 1
                if not stack and call >= 0:
                    if self._is_lone_call(first, token):
                        return token, body
                    call = token
            elif value == ";":
                token += 1
                if not stack:
                    return token, body
            elif value == "#":
                if not self._begins_line(token):
                    token += 1
                    continue
                after = self.tokens.line_end(token)
                if not stack and token > first and self._flushes(first, token):
                    return token, body
                self._directive(token, after, stack, first)
                token = after
            elif not stack and token > first and self._interrupts(token):
                return token, body
            else:
                token += 1
        if stack and self.repairs < _MAX_REPAIRS:
            return self._repaired(first), body
        return end, body

    def _interrupts(self, token: int) -> bool:
        """``namespace`` or ``template`` where a macro without a semicolon went before."""
        before = self.values[token - 1]
        if self.values[token] == "namespace":
            return before not in ("using", "inline")
        return self._begins_line(token) and before not in (
            ">",
            "extern",
            "friend",
            "::",
            "<",
            ",",
            "=",
            ".",
        )

    def _flushes(self, first: int, token: int) -> bool:
        """Whether a directive ends the item before it: a macro call that has no semicolon."""
        kind = self._value(token + 1)
        complete = self.values[token - 1] in (")", "}")
        if kind in ("define", "include", "undef"):
            return complete or kind == "include"
        inside = bool(self.conditionals) and self.conditionals[-1].opened >= first
        return complete and kind in ("endif", "else", "elif") and not inside

    def _close_conditionals(self, first: int, token: int, stack: list[str]) -> int:
        """After a body that closed within an ``#if`` of its own: the other branches belong to it."""
        while (
            token < self.end
            and self.values[token] == "#"
            and self.conditionals
            and self.conditionals[-1].opened >= first
            and self._value(token + 1) in ("else", "elif", "endif")
        ):
            after = self.tokens.line_end(token)
            self._directive(token, after, stack, first)
            token = after
            if stack:
                break
        return token

    def _ends_after(self, first: int, body: int, token: int) -> bool:
        """Whether an item ends with the brace before the token."""
        value = self._value(token)
        if value in ("", ";"):
            return True
        kind = self._kind(first, body)
        if kind == "function":
            return value not in _AFTER_BODY
        if kind == "class" and not self._begins_line(token):
            return False
        return value not in _AFTER_VALUE or (kind == "class" and value in ("[", "::"))

    def _kind(self, first: int, body: int) -> str:
        """What an item is by its header, which is read once: a value may close thousands of braces."""
        if self.told[:2] != (first, body):
            self.told = (first, body, self._read_kind(first, body))
        return self.told[2]

    def _read_kind(self, first: int, body: int) -> str:
        header = self.values[first:body]
        assigned = header.index("=") if "=" in header and "operator" not in header else len(header)
        called = header.index("(") if "(" in header else len(header)
        before = header[-1] if header else ""
        if assigned < called and header[0] != "template":
            return "value"
        if before == ")" or before in AFTER_PARAMETERS:
            return "function"
        if not CLASS_KEYS.isdisjoint(header):
            return "class"
        return "function" if called < len(header) else "value"

    def _is_lone_call(self, first: int, token: int) -> bool:
        """Whether macro calls before the token are all there is, and what follows on its own line is something else."""
        if self.tokens.kinds[first] != "name" or _PREFIX.search(self.values[first]):
            return False
        if token >= self.end:
            return True
        value = self.values[token]
        if not self._begins_line(token) or value in AFTER_PARAMETERS:
            return False
        return self.tokens.kinds[token] == "name" or value in ("#", "}", "~")

    def _repaired(self, first: int) -> int:
        """The end of an item whose brackets never close: the first brace that closes in the first column."""
        self.repairs += 1
        for token in range(first + 1, self.end):
            if self.values[token] == "}" and self.tokens.column(token) == 0:
                return token + 1
        return self.end
