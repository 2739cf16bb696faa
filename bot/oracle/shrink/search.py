"""The search: passes one after another, each until it gets no further, until all of them get no further.

A search says which programs it wants tried and is told which one still fails; it knows nothing of targets. It always
takes the first one, so that the same failing program has the same result. A pass that made no progress makes none when
it is run again on the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final

from bot.oracle.shrink.order import Order, order_of
from bot.oracle.shrink.passes_arguments import drop_arguments, simplify_arguments
from bot.oracle.shrink.passes_calls import drop_calls, drop_gradients, use_functions
from bot.oracle.shrink.passes_tensors import (
    drop_dimensions,
    plain_dtypes,
    plain_layouts,
    shrink_sizes,
    simplify_tensors,
)
from bot.programs.draft import Draft
from bot.programs.program import ProgramError

Pass = Callable[[Draft], Iterable[Draft]]
Search = Generator[list[bytes], int | None, bytes]
"""Yields programs to be tried, is sent the index of the first that still fails (None: none), returns the smallest."""

PASSES: Final[tuple[Pass, ...]] = (
    drop_calls,
    drop_gradients,
    shrink_sizes,
    drop_arguments,
    drop_dimensions,
    use_functions,
    plain_layouts,
    plain_dtypes,
    simplify_arguments,
    simplify_tensors,
)


def search(blob: bytes, batch: int, passes: Iterable[Pass] = PASSES) -> Search:
    """Search for the smallest program that still fails, trying ``batch`` programs at a time."""
    passes = tuple(passes)
    current, tried = blob, set[bytes]()
    while True:
        before = current
        for propose in passes:
            while (smaller := (yield from _pass(propose, current, batch, tried))) is not None:
                current = smaller
        if current == before:
            return current


def _pass(
    propose: Pass, current: bytes, batch: int, tried: set[bytes]
) -> Generator[list[bytes], int | None, bytes | None]:
    """One step of a pass: the first of its programs that still fails, None for none."""
    waiting = smaller_than(order_of(current), propose(Draft(current)), tried)
    while True:
        chunk = [blob for _, blob in zip(range(batch), waiting, strict=False)]
        if not chunk:
            return None
        first = yield chunk
        tried.update(
            chunk if first is None else chunk[:first]
        )  # these do not fail, whoever proposes them
        if first is not None:
            return chunk[first]


def smaller_than(order: Order, drafts: Iterable[Draft], tried: set[bytes]) -> Iterator[bytes]:
    """The valid programs among drafts that are smaller and not known not to fail, each once."""
    seen = set[bytes]()
    for draft in drafts:
        try:
            blob = draft.blob()
            if blob not in tried and blob not in seen and order_of(blob) < order:
                seen.add(blob)
                yield blob
        except (ProgramError, ValueError, OverflowError):
            continue
