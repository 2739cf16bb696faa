"""What the report needs of one finding beside the finding itself: its program and what each target made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bot.oracle.finding import Finding
from bot.oracle.tolerance import Bound
from bot.targets.outcome import Outcome

Key = tuple[str, str, tuple[int, ...]]
"""Role, name and path of an observed tensor."""


@dataclass(frozen=True)
class TargetOutcome:
    """What one target made of the program. ``label`` is the target as the finding's sides name it."""

    label: str
    framework: str
    outcome: Outcome
    device: str = "cpu"
    role: Literal["candidate", "baseline", "peer"] = "peer"


@dataclass(frozen=True)
class FindingBundle:
    """A finding, its representative program's blob, and the targets' outcomes of it, in the run's order.

    An empty ``blob`` says that the program is not at hand: the finding is reported without a folder.
    ``witness`` is an outcome that is right where no target's is (a float64 run), with its name. ``bounds`` are the
    tolerances that the comparison used; where one is missing the dtype's own holds.
    """

    finding: Finding
    blob: bytes
    outcomes: tuple[TargetOutcome, ...] = ()
    witness: tuple[str, Outcome] | None = None
    bounds: Mapping[Key, Bound] = field(default_factory=dict[Key, Bound])
    threads: int = 1
    hang_seconds: float = 20.0
    memory_bytes: int = 6 << 30
