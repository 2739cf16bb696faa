"""Does a smaller program still show the cause? The rule by which a step of shrinking is kept.

The same kind of mismatch between the same sides at the same place (``cause.py``), and as clear as it was: what a wrong
result has become a rounding difference, or a NaN on both sides, is another fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.oracle.argument_class import facts_of
from bot.oracle.cause import Cause, FailingProgram, by_sides, cause_key, primary
from bot.oracle.compare import Comparator, Comparison
from bot.oracle.finding import Mismatch
from bot.oracle.observe import is_confirmed
from bot.programs.program import digest
from bot.programs.source import SourcedProgram
from bot.targets.outcome import Death, RawOutcome

CLEAR: Final = 1e-2  # a relative difference that nobody takes for rounding
SHARE: Final = 0.25  # of the relative difference that there was, where that was less


@dataclass(frozen=True)
class Shown:
    """A program that shows a cause, and how the targets compare on it."""

    blob: bytes
    failing: FailingProgram
    comparison: Comparison
    deaths: tuple[Death | None, ...]  # in the order of the targets


def shown(
    cause: Cause, blob: bytes, outcomes: Sequence[RawOutcome], comparator: Comparator
) -> Shown | None:
    """The program as one of this cause; None where it no longer shows it. Raises ProgramError."""
    op, first = cause.key.op, cause.programs[0]
    program = SourcedProgram(blob, digest(blob), op)
    comparison = comparator.compare(program, outcomes)
    if not comparison.mismatches:
        return None
    facts = facts_of(blob, program.digest)
    for mismatches in by_sides(comparison.mismatches):
        now = primary(mismatches)
        certain = is_confirmed(now) and is_as_clear(now, primary(first.mismatches))
        if certain and cause_key(op, facts, mismatches) == cause.key:
            failing = FailingProgram(op, program.digest, facts, mismatches)
            return Shown(blob, failing, comparison, tuple(raw.death for raw in outcomes))
    return None


def is_as_clear(now: Mismatch, then: Mismatch) -> bool:
    """Whether a mismatch of values is as clear as it was; of other kinds there is nothing to measure."""
    if then.kind == "nan" or then.difference is None or then.difference.largest_relative is None:
        return True
    if now.difference is None or now.difference.largest_relative is None:
        return False
    wanted = min(CLEAR, SHARE * then.difference.largest_relative)
    return now.difference.largest_relative >= wanted
