"""Causes: thousands of mismatching programs, one finding per cause.

A program's mismatches are first split by their sides: that the candidate differs from all others is not the cause that
makes a peer differ. Within one partition of sides everything follows from its *primary* mismatch, the earliest thing
that went wrong: a death before an exception, an exception before tensors, what is computed forward before gradients.
(A wrong output makes its gradient wrong too; a wrong gradient never makes an output wrong.)

Programs have the same cause when these agree: op group, sides, kind of the primary mismatch, and

- for a death or an exception its signature, the text without numbers, shapes, dtypes, paths (``signature.py``);
- for a tensor its place: forward (output, intermediate and in-place effect are one place, for the op's forms differ in
  nothing else), with the member of a nested result; or the gradient of the op's first tensor, or of another one.

So dtypes, layouts, sizes, options and forms of one cause come together, and the smallest program speaks for all. Where
a target could not run a program, its sides are those of the others: such programs join the one cause that has the same
sides with more targets in them (:func:`joined`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bot.oracle.argument_class import ProgramFacts
from bot.oracle.finding import Kind, Mismatch

Sides = tuple[tuple[str, ...], ...]

_DEATHS = ("crash", "hang", "memory")
_FIRST = {kind: order for order, kind in enumerate((*_DEATHS, "refuses", "accepts"))}
_FORWARD_ROLES = {
    role: order
    for order, role in enumerate(("intermediate", "output", "side-effect", "parameter", "buffer"))
}


@dataclass(frozen=True, order=True)
class CauseKey:
    """What programs of one cause have in common; sorts causes into a stable order."""

    op: str
    kind: Kind
    place: str
    signature: str
    sides: Sides


@dataclass(frozen=True)
class FailingProgram:
    """A program with its mismatches of one partition of sides."""

    op: str
    digest: str
    facts: ProgramFacts
    mismatches: tuple[Mismatch, ...]


@dataclass(frozen=True)
class Cause:
    """A cause and its programs, smallest first; ``shrunk``: the first one was made of them, and not measured."""

    key: CauseKey
    programs: tuple[FailingProgram, ...]
    shrunk: bool = False

    @property
    def measured(self) -> tuple[FailingProgram, ...]:
        """The programs that the run measured."""
        return self.programs[1:] if self.shrunk else self.programs


def canonical_sides(sides: Sides) -> Sides:
    """Sides as a set of sets: sorted within and among themselves."""
    return tuple(sorted(tuple(sorted(side)) for side in sides))


def primary(mismatches: Sequence[Mismatch]) -> Mismatch:
    """The mismatch that the others follow from: the earliest thing that went wrong."""
    return min(mismatches, key=_earliness)


def _earliness(mismatch: Mismatch) -> tuple[int, int, str, tuple[int, ...], str]:
    if not mismatch.role:
        return (0, _FIRST.get(mismatch.kind, len(_FIRST)), mismatch.note, (), mismatch.kind)
    if mismatch.role == "gradient":
        return (2, 0, mismatch.name, mismatch.path, mismatch.kind)
    return (1, _FORWARD_ROLES[mismatch.role], mismatch.name, mismatch.path, mismatch.kind)


def cause_key(op: str, facts: ProgramFacts, mismatches: Sequence[Mismatch]) -> CauseKey:
    """The cause of mismatches of one program that share their sides."""
    first = primary(mismatches)
    sides = canonical_sides(first.sides)
    if not first.role:
        return CauseKey(op, first.kind, "", first.note, sides)
    if first.role == "gradient":
        gradients = [m for m in mismatches if m.role == "gradient"]
        of_first = any(m.name in facts.first_leaves for m in gradients)
        place = "gradient of the first tensor" if of_first else "gradient of another tensor"
    else:
        place = "forward" + "".join(f"[{index}]" for index in first.path)
    return CauseKey(op, first.kind, place, first.note, sides)


def by_sides(mismatches: Iterable[Mismatch]) -> list[tuple[Mismatch, ...]]:
    """Mismatches of one program split by their sides, in a stable order."""
    groups: dict[Sides, list[Mismatch]] = {}
    for mismatch in mismatches:
        groups.setdefault(canonical_sides(mismatch.sides), []).append(mismatch)
    return [tuple(groups[sides]) for sides in sorted(groups)]


def group(programs: Iterable[FailingProgram]) -> list[Cause]:
    """Programs (each with mismatches of one partition) by cause, in an order that doesn't depend on theirs."""
    causes: dict[CauseKey, list[FailingProgram]] = {}
    for program in programs:
        key = cause_key(program.op, program.facts, program.mismatches)
        causes.setdefault(key, []).append(program)
    return [
        Cause(key, tuple(sorted(causes[key], key=lambda program: program.facts.order)))
        for key in sorted(causes)
    ]


def joined(causes: Sequence[Cause], candidate: str = "", baseline: str = "") -> list[Cause]:
    """Causes whose sides are another's with some targets missing go into that other one, behind its own programs.

    Where two others could take it in (with and against a peer, say), it stays on its own. So does one on which the
    candidate has no baseline, before one that it shares with it: that would call it known, which nobody has seen.

    Where a candidate differs from its baseline in values and, on other inputs, in what is NaN or infinite, at the same
    place between the same sides, it is one change that huge or special inputs show so.
    """
    causes = _one_change(causes, candidate, baseline)
    takers: dict[CauseKey, CauseKey] = {}
    for cause in causes:
        wider = [
            other.key
            for other in causes
            if _is_restriction(cause.key, other.key)
            and not _becomes_known(cause.key.sides, other.key.sides, candidate, baseline)
        ]
        widest = [key for key in wider if not any(_is_restriction(key, other) for other in wider)]
        if len(widest) == 1:
            takers[cause.key] = widest[0]
    programs: dict[CauseKey, list[FailingProgram]] = {
        cause.key: list(cause.programs) for cause in causes if cause.key not in takers
    }
    for cause in causes:
        if cause.key in takers:
            programs[takers[cause.key]] += cause.programs
    return [Cause(key, tuple(found)) for key, found in programs.items()]


def _one_change(causes: Sequence[Cause], candidate: str, baseline: str) -> list[Cause]:
    made = {cause.key: cause for cause in causes}
    for cause in causes:
        parted = any(candidate in side and baseline not in side for side in cause.key.sides)
        if cause.key.kind != "nan" or not parted:
            continue
        for kind in ("value", "gradient"):
            taker = made.get(replace(cause.key, kind=kind))
            if taker is not None:
                made[taker.key] = replace(taker, programs=(*taker.programs, *cause.programs))
                del made[cause.key]
                break
    return list(made.values())


def _becomes_known(narrow: Sides, wide: Sides, candidate: str, baseline: str) -> bool:
    """Whether only the wide sides have the baseline, and have it with the candidate."""
    there = {label for side in narrow for label in side}
    shared = any(candidate in side and baseline in side for side in wide)
    return shared and candidate in there and baseline not in there


def _is_restriction(narrow: CauseKey, wide: CauseKey) -> bool:
    """Whether ``narrow`` is ``wide`` with targets missing: each of its sides lies within a side of its own."""
    if narrow == wide or replace(narrow, sides=wide.sides) != wide:
        return False
    homes = [
        [i for i, side in enumerate(wide.sides) if set(members) <= set(side)]
        for members in narrow.sides
    ]
    places = [home[0] for home in homes if home]
    return len(places) == len(narrow.sides) == len(set(places)) and narrow.sides != wide.sides
