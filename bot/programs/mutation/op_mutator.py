"""OpMutator: the mutants of one op, new ones first, the same ones for the same seed and the same programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from bot.programs.draft import Draft
from bot.programs.mutation.argument_values import mutate_arguments
from bot.programs.mutation.dtypes import mutate_dtypes
from bot.programs.mutation.known import Known
from bot.programs.mutation.layouts import mutate_layouts
from bot.programs.mutation.novelty import Novelty, components_of, score
from bot.programs.mutation.scalars import mutate_scalars
from bot.programs.mutation.sequences import mutate_sequences
from bot.programs.mutation.sizes import mutate_sizes
from bot.programs.mutation.values import mutate_values
from bot.programs.program import ProgramError

Mutator = Callable[[Draft, Known, Random], str | None]
"""Changes a draft (a copy of a base) in one way and says how: ``axis/where/what``. None: it does not fit."""

MUTATORS: Final[tuple[tuple[Mutator, int], ...]] = (
    (mutate_values, 30),
    (mutate_arguments, 30),
    (mutate_sizes, 16),
    (mutate_layouts, 10),
    (mutate_dtypes, 7),
    (mutate_scalars, 4),
    (mutate_sequences, 4),
)
"""With the weight of each. Arguments weigh as much as values: they lead to other code."""
STEPS: Final = (1, 1, 2, 2, 2, 3)  # mutators applied to one base
TRIES: Final = 3  # drafts made for one that is taken: the one with the most that is new
MAX_BYTES: Final = 4 << 20  # of one mutant
STALE: Final = 400  # drafts in a row that came to nothing end an op
RANDOM_ARGUMENTS: Final = ("arguments/dropout/", "arguments/dropout_p/", "arguments/generator/")


@dataclass(frozen=True)
class Mutant:
    """A mutated program's blob and what was done: the labels of its steps, and the base's digest."""

    blob: bytes
    labels: tuple[str, ...]
    base: str


@dataclass(frozen=True)
class _Tried:
    """A changed draft, and what it exercises."""

    draft: Draft
    labels: tuple[str, ...]
    base: str
    components: list[str]


class OpMutator:
    """Makes mutants of one op's programs. ``bases`` are blobs by digest; those that cannot be edited are left out."""

    def __init__(
        self, op: str, bases: Sequence[tuple[str, bytes]], known: Known, seed: int
    ) -> None:
        self._random = Random(f"mutation/{seed}/{op}")
        self._known = known
        self._novelty = Novelty()
        self._bases: list[tuple[str, Draft]] = []
        for digest, blob in bases:
            draft = Draft(blob)
            try:
                components = components_of(draft, known)
            except ProgramError:
                continue
            known.learn(draft)
            self._novelty.add(components)
            self._bases.append((digest, draft))
        self._draws = any(draft.origin.random for _, draft in self._bases)

    @property
    def novelty(self) -> Novelty:
        """What the bases and the mutants so far have exercised."""
        return self._novelty

    def mutants(self) -> Iterator[Mutant]:
        """Mutants without end, until nothing comes of trying."""
        stale = 0
        while self._bases and stale < STALE:
            mutant = self._best()
            if mutant is None:
                stale += 1
                continue
            stale = 0
            yield mutant

    def _best(self) -> Mutant | None:
        """The most novel of a few drafts, written out."""
        tried = [made for _ in range(TRIES) if (made := self._draft()) is not None]
        if not tried:
            return None
        best = max(tried, key=lambda made: score(self._novelty.new_pairs(made.components)))
        self._novelty.add(best.components)
        origin = best.draft.origin
        changed = {
            "source": "mutation",
            "kind": "sample",
            "expected_error": None,
            "random": self._draws or origin.random or _draws(best.labels),
        }
        try:
            blob = best.draft.blob(origin.model_copy(update=changed))
        except ProgramError:
            return None
        return Mutant(blob, best.labels, best.base) if len(blob) <= MAX_BYTES else None

    def _draft(self) -> _Tried | None:
        digest, base = self._random.choice(self._bases)
        draft = base.copy()
        labels: list[str] = []
        for _ in range(self._random.choice(STEPS)):
            label = self._step(draft)
            if label is not None:
                labels.append(label)
        if not labels:
            return None
        return _Tried(draft, tuple(labels), digest, components_of(draft, self._known))

    def _step(self, draft: Draft) -> str | None:
        (mutate,) = self._random.choices(
            [mutator for mutator, _ in MUTATORS], [weight for _, weight in MUTATORS]
        )
        return mutate(draft, self._known, self._random)


def _draws(labels: Sequence[str]) -> bool:
    return any(label.startswith(RANDOM_ARGUMENTS) for label in labels)
