"""Tree: one side of a diff as a set of files with text, searched by symbol."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar, cast

from bot.changes.index.blob_facts import BlobFacts
from bot.changes.index.bounded import Bounded
from bot.changes.index.facts import (
    INDEXED_SUFFIXES,
    BlobOf,
    FactsReader,
    Read,
    ReadMany,
    WordIndex,
)
from bot.changes.index.parsed import ParsedFiles, Parser
from bot.changes.index.store import IndexStore

Note = Callable[[str], None]
"""Takes one line for the reader of the changes: what was left out, and why."""

Result = TypeVar("Result")

KEPT_CHARACTERS: Final = 64 << 20  # of texts in memory
KEPT_SEARCHES: Final = 400_000  # paths in the collections whose order is remembered
FEW: Final = 32  # paths that are not worth remembering
_WORD = re.compile(r"\w+")


class Shared:
    """What the trees of both sides have in common: the cache, and what was read of blobs."""

    def __init__(self, store: IndexStore | None = None) -> None:
        self.store = store or IndexStore(None)
        self.facts = FactsReader(self.store)
        self.parsed = ParsedFiles(self.store)


class Tree:
    """The files of a repository at one revision.

    Texts are read when asked for and kept while there is room. The first search reads the words of every file of an
    indexed kind, from the cache where ``blob_of`` names their content; a search then costs microseconds.
    """

    def __init__(
        self,
        paths: Iterable[str],
        read: Read,
        *,
        blob_of: BlobOf | None = None,
        read_many: ReadMany | None = None,
        shared: Shared | None = None,
    ) -> None:
        self.paths = tuple(paths)
        self._read = read
        self._read_many: ReadMany = read_many or self._read_each
        self.blob_of: BlobOf = blob_of or (lambda path: None)
        self.shared = shared or Shared()
        self._texts: Bounded[str, str | None] = Bounded(KEPT_CHARACTERS)
        self._parsed: Bounded[tuple[str, str, str], object] = Bounded(KEPT_CHARACTERS)
        self._searched: Bounded[Collection[str], _Searched] = Bounded(KEPT_SEARCHES)
        self._last: _Searched | None = None

    def _read_each(self, paths: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        return ((path, self._read(path)) for path in paths)

    def _read_and_keep(self, paths: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        """Texts read in one go; what there is room for need not be read again one by one."""
        for path, text in self._read_many(paths):
            self._texts.put(path, text, len(text or "") + 64)
            yield path, text

    @cached_property
    def path_set(self) -> frozenset[str]:
        """The paths, for membership."""
        return frozenset(self.paths)

    def text(self, path: str) -> str | None:
        """A file's text, or None when it is not there or not text."""
        if path in self._texts:
            return self._texts.get(path)
        text = self._read(path) if path in self.path_set else None
        return self._texts.put(path, text, len(text or "") + 64)

    def parsed(self, path: str, parser: Parser[Result]) -> Result:
        """What a parser makes of a file's text (of "" where there is none)."""
        blob = self.blob_of(path) if path in self.path_set else None
        if blob is not None:
            return self.shared.parsed.get(path, blob, parser, lambda: self.text(path))
        key = (parser.kind, parser.options, path)
        if key in self._parsed:
            return cast("Result", self._parsed.get(key))
        made = self.shared.parsed.get(path, "", parser, lambda: self.text(path))
        self._parsed.put(key, made, len(self.text(path) or ""))
        return made

    @cached_property
    def indexed(self) -> tuple[str, ...]:
        """The paths whose words are indexed."""
        return tuple(path for path in self.paths if _suffix(path) in INDEXED_SUFFIXES)

    @cached_property
    def facts(self) -> tuple[BlobFacts, ...]:
        """The facts of each indexed path."""
        found = tuple(self.shared.facts.facts(self.indexed, self.blob_of, self._read_and_keep))
        self.shared.store.flush()
        return found

    @cached_property
    def _words(self) -> WordIndex:
        return WordIndex(facts.words for facts in self.facts)

    def candidates(self, word: str, paths: Collection[str]) -> tuple[str, ...]:
        """Those of the paths that may hold the word: all that do, and by a rare accident one that does not."""
        if _WORD.fullmatch(word) is None or not paths:
            return ()
        searched = self._search_among(paths)
        numbers = self._words.candidates(word)
        names = self.indexed if numbers is None else map(self.indexed.__getitem__, numbers.tolist())
        found = [name for name in names if name in searched.order]
        found += [path for path in searched.others if holds_word(self.text(path) or "", word)]
        return tuple(sorted(found, key=searched.order.__getitem__))

    def containing(self, word: str, paths: Collection[str]) -> tuple[str, ...]:
        """Those of the paths whose text holds the word, delimited."""
        return tuple(
            path for path in self.candidates(word, paths) if holds_word(self.text(path) or "", word)
        )

    @cached_property
    def _indexed_set(self) -> frozenset[str]:
        return frozenset(self.indexed)

    def _search_among(self, paths: Collection[str]) -> _Searched:
        """The paths with their order. Frameworks search the same few tuples again and again: they are remembered."""
        if self._last is not None and self._last.paths is paths:
            return self._last
        lasting = isinstance(paths, tuple) and len(paths) > FEW
        if lasting and paths in self._searched:
            self._last = self._searched.get(paths)
            return self._last
        indexed = self._indexed_set
        made = _Searched(
            paths,
            {path: number for number, path in enumerate(paths)},
            tuple(path for path in paths if path not in indexed and path in self.path_set),
        )
        if lasting:
            self._last = self._searched.put(paths, made, len(paths))
        return made


@dataclass(frozen=True)
class _Searched:
    """Some paths that are searched: where each stands among them, and those that are of no indexed kind."""

    paths: Collection[str]
    order: dict[str, int]
    others: tuple[str, ...]


def _suffix(path: str) -> str:
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:] if dot > 0 else ""


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
