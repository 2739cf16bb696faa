"""Shrink the causes of a run, side by side: every round, each cause's search has its next few programs tried.

Only the targets that a cause is about are asked. A death costs a new worker for every try that still dies, so such
causes have their turn at the end, with few tries, of which the first are the largest steps. When time is over, the
smallest programs so far stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.oracle.cause import Cause
from bot.oracle.compare import Comparator
from bot.oracle.exact import decoded
from bot.oracle.repeat import DEATHS
from bot.oracle.rerun import Case, Group, Runner
from bot.oracle.shrink.holds import Shown, shown
from bot.oracle.shrink.passes_tensors import simplify_tensors
from bot.oracle.shrink.search import Search, search
from bot.programs.draft import Draft, with_written_gradients
from bot.programs.program import ProgramError, decode
from bot.targets.outcome import RawOutcome

BATCH: Final = 8  # programs of one cause in a round
TRIES: Final = 600  # programs of one cause
BATCH_OF_DEATHS: Final = 3
TRIES_OF_DEATHS: Final = 45
MAX_BYTES: Final = 4 << 20  # of a program that is worth the time


@dataclass
class _State:
    """One cause's search: what waits to be tried, and the smallest program that showed it."""

    cause: Cause
    search: Search
    places: frozenset[int]
    chunk: list[bytes] = field(default_factory=list[bytes])
    best: Shown | None = None
    outcomes: Sequence[RawOutcome] = ()
    tries: int = 0


def shrink(
    causes: Sequence[Cause],
    cases: dict[str, Case],
    comparator: Comparator,
    runner: Runner,
    in_time: Callable[[], bool],
) -> dict[int, Shown]:
    """The smaller programs of causes, by their places; a cause whose program got no smaller has none.

    ``cases`` are by digest. ``in_time`` says whether there is time for another round.
    """
    found: dict[int, Shown] = {}
    for deadly in (False, True):
        states = {
            place: state
            for place, cause in enumerate(causes)
            if (cause.key.kind in DEATHS) == deadly
            and (state := _begun(cause, cases, comparator)) is not None
        }
        for again in (False, True):
            _run(states, comparator, runner, in_time, TRIES_OF_DEATHS if deadly else TRIES)
            if (
                not again
            ):  # what a worker made up is written down now, and simplified like any tensor
                states = _with_written_gradients(states, deadly)
        for place, state in states.items():
            if state.best is not None and _is_written(state.best.blob):
                found[place] = state.best
    return found


def _begun(cause: Cause, cases: dict[str, Case], comparator: Comparator) -> _State | None:
    blob = cases[cause.programs[0].digest].load()
    if len(blob) > MAX_BYTES:
        return None
    involved = {label for side in cause.key.sides for label in side}
    places = frozenset(
        place for place, party in enumerate(comparator.parties) if party.label in involved
    )
    batch = BATCH_OF_DEATHS if cause.key.kind in DEATHS else BATCH
    try:
        return _State(cause, search(blob, batch), places)
    except ProgramError:
        return None


def _run(
    states: dict[int, _State],
    comparator: Comparator,
    runner: Runner,
    in_time: Callable[[], bool],
    tries: int,
) -> None:
    """Rounds until every search has ended, or time has."""
    active = {place: state for place, state in states.items() if _advance(state, None, tries)}
    while active and in_time():

        def groups(active: dict[int, _State] = active) -> Iterator[Group[int]]:
            for place, state in active.items():
                yield place, state.cause.key.op, state.chunk, state.places

        answered: dict[int, list[tuple[RawOutcome, ...]]] = dict(runner.run_groups(groups()))
        going_on: dict[int, _State] = {}
        for place, state in active.items():
            outcomes = answered.get(place)
            if outcomes is None:  # the pool was stopped
                continue
            if _advance(state, _first(state, outcomes, comparator), tries):
                going_on[place] = state
        active = going_on


def _first(
    state: _State, outcomes: Sequence[tuple[RawOutcome, ...]], comparator: Comparator
) -> int | None:
    """The first of the programs just tried that shows the cause."""
    for index, (blob, raw) in enumerate(zip(state.chunk, outcomes, strict=True)):
        try:
            seen = shown(state.cause, blob, raw, comparator)
        except ProgramError:
            continue
        if seen is not None:
            state.best, state.outcomes = seen, raw
            return index
    return None


def _advance(state: _State, first: int | None, tries: int) -> bool:
    """Tell a search what came of its programs and ask for the next; False when it has ended, or had its tries."""
    if state.tries >= tries:
        return False
    try:
        state.chunk = next(state.search) if not state.tries else state.search.send(first)
    except (StopIteration, ProgramError):
        return False
    state.tries += len(state.chunk)
    return True


def _with_written_gradients(states: dict[int, _State], deadly: bool) -> dict[int, _State]:
    """The searches that go on over the written-down output gradients; the others as they ended."""
    made: dict[int, _State] = {}
    for place, state in states.items():
        if state.best is None:
            continue
        made[place] = state
        if _is_written(state.best.blob):
            continue
        shapes = {
            (tensor.name, tensor.path): (tensor.dtype, tensor.array.shape)
            for raw in reversed(state.outcomes)
            for tensor in decoded(raw).tensors
            if tensor.role in ("output", "intermediate")
        }
        try:
            blob = with_written_gradients(state.best.blob, shapes)
        except ProgramError:
            continue
        made[place] = _State(
            state.cause,
            _from(blob, BATCH_OF_DEATHS if deadly else BATCH),
            state.places,
            best=state.best,
        )
    return made


def _is_written(blob: bytes) -> bool:
    """Whether a program's output gradients are all its own."""
    program, _ = decode(blob)
    return all(entry.gradient is not None for entry in program.backward)


def _from(blob: bytes, batch: int) -> Search:
    """A search that has the program itself tried first: it must be the same with its gradients written down."""
    first = yield [blob]
    if first is None:
        return blob
    return (yield from search(blob, batch, (_simplify_gradients,)))


def _simplify_gradients(draft: Draft) -> Iterator[Draft]:
    """Simpler elements; the sizes are what they are."""
    yield from simplify_tensors(draft)
