"""The watchdog: kills a worker whose processes together hold more memory than their limit.

Frameworks reserve far more address space than they use, so RLIMIT_AS cannot bound them; resident memory can.
Reads ``/proc`` directly: at ten samples a second for every worker it must cost next to nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SAMPLE_SECONDS = 0.1
TREE_SAMPLES = 10  # the list of processes is read anew every this many samples


class MemoryWatchdog:
    """One thread for all workers of a pool."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._watched: dict[int, Callable[[], None]] = {}
        self._trees: dict[int, list[int]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, pid: int, too_much: Callable[[], None]) -> None:
        """Call ``too_much`` once when the processes below ``pid`` hold more than the limit."""
        with self._lock:
            self._watched[pid] = too_much
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="memory watchdog", daemon=True
                )
                self._thread.start()

    def forget(self, pid: int) -> None:
        """Watch it no more."""
        with self._lock:
            self._watched.pop(pid, None)
            self._trees.pop(pid, None)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        sample = 0
        while not self._stop.wait(SAMPLE_SECONDS):
            with self._lock:
                watched = list(self._watched.items())
            for pid, too_much in watched:
                if sample % TREE_SAMPLES == 0 or pid not in self._trees:
                    tree = descendants(pid)
                    # A guard that has not forked yet has nothing below it: look again at the next sample.
                    if tree:
                        self._trees[pid] = tree
                if sum(map(resident_bytes, self._trees.get(pid, ()))) > self._limit:
                    self.forget(pid)
                    too_much()
            sample += 1


def descendants(pid: int) -> list[int]:
    """The processes below a process, itself not counted."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208
                with (
                    contextlib.suppress(OSError),
                    open(f"/proc/{parent}/task/{thread}/children") as listing,  # noqa: PTH123
                ):
                    children = [int(word) for word in listing.read().split()]
                    found += children
                    waiting += children
    return found


def resident_bytes(pid: int) -> int:
    """A process's resident memory; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:  # noqa: PTH123
            return int(statm.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0
