"""How a worker is started: its command, the few variables it may see, its limits, and what isolates it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bot.targets.environment import Environment
from bot.targets.job import Limits, PoolTarget
from bot.targets.target import TargetError

GUARD = Path(__file__).with_name("guard.py")

INHERITED = ("PATH", "TZ")
"""What a worker inherits as it is. Everything else is fixed here: no token, no GITHUB_*, INPUT_* or ACTIONS_*."""

INHERITED_WITH_GPU = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
)

FIXED = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONSAFEPATH": "1",  # Python 3.11 on; a worker's working directory is empty anyway
    "PYTHONUNBUFFERED": "1",  # last words must not die in a buffer
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # cuBLAS is deterministic only with a fixed workspace
    "NVIDIA_TF32_OVERRIDE": "0",
}

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip

ISA_VARIABLES: dict[str, dict[str, str]] = {
    "default": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
}
"""The option ``isa`` -> what keeps PyTorch's own kernels (ATen/native/DispatchStub.cpp) and oneDNN's (its guide's "CPU
dispatcher control") to that instruction set. Both are read once, when a process starts, so that no worker can set them.
"""

RESOURCE_LIMITS: dict[str, int] = {
    "CORE": 0,  # a core file of a framework's process is gigabytes
    "FSIZE": 1 << 30,
    "NOFILE": 4096,
}

SANDBOXED_PROCESSES = 4096
"""RLIMIT_NPROC of sandboxed workers. It counts all processes of their uid, so others, who share the bot's, have none."""


@dataclass(frozen=True)
class Launch:
    """All that is needed to start one worker. ``frames`` are the fds it reads and writes frames on."""

    command: list[str]
    environment: dict[str, str]
    limits: dict[str, int]
    scratch: Path | None  # a private folder to delete at the end
    pass_fds: tuple[int, ...] = ()  # to be closed once it is started
    signals_by_status: bool = (
        False  # a sandbox's own process reports a signal as exit 128 + its number
    )

    def guarded(self, frames: Sequence[int]) -> list[str]:
        """The command line of the guard that starts it."""
        plan = {
            "frames": [*frames, *self.pass_fds],
            "environment": self.environment,
            "limits": self.limits,
            "scratch": None if self.scratch is None else str(self.scratch),
        }
        return [sys.executable, "-I", "-S", str(GUARD), json.dumps(plan), "--", *self.command]


@dataclass(frozen=True)
class Wrapped:
    """A command inside an isolation: what to execute outside, with which variables and inherited fds."""

    command: list[str]
    environment: dict[str, str]
    pass_fds: tuple[int, ...] = ()


Wrap = Callable[[list[str], dict[str, str], PoolTarget], Wrapped]
"""Isolates a worker's command with its variables."""


@dataclass(frozen=True)
class Launcher:
    """Makes the launches of one target's workers.

    ``host_environment`` is the bot's own environment, of which only :data:`INHERITED` is passed on.
    ``address_space_bytes`` bounds RLIMIT_AS; None for frameworks that reserve far more than they use.
    """

    target: PoolTarget
    limits: Limits
    worker_directory: Path
    host_environment: Mapping[str, str]
    wrap: Wrap | None = None
    address_space_bytes: int | None = None
    resource_limits: Mapping[str, int] = field(default_factory=lambda: dict(RESOURCE_LIMITS))

    def launch(self, read_fd: int, write_fd: int) -> Launch:
        """The launch of one worker that reads frames from one fd and writes them to the other."""
        command = [
            str(self.target.environment.python), "-s", str(self.worker_directory),
            "--in", str(read_fd), "--out", str(write_fd),
        ]  # fmt: skip
        variables = worker_variables(
            self.target.environment,
            self.target.target.device,
            self.limits.threads,
            self.host_environment,
            self.target.target.option("isa"),
        )
        bounds = dict(self.resource_limits)
        if self.address_space_bytes is not None:
            bounds["AS"] = self.address_space_bytes
        if self.wrap is not None:
            bounds["NPROC"] = SANDBOXED_PROCESSES
            wrapped = self.wrap(command, variables, self.target)
            return Launch(
                wrapped.command, wrapped.environment, bounds, None, wrapped.pass_fds, True
            )
        scratch = Path(tempfile.mkdtemp(prefix="opdiff-worker-"))
        variables |= {"HOME": str(scratch), "TMPDIR": str(scratch)}
        return Launch(command, variables, bounds, scratch)


def worker_variables(
    environment: Environment, device: str, threads: int, host: Mapping[str, str], isa: str = ""
) -> dict[str, str]:
    """The environment variables of a worker, but for HOME and TMPDIR. An unknown ``isa`` is the worker's to refuse.

    Raises TargetError for a folder whose name such a variable cannot hold.
    """
    names = INHERITED + (INHERITED_WITH_GPU if device.startswith("cuda") else ())
    variables = {name: host[name] for name in names if name in host}
    variables |= FIXED | dict.fromkeys(THREAD_VARIABLES, str(threads)) | ISA_VARIABLES.get(isa, {})
    if not device.startswith("cuda"):
        variables["CUDA_VISIBLE_DEVICES"] = ""
    if environment.import_paths:
        variables["PYTHONPATH"] = _path_list(environment.import_paths)
    if environment.library_paths:
        variables["LD_LIBRARY_PATH"] = _path_list(environment.library_paths)
    return variables


def _path_list(folders: Sequence[Path]) -> str:
    """Folders as one variable. A separator in a name would hide the overlay, and the release pass for the candidate."""
    for folder in folders:
        if os.pathsep in str(folder):
            raise TargetError(
                f"{folder} holds a {os.pathsep!r}, which no path list can: set XDG_CACHE_HOME to a folder without one"
            )
    return os.pathsep.join(map(str, folders))
