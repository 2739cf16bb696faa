"""What a call of a macro stands for: its body with the arguments in place, pasted names included."""

from __future__ import annotations

import re
from typing import Final

from bot.changes.definition import Definition
from bot.changes.index.cpp_index import CppIndex
from bot.changes.index.tree import Note

MAX_DEPTH: Final = 4
MAX_LENGTH: Final = 20_000
MAX_WRITTEN: Final = 200_000
"""Characters of arguments, bodies and results for one statement; beyond this its macros stand for themselves."""

MAX_WRITTEN_IN_ALL: Final = 100_000_000
"""The same for all statements of a tree together."""

_CALL: Final = re.compile(r"\b([A-Z][A-Z0-9_]+) \(")
_KEPT: Final = re.compile(
    r"\b(?:(?:ALSO_)?REGISTER_(?=\w*DISPATCH)\w+|D\w+_DISPATCH|(?:TORCH|AT|C10)_\w+)"
)
"""Macros that are read by their names (aten/src/ATen/native/DispatchStub.h, TensorMeta.h, Dispatch.h)."""

_PARENTHESIS: Final = re.compile(r"[()]")
_SEPARATOR: Final = re.compile(r"[\[\](){},]")
_DEFINE: Final = re.compile(r"# define (\w+) \( ([^()]*) \) ?(.*)", re.DOTALL)


class Expansions:
    """Macros of one tree written out, in proportion to what is written; ``note`` is told where they are cut short."""

    def __init__(self, cpp: CppIndex, note: Note) -> None:
        self._cpp = cpp
        self._note = note
        self._left_in_all = MAX_WRITTEN_IN_ALL
        self._left = 0
        self._cut = False

    def expanded(self, definition: Definition) -> str:
        """The code of a statement with its macros replaced by what they stand for, those within them too."""
        self._left = allowed = min(MAX_WRITTEN, self._left_in_all)
        self._cut = False
        code = self._expanded(definition.file, definition.code, 0)
        self._left_in_all -= allowed - max(self._left, 0)
        if self._cut:
            self._note(
                f"{definition.place}: its macros are too long or nested too deep to be written out whole"
            )
        return code

    def _expanded(self, file: str, code: str, depth: int) -> str:
        pieces: list[str] = []
        position = length = 0
        for match in _CALL.finditer(code):
            known = match.start() < position or _KEPT.fullmatch(match[1])
            macro = None if known else self._cpp.macro(match[1], file)
            if macro is None:
                continue
            if depth >= MAX_DEPTH or length > MAX_LENGTH or self._left <= 0:
                self._cut = True
                if length > MAX_LENGTH or self._left <= 0:
                    break
                continue
            end = closing(code, match.end(), self._left)
            body = substituted(macro.code, split_arguments(code, match.end(), end))
            self._left -= end - match.end() + len(macro.code) + len(body or "")
            if body is None:
                self._cut = True
            elif body:
                pieces += [code[position : match.start()], self._expanded(file, body, depth + 1)]
                length += len(pieces[-2]) + len(pieces[-1])
                position = end
        return "".join([*pieces, code[position:]])


def closing(code: str, start: int, limit: int | None = None) -> int:
    """The position after the parenthesis that closes the one just before ``start``; at most ``limit`` beyond it."""
    last = len(code) if limit is None else min(len(code), start + max(limit, 0))
    depth = 1
    for match in _PARENTHESIS.finditer(code, start, last):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return last


def substituted(macro: str, arguments: list[str]) -> str | None:
    """The body of a macro (tokens with spaces between) with its parameters replaced; "" for one without parameters.

    None where the arguments would grow too long.
    """
    match = _DEFINE.match(macro)
    if match is None:
        return ""
    parameters = [parameter.strip() for parameter in match[2].split(",")]
    values = dict(zip(parameters, arguments, strict=False))
    if parameters[-1] == "...":
        values["__VA_ARGS__"] = " , ".join(arguments[len(parameters) - 1 :])
    body = match[3].replace("\\", " ")
    words = re.split(r"(\w+)", body)
    written = [values.get(word, word) for word in words]
    if sum(map(len, written)) > MAX_LENGTH + len(body):
        return None  # arguments that grow with each macro: a generator, not a registration
    body = "".join(written)
    return re.sub(r" ?## ?", "", body)


def split_arguments(code: str, start: int, end: int | None = None) -> list[str]:
    """The arguments of a call whose parenthesis opens just before ``start``, in code whose tokens have spaces between.

    Nothing is read beyond ``end``.
    """
    found: list[str] = []
    depth = 0
    begin = start
    for match in _SEPARATOR.finditer(code, start, len(code) if end is None else end):
        character, position = match[0], match.start()
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth < 0:
                return [*found, code[begin:position].strip()]
        elif depth == 0:
            found.append(code[begin:position].strip())
            begin = position + 1
    return found
