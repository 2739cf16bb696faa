"""From what the walks reached to the ops of the answer: one for each op group, the nearest ones where there are many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from bot.changes.change import MAX_RUNS_PER_OP, ChangedLines, ChangedOp, runs_of
from bot.changes.changeset import ChangedFile
from bot.changes.definition import Definition
from bot.changes.file_text import printable_path
from bot.changes.graph import Reached

MAX_INDIRECT_OPS: Final = 60
"""Ops that one diff reaches through shared code only: beyond so many the nearest stay (shortest path, then name)."""


@dataclass(frozen=True)
class Found:
    """A public name that a changed definition reaches."""

    reached: Reached
    definition: Definition
    file: ChangedFile


class FoundOps:
    """What was found for each op group."""

    def __init__(self) -> None:
        self._found: defaultdict[str, list[Found]] = defaultdict(list)

    def add(self, op: str, found: Found) -> None:
        """Add one way to an op."""
        self._found[op].append(found)

    def ops(self) -> tuple[ChangedOp, ...]:
        """Every op, by name. A framework's own Tensor method is a form of its function, where both were found."""
        merged: defaultdict[str, list[Found]] = defaultdict(list)
        for op, found in self._found.items():
            framework, method, name = op.partition(".Tensor.")
            function = f"{framework}.{name.removesuffix('_')}"
            merged[function if method and function in self._found else op].extend(found)
        return tuple(_op(op, found) for op, found in sorted(merged.items()))


def nearest(ops: tuple[ChangedOp, ...]) -> tuple[tuple[ChangedOp, ...], tuple[str, ...]]:
    """The ops to report, and the names of the indirect ones beyond ``MAX_INDIRECT_OPS``, nearest first."""
    indirect = sorted(
        (op for op in ops if op.how == "indirect"), key=lambda op: (len(op.path), op.op)
    )
    left_out = {op.op: None for op in indirect[MAX_INDIRECT_OPS:]}
    return tuple(op for op in ops if op.op not in left_out), tuple(left_out)


def _op(op: str, ways: list[Found]) -> ChangedOp:
    ways = sorted(ways, key=lambda way: (way.reached.indirect, len(way.reached.path)))
    best = ways[0].reached
    aliases = dict.fromkeys(way.reached.name for way in ways)
    lines = dict.fromkeys(
        line
        for way in ways
        if way.reached.indirect == best.indirect
        for line in _lines(way.definition, way.file)
    )
    return ChangedOp(
        op=op,
        how="indirect" if best.indirect else "direct",
        aliases=tuple(aliases),
        path=tuple(printable_path(step) for step in best.path),
        lines=tuple(lines)[:MAX_RUNS_PER_OP],
        in_python=all(way.definition.file.endswith(".py") for way in ways),
    )


def _lines(definition: Definition, file: ChangedFile) -> list[ChangedLines]:
    """The changed lines of a definition on the head side, as runs."""
    if definition.file != file.new:
        return []
    start = bisect_left(file.new_lines, definition.first)
    within = file.new_lines[start : bisect_right(file.new_lines, definition.last)]
    return runs_of(printable_path(definition.file), within)
