"""The sandbox of an untrusted target's workers (the pull request's code)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bot.targets.launch import Wrap


@dataclass(frozen=True)
class Sandbox:
    """How untrusted workers are isolated here; ``unisolated`` says why they are not."""

    name: str
    unisolated: str | None = None

    @classmethod
    def probe(cls) -> Self:
        """Find out what works on this host."""
        return cls("process", "no sandbox has been set up")

    def wrapper(self, worker_directory: Path) -> Wrap:
        """What isolates a worker's command."""
        raise NotImplementedError
