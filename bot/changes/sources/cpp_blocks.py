"""Blocks of C++ by how they open, in one pass: blocks may stand in thousands of others, or never close."""

from __future__ import annotations

import re
from typing import Final

from bot.changes.sources.text_lines import TextLines

_MARK: Final = re.compile(
    r'"(?:\\.|[^"\\\n])*+"?|(?<!\w)\'(?:\\.|[^\'\\\n])*+\'?|//[^\n]*|/\*.*?(?:\*/|\Z)|[{}]',
    re.DOTALL,
)


def blocks(text: str, opening: re.Pattern[str]) -> tuple[tuple[int, int], ...]:
    """First and last line of every block whose beginning, up to its brace, fits ``opening``, the innermost first."""
    begins = {match.end() - 1: match.start() for match in opening.finditer(text)}
    if not begins:
        return ()
    lines = TextLines(text)
    found: list[tuple[int, int]] = []
    open_: list[int] = []
    for mark in _MARK.finditer(text):
        if mark[0] == "{":
            open_.append(begins.get(mark.start(), -1))
        elif mark[0] == "}" and open_ and (begin := open_.pop()) >= 0:
            found.append((lines.number(begin), lines.number(mark.start())))
    return tuple(sorted(found, key=lambda block: block[1] - block[0]))
