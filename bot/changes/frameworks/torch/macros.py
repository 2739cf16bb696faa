"""What a call of a macro stands for: its body with the arguments in place, pasted names included."""

from __future__ import annotations

import re
from typing import Final

from bot.changes.definition import Definition
from bot.changes.index.cpp_index import CppIndex

MAX_DEPTH: Final = 4
MAX_LENGTH: Final = 20_000
_CALL: Final = re.compile(r"\b([A-Z][A-Z0-9_]+) \(")
_KEPT: Final = re.compile(
    r"\b(?:(?:ALSO_)?REGISTER_(?=\w*DISPATCH)\w+|D\w+_DISPATCH|(?:TORCH|AT|C10)_\w+)"
)
"""Macros that are read by their names (aten/src/ATen/native/DispatchStub.h, TensorMeta.h, Dispatch.h)."""

_DEFINE: Final = re.compile(r"# define (\w+) \( ([^()]*) \) ?(.*)", re.DOTALL)


def expanded(cpp: CppIndex, definition: Definition) -> str:
    """The code of a statement with its macros replaced by what they stand for, those within them too."""
    return _expanded(cpp, definition.file, definition.code, 0)


def _expanded(cpp: CppIndex, file: str, code: str, depth: int) -> str:
    pieces: list[str] = []
    position = length = 0
    for match in _CALL.finditer(code):
        known = match.start() < position or _KEPT.fullmatch(match[1])
        macro = None if known else cpp.macro(match[1], file)
        if macro is None or depth >= MAX_DEPTH or length > MAX_LENGTH:
            continue
        body = substituted(macro.code, split_arguments(code, match.end()))
        if body:
            end = closing(code, match.end())
            pieces += [code[position : match.start()], _expanded(cpp, file, body, depth + 1)]
            length += len(pieces[-2]) + len(pieces[-1])
            position = end
    return "".join([*pieces, code[position:]])


def closing(code: str, start: int) -> int:
    """The position after the parenthesis that closes the one just before ``start``."""
    depth = 1
    for position in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[position], 0)
        if depth == 0:
            return position + 1
    return len(code)


def substituted(macro: str, arguments: list[str]) -> str:
    """The body of a macro (tokens with spaces between) with its parameters replaced; "" for one without parameters."""
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
        return ""  # arguments that grow with each macro: a generator, not a registration
    body = "".join(written)
    return re.sub(r" ?## ?", "", body)


def split_arguments(code: str, start: int) -> list[str]:
    """The arguments of a call whose parenthesis opens just before ``start``, in code whose tokens have spaces between."""
    found: list[str] = []
    depth = 0
    begin = start
    for position in range(start, len(code)):
        character = code[position]
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth < 0:
                return [*found, code[begin:position].strip()]
        elif character == "," and depth == 0:
            found.append(code[begin:position].strip())
            begin = position + 1
    return found
