"""Which C++ files include which, and how far a header is seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bot.changes.index.bounded import Bounded

Numbers = NDArray[np.int32]
_NONE: Final[Numbers] = np.empty(0, np.int32)
_MAX_KEPT: Final = 1 << 22  # numbers of files in the views that are remembered


class IncludeGraph:
    """Files are numbered as in ``paths``; ``written`` are the includes of each, as the source writes them."""

    def __init__(self, paths: Sequence[str], written: Iterable[tuple[str, ...]]) -> None:
        self._paths = paths
        self._number = {path: number for number, path in enumerate(paths)}
        self._by_name: defaultdict[str, list[int]] = defaultdict(list)
        for number, path in enumerate(paths):
            self._by_name[path.rpartition("/")[2]].append(number)
        self._by_tail: dict[str, tuple[int, ...]] = {}
        included = [self._resolved(path, each) for path, each in zip(paths, written, strict=True)]
        self._down = _Adjacent(included)
        users: list[list[int]] = [[] for _ in paths]
        for number, targets in enumerate(included):
            for target in targets:
                users[target].append(number)
        self._up = _Adjacent(users)

    def _resolved(self, path: str, written: tuple[str, ...]) -> list[int]:
        """The tree's files that a source includes; the path as written is a suffix of the tree's."""
        found: list[int] = []
        folder = path.rpartition("/")[0]
        for name in written:
            tail = _plain(name)
            near = self._number.get(f"{folder}/{tail}" if folder else tail)
            found.extend(self._of_tail(tail) if near is None else (near,))
        return found

    def _of_tail(self, tail: str) -> tuple[int, ...]:
        if tail not in self._by_tail:
            end = "/" + tail
            self._by_tail[tail] = tuple(
                number
                for number in self._by_name.get(tail.rpartition("/")[2], ())
                if (path := self._paths[number]) == tail or path.endswith(end)
            )
        return self._by_tail[tail]

    def resolve(self, path: str, written: tuple[str, ...]) -> tuple[str, ...]:
        """The files that includes mean in a file, which need not be of the graph."""
        return tuple(self._paths[number] for number in self._resolved(path, written))

    def included(self, path: str) -> tuple[str, ...]:
        """The tree's files that a file includes itself."""
        return self._named(self._down.of(self._number[path]) if path in self._number else _NONE)

    def seen_by(self, path: str) -> tuple[str, ...]:
        """A header and every file that includes it, however far, nearest first."""
        if path not in self._number:
            return (path,)
        return self._named(self._up.reachable(self._number[path]))

    def that_see(self, path: str, files: Sequence[str]) -> tuple[str, ...]:
        """Those of some files of the graph that ``seen_by`` has, in its order."""
        return self._nearest(self._up, path, files)

    def that_are_seen(self, path: str, files: Sequence[str]) -> tuple[str, ...]:
        """Those of some files of the graph that a file is or includes, however far, nearest first."""
        return self._nearest(self._down, path, files)

    def _nearest(self, adjacent: _Adjacent, path: str, files: Sequence[str]) -> tuple[str, ...]:
        if path not in self._number:
            return tuple(file for file in files if file == path)
        numbers = np.array([self._number[file] for file in files], np.int32)
        ranks = adjacent.ranks(self._number[path])[numbers]
        order = np.argsort(ranks, kind="stable")
        return self._named(numbers[order[ranks[order] >= 0]])

    def _named(self, numbers: Numbers) -> tuple[str, ...]:
        return tuple(map(self._paths.__getitem__, numbers.tolist()))


def _plain(name: str) -> str:
    """An include as written, without what leads up or stays in place, which the suffix does not need."""
    tail = name.removeprefix("./")
    while tail.startswith("../"):
        tail = tail[3:]
    if "//" in tail or "/./" in tail:
        tail = "/".join(part for part in tail.split("/") if part not in ("", "."))
    return tail


class _Adjacent:
    """Neighbours of numbered nodes, in their order."""

    def __init__(self, neighbours: Sequence[Sequence[int]]) -> None:
        sizes = np.fromiter(map(len, neighbours), np.int64, len(neighbours))
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self._targets = np.fromiter(
            (target for each in neighbours for target in each), np.int32, int(sizes.sum())
        )
        self._kept: Bounded[int, Numbers] = Bounded(_MAX_KEPT)

    def of(self, node: int) -> Numbers:
        return self._targets[self._starts[node] : self._ends[node]]

    def ranks(self, node: int) -> Numbers:
        """For each node where it stands in ``reachable``, or -1."""
        if node in self._kept:
            return self._kept.get(node)
        found = self.reachable(node)
        ranks: Numbers = np.full(len(self._starts), -1, np.int32)
        ranks[found] = np.arange(len(found), dtype=np.int32)
        return self._kept.put(node, ranks, len(ranks))

    def reachable(self, node: int) -> Numbers:
        """The node and all that is reached from it, in breadth-first order."""
        seen = np.zeros(len(self._starts), np.bool_)
        seen[node] = True
        level: Numbers = np.array([node], np.int32)
        found = [level]
        while len(level):
            following = self._following(level)
            following = following[~seen[following]]
            _, first = np.unique(following, return_index=True)
            level = following[np.sort(first)]
            seen[level] = True
            found.append(level)
        return np.concatenate(found)

    def _following(self, level: Numbers) -> Numbers:
        """The neighbours of each node of a level, in order, with repetitions."""
        starts, ends = self._starts[level], self._ends[level]
        sizes = ends - starts
        total = int(sizes.sum())
        if total == 0:
            return _NONE
        offsets = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(total)
        return self._targets[offsets]
