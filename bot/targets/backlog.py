"""Backlog: the outcomes that a lane has read and nobody has taken yet, bounded in bytes.

A worker that is lying, or only far ahead of the others, may send faster than anyone compares. Over the bound its lane
reads no more: the pipe fills, and the worker waits in its write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

WAITING_BYTES = 256 << 20
"""Of one lane. What a lane holds at most is this, one read of its pipe, and one frame that has begun to arrive."""


class Backlog:
    """One lane's backlog: the lane adds and waits, the pool takes. Thread-safe."""

    def __init__(self, bound: int = WAITING_BYTES) -> None:
        self._bound = bound
        self._bytes = 0
        self._let_through = False
        self._waiting = False
        self._changed = threading.Condition()

    def clear(self) -> None:
        """Begin anew: nothing waits."""
        with self._changed:
            self._bytes = 0
            self._let_through = False

    def add(self, size: int) -> None:
        """Bytes that were read."""
        with self._changed:
            self._bytes += size

    def take(self, size: int) -> None:
        """Bytes that somebody has taken and is done with."""
        with self._changed:
            self._bytes -= size
            if self._waiting:
                self._changed.notify_all()

    @property
    def full(self) -> bool:
        """Whether the lane is to read no more."""
        return self._bytes > self._bound

    @property
    def waiting(self) -> bool:
        """Whether the lane waits for room."""
        return self._waiting

    def wait(self, stopping: Callable[[], bool]) -> None:
        """Wait for room, for :meth:`let_through`, or for the end (:meth:`wake` after ``stopping`` has become true)."""
        with self._changed:
            self._changed.wait_for(lambda: not self.full or self._let_through or stopping())
            self._let_through = self._waiting = False

    def announce(self) -> None:
        """Say that the lane is about to wait, before anyone who could let it through is told."""
        with self._changed:
            self._waiting = True

    def let_through(self) -> None:
        """Let the lane read once all the same: the others' backlogs wait for what it has not answered yet."""
        with self._changed:
            self._let_through = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Make a :meth:`wait` look up."""
        with self._changed:
            self._changed.notify_all()
