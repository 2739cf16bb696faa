"""WorkerProcess: one worker, the frames to and from it, its last words and the manner of its death."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import psutil

from bot.targets.frame_buffer import Frame, FrameBuffer, Tail
from bot.targets.launch import Launcher
from bot.targets.outcome import Death
from bot.targets.target import TargetError
from bot.worker.protocol import PREFIX, Header, ProtocolError, decode_header, encode_header

PIPE_BYTES = 1 << 20
READ_BYTES = 1 << 20
# How long a process may take to end once its pipe is closed or it was told to stop.
EXIT_SECONDS = 3.0
ARRIVING_SECONDS = 5.0  # how long a frame that has begun to arrive may overrun
MARK_READS = 64  # a worker that never stops printing must not keep the bot reading
MAX_WRITE_PARTS = 512  # below IOV_MAX
MAX_ANSWER_BYTES = 1 << 29  # of one frame's payload; workers keep to that by themselves

DeathStatus = Literal["crash", "hang", "memory"]


class WorkerDeath(Exception):  # noqa: N818 - it is a death, and the word of the design
    """A worker died or was killed for cause."""

    def __init__(self, status: DeathStatus, signal_name: str, last_words: str) -> None:
        super().__init__(f"{status}: {signal_name}")
        self.status: DeathStatus = status
        self.signal = signal_name
        self.last_words = last_words

    def death(self, confirmed: bool) -> Death:
        """The death as an outcome states it."""
        return Death(self.signal, self.last_words, confirmed)


class StartError(TargetError):
    """A worker did not become ready. ``final`` when the worker itself said why: trying again is no use."""

    def __init__(self, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class WorkerProcess:
    """A worker under its guard. Launched at once; :meth:`wait_ready` before the first message.

    Not thread-safe but for :meth:`wake` and :meth:`kill`, which any thread may call.
    """

    def __init__(self, launcher: Launcher, hello: Mapping[str, Any]) -> None:
        self._label = launcher.target.label
        self._start_seconds = launcher.limits.start_seconds
        self._outgoing: deque[memoryview] = deque()
        self.queued_bytes = 0  # given to send so far
        self.written_bytes = 0  # of these, what its pipe has taken
        self._frames = FrameBuffer(MAX_ANSWER_BYTES)
        self._early: list[Frame] = []  # frames read and not yet asked for
        self._tail = Tail()
        self._mark = 0
        self._space = bytearray(READ_BYTES)
        self._out_ended = False
        self._words_ended = False
        self._killed: DeathStatus | None = None
        self.facts: Header | None = None
        self.launched = time.monotonic()
        self._open(launcher)
        self.send(encode_header({"type": "hello", **hello}))
        self._hello_bytes = self.queued_bytes

    def _open(self, launcher: Launcher) -> None:
        theirs_in, self._in = os.pipe()
        self._out, theirs_out = os.pipe()
        self._words, theirs_words = os.pipe()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        for fd in (self._in, self._out, self._words):
            with contextlib.suppress(OSError):  # over the user's pipe quota: slower, not wrong
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            os.set_blocking(fd, False)
        launch = launcher.launch(theirs_in, theirs_out)
        try:
            self._guard = subprocess.Popen(
                launch.guarded((theirs_in, theirs_out)),
                stdin=subprocess.PIPE,
                stdout=theirs_words,
                stderr=theirs_words,
                env={},
                cwd=launch.scratch or "/",
                pass_fds=(theirs_in, theirs_out, *launch.pass_fds),
                start_new_session=True,
            )
        finally:
            for fd in (theirs_in, theirs_out, theirs_words, *launch.pass_fds):
                os.close(fd)
        self._signals_by_status = launch.signals_by_status
        self._scratch = launch.scratch
        self._poll = select.poll()
        for fd in (self._out, self._words, self._wake):
            self._poll.register(fd, select.POLLIN)

    @property
    def guard_pid(self) -> int:
        """The guard's process id; the worker's processes are below it."""
        return self._guard.pid

    # -- starting -----------------------------------------------------------------------------------

    def wait_ready(self) -> Header:
        """Wait for the worker's ``ready`` and return its facts. Raises StartError, naming target and last words."""
        if self.facts is not None:
            return self.facts
        try:
            frames = self.receive(self.launched + self._start_seconds)
        except WorkerDeath as death:
            manner = (
                f"was not ready after {self._start_seconds:g} s"
                if death.status == "hang"
                else f"died of {death.signal} while starting"
            )
            raise StartError(
                _one_line(f"target {self._label}: its worker {manner}", death)
            ) from None
        if not frames:
            raise StartError(f"target {self._label}: stopped while its worker was starting", True)
        try:
            header = decode_header(frames[0][0])
        except ProtocolError as error:
            raise StartError(f"target {self._label}: its worker's first words: {error}") from None
        if not _is_text(header):
            raise StartError(f"target {self._label}: its worker's first words are no text")
        self._early = frames[1:]
        if header.get("type") == "failed":
            raise StartError(f"target {self._label}: {str(header.get('reason'))[:600]}", final=True)
        if header.get("type") != "ready":
            raise StartError(f"target {self._label}: its worker did not say that it is ready")
        self.facts = header
        self.mark()
        return header

    # -- frames -------------------------------------------------------------------------------------

    def send(self, header: bytes, *payload: bytes | memoryview) -> None:
        """Queue one frame; what the pipe does not take now goes out during :meth:`receive`."""
        size = sum(len(part) for part in payload)
        self.send_parts([PREFIX.pack(len(header), size) + header, *payload])

    def send_parts(self, parts: Iterable[bytes | memoryview]) -> None:
        """Queue the bytes of frames that are already encoded."""
        for part in parts:
            if len(part):
                self._outgoing.append(memoryview(part))
                self.queued_bytes += len(part)
        self._write()

    @property
    def used(self) -> bool:
        """Whether it has been sent anything but its ``hello``."""
        return self.queued_bytes > self._hello_bytes

    @property
    def unsent(self) -> bool:
        """Whether bytes wait that the worker has not been given."""
        return bool(self._outgoing)

    def _write(self) -> None:
        """Give the pipe what it takes."""
        queue = self._outgoing
        while queue:
            parts = [queue[i] for i in range(min(len(queue), MAX_WRITE_PARTS))]
            try:
                done = os.writev(self._in, parts)
            except BlockingIOError:
                break
            except BrokenPipeError:
                return  # it is dead or dying: its end shows when reading
            self.written_bytes += done
            while queue and done >= len(queue[0]):
                done -= len(queue.popleft())
            if done:
                queue[0] = queue[0][done:]
        if queue:
            self._poll.register(self._in, select.POLLOUT)
        else:
            with contextlib.suppress(KeyError):
                self._poll.unregister(self._in)

    def receive(self, deadline: float) -> list[Frame]:
        """The frames that have arrived, at least one; empty when woken.

        ``deadline`` is on the monotonic clock. Raises WorkerDeath when the worker is dead, when the deadline has
        passed with nothing to read (it is then killed: a hang), or when it broke the frame format.
        """
        if self._early:
            frames, self._early = self._early, []
            return frames
        if self._frames.broken is not None:
            raise self.lie(self._frames.broken)
        while True:
            wait = max(0.0, deadline - time.monotonic())
            ready = self._poll.poll(wait * 1000 + 1)
            if not ready:
                self._kill_for("hang")
                raise self._death()
            woken = False
            frames: list[Frame] = []
            # Words first: what was printed before an outcome was sent is then read before that outcome.
            for fd, _ in sorted(ready, key=lambda entry: entry[0] != self._words):
                if fd == self._words:
                    self._read_words()
                elif fd == self._out:
                    frames = self._read_frames()
                elif fd == self._in:
                    self._write()
                else:
                    with contextlib.suppress(BlockingIOError):
                        os.eventfd_read(self._wake)
                    woken = True
            if frames or woken:
                return frames
            if self._out_ended:
                raise self._death()
            # Bytes that make no frame put the end off a little (the bot may have been held up), not for ever.
            arriving = any(fd == self._out for fd, _ in ready)
            if time.monotonic() > deadline + (ARRIVING_SECONDS if arriving else 0.0):
                self._kill_for("hang")
                raise self._death()

    def ask(
        self, header: Header, *payload: bytes, until: str, seconds: float
    ) -> Iterator[tuple[Header, bytes]]:
        """Send a message and yield the answers, the one of type ``until`` last.

        ``seconds`` is the longest wait for any one answer. Raises WorkerDeath, also for an answer that is not JSON.
        """
        self.wait_ready()
        self.send(encode_header(header), *payload)
        while True:
            for raw, data in self.receive(time.monotonic() + seconds):
                try:
                    answer = decode_header(raw)
                except ProtocolError as error:
                    raise self.lie(str(error)) from None
                yield answer, data
                if answer.get("type") == until:
                    return

    def _read_frames(self) -> list[Frame]:
        try:
            count = os.readv(self._out, [self._space])
        except BlockingIOError:
            return []
        if count == 0:
            self._out_ended = True
            self._poll.unregister(self._out)
            return []
        try:
            return self._frames.feed(memoryview(self._space)[:count])
        except ProtocolError as error:
            raise self.lie(str(error)) from None

    def _read_words(self) -> None:
        try:
            count = os.readv(self._words, [self._space])
        except BlockingIOError:
            return
        if count == 0:
            self._words_ended = True
            self._poll.unregister(self._words)
        self._tail.feed(memoryview(self._space)[:count])

    def mark(self) -> None:
        """Forget the words so far: a death's last words begin here."""
        for _ in range(MARK_READS):
            before = self._tail.total
            if not self._words_ended:
                self._read_words()
            if self._tail.total == before:
                break
        self._mark = self._tail.total

    # -- dying --------------------------------------------------------------------------------------

    def lie(self, what: str) -> WorkerDeath:
        """Kill a worker that breaks the protocol; the death to raise."""
        self._kill_for("crash")
        self._drain_words()
        words = f"{what}\n{self._tail.text(self._mark, 3_000)}".strip()
        return WorkerDeath("crash", "protocol", words)

    def _kill_for(self, status: DeathStatus) -> None:
        if self._killed is None:
            self._killed = status
        self.kill()

    def kill(self, status: DeathStatus | None = None) -> None:
        """Have the guard kill everything below it. ``status`` says what for, when it is for cause."""
        if status is not None and self._killed is None:
            self._killed = status
        stdin = self._guard.stdin
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.close()

    def _death(self) -> WorkerDeath:
        """Wait for the end and say how it came."""
        lingered = False
        try:
            self._guard.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            lingered = self._killed is None
            self._end()
        self._drain_words()
        words = self._tail.text(self._mark)
        if self._killed == "hang":
            return WorkerDeath("hang", "timeout", words)
        if self._killed == "memory":
            return WorkerDeath("memory", "memory", words)
        if lingered:
            return WorkerDeath(
                "crash", "protocol", f"it closed its pipe and went on\n{words}".strip()
            )
        manner = manner_of_death(self._guard.returncode, self._signals_by_status)
        return WorkerDeath("crash", manner, words)

    def _drain_words(self) -> None:
        end = time.monotonic() + 1.0
        while not self._words_ended and time.monotonic() < end:
            poll = select.poll()
            poll.register(self._words, select.POLLIN)
            if not poll.poll(50):
                if self._guard.poll() is not None:
                    break
                continue
            self._read_words()

    def _end(self) -> None:
        """Make sure that nothing is left, guard included."""
        self.kill()
        try:
            self._guard.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            _kill_tree(self._guard.pid)
            self._guard.wait()

    def close(self, polite: bool = False) -> None:
        """End the worker and free everything. ``polite`` lets it exit by itself first."""
        if polite and self.facts is not None and not self.unsent and self._guard.poll() is None:
            self.send(encode_header({"type": "stop"}))
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._guard.wait(1.0)
        self._end()
        if self._scratch is not None:  # the guard does this, unless it was killed
            shutil.rmtree(self._scratch, ignore_errors=True)
        fds = (self._in, self._out, self._words, self._wake)
        self._in = self._out = self._words = (
            self._wake
        ) = -1  # first, so that wake cannot hit a reused number
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    def wake(self) -> None:
        """Make a :meth:`receive` of another thread return at once."""
        with contextlib.suppress(OSError, ValueError):
            os.eventfd_write(self._wake, 1)


def _is_text(header: Header) -> bool:
    """Whether all of it can be written down: JSON's escapes can say half of a character."""
    try:
        json.dumps(header, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def manner_of_death(returncode: int, signals_by_status: bool = False) -> str:
    """``SIGABRT`` or ``exit 3`` for a guard's return code."""
    number = -returncode
    if signals_by_status and returncode > 128:
        number = returncode - 128
    if number > 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(number).name
    return f"exit {returncode}"


def _one_line(message: str, death: WorkerDeath) -> str:
    lines = [line.strip() for line in death.last_words.splitlines() if line.strip()]
    return message + (f"; its last words: {' | '.join(lines[-3:])[-600:]}" if lines else "")


def _kill_tree(pid: int) -> None:
    """Kill a process and all below it, for a guard that does not do its duty."""
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in [*root.children(recursive=True), root]:
            with contextlib.suppress(psutil.Error):
                process.kill()
