"""The pool: all targets run the same jobs, each in its own persistent worker, and the answers are joined."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from bot.targets.batch import BATCH_BYTES, BATCH_JOBS, Batch, make_batch
from bot.targets.job import Job, JobResult, Limits, PoolTarget
from bot.targets.lane import Lane
from bot.targets.lane_events import Answers, Event, Full, LaneEnd, PutOff, WorkerCounts
from bot.targets.launcher import WORKER_DIRECTORY, make_hello, make_launcher
from bot.targets.outcome import RawOutcome
from bot.targets.sandbox import Sandbox, probe_sandbox
from bot.targets.watchdog import MemoryWatchdog
from bot.worker.protocol import Header

WINDOW_JOBS = 4 * BATCH_JOBS  # taken from the caller and not yet given back
WINDOW_BYTES = 64 << 20  # of their blobs
HELD_BYTES = 512 << 20  # of outcomes that wait for another target's
GATHER_SECONDS = 0.02  # how long jobs are collected for a batch from a slow source


@dataclass(frozen=True)
class TargetFacts:
    """What a target's worker said of itself, and what it runs in: for the report."""

    target: PoolTarget
    ready: Header  # framework version, CPU model and instruction set, threads, ...
    isolation: str  # "bubblewrap", "unshare" or "process"
    unisolated: str | None  # for an untrusted target: why it is not sandboxed


@dataclass(slots=True)
class _Pending:
    """A job on its way, with the outcomes that have come."""

    job: Job
    outcomes: list[RawOutcome | None]
    missing: int
    put_off: bool = False
    held: int = 0


@dataclass
class _Run:
    """The state of one call of :meth:`Pool.run`."""

    lanes: Sequence[Lane]
    events: SimpleQueue[Event | None]
    inboxes: list[SimpleQueue[Batch | None]]
    places: dict[int, int]  # a lane's number -> its place among the outcomes
    pending: dict[int, _Pending] = field(default_factory=dict[int, _Pending])
    ahead_jobs: int = 0
    ahead_bytes: int = 0
    held_bytes: int = 0
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    exhausted: bool = False
    lanes_running: int = 0
    batch_jobs: int = 8  # grows, so that the first answers come soon


@dataclass
class _State:
    """What a pool shares with its views."""

    running: _Run | None = None
    stopping: bool = False
    closed: bool = False


