"""The facts of a tree's files, from the cache where they are there, and the words of them as an inverted index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bot.changes.index.blob_facts import (
    NO_FACTS,
    BlobFacts,
    Hashes,
    decode_facts,
    encode_facts,
    hashes_of,
    read_facts,
)
from bot.changes.index.reader_version import version_of
from bot.changes.index.store import IndexStore, Section

INDEXED_SUFFIXES: Final = frozenset(
    {
        ".py", ".pyi", ".cpp", ".cc", ".cxx", ".c", ".cu", ".cuh", ".h", ".hh", ".hpp", ".inl", ".inc", ".hip", ".mm",
        ".td", ".yaml", ".yml", ".def", ".tpp", ".ipp",
    }
)  # fmt: skip
"""Kinds of file whose words are indexed; others are searched in their text each time."""

Read = Callable[[str], str | None]
ReadMany = Callable[[Sequence[str]], Iterable[tuple[str, str | None]]]
BlobOf = Callable[[str], str | None]


class FactsReader:
    """Facts by path. What one tree has read of a blob, the other side's tree does not read again."""

    def __init__(self, store: IndexStore) -> None:
        self._store = store
        self._section = Section("facts", version_of("bot.changes.index", "bot.changes.sources"))
        self._by_blob: dict[str, BlobFacts] = {}
        self.texts_read = 0
        self.unread: set[str] = set()

    def facts(
        self, paths: Sequence[str], blob_of: BlobOf, read_many: ReadMany
    ) -> Iterator[BlobFacts]:
        """The facts of each path, in order."""
        blobs = [blob_of(path) for path in paths]
        self._load({blob for blob in blobs if blob is not None and blob not in self._by_blob})
        unread = {
            blob or path: path
            for blob, path in zip(blobs, paths, strict=True)
            if blob is None or blob not in self._by_blob
        }
        nameless: dict[str, BlobFacts] = {}
        for path, text in read_many(tuple(unread.values())):
            self.texts_read += 1
            facts = NO_FACTS if text is None else read_facts(text)
            if text is None:
                self.unread.add(path)
            blob = blob_of(path)
            if blob is None:
                nameless[path] = facts
            else:
                self._by_blob[blob] = facts
                if text is not None:  # a content that this clone lacks may be there the next time
                    self._store.put(self._section.key(blob), encode_facts(facts))
        for blob, path in zip(blobs, paths, strict=True):
            found = nameless.get(path) if blob is None else self._by_blob.get(blob)
            yield found or NO_FACTS

    def _load(self, blobs: set[str]) -> None:
        keys = {self._section.key(blob): blob for blob in sorted(blobs)}
        for key, data in self._store.get_many(tuple(keys)).items():
            try:
                self._by_blob[keys[key]] = decode_facts(data)
            except ValueError:
                continue


class WordIndex:
    """Which of some files hold a word: pairs of a hash and a file's number, sorted."""

    def __init__(self, hashes: Iterable[Hashes]) -> None:
        each = list(hashes)
        sizes = [len(words) for words in each]
        pairs = np.repeat(np.arange(len(each), dtype=np.uint64), sizes)
        if each:
            pairs |= np.concatenate(each).astype(np.uint64) << np.uint64(32)
        pairs.sort()
        self._pairs: NDArray[np.uint64] = pairs

    def candidates(self, word: str) -> NDArray[np.intp] | None:
        """The numbers of the files that may hold a word, in order; None when nothing can be told of it."""
        found: NDArray[np.intp] | None = None
        for value in hashes_of(word):
            low, high = np.searchsorted(
                self._pairs, np.array([value << 32, (value + 1) << 32], np.uint64)
            )
            numbers = (self._pairs[low:high] & np.uint64(0xFFFFFFFF)).astype(np.intp)
            found = numbers if found is None else np.intersect1d(found, numbers)
        return found
