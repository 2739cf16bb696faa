"""Setbacks: what has failed already in this run, so that one cause does not take the whole budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

ENOUGH: Final = 3  # failures with one label before it is held back
OFTEN: Final = 0.4  # and at least this share of what ran with it
DEATH: Final = 2  # failures that a crash or hang counts as: each costs a start
LET_THROUGH: Final = (
    8  # of what is held back, one in so many still runs: the neighbourhood of a failure
)


class Setbacks:
    """Failures by label, for one op."""

    def __init__(self) -> None:
        self._ran: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    def record(self, labels: Sequence[str], failed: bool, died: bool) -> None:
        """Count one program that ran."""
        self._ran.update(labels)
        if failed or died:
            for label in labels:
                self._failed[label] += DEATH if died else 1

    def holds_back(self, labels: Sequence[str]) -> bool:
        """Whether a program with these labels should give way to others."""
        for label in labels:
            failed = self._failed[label]
            if failed >= ENOUGH and failed >= OFTEN * self._ran[label]:
                self._held[label] += 1
                if self._held[label] % LET_THROUGH:
                    return True
        return False
