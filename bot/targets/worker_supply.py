"""One target's workers: the one in use, and spares that start in the background for a target that dies often."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import psutil

from bot.targets.lane_events import Stopped, WorkerCounts
from bot.targets.launch import Launcher
from bot.targets.watchdog import MemoryWatchdog
from bot.targets.worker_process import StartError, WorkerProcess

START_ATTEMPTS = 2
SPARE_MIN_FREE_BYTES = 3 << 30  # with less memory free, no worker is started ahead of its need


class WorkerSupply:
    """Starts and ends workers. ``stopping`` says whether a start is to be given up."""

    def __init__(
        self,
        launcher: Launcher,
        hello: Mapping[str, Any],
        watchdog: MemoryWatchdog,
        counts: WorkerCounts,
        stopping: Callable[[], bool],
    ) -> None:
        self._launcher = launcher
        self._hello = hello
        self._watchdog = watchdog
        self._counts = counts
        self._stopping = stopping
        self._spares: deque[WorkerProcess] = deque()
        self.worker: WorkerProcess | None = None
        self.spares_wanted = 0

    def prepare(self) -> None:
        """Start the worker, ready or not yet; its framework is imported while others start too."""
        if self.worker is None:
            self.worker = self._launch()

    def get(self) -> WorkerProcess:
        """The worker, ready; a new one or a spare when there is none. Raises TargetError, Stopped."""
        if self.worker is not None and self.worker.facts is not None:
            return self.worker
        began = time.monotonic()
        try:
            return self._start(START_ATTEMPTS)
        finally:
            self._counts.start_seconds += time.monotonic() - began

    def _start(self, attempts: int) -> WorkerProcess:
        if self.worker is None:
            self.worker = self._spares.popleft() if self._spares else self._launch()
        while len(self._spares) < self.spares_wanted and _free_bytes() > SPARE_MIN_FREE_BYTES:
            self._spares.append(self._launch())
        try:
            self.worker.wait_ready()
        except StartError as error:
            self.discard()
            if self._stopping():
                raise Stopped from None
            if error.final or attempts <= 1:
                raise
            return self._start(attempts - 1)
        return self.worker

    def _launch(self) -> WorkerProcess:
        self._counts.starts += 1
        worker = WorkerProcess(self._launcher, self._hello)
        self._watchdog.watch(worker.guard_pid, lambda: worker.kill("memory"))
        return worker

    def discard(self, polite: bool = False) -> None:
        """End the worker in use, if any."""
        if self.worker is not None:
            self._watchdog.forget(self.worker.guard_pid)
            self.worker.close(polite)
            self.worker = None

    def drop_spares(self) -> None:
        """End the spares; no more are started."""
        self.spares_wanted = 0
        while self._spares:
            spare = self._spares.popleft()
            self._watchdog.forget(spare.guard_pid)
            spare.close()

    def wake(self) -> None:
        """Make whoever waits for a worker look up. Any thread may call."""
        for worker in (self.worker, *tuple(self._spares)):
            if worker is not None:
                worker.wake()


def _free_bytes() -> int:
    return int(psutil.virtual_memory().available)
