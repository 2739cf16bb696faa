"""Every pattern that is applied to what a pull request writes takes time in proportion to the text."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from regex_pumps import Unit, patterns_of, pumps

import bot.changes

PATTERNS = patterns_of(bot.changes)
QUICK_SIZE = 4_000
QUICK_SECONDS = 0.0015
"""What takes less for a text of that size is not measured any further: a quadratic search takes more."""

SIZES = (60, 500, 3_000, 12_000)
LONGEST_SECONDS = 0.5
NOISE_SECONDS = 0.02
"""What takes less is too short to be measured."""

ALLOWED = 2.5


class _TooLongError(Exception):
    pass


@contextmanager
def _limited() -> Generator[None]:
    def stop(*_: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    """The least time of three searches, each ended after a while."""
    best = LONGEST_SECONDS
    for _ in range(3):
        start = time.process_time()
        try:
            with _limited():
                pattern.findall(text)
        except _TooLongError:
            return best
        best = min(best, time.process_time() - start)
        if best < QUICK_SECONDS:
            break
    return best


def _text(unit: Unit, size: int) -> str:
    prefix, body = unit
    return prefix + body * (size // len(body) + 1) + "\0"


def growth(pattern: re.Pattern[str], unit: Unit) -> float:
    """By how much more than the text the time grows, at the worst step that can be measured; 1 is proportional."""
    worst = 1.0
    before = 0.0
    for place, size in enumerate(SIZES):
        now = _seconds(pattern, _text(unit, size))
        if now > NOISE_SECONDS:
            worst = max(worst, now / max(before, 1e-5) * SIZES[place - 1] / size)
        if worst > ALLOWED:
            break
        before = now
    return worst


def slow_unit(pattern: re.Pattern[str]) -> Unit | None:
    """What the pattern takes more time for than in proportion."""
    suspected = [
        unit
        for unit in pumps(pattern)
        if _seconds(pattern, _text(unit, QUICK_SIZE)) > QUICK_SECONDS
    ]
    # A second look: another process may have had the machine in the first one.
    slow = (unit for unit in suspected if growth(pattern, unit) > ALLOWED < growth(pattern, unit))
    return next(slow, None)


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_a_pattern_takes_time_in_proportion_to_the_text(name: str) -> None:
    pattern = PATTERNS[name]
    assert slow_unit(pattern) is None, pattern.pattern


@pytest.mark.parametrize(
    "bad", [r"\s*x", r"(a+)+$", r"\w+!", r'"(?:\\.|[^"\\])*"', r"\bf \([^{]*\{"]
)
def test_patterns_known_to_be_slow_are_told(bad: str) -> None:
    assert slow_unit(re.compile(bad)) is not None