class Pool:
    """Runs jobs on all targets at once. A context manager; its workers live as long as it does.

    ``hello_options``, by framework, are merged into the ``hello`` that a worker gets (``{"oneflow": {"mapping": ..}}``).
    ``host_environment`` is the bot's environment, of which workers see next to nothing. ``address_space_bytes``, by
    framework, sets RLIMIT_AS where the framework bears it; resident memory is bounded for all. Untrusted targets run in
    ``sandbox`` (found out when None), which shows them only what they need; ``hidden`` are folders to cover even if
    they lie inside that: the report's, the repository, the caches.
    """

    def __init__(
        self,
        targets: Sequence[PoolTarget],
        limits: Limits | None = None,
        *,
        worker_directory: Path = WORKER_DIRECTORY,
        hello_options: Mapping[str, Mapping[str, Any]] | None = None,
        host_environment: Mapping[str, str] | None = None,
        address_space_bytes: Mapping[str, int] | None = None,
        sandbox: Sandbox | None = None,
        hidden: Sequence[Path] = (),
    ) -> None:
        self._limits = limits or Limits()
        self._watchdog = MemoryWatchdog(self._limits.memory_bytes)
        self._sandbox = sandbox
        if sandbox is None and any(target.untrusted for target in targets):
            self._sandbox = probe_sandbox(hidden)
        self._lanes: list[Lane] = []
        for number, target in enumerate(targets):
            launcher = make_launcher(
                target,
                self._limits,
                worker_directory=worker_directory,
                host_environment=host_environment,
                sandbox=self._sandbox,
                address_space_bytes=(address_space_bytes or {}).get(target.environment.framework),
            )
            hello = make_hello(target, self._limits, hello_options or {})
            self._lanes.append(Lane(number, launcher, hello, self._watchdog))
        self._state = _State()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def targets(self) -> tuple[PoolTarget, ...]:
        """The targets, in the order of every result's outcomes."""
        return tuple(lane.target for lane in self._lanes)

    def facts(self) -> tuple[TargetFacts, ...]:
        """Start the workers that are not running and return what each says of itself. Raises TargetError."""
        for lane in self._lanes:
            lane.prepare()
        return tuple(self._facts_of(lane) for lane in self._lanes)

    def _facts_of(self, lane: Lane) -> TargetFacts:
        ready = lane.ready()
        if not lane.target.untrusted or self._sandbox is None:
            return TargetFacts(lane.target, ready, "process", None)
        return TargetFacts(lane.target, ready, self._sandbox.name, self._sandbox.unisolated)

    def counts(self) -> tuple[WorkerCounts, ...]:
        """What each target's workers have cost so far."""
        return tuple(lane.counts for lane in self._lanes)

    def run_alone(self, job: Job) -> JobResult:
        """Run one job in a fresh worker of every target. Raises TargetError; InterruptedError when stopped."""
        for result in self.run([job], fresh=True):
            return result
        raise InterruptedError("the pool was stopped")

    def run(self, jobs: Iterable[Job], *, fresh: bool = False) -> Iterator[JobResult]:
        """Run jobs on every target and yield each one's result as soon as it is whole, not always in order.

        ``jobs`` is read lazily, a bounded window ahead. ``fresh`` runs each program in fresh workers. Ends early, with
        no error, after :meth:`stop`; closing the iterator stops everything at once. Raises TargetError when a
        target's worker does not start, ValueError for an id given twice.
        """
        if self._state.running is not None or self._state.closed:
            raise RuntimeError("the pool is already running jobs, or is closed")
        self._state.stopping = False
        places = {lane.number: place for place, lane in enumerate(self._lanes)}
        lanes = tuple(self._lanes)
        run = _Run(lanes, SimpleQueue(), [SimpleQueue() for _ in lanes], places)
        self._state.running = run
        run.threads = [
            threading.Thread(
                target=lane.serve,
                args=(inbox, run.events.put, fresh),
                name=f"lane {lane.target.label}",
                daemon=True,
            )
            for lane, inbox in zip(run.lanes, run.inboxes, strict=True)
        ]
        run.lanes_running = len(run.threads)
        try:
            for thread in run.threads:
                thread.start()
            yield from self._results(run, iter(jobs))
        finally:
            self._end(run)

    def stop(self) -> None:
        """End a run in progress: :meth:`run` yields what is whole and returns. Any thread or signal handler may call."""
        self._state.stopping = True
        run = self._state.running
        if run is not None:
            run.events.put(None)

    def only(self, index: int) -> Pool:
        """A view of this pool with one of its targets, by its place; it shares the worker, and is not to be closed."""
        view = copy(self)
        view._lanes = [self._lanes[index]]
        return view

    def renew(self) -> None:
        """End all workers; the next run starts new ones. What programs left behind in a process is gone with it."""
        for lane in self._lanes:
            lane.close()

    def close(self) -> None:
        """End all workers, and a run in progress. Nothing of them is left afterwards."""
        if self._state.closed:
            return
        self._state.closed = True
        if self._state.running is not None:  # an error elsewhere left the iterator unfinished
            self._end(self._state.running)
        for lane in self._lanes:
            lane.close()
        self._watchdog.stop()

    # -- one run ------------------------------------------------------------------------------------

    def _end(self, run: _Run) -> None:
        """End a run, which may be that of a view, by whichever of them is closed first."""
        for lane, inbox in zip(run.lanes, run.inboxes, strict=True):
            if run.pending or run.lanes_running:
                lane.stop()
            inbox.put(None)
        for lane, thread in zip(run.lanes, run.threads, strict=True):
            while (
                thread.is_alive()
            ):  # a stop can fall between two of the lane's own checks: say it again
                thread.join(0.05)
                if thread.is_alive() and run.lanes_running:
                    lane.stop()
        self._state.running = None

    def _results(self, run: _Run, jobs: Iterator[Job]) -> Iterator[JobResult]:
        while not self._state.stopping and not self._state.closed:
            self._feed(run, jobs)
            if run.exhausted and not run.lanes_running:
                return
            event = run.events.get()
            while True:
                yield from self._take(run, event)
                try:
                    event = run.events.get_nowait()
                except Empty:
                    break
            self._keep_moving(run)

    def _keep_moving(self, run: _Run) -> None:
        """Bound what waits, and let through the lanes that the oldest job still waits for: nobody else can free room.

        Lanes answer in the order of the jobs, but for those that one of them has put off.
        """
        room = run.held_bytes < HELD_BYTES
        for lane in run.lanes:
            lane.may_defer = room
        waiting = [lane for lane in run.lanes if lane.backlog.waiting]
        if not waiting or not run.events.empty():  # what they read before may not be counted in yet
            return
        in_turn = (pending for pending in run.pending.values() if not pending.put_off)
        oldest = next(in_turn, None) or next(iter(run.pending.values()), None)
        for lane in waiting:
            if oldest is not None and oldest.outcomes[run.places[lane.number]] is None:
                lane.backlog.let_through()

    def _feed(self, run: _Run, jobs: Iterator[Job]) -> None:
        """Take jobs while the window has room and hand them to every lane."""
        while (
            not run.exhausted
            and not self._state.stopping
            and run.ahead_jobs < WINDOW_JOBS
            and run.ahead_bytes < WINDOW_BYTES
            and (run.held_bytes < HELD_BYTES or not run.ahead_jobs)
        ):
            taken = self._take_jobs(run, jobs)
            if taken:
                batch = make_batch(taken)
                for inbox in run.inboxes:
                    inbox.put(batch)
            if run.exhausted:
                for inbox in run.inboxes:
                    inbox.put(None)
            if not run.events.empty():
                return

    def _take_jobs(self, run: _Run, jobs: Iterator[Job]) -> list[Job]:
        taken: list[Job] = []
        size = 0
        end = time.monotonic() + GATHER_SECONDS
        while len(taken) < run.batch_jobs and size < BATCH_BYTES and time.monotonic() < end:
            job = next(jobs, None)
            if job is None:
                run.exhausted = True
                break
            if job.id in run.pending:
                raise ValueError(f"job id {job.id} was given twice")
            taken.append(job)
            size += len(job.blob)
            count = len(self._lanes)
            run.pending[job.id] = _Pending(job, [None] * count, count)
        run.batch_jobs = min(BATCH_JOBS, 2 * run.batch_jobs)
        run.ahead_jobs += len(taken)
        run.ahead_bytes += size
        return taken

    def _take(self, run: _Run, event: Event | None) -> Iterator[JobResult]:
        match event:
            case Answers(lane, outcomes):
                place = run.places[lane]
                for number, outcome in outcomes:
                    pending = run.pending[number]
                    pending.outcomes[place] = outcome
                    pending.missing -= 1
                    if pending.missing == 0:
                        result = self._finish(run, pending)
                        yield result
                        for answered, taken in zip(run.lanes, result.outcomes, strict=True):
                            answered.backlog.take(taken.size)
                    else:
                        pending.held += outcome.size
                        run.held_bytes += outcome.size
            case PutOff(_, numbers):
                for number in numbers:
                    self._put_off(run, run.pending[number])
            case LaneEnd(_, error):
                run.lanes_running -= 1
                if error is not None:
                    raise error
            case Full() | None:
                pass

    def _put_off(self, run: _Run, pending: _Pending) -> None:
        """A job that runs at the end no longer fills the window, or the window would never move."""
        if not pending.put_off:
            pending.put_off = True
            run.ahead_jobs -= 1
            run.ahead_bytes -= len(pending.job.blob)

    def _finish(self, run: _Run, pending: _Pending) -> JobResult:
        del run.pending[pending.job.id]
        run.held_bytes -= pending.held
        if not pending.put_off:
            run.ahead_jobs -= 1
            run.ahead_bytes -= len(pending.job.blob)
        whole = tuple(outcome for outcome in pending.outcomes if outcome is not None)
        return JobResult(pending.job, whole)
