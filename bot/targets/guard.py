"""The guard: a tiny parent that stands between the bot and one worker, so that no process is ever orphaned.

Run by path under the bot's own interpreter (``python -I -S guard.py JSON -- COMMAND...``), standard library only.
Its standard input is the lifeline: the bot holds the other end, so when the bot ends in whatever way (``kill -9``
included) the guard reads the end of it and kills everything below itself. It is the subreaper of whatever the
worker starts, so a process that leaves its session or parent is still found.

JSON: ``{"frames": [fds], "environment": {...}, "limits": {"CORE": 0, ...}, "scratch": folder to delete at the end or
null}``. The worker's variables come this way and not as the guard's own, because the guard runs outside any sandbox
and the worker's LD_LIBRARY_PATH may point at libraries of untrusted origin.
Exits as the worker did: with its status, or by its signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 20.0


def main(argv: list[str]) -> int:
    """Start the command, wait for its end or for the bot's, leave nothing behind."""
    plan: dict[str, Any] = json.loads(argv[1])
    command = argv[3:]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, _ignore)
    signal.signal(signal.SIGTERM, _ignore)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    child = os.fork()
    if child == 0:
        _become(libc, command, plan)
    for fd in [1, 2, *plan["frames"]]:
        os.close(fd)  # the worker alone holds them, so that its end is the end of the pipes
    status = _wait(child, wake_read)
    _kill_below(child if status is None else None)
    if plan["scratch"]:
        import shutil

        shutil.rmtree(plan["scratch"], ignore_errors=True)
    return _exit_like(status)


def _ignore(number: int, frame: Any) -> None:
    """A handler that does nothing: the signal's number still arrives at the wake-up fd."""


def _become(libc: Any, command: list[str], plan: dict[str, Any]) -> None:
    """In the child: set the limits and turn into the command."""
    guard = os.getppid()
    try:
        os.setpgid(0, 0)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != guard:
            os._exit(126)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123
            score.write(
                "1000"
            )  # when the machine runs out, the kernel takes the worker and not the bot
        for name, value in plan["limits"].items():
            kind = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(kind)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))
        os.execve(command[0], command, plan["environment"])
    except BaseException as error:
        os.write(2, f"cannot start {command[0]}: {error}\n".encode())
    os._exit(127)


def _wait(child: int, wake: int) -> int | None:
    """The child's wait status, or None when the lifeline ended first."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == 0 and not os.read(0, 64):
                return None
            if fd == wake and signal.SIGTERM in os.read(wake, 4096):  # one byte for each signal
                return None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == child:
                return status
            if pid == 0:
                break


def _children() -> list[int]:
    pid = os.getpid()
    try:
        with open(f"/proc/self/task/{pid}/children") as listing:  # noqa: PTH123
            return [int(word) for word in listing.read().split()]
    except OSError:
        return []


def _kill_below(child: int | None) -> None:
    """Kill every descendant; those of the killed become our own children, until there are none."""
    deadline = time.monotonic() + KILL_SECONDS
    if child is not None:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
    while time.monotonic() < deadline:
        for pid in _children():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.002)


def _exit_like(status: int | None) -> int:
    if status is None:
        return 137
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
