"""TableGen (``.td``) files: ``def`` and ``class`` records, compared token by token."""

from __future__ import annotations

import re
from typing import Final

from bot.changes.definition import Definition
from bot.changes.sources.cpp_source import tokenize

_RECORD: Final = re.compile(r"^(def|class|multiclass)\s+(\w+)", re.MULTILINE)
MNEMONIC: Final = re.compile(r'< "([^"]+)"')
"""The first string argument of a record's base in tokens: an op's type name."""


def read_tablegen(file: str, text: str) -> tuple[Definition, ...]:
    """Every record of a file."""
    found: list[Definition] = []
    for match in _RECORD.finditer(text):
        end = _end(text, match.end())
        tokens = tokenize(text[match.start() : end])
        first = text.count("\n", 0, match.start()) + 1
        last = first + text.count("\n", match.start(), end)
        kind = "entry" if match[1] == "def" else "class"
        found.append(Definition(file, match[2], kind, first, last, tokens.code, tokens.names))
    return tuple(found)


def _end(text: str, start: int) -> int:
    """The end of a record: its closing brace, or its semicolon when it has no body."""
    depth = 0
    for match in re.compile(r"[{};]|\"(?:\\.|[^\"\\])*\"|//[^\n]*").finditer(text, start):
        mark = match[0]
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
            if depth <= 0:
                return match.end()
        elif mark == ";" and depth == 0:
            return match.end()
    return len(text)
