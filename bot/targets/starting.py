"""Starting a program for what it prints: bounded in time, output and, where asked, memory; nothing of it is left."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bot.targets.frame_buffer import Tail
from bot.targets.launch import GUARD
from bot.targets.watchdog import MemoryWatchdog

OUTPUT_BYTES = 256 << 10  # kept of each stream: its end
READ_BYTES = 64 << 10
KILL_SECONDS = 25.0  # a little more than the guard gives itself


@dataclass(frozen=True)
class Ran:
    """How a program ended. ``status`` is negative for a signal, as subprocess has it; None when it did not start."""

    status: int | None
    output: str = ""
    errors: str = ""
    timed_out: bool = False


Start = Callable[[Sequence[str], Mapping[str, str], float], Ran]
"""Starts a program with an environment for at most so many seconds."""


def start(command: Sequence[str], environ: Mapping[str, str], seconds: float) -> Ran:
    """Start a program without input and wait for it; of what it prints, the end is kept."""
    return start_bounded(command, environ, seconds)


def start_bounded(
    command: Sequence[str],
    environ: Mapping[str, str],
    seconds: float,
    *,
    limits: Mapping[str, int] | None = None,
    memory_bytes: int | None = None,
    pass_fds: Sequence[int] = (),
) -> Ran:
    """Start a program under a guard, which ends all that it leaves behind, and the program itself with the bot.

    ``limits`` are resource limits by name (``{"CORE": 0}``); ``memory_bytes`` bounds what it and its children hold.
    """
    plan = {
        "frames": list(pass_fds),
        "environment": dict(environ),
        "limits": dict(limits or {"CORE": 0}),
        "scratch": None,
    }
    guarded = [sys.executable, "-I", "-S", str(GUARD), json.dumps(plan), "--", *command]
    with subprocess.Popen(
        guarded,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={},
        cwd="/",
        pass_fds=tuple(pass_fds),
        start_new_session=True,
    ) as guard:
        watchdog = MemoryWatchdog(memory_bytes or sys.maxsize)
        if memory_bytes is not None:
            watchdog.watch(guard.pid, lambda: _let_go(guard))
        try:
            deadline = time.monotonic() + seconds
            output, errors = _read(guard, deadline)
            timed_out = not _ends(guard, deadline)
        except BaseException:
            guard.kill()  # what it started dies with it
            raise
        finally:
            watchdog.stop()
    return _ran(command[0], guard.returncode, output, errors, timed_out)


def _ends(guard: subprocess.Popen[bytes], deadline: float) -> bool:
    """Wait for the program's end; whether it came before the deadline. Nothing of it runs afterwards."""
    try:
        guard.wait(max(0.0, deadline - time.monotonic()))
        return True
    except subprocess.TimeoutExpired:
        _let_go(guard)
        guard.wait(KILL_SECONDS)
        return False


def _let_go(guard: subprocess.Popen[bytes]) -> None:
    """Close the guard's lifeline: it kills what is still there."""
    assert guard.stdin is not None
    guard.stdin.close()


def _read(guard: subprocess.Popen[bytes], deadline: float) -> tuple[str, str]:
    """The end of both streams, as far as they have come when the deadline comes."""
    assert guard.stdout is not None
    assert guard.stderr is not None
    tails = {stream.fileno(): Tail(OUTPUT_BYTES) for stream in (guard.stdout, guard.stderr)}
    open_fds = set(tails)
    poll = select.poll()
    for fd in tails:
        poll.register(fd, select.POLLIN)
    while open_fds and (left := deadline - time.monotonic()) > 0:
        for fd, _ in poll.poll(left * 1000 + 1):
            data = os.read(fd, READ_BYTES)
            tails[fd].feed(data)
            if not data:
                poll.unregister(fd)
                open_fds.discard(fd)
    output, errors = (tail.text(0, OUTPUT_BYTES) for tail in tails.values())
    return output, errors


def _ran(program: str, status: int, output: str, errors: str, timed_out: bool) -> Ran:
    if timed_out:
        return Ran(None, timed_out=True)
    start = f"cannot start {program}: "
    if status == 127 and errors.startswith(start):
        reason = errors.removeprefix(start)[:1000]
        refused = re.fullmatch(r"(?:\[Errno \d+\] )?(.*?)(?:: '.*')?", reason)
        return Ran(None, errors=refused[1] if refused else reason)
    return Ran(status, output, errors)
