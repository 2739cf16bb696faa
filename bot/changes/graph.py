"""The walk from changed definitions to public names: nodes, edges with reasons, and how far the path was."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bot.changes.definition import Definition
from bot.changes.index.bounded import Bounded

MAX_FAN_OUT: Final = 40  # users of one symbol that are followed
MAX_NODES: Final = 3000  # nodes visited from one changed definition
MAX_NODES_IN_ALL: Final = 300_000  # nodes visited from all changes of a diff together
MAX_REMEMBERED: Final = 50_000  # nodes whose edges are kept for the next walk
MAX_INDIRECT: Final = 1  # indirect edges in one path: beyond the first, nothing is shown any more


@dataclass(frozen=True)
class Node:
    """A thing that a change can pass through. ``kind`` and ``name`` mean what the framework's rules say;
    ``public`` is the one kind that the walk knows: a name that users call, where a path ends. Its ``op`` is the public
    name of the op that it is a form of in this tree, when that cannot be told from the name (an operator's slot).
    """

    kind: str
    name: str
    file: str = ""
    definition: Definition | None = field(default=None, compare=False, repr=False)
    op: str = field(default="", compare=False)


def cpp_node(definition: Definition, *, by_line: bool = False) -> Node:
    """The node of a C++ definition; what has no name of its own, or is asked for ``by_line``, is told apart by its line."""
    alone = definition.kind in ("statement", "entry", "macro") or not definition.name
    name = f"{definition.name}@{definition.first}" if alone or by_line else definition.name
    return Node("cpp", name, definition.file, definition)


@dataclass(frozen=True)
class Edge:
    """``step`` is one line for the report: why a change of the source changes the target."""

    target: Node
    step: str
    direct: bool = True


@dataclass(frozen=True)
class Reached:
    """A public name, by the shortest path with the fewest indirect edges."""

    name: str
    indirect: int
    path: tuple[str, ...]
    start: Node
    op: str = ""  # the public name of the op, when the name does not tell it


@dataclass(frozen=True)
class Walk:
    """What was reached from one start, and what was left out."""

    reached: tuple[Reached, ...]
    notes: tuple[str, ...]
    visited: int = 0  # nodes


Successors = Callable[[Node], Iterable[Edge]]


def walk(start: Node, first_step: str, successors: Successors) -> Walk:
    """Every public name reachable from one node, nearest first (fewest indirect edges, then fewest steps).

    Of a symbol with more than ``MAX_FAN_OUT`` users the first ones are followed and a note says how many there are.
    """
    best: dict[Node, tuple[int, int]] = {start: (0, 1)}
    queue: list[tuple[int, int, int, Node, tuple[str, ...]]] = [(0, 1, 0, start, (first_step,))]
    counter = 0
    reached: dict[str, Reached] = {}
    notes: list[str] = []
    visited = 0
    cut: set[Node] = set()
    while queue:
        indirect, length, _, node, path = heapq.heappop(queue)
        if (indirect, length) > best[node]:
            continue
        if node.kind == "public":
            reached.setdefault(node.name, Reached(node.name, indirect, path, start, node.op))
            continue
        visited += 1
        if visited > MAX_NODES:
            notes.append(
                f"{start.name}: more than {MAX_NODES} places use it; the nearest were followed"
            )
            break
        edges = list(dict.fromkeys(successors(node)))
        through = [edge for edge in edges if not edge.direct]
        if len(through) > MAX_FAN_OUT:
            notes.append(
                f"{node.name} has {len(through)} users; the first {MAX_FAN_OUT} were followed"
            )
            left_out = set(through[MAX_FAN_OUT:])
            edges = [edge for edge in edges if edge not in left_out]
        for edge in edges:
            cost = (indirect + (not edge.direct), length + 1)
            if cost[0] > MAX_INDIRECT:
                cut.add(edge.target)
                continue
            known = best.get(edge.target)
            if known is not None and cost >= known:
                continue
            best[edge.target] = cost
            counter += 1
            heapq.heappush(queue, (*cost, counter, edge.target, (*path, edge.step)))
    if cut - set(best):
        notes.append(
            f"more than {MAX_INDIRECT} step through shared code away from a change: not followed"
        )
    return Walk(tuple(reached.values()), tuple(notes), visited)


class Walker:
    """Walks through one tree: the edges that one walk has found, the next does not look for again."""

    def __init__(self, successors: Successors) -> None:
        self._find = successors
        self._known: Bounded[tuple[Node, int], tuple[Edge, ...]] = Bounded(MAX_REMEMBERED)

    def walk(self, start: Node, first_step: str) -> Walk:
        """``walk`` with what is remembered."""
        return walk(start, first_step, self._successors)

    def _successors(self, node: Node) -> tuple[Edge, ...]:
        if node.definition is not None and node.definition.before:
            return tuple(self._find(node))  # edges that depend on what just this change changed
        # Overloads are one node in a walk, but not of the same edges.
        key = (node, node.definition.first if node.definition else 0)
        if key in self._known:
            return self._known.get(key)
        return self._known.put(key, tuple(self._find(node)), 1)
