"""Targets beside the run's own that settling may ask. They start when asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from bot.oracle.rerun import Rerun
from bot.oracle.tensors import Party


@dataclass(frozen=True)
class WitnessTarget:
    """One more target: who it is, and what runs jobs on it alone."""

    party: Party
    rerun: Rerun


class WitnessTargets(Protocol):
    """What may be asked. Nothing here is started before a job is run on it."""

    def reference(self) -> WitnessTarget | None:
        """NumPy, where its environment is there; None where nothing can be had without making it."""
        ...

    def paths(self, label: str) -> Iterator[WitnessTarget]:
        """The other paths of one of the run's targets, by its label. Each ends when the next is asked for."""
        ...


class NoWitnessTargets:
    """A run whose settling has nothing but its own targets."""

    def reference(self) -> WitnessTarget | None:
        """None."""
        return None

    def paths(self, label: str) -> Iterator[WitnessTarget]:
        """None."""
        return iter(())
