"""Positions in a text as lines; counting the lines before each of many places takes too long."""

from __future__ import annotations

import re
from bisect import bisect_left


class TextLines:
    """The lines (1-based) of a text's positions."""

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def number(self, position: int) -> int:
        """The line on which the character at a position stands."""
        return bisect_left(self._ends, position) + 1
