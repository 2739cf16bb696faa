"""A lane: one target's side of a pool. Its worker, the jobs on their way, and exact blame for every death."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from bot.targets.backlog import Backlog
from bot.targets.batch import BATCH_JOBS, Batch, make_batch
from bot.targets.deaths import DeathRecord
from bot.targets.frame_buffer import Frame
from bot.targets.job import Job, Limits, PoolTarget
from bot.targets.lane_events import Answers, Event, Full, LaneEnd, PutOff, Stopped, WorkerCounts
from bot.targets.launch import Launcher
from bot.targets.outcome import RawOutcome, dead, left_out
from bot.targets.target import TargetError
from bot.targets.watchdog import MemoryWatchdog
from bot.targets.worker_process import WorkerDeath
from bot.targets.worker_supply import WorkerSupply
from bot.worker.protocol import RETIREMENT, Header

AHEAD_JOBS = 2 * BATCH_JOBS  # sent and not yet answered: one batch runs while the next one waits
AHEAD_BYTES = 16 << 20
IDLE_DEATHS = 3  # deaths in a row with no program to blame before the target is given up
DEFERRED_BYTES = 512 << 20  # blobs put aside for the end; above it, jobs run in their turn

# Outcomes of small programs come every few microseconds. Reading each for itself would cost more than running it,
# so between reads the lane lets some gather; the worker goes on meanwhile, since its pipe and next batch are there.
NAP_SECONDS = 0.004
NAP_BYTES = 256 << 10  # a quarter of the pipe
NAP_MIN_OUTCOMES = 4  # fewer are not worth a nap

MAX_LIES = 10
# Workers that start in the background for a target that has died before. When only programs that are likely to die
# are left, starting workers is all there is to do, and the other targets' cores are free.
SPARES = 1
SPARES_FOR_DEFERRED = 2


@dataclass(frozen=True)
class Lie:
    """A frame that answers nothing that was asked; ``blames`` says whether the program it was on is to blame."""

    what: str
    blames: bool


RETIRED = Lie("it asked to be replaced", blames=False)
"""No lie: a worker may ask for it after an answer, when what it has run has left too much in its process."""


class Lane:
    """One target's worker and its jobs. :meth:`serve` is a thread's main; ``stop`` may come from any other."""

    def __init__(
        self,
        number: int,
        launcher: Launcher,
        hello: Mapping[str, Any],
        watchdog: MemoryWatchdog,
    ) -> None:
        self.number = number
        self.target: PoolTarget = launcher.target
        self.counts = WorkerCounts()
        self.backlog = Backlog()
        self.may_defer = (
            True  # the pool says no when what waits for the deferred ones takes too much
        )
        self._limits: Limits = launcher.limits
        self._supply = WorkerSupply(launcher, hello, watchdog, self.counts, lambda: self._stopping)
        self._record = DeathRecord()
        # Sent and not yet answered, each with the byte of the worker's input at which its batch ends.
        self._outstanding: deque[tuple[Job, int]] = deque()
        self._ahead_bytes = 0
        self._returned: deque[Job] = deque()
        self._deferred: list[Job] = []
        self._deferred_bytes = 0
        self._answered: int | None = None  # the id that this very worker answered last
        self._idle_deaths = 0
        self._stopping = False
        self._closed = False
        self._last_read = 0.0
        self._deadline = 0.0
        self._busy_since = 0.0

    # -- called by the pool -------------------------------------------------------------------------

    def prepare(self) -> None:
        """Start the worker, ready or not yet; its framework is imported while others start too."""
        self._supply.prepare()

    def ready(self) -> Header:
        """The worker's facts, started if need be. Raises TargetError."""
        return self._supply.get().wait_ready()

    def serve(
        self, inbox: SimpleQueue[Batch | None], emit: Callable[[Event], None], fresh: bool
    ) -> None:
        """Run the batches of the inbox until None. Every job is answered exactly once, unless stopped."""
        self._inbox = inbox
        self._emit = emit
        self._stopping = self._closed = False
        self.backlog.clear()
        error: BaseException | None = None
        try:
            if fresh:
                self._serve_fresh()
            else:
                self._serve_all()
        except Stopped:
            pass
        except BaseException as problem:  # handed to the pool's own thread, which raises it
            error = problem
        finally:
            self._supply.drop_spares()
            if self._outstanding or error is not None:
                self._discard()  # it is in the middle of something
            self._outstanding.clear()
            self._returned.clear()
            self._deferred.clear()
            self._ahead_bytes = self._deferred_bytes = 0
            emit(LaneEnd(self.number, error))

    def stop(self) -> None:
        """End :meth:`serve` promptly, whatever its worker is doing."""
        self._stopping = True
        self._supply.wake()
        self.backlog.wake()

    def close(self) -> None:
        """End the worker."""
        self._supply.drop_spares()
        self._supply.discard(polite=True)

    def _program_seconds(self) -> float:
        """How long the worker may be silent; one that compiles has its compiler's time on top."""
        worker = self._supply.worker
        compiles = worker is not None and worker.facts is not None and worker.facts.get("compiles")
        extra = self._limits.compile_seconds if compiles is True else 0.0
        return self._limits.program_seconds + extra

    # -- batches, streamed --------------------------------------------------------------------------

    def _serve_all(self) -> None:
        while True:
            self._refill()
            if self._outstanding:
                self._collect()
            elif self._closed and not self._returned:
                break
        self._serve_deferred()

    def _refill(self) -> None:
        """Send what may be sent; wait for something to send only when nothing is on its way."""
        while len(self._outstanding) < AHEAD_JOBS and self._ahead_bytes < AHEAD_BYTES:
            if self._stopping:
                raise Stopped
            batch = self._next_batch(wait=not self._outstanding)
            if batch is None:
                return
            if batch.jobs:
                if not self._outstanding:
                    self._busy_since = time.monotonic()
                worker = self._supply.get()
                if not self._outstanding:
                    self._deadline = time.monotonic() + self._program_seconds()
                worker.send_parts(batch.parts)
                self._outstanding.extend((job, worker.queued_bytes) for job in batch.jobs)
                self._ahead_bytes += sum(len(job.blob) for job in batch.jobs)

    def _next_batch(self, wait: bool) -> Batch | None:
        if self._returned:
            jobs = [self._returned.popleft() for _ in range(min(BATCH_JOBS, len(self._returned)))]
            return make_batch(self._defer(jobs))
        if self._closed:
            return None
        try:
            batch = self._inbox.get(wait)
        except Empty:
            return None
        if batch is None:
            self._closed = True
            return None
        if self._stopping:
            raise Stopped
        kept = self._defer(self._asked(batch.jobs))
        return batch if len(kept) == len(batch.jobs) else make_batch(kept)

    def _asked(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """The jobs that are for this target; the others are answered for here."""
        others = [job for job in jobs if job.only is not None and self.number not in job.only]
        if not others:
            return jobs
        self._answer([(job.id, left_out(job.id)) for job in others])
        return [job for job in jobs if job.only is None or self.number in job.only]

    def _defer(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Put aside the jobs whose group runs last; the others."""
        if not (self._record.deferring and self.may_defer):
            return jobs
        kept: list[Job] = []
        put_off: list[Job] = []
        for job in jobs:
            last = self._record.runs_last(job.group) and self._deferred_bytes < DEFERRED_BYTES
            (put_off if last else kept).append(job)
            if last:
                self._deferred_bytes += len(job.blob)
        if put_off:
            self._deferred += put_off
            self.counts.deferred += len(put_off)
            self._emit(PutOff(self.number, tuple(job.id for job in put_off)))
        return kept

    def _collect(self) -> None:
        """Read what has been answered. A death is buried here, and what remains is sent again."""
        if self._stopping:
            raise Stopped
        worker = self._supply.worker
        assert worker is not None
        if self.backlog.full:
            self._wait_for_room()
            self._deadline = time.monotonic() + self._program_seconds()
        try:
            frames = worker.receive(self._deadline)
            if not frames:
                return
        except WorkerDeath as death:
            self._bury(death)
            self._count_busy(1)
            return
        outcomes, wrong = self._match(frames)
        self._count_busy(len(outcomes))
        if outcomes:
            self._answer(outcomes)
        if wrong is None:
            self._gather(frames)
        elif wrong.blames:
            self._bury(worker.lie(wrong.what))
        else:
            self._replace_liar(wrong)

    def _count_busy(self, answered: int) -> None:
        now = time.monotonic()
        self.counts.busy_seconds += now - self._busy_since
        self.counts.answered += answered
        self._busy_since = now

    def _answer(self, outcomes: list[tuple[int, RawOutcome]]) -> None:
        """Hand outcomes to the pool; until it has done with them, they count as waiting."""
        self.backlog.add(sum(outcome.size for _, outcome in outcomes))
        self._emit(Answers(self.number, outcomes))

    def _wait_for_room(self) -> None:
        """Read no more until the pool has taken enough of what was read."""
        self.backlog.announce()
        self._emit(Full(self.number))
        self.backlog.wait(lambda: self._stopping)
        if self._stopping:
            raise Stopped

    def _gather(self, frames: list[Frame]) -> None:
        """Nap while outcomes gather, as long as neither the pipe fills nor the worker runs out of programs."""
        now = time.monotonic()
        elapsed = max(now - self._last_read, 1e-6)  # a coarse clock may not have moved
        self._last_read = now
        size = sum(len(payload) for _, payload in frames) + 1
        most = min(NAP_SECONDS, elapsed * NAP_BYTES / size)
        most = min(most, elapsed * len(self._outstanding) / (2 * len(frames)))
        if most / elapsed * len(frames) >= NAP_MIN_OUTCOMES:
            time.sleep(most)
        self._deadline = time.monotonic() + self._program_seconds()

    def _match(self, frames: list[Frame]) -> tuple[list[tuple[int, RawOutcome]], Lie | None]:
        """Pair frames with the jobs they answer, which come in the order that was sent, up to the first lie.

        The header is not parsed here, only looked into: in canonical JSON a quote inside a string is escaped, so
        these bytes can only be the keys themselves.
        """
        outcomes: list[tuple[int, RawOutcome]] = []
        outstanding = self._outstanding
        for header, payload in frames:
            if not outstanding:
                if header == RETIREMENT:
                    return outcomes, RETIRED
                return outcomes, Lie("it answered more than it was asked", blames=False)
            job, _ = outstanding[0]
            if header == RETIREMENT and self._answered is not None:
                return outcomes, RETIRED
            if not _answers(header, job.id):
                again = self._answered is not None and _answers(header, self._answered)
                said = header[:200].decode("utf-8", "replace")
                what = f"it was to answer program {job.id} and said: {said}"
                return outcomes, Lie(what, blames=not again)
            outstanding.popleft()
            self._ahead_bytes -= len(job.blob)
            self._answered = job.id
            outcomes.append((job.id, RawOutcome(header, payload)))
        self._idle_deaths = 0
        return outcomes, None

    def _replace_liar(self, wrong: Lie) -> None:
        """A second answer to a program already answered: the worker goes, and the next program is not to blame."""
        if wrong is RETIRED:
            self.counts.retired += 1
        else:
            self.counts.protocol += 1
            self.counts.lies.append(wrong.what[:300])
            del self.counts.lies[MAX_LIES:]
        self._returned.extendleft(reversed([job for job, _ in self._outstanding]))
        self._discard()

    def _discard(self) -> None:
        """End the worker and forget what it was asked."""
        self._supply.discard()
        self._outstanding.clear()
        self._ahead_bytes = 0
        self._answered = None

    # -- deaths -------------------------------------------------------------------------------------

    def _bury(self, death: WorkerDeath) -> None:
        """Blame the first program without an outcome, confirm it alone, and let the rest go on."""
        worker = self._supply.worker
        assert worker is not None
        written = worker.written_bytes
        self._supply.spares_wanted = SPARES
        rest = [job for job, _ in self._outstanding]
        begun = bool(rest) and self._outstanding[0][1] <= written
        self._discard()
        if not begun:
            # It had nothing to run, or not yet the whole of its batch: no program can be blamed.
            self._returned.extendleft(reversed(rest))
            self._count_idle_death(death)
            return
        victim = rest[0]
        self._returned.extendleft(reversed(rest[1:]))
        if self._record.is_known(victim.group, death):
            self.counts.alike += 1
            self._state(victim, death, confirmed=True)
        else:
            self._confirm(victim, death)

    def _count_idle_death(self, death: WorkerDeath) -> None:
        self.counts.idle += 1
        self._idle_deaths += 1
        if self._idle_deaths >= IDLE_DEATHS:
            words = " | ".join(death.last_words.splitlines()[-3:])
            raise TargetError(
                f"target {self.target.label}: its worker died {self._idle_deaths} times in a row with nothing to do "
                f"({death.signal}); its last words: {words}"
            )

    def _confirm(self, victim: Job, first: WorkerDeath) -> None:
        """Run the program alone in a fresh worker: only what happens there can be said of it."""
        second = self._run_single(victim)
        if isinstance(second, WorkerDeath):
            self._record.confirm(victim.group, second)
            self._state(victim, second, confirmed=True)
            return
        self.counts.unconfirmed += 1
        if (first.status, first.signal) == ("crash", "SIGKILL"):  # somebody else's doing
            self._answer([(victim.id, second)])
        else:
            self._state(victim, first, confirmed=False)

    def _state(self, victim: Job, death: WorkerDeath, confirmed: bool) -> None:
        """Answer for a program on which the worker died."""
        match death.status:
            case "crash":
                self.counts.crashes += 1
                self.counts.protocol += death.signal == "protocol"
            case "hang":
                self.counts.hangs += 1
            case "memory":
                self.counts.memory += 1
        outcome = dead(death.status, death.death(confirmed))
        self._answer([(victim.id, outcome)])

    # -- programs one by one ------------------------------------------------------------------------

    def _run_single(self, job: Job) -> RawOutcome | WorkerDeath:
        """Run one program with nothing else on its way; its outcome or its worker's death."""
        if self.backlog.full:
            self._wait_for_room()
        worker = self._supply.get()
        worker.mark()
        worker.send_parts(make_batch([job]).parts)
        deadline = time.monotonic() + self._program_seconds()
        self._outstanding.append((job, worker.queued_bytes))
        self._ahead_bytes += len(job.blob)
        try:
            while True:
                if self._stopping:
                    raise Stopped
                frames = worker.receive(deadline)
                if frames:
                    outcomes, wrong = self._match(frames)
                    if wrong is not None and wrong.blames:
                        raise worker.lie(wrong.what)
                    if wrong is not None:
                        self._outstanding.clear()
                        self._replace_liar(wrong)
                    # Without an outcome the lie was about an earlier program: this one has not been heard yet.
                    return outcomes[0][1] if outcomes else self._run_single(job)
        except WorkerDeath as death:
            self._discard()
            return death

    def _serve_deferred(self) -> None:
        """The programs put off: likely to die, so one by one, whose last words are then exactly their own."""
        for done, job in enumerate(self._deferred):
            if self._stopping:
                raise Stopped
            self._supply.spares_wanted = min(SPARES_FOR_DEFERRED, len(self._deferred) - done - 1)
            answer = self._run_single(job)
            if isinstance(answer, RawOutcome):
                self._answer([(job.id, answer)])
            elif self._record.is_known(job.group, answer):
                self.counts.alike += 1
                self._state(job, answer, confirmed=True)
            else:
                self._confirm(job, answer)

    def _serve_fresh(self) -> None:
        """Each program in a worker of its own. A death there is confirmed by that: it was alone and fresh."""
        while (batch := self._next_batch(wait=True)) is not None:
            for done, job in enumerate(batch.jobs):
                if self._stopping:
                    raise Stopped
                if self._supply.worker is not None and self._supply.worker.used:
                    self._discard()
                self._supply.spares_wanted = min(SPARES, len(batch.jobs) - done - 1)
                answer = self._run_single(job)
                if isinstance(answer, RawOutcome):
                    self._answer([(job.id, answer)])
                else:
                    self._state(job, answer, confirmed=True)


def _answers(header: bytes, number: int) -> bool:
    """Whether a frame's header is an outcome of this program."""
    return b'"id":%d,' % number in header and b'"type":"outcome"' in header
