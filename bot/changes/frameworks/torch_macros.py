"""What a call of a macro stands for: its body with the arguments in place, pasted names included."""

from __future__ import annotations

import re
from typing import Final

from bot.changes.definition import Definition
from bot.changes.index.cpp_index import CppIndex

MAX_DEPTH: Final = 4
MAX_LENGTH: Final = 20_000
_CALL: Final = re.compile(r"\b([A-Z][A-Z0-9_]+) \(")
_DEFINE: Final = re.compile(r"# define (\w+) \( ([^()]*) \) ?(.*)", re.DOTALL)


def expanded(cpp: CppIndex, definition: Definition) -> str:
    """The code of a statement and of all that its macros stand for."""
    pieces = [definition.code]
    pending = [(definition.code, 0)]
    while pending and sum(map(len, pieces)) < MAX_LENGTH:
        code, depth = pending.pop()
        for match in _CALL.finditer(code):
            macro = cpp.macro(match[1], definition.file)
            if macro is None or depth >= MAX_DEPTH:
                continue
            body = substituted(macro.code, split_arguments(code, match.end()))
            if body:
                pieces.append(body)
                pending.append((body, depth + 1))
    return "\n".join(pieces)


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
    body = "".join(values.get(word, word) for word in words)
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
