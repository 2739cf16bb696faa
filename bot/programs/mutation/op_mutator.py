"""OpMutator: the mutants of one op, new ones first, the same ones for the same seed and the same programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from random import Random
from typing import Final, cast

from bot.programs.draft import Draft
from bot.programs.mutation.argument_values import mutate_arguments
from bot.programs.mutation.dtypes import mutate_dtypes
from bot.programs.mutation.known import Known
from bot.programs.mutation.layouts import mutate_layouts
from bot.programs.mutation.novelty import EMPTY, Novelty, components_of, score
from bot.programs.mutation.scalars import mutate_scalars
from bot.programs.mutation.sequences import mutate_sequences
from bot.programs.mutation.singles import singles
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
ERRORS: Final = 0.05  # of the bases: what is illegal stays so, mostly
MAX_PLAIN: Final = 6  # kinds of programs that get all single changes
MAX_WORDED: Final = 24
RANDOM_ARGUMENTS: Final = ("arguments/dropout/", "arguments/dropout_p/", "arguments/generator/")


Base = tuple[str, Draft]
"""A program to be mutated, and its digest."""


@dataclass(frozen=True)
class Mutant:
    """A mutated program's blob, and its traits: what was done to it, what it was made of and what it exercises.

    ``group`` names what a crash of it would be laid to: programs of one group are put off together when some have died.
    """

    blob: bytes
    traits: tuple[str, ...]
    group: str


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
        self._bases: list[Base] = []
        for digest, blob in bases:
            draft = Draft(blob)
            try:
                components = components_of(draft, known)
            except ProgramError:
                continue
            known.learn(draft)
            self._novelty.add(components)
            self._bases.append((digest, draft))
        self._errors = [base for base in self._bases if base[1].origin.kind == "error"]
        self._legal = [base for base in self._bases if base[1].origin.kind != "error"]
        self._draws = any(draft.origin.random for _, draft in self._bases)

    @property
    def novelty(self) -> Novelty:
        """What the bases and the mutants so far have exercised."""
        return self._novelty

    def mutants(self) -> Iterator[Mutant]:
        """Mutants without end, until nothing comes of trying: single changes by turns with mixtures, while there are any."""
        waiting = self._singles()
        stale = 0
        while self._bases and stale < STALE:
            made = [next(waiting, None), self._best()]
            written = [mutant for tried in made if tried and (mutant := self._written(tried))]
            yield from written
            stale = 0 if written else stale + 1

    def _singles(self) -> Iterator[_Tried]:
        """The single changes of plain bases, by turns.

        A base of each kind gets all of them, but for those that another has had; where kinds differ only in their words
        (a mode, a reduction), each gets the numbers of its arguments, for words choose other formulas.
        """
        kinds: dict[tuple[str, ...], Base] = {}
        worded: dict[tuple[str, ...], Base] = {}
        for base in self._bases:
            kind = (*_kinds(base[1]),)
            _keep_plainest(kinds, kind, base)
            _keep_plainest(worded, (*kind, *_words(base[1])), base)
        whole = list(kinds.values())[:MAX_PLAIN]
        others = [base for base in worded.values() if base not in whole][:MAX_WORDED]
        done: set[str] = set()
        queues = [self._of(base, done) for base in whole] + [self._of(base) for base in others]
        for tried in chain.from_iterable(zip_longest(*queues)):
            if tried is not None:
                yield tried

    def _of(self, base: Base, done: set[str] | None = None) -> Iterator[_Tried]:
        """The single changes of one base: those not done yet, or with None the numeric ones."""
        for single in singles(base[1], self._known, self._random):
            if single.label in done if done is not None else not single.numeric:
                continue
            if done is not None:
                done.add(single.label)
            draft = base[1].copy()
            if single.apply(draft):
                yield self._tried(draft, (single.label,), base[0])

    def _best(self) -> _Tried | None:
        """The most novel of a few mixtures."""
        tried = [made for _ in range(TRIES) if (made := self._draft()) is not None]
        if not tried:
            return None
        return max(tried, key=lambda made: score(self._novelty.new_pairs(made.components)))

    def _written(self, tried: _Tried) -> Mutant | None:
        """A draft's program; None where it does not add up, or is too large."""
        self._novelty.add(tried.components)
        origin = tried.draft.origin
        changed = {
            "source": "mutation",
            "kind": "sample",
            "expected_error": None,
            "random": self._draws or origin.random or _draws(tried.labels),
        }
        try:
            blob = tried.draft.blob(origin.model_copy(update=changed))
        except ProgramError:
            return None
        if len(blob) > MAX_BYTES:
            return None
        traits = (*tried.labels, f"base/{tried.base}", *tried.components)
        return Mutant(blob, traits, _group(tried))

    def _tried(self, draft: Draft, labels: tuple[str, ...], base: str) -> _Tried:
        return _Tried(draft, labels, base, components_of(draft, self._known))

    def _draft(self) -> _Tried | None:
        errors = self._errors and self._random.random() < ERRORS
        digest, base = self._random.choice(self._errors if errors else self._legal or self._errors)
        draft = base.copy()
        labels: list[str] = []
        for _ in range(self._random.choice(STEPS)):
            label = self._step(draft)
            if label is not None:
                labels.append(label)
        if not labels:
            return None
        return self._tried(draft, tuple(labels), digest)

    def _step(self, draft: Draft) -> str | None:
        (mutate,) = self._random.choices(
            [mutator for mutator, _ in MUTATORS], [weight for _, weight in MUTATORS]
        )
        return mutate(draft, self._known, self._random)


def _keep_plainest(found: dict[tuple[str, ...], Base], key: tuple[str, ...], base: Base) -> None:
    if key not in found or _plainness(base[1]) > _plainness(found[key][1]):
        found[key] = base


def _words(draft: Draft) -> Iterator[str]:
    """The words among a draft's arguments."""
    for call in draft.calls:
        yield from (
            value for value in [*call.args, *call.kwargs.values()] if isinstance(value, str)
        )


def _kinds(draft: Draft) -> Iterator[str]:
    """What a draft calls, what kinds of values stand at the positions, and which keywords say something."""
    for call in draft.calls:
        yield call.fn
        yield from sorted(name for name, value in call.kwargs.items() if value is not None)
        for value in call.args:
            yield (
                next(iter(cast("dict[str, object]", value)), "")
                if isinstance(value, dict)
                else type(value).__name__
            )


def _plainness(draft: Draft) -> tuple[bool, bool, bool, int]:
    """Legal, floating, without empty tensors, and with as many arguments as possible."""
    tensors = draft.inputs()
    return (
        draft.origin.kind != "error",
        any(spec.dtype == "float32" for spec in tensors),
        all(spec.shape and 0 not in spec.shape for spec in tensors),
        sum(len(call.args) + len(call.kwargs) for call in draft.calls),
    )


def _group(tried: _Tried) -> str:
    """Empty tensors are one cause, whatever else is done; otherwise the argument, or the first thing that was changed."""
    if EMPTY in tried.components:
        return EMPTY
    label = next(
        (label for label in tried.labels if label.startswith("arguments/")), tried.labels[0]
    )
    return label.rpartition("/")[0]


def _draws(labels: Sequence[str]) -> bool:
    return any(label.startswith(RANDOM_ARGUMENTS) for label in labels)
