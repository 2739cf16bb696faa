"""Tree: one side of a diff as a set of files with text, searched by symbol."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache

Note = Callable[[str], None]
"""Takes one line for the reader of the changes: what was left out, and why."""

_WORD = re.compile(r"\w+")


class Tree:
    """The files of a repository at one revision. Texts are read once and kept; nothing is indexed in advance:
    a substring scan over some ten megabytes costs milliseconds, an index costs seconds.
    """

    def __init__(self, paths: Iterable[str], read: Callable[[str], str | None]) -> None:
        self.paths = tuple(paths)
        self._read = read
        self._texts: dict[str, str | None] = {}
        self.containing = lru_cache(maxsize=None)(self._containing)

    @cached_property
    def path_set(self) -> frozenset[str]:
        """The paths, for membership."""
        return frozenset(self.paths)

    def text(self, path: str) -> str | None:
        """A file's text, or None when it is not there or not text."""
        if path not in self._texts:
            self._texts[path] = self._read(path) if path in self.path_set else None
        return self._texts[path]

    def _containing(self, word: str, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the paths whose text holds the word, delimited."""
        if _WORD.fullmatch(word) is None:
            return ()
        return tuple(path for path in paths if holds_word(self.text(path) or "", word))


def holds_word(text: str, word: str) -> bool:
    """Whether the text holds the word between characters that cannot be part of it."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        start = text.find(word, end)
    return False
