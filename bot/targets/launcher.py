"""From a target to its workers: launcher and ``hello`` for the pool, or one worker to talk to."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bot.targets.job import Limits, PoolTarget
from bot.targets.launch import Launcher
from bot.targets.op_mapping import load_op_mapping
from bot.targets.sandbox import Sandbox, probe_sandbox
from bot.targets.watchdog import MemoryWatchdog
from bot.targets.worker_process import WorkerProcess

WORKER_DIRECTORY = Path(__file__).resolve().parent.parent / "worker"


def make_launcher(
    target: PoolTarget,
    limits: Limits,
    *,
    worker_directory: Path,
    host_environment: Mapping[str, str] | None,
    sandbox: Sandbox | None,
    address_space_bytes: int | None = None,
) -> Launcher:
    """What starts the target's workers: inside the sandbox when it is untrusted and there is one."""
    wrap = None
    if target.untrusted and sandbox is not None and sandbox.unisolated is None:
        wrap = sandbox.wrapper(worker_directory)
    host = os.environ if host_environment is None else host_environment
    return Launcher(target, limits, worker_directory, host, wrap, address_space_bytes)


def make_hello(
    target: PoolTarget, limits: Limits, options: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The fields of the target's ``hello``; ``options`` are merged in by framework."""
    framework = target.environment.framework
    return {
        "framework": framework,
        "device": target.target.device,
        # Which framework is meant was for the bot to know; workers refuse options that are not their own.
        "options": {key: value for key, value in target.target.options if key != "framework"},
        "threads": limits.threads,
        "compile_seconds": limits.compile_seconds,
        "mapping": load_op_mapping(framework).message(),
        **options.get(framework, {}),
    }


@contextmanager
def open_worker(
    target: PoolTarget,
    limits: Limits | None = None,
    *,
    worker_directory: Path = WORKER_DIRECTORY,
    hello_options: Mapping[str, Mapping[str, Any]] | None = None,
    host_environment: Mapping[str, str] | None = None,
    sandbox: Sandbox | None = None,
    hidden: Sequence[Path] = (),
) -> Generator[WorkerProcess]:
    """One worker, ready, for :meth:`WorkerProcess.ask` (``list``, ``trace``, ``names``); gone at the end.

    Isolated and bounded as in a pool. Raises TargetError when it does not start.
    """
    limits = limits or Limits()
    if sandbox is None and target.untrusted:
        sandbox = probe_sandbox(hidden)
    launcher = make_launcher(
        target,
        limits,
        worker_directory=worker_directory,
        host_environment=host_environment,
        sandbox=sandbox,
    )
    watchdog = MemoryWatchdog(limits.memory_bytes)
    worker = WorkerProcess(launcher, make_hello(target, limits, hello_options or {}))
    try:
        watchdog.watch(worker.guard_pid, lambda: worker.kill("memory"))
        worker.wait_ready()
        yield worker
    finally:
        watchdog.stop()
        worker.close()
