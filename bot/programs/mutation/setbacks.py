"""Setbacks: what has failed already in this run, so that one cause does not take the whole budget.

A program has traits: what was done to it, what it exercises, what it was made of. A trait that nearly always fails is a
cause, or sits beside one; programs that have it give way to others. (Statistical debugging: Liblit et al., PLDI 2005.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

ENOUGH: Final = 4  # failures with one trait before it is held back
OFTEN: Final = 0.5  # and at least this share of what ran with it
ABOVE: Final = 1.2  # and so many times the share of all that ran
MOST: Final = 0.8  # where this share of all fails, the op fails as a whole: all of it is held back
DEATH: Final = 2  # failures that a crash or hang counts as: each costs a start
LET_THROUGH: Final = (
    8  # of what is held back, one in so many still runs: the neighbourhood of a failure
)


class Setbacks:
    """Failures by trait, for one op."""

    def __init__(self) -> None:
        self._ran: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._all_ran = 0
        self._all_failed = 0

    def record(self, traits: Sequence[str], failed: bool, died: bool) -> None:
        """Count one program that ran."""
        self._all_ran += 1
        self._ran.update(traits)
        if failed or died:
            self._all_failed += 1
            for trait in traits:
                self._failed[trait] += DEATH if died else 1

    def holds_back(self, traits: Sequence[str]) -> bool:
        """Whether a program with these traits should give way to others."""
        share = self._all_failed / max(self._all_ran, 1)
        bound = OFTEN if share > MOST else max(OFTEN, ABOVE * share)
        for trait in traits:
            failed = self._failed[trait]
            if failed >= ENOUGH and failed >= bound * self._ran[trait]:
                self._held[trait] += 1
                return self._held[trait] % LET_THROUGH != 0
        return False
