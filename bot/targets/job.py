"""Jobs: programs on their way to workers, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass

from bot.targets.environment import Environment
from bot.targets.outcome import RawOutcome
from bot.targets.target import Target


@dataclass(frozen=True)
class Job:
    """One program to run. ``id`` is unique within a run; ``group`` (the op) guides the order after deaths.

    ``only`` are the targets to run it on, by their places in the pool; the others answer :func:`left_out` at once.
    """

    id: int
    blob: bytes
    group: str = ""
    only: frozenset[int] | None = None


@dataclass(frozen=True)
class JobResult:
    """What every target of a pool made of one job, in the pool's order of targets."""

    job: Job
    outcomes: tuple[RawOutcome, ...]


@dataclass(frozen=True)
class Limits:
    """Bounds on one worker: seconds per program, seconds to start, bytes of memory, CPU threads.

    ``compile_seconds`` is what a compiler may take for one program, on top of ``program_seconds``: a program whose
    compilation takes longer is unsupported, and no hang.
    """

    program_seconds: float = 20.0
    compile_seconds: float = 120.0
    start_seconds: float = 180.0
    memory_bytes: int = 6 << 30
    threads: int = 1


@dataclass(frozen=True)
class PoolTarget:
    """A target with the environment it resolved to. ``untrusted`` ones (the pull request's code) are sandboxed."""

    target: Target
    environment: Environment
    untrusted: bool = False

    @property
    def label(self) -> str:
        """The target's spec, as reports name it."""
        return str(self.target)
