"""What a lane tells its pool, and what its workers cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from bot.targets.outcome import RawOutcome


@dataclass
class WorkerCounts:
    """What a target's workers cost: starts (spares included), seconds waited for them, and deaths by manner."""

    starts: int = 0
    start_seconds: float = 0.0
    busy_seconds: float = 0.0  # with programs on their way, starts included
    answered: int = 0  # programs
    crashes: int = 0
    hangs: int = 0
    memory: int = 0
    protocol: int = 0  # killed for breaking the protocol
    unconfirmed: int = 0  # deaths that did not happen again alone in a fresh worker
    alike: int = 0  # deaths confirmed by their likeness, without a second run
    idle: int = 0  # deaths with no program to blame
    retired: int = 0  # replaced because they asked for it
    deferred: int = 0  # programs put off to the end
    lies: list[str] = field(default_factory=list[str])  # breaches that no program can be blamed for


@dataclass(frozen=True)
class Answers:
    """Outcomes of one lane, by job id."""

    lane: int
    outcomes: list[tuple[int, RawOutcome]]


@dataclass(frozen=True)
class PutOff:
    """Jobs that a lane runs at the end: they no longer count as on their way."""

    lane: int
    jobs: tuple[int, ...]


@dataclass(frozen=True)
class Full:
    """A lane reads no more until some of what it has read is taken."""

    lane: int


@dataclass(frozen=True)
class LaneEnd:
    """A lane has nothing left to do, or cannot go on."""

    lane: int
    error: BaseException | None = None


Event = Answers | PutOff | Full | LaneEnd


class Stopped(Exception):  # noqa: N818
    """The lane was told to stop."""
