"""Pools of the stand-in worker, and programs for it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil

from bot.targets.environment import Environment
from bot.targets.job import Job, JobResult, Limits, PoolTarget
from bot.targets.pool import Pool
from bot.targets.target import Target

WORKER = Path(__file__).with_name("standin_worker")
ANSWER: dict[str, Any] = {"do": "answer"}
LIMITS = Limits(program_seconds=1.5, start_seconds=20.0, memory_bytes=256 << 20)


def standin_target(
    options: dict[str, str] | None = None, untrusted: bool = False, **environment: Any
) -> PoolTarget:
    """A target of the stand-in; ``start=die`` and the like tell it how to start."""
    python = environment.pop("python", Path(sys.executable))
    made = Environment("standin==1", "standin", python, "interpreter", "digest", **environment)
    target = Target("standin==1", "cpu", tuple((options or {}).items()))
    return PoolTarget(target, made, untrusted)


def standin_pool(*targets: PoolTarget, limits: Limits = LIMITS, **options: Any) -> Pool:
    return Pool(targets or (standin_target(),), limits, worker_directory=WORKER, **options)


def jobs(programs: Iterable[dict[str, Any]]) -> list[Job]:
    """One job per program; a program's ``group`` is the job's."""
    return [
        Job(index, json.dumps(program).encode(), program.get("group", ""))
        for index, program in enumerate(programs)
    ]


def run_all(pool: Pool, programs: Iterable[dict[str, Any]], **options: Any) -> list[JobResult]:
    """The results in the order of the jobs, each exactly once."""
    work = jobs(programs)
    results = sorted(pool.run(work, **options), key=lambda result: result.job.id)
    assert [result.job for result in results] == work
    return results


def value(result: JobResult, target: int = 0) -> Any:
    """The value that an ``answer`` or ``attempt`` program returned."""
    return result.outcomes[target].decode().values[0][3]


def manners(results: Iterable[JobResult], target: int = 0) -> list[str]:
    """``ok``, or status, signal and whether it was confirmed."""
    return [manner(result, target) for result in results]


def manner(result: JobResult, target: int = 0) -> str:
    outcome = result.outcomes[target]
    if outcome.death is None:
        return outcome.decode().status
    confirmed = "confirmed" if outcome.death.confirmed else "unconfirmed"
    return f"{outcome.status_of_death} {outcome.death.signal} {confirmed}"


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def gone(pids: Iterable[int]) -> bool:
    """Whether none of the processes runs any more (a zombie waits for its parent only)."""
    return not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
