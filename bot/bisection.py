"""Bisection over versions: which one to ask next, and between which two the fault came or went. Pure.

Some versions cannot answer: those are gone around. That the fault came or went once in a range is assumed, as any
bisection does; what was asked and answered is kept, so that a reader can see more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from packaging.version import Version

Answer = Literal["has", "has not", "unclear", "cannot run"]
"""``unclear``: the program ran, and differs from both sides; ``cannot run``: no environment, or no such op there."""
DECIDED: tuple[Answer, ...] = ("has", "has not")
Answers = Mapping[Version, Answer]


@dataclass(frozen=True)
class Change:
    """The last version before the change and the first after it; what lies between could not answer."""

    before: Version
    after: Version
    came: bool  # the fault came with ``after``; False: it went
    between: tuple[Version, ...] = ()


def next_version(versions: Sequence[Version], answers: Answers) -> Version | None:
    """The version to ask next, of ``versions`` oldest first; None when there is nothing more to learn."""
    for end in (versions, versions[::-1]):
        reached = next((v for v in end if answers.get(v) in (None, *DECIDED)), None)
        if reached is None or reached not in answers:
            return reached
    change = change_in(versions, answers)
    if change is None:
        return None
    open_ = [v for v in change.between if v not in answers]
    if not open_:
        return None
    middle = (len(change.between) - 1) / 2
    return min(open_, key=lambda v: (abs(change.between.index(v) - middle), v))


def change_in(versions: Sequence[Version], answers: Answers) -> Change | None:
    """The first change among the answers, or None when all that decide say the same."""
    decided = [v for v in versions if answers.get(v) in DECIDED]
    for before, after in pairwise(decided):
        if answers[before] != answers[after]:
            between = tuple(v for v in versions if before < v < after)
            return Change(before, after, answers[after] == "has", between)
    return None
