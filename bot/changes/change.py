"""What a diff changes, in users' words: ops, how far the change is from them, and what could not be mapped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

How = Literal["direct", "indirect"]

MAX_RUNS_PER_OP: Final = 100  # of changed lines; the first ones are kept


@dataclass(frozen=True)
class ChangedLines:
    """Lines of one file on the head side (1-based, inclusive); for annotations."""

    file: str
    first: int
    last: int


def runs_of(file: str, lines: Iterable[int]) -> list[ChangedLines]:
    """Line numbers of a file, in order, as runs of neighbours."""
    runs: list[ChangedLines] = []
    for line in lines:
        if runs and runs[-1].last == line - 1:
            runs[-1] = ChangedLines(file, runs[-1].first, line)
        else:
            runs.append(ChangedLines(file, line, line))
    return runs


@dataclass(frozen=True)
class ChangedOp:
    """An op group that the diff changes.

    ``op`` is canonical; ``aliases`` are the framework's own public names; ``path`` the steps from the changed line to
    the op, each one line of text. ``in_python`` is false when the change that reaches the op lies in sources that
    an overlay cannot carry (C++, CUDA, generated code).
    """

    op: str
    how: How
    aliases: tuple[str, ...]
    path: tuple[str, ...]
    lines: tuple[ChangedLines, ...] = ()
    in_python: bool = True


@dataclass(frozen=True)
class Unmapped:
    """A changed file from which no op could be proven, and why."""

    file: str
    why: str


@dataclass(frozen=True)
class Changes:
    """Everything that ``opdiff changes --json`` prints."""

    framework: str
    ops: tuple[ChangedOp, ...] = ()
    tests: tuple[str, ...] = ()  # changed autotest files
    unmapped: tuple[Unmapped, ...] = ()
    notes: tuple[str, ...] = field(default=())  # fan-out capped, a layout not known, ...
    left_out: tuple[str, ...] = ()  # ops reached through shared code beyond the nearest ones
