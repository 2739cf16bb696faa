"""What an untrusted worker may see of the file system: as little as its framework needs to start, read-only.

Nothing is shown because it is there, only because it is named here: the system's libraries, the environment's folders
and the worker's code. So neither the home folders, nor the report, the repository with its ``.git``, the caches nor
other workers need hiding, unless one of them lies inside something shown: those are covered by ``hidden``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.targets.job import PoolTarget
from bot.targets.target import TargetError

SYSTEM = ("/usr",)
SYSTEM_LINKS = (
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
)  # links into /usr on most systems
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/alternatives",  # libblas and the like are links through here
    "/etc/localtime",
    "/etc/hosts",  # OneFlow binds "localhost" when it starts
    "/etc/nsswitch.conf",
    "/etc/passwd",  # getpass.getuser(); holds no secrets on a system with shadow passwords
    "/etc/group",
    "/sys/devices/system/cpu",  # core counts and caches, read by oneDNN, cpuinfo and OpenMP
    "/sys/devices/system/node",
)
GPU_FILES = ("/sys", "/etc/OpenCL", "/etc/vulkan")
GPU_DEVICES = ("nvidia", "dri")  # names under /dev begin so
PROC_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "pressure", "mtrr")
PROC_MASKED = ("kcore", "keys", "key-users", "timer_list", "sched_debug", "latency_stats")
"""Under /proc. A worker whose uid is root's outside passes root's file permissions there even without capabilities; these
are what container runtimes protect (OCI runtime specification, readonlyPaths and maskedPaths of its defaults)."""
SCRATCH = "/tmp"
SCRATCH_BYTES = 256 << 20
SHARED_MEMORY_BYTES = 256 << 20


@dataclass(frozen=True)
class View:
    """Paths shown read-only at their own place, links, device nodes, and folders covered by an empty one."""

    shown: tuple[Path, ...]
    links: tuple[tuple[str, Path], ...]
    devices: tuple[Path, ...]
    hidden: tuple[Path, ...]


def make_view(target: PoolTarget, worker_directory: Path, hidden: Sequence[Path]) -> View:
    """What the target's workers see. Raises TargetError for an environment that would show a home folder or all."""
    shown = [Path(path) for path in SYSTEM]
    links: list[tuple[str, Path]] = []
    for name in SYSTEM_LINKS:
        path = Path(name)
        if path.is_symlink():
            links.append((str(path.readlink()), path))
        elif path.is_dir():
            shown.append(path)
    shown += [Path(name) for name in SYSTEM_FILES if Path(name).exists()]
    devices: tuple[Path, ...] = ()
    if target.target.device.startswith("cuda"):
        shown += [Path(name) for name in GPU_FILES if Path(name).exists()]
        devices = tuple(
            path for path in Path("/dev").iterdir() if path.name.startswith(GPU_DEVICES)
        )
    environment = target.environment
    wanted = [
        *environment.readable,
        *environment.import_paths,
        *environment.library_paths,
        worker_directory,
    ]
    for path in wanted:
        _refuse_wide(path, target)
        if not any(path.is_relative_to(other) for other in shown):
            shown.append(path)
    reached = [*shown, *(path for _, path in links)]
    if not any(environment.python.is_relative_to(path) for path in reached):
        shown.append(environment.python)
    covered = [
        path for path in hidden if path.exists() and any(path.is_relative_to(s) for s in shown)
    ]
    # A framework that is built in its checkout is shown with it; credentials may lie in the repository's settings.
    repositories = (path / ".git" for path in shown)
    covered += [path for path in repositories if path.is_dir() and not path.is_symlink()]
    return View(tuple(shown), tuple(links), devices, tuple(covered))


def _refuse_wide(path: Path, target: PoolTarget) -> None:
    home = Path.home()
    if path == Path("/") or home.is_relative_to(path) or not path.is_absolute():
        raise TargetError(
            f"target {target.label}: its environment needs {path}, which is too much to show to the pull request's "
            "code; put the interpreter into a folder of its own"
        )


def readable_by_all(view: View) -> Path | None:
    """The first shown path that another user could not read, once it is mounted where anyone can reach it."""
    for path in view.shown:
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116
        except OSError:
            return path
        needed = 0o005 if path.is_dir() else 0o004
        if mode & needed != needed:
            return path
    return None
