"""Working ahead: the same items in the same order, errors at their place, and no thread left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.prefetch import Prefetched


def alive() -> bool:
    return any(thread.name == "prefetch" for thread in threading.enumerate())


def gone(seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while alive() and time.monotonic() < end:
        time.sleep(0.005)
    return not alive()


class Items:
    """Counts without end, knows how far it was asked, and on which thread it was closed."""

    def __init__(self) -> None:
        self.made = 0
        self.closed_by: str | None = None

    def __iter__(self) -> Iterator[int]:
        try:
            while True:
                self.made += 1
                yield self.made - 1
        finally:
            self.closed_by = threading.current_thread().name


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(), max_size=30), st.integers(1, 5))
def test_every_item_once_in_order(items: list[int], depth: int) -> None:
    ahead = Prefetched(items, depth)
    assert list(ahead) == items
    ahead.close()
    assert gone()


def test_items_are_made_ahead_but_no_further_than_the_depth() -> None:
    items = Items()
    ahead = Prefetched(items, depth=4)
    iterator = iter(ahead)
    assert next(iterator) == 0
    end = time.monotonic() + 5
    while items.made < 6 and time.monotonic() < end:
        time.sleep(0.005)
    time.sleep(0.05)
    assert items.made == 6  # one was taken, four wait, one is in hand
    ahead.close()


def test_an_error_comes_at_its_place() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("the third")

    ahead = Prefetched(failing())
    taken: list[int] = []
    with pytest.raises(ValueError, match="the third"):
        taken.extend(ahead)
    assert taken == [1, 2]
    ahead.close()
    assert gone()


def test_closing_while_full_ends_the_thread_and_the_items() -> None:
    items = Items()
    ahead = Prefetched(items, depth=2)
    assert next(iter(ahead)) == 0
    ahead.close()
    assert gone()
    assert items.closed_by == "prefetch"  # a generator is closed where it ran
    ahead.close()  # twice is fine


def test_closing_before_anything_was_taken() -> None:
    ahead = Prefetched(Items(), depth=1)
    ahead.close()
    assert gone()


@pytest.mark.timeout(30)
def test_what_has_ended_stays_ended() -> None:
    """Nobody waits for a thread that is gone: after the end, after an error, after a close."""

    def failing() -> Iterator[int]:
        raise ValueError("at once")
        yield

    ended, closed, failed = Prefetched([1]), Prefetched(Items(), depth=1), Prefetched(failing())
    assert list(ended) == [1]
    assert list(ended) == []
    closed.close()
    assert list(closed) == []
    with pytest.raises(ValueError, match="at once"):
        list(failed)
    assert list(failed) == []
