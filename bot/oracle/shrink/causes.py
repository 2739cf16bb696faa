"""Put the small programs in front of their causes, so that they are what is confirmed, weighed and reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bot.oracle.cause import Cause, primary
from bot.oracle.compare import Comparator
from bot.oracle.refine import Refined, ToFloat64, refine
from bot.oracle.rerun import Case, Runner
from bot.oracle.shrink.holds import Shown


def with_small_programs(
    causes: Sequence[Cause],
    small: Mapping[int, Shown],
    comparator: Comparator,
    runner: Runner,
    to_float64: ToFloat64,
) -> tuple[list[Cause], list[Refined]]:
    """The causes with their small programs first, and what the float64 witness says of those.

    One whose difference it finds to be rounding is given up: its cause is represented by what was measured.
    """
    cases = [_case(causes[place], shown, comparator) for place, shown in small.items()]
    refined = refine(cases, comparator, runner, to_float64)
    made = list(causes)
    for (place, shown), item in zip(small.items(), refined, strict=True):
        standing = tuple(m for m in shown.failing.mismatches if m in item.standing)
        if primary(shown.failing.mismatches) in standing:
            failing = replace(shown.failing, mismatches=standing)
            cause = causes[place]
            made[place] = replace(cause, programs=(failing, *cause.programs), shrunk=True)
    return made, refined


def _case(cause: Cause, shown: Shown, comparator: Comparator) -> Case:
    involved = {label for side in cause.key.sides for label in side}
    places = (n for n, party in enumerate(comparator.parties) if party.label in involved)
    return Case(
        shown.failing.digest,
        cause.key.op,
        shown.comparison.mismatches,
        lambda: shown.blob,
        frozenset(places),
    )
