"""MutationSource: mutants of the programs that the other sources gave, op by op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from bot.programs.mutation.known import Known
from bot.programs.mutation.op_mutator import OpMutator
from bot.programs.mutation.setbacks import ENOUGH, Setbacks
from bot.programs.program import digest
from bot.programs.source import SourceCounts, SourcedProgram

MAX_BASES: Final = 96  # programs of one op that are kept to be mutated
MAX_BASE_BYTES: Final = 64 << 10
HELD_BACK: Final = "a mutation held back: what it does has failed often enough in this run"


class MutationSource:
    """Collects programs as they are run, and makes mutants of them.

    ``known_of`` gives what is known of an op before any program is seen. The mutants of an op depend on the seed and the
    programs offered; what failed only holds some of them back.
    """

    def __init__(self, seed: int, known_of: Callable[[str], Known]) -> None:
        self._seed = seed
        self._known_of = known_of
        self._offered: dict[str, int] = {}
        self._bases: dict[str, dict[str, bytes]] = {}
        self._draws: dict[str, Random] = {}
        self._setbacks: dict[str, Setbacks] = {}
        self._traits: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._made: dict[str, Iterator[SourcedProgram | None]] = {}

    @property
    def ops(self) -> tuple[str, ...]:
        """The ops that have programs to mutate, in the order met."""
        return tuple(self._bases)

    def offer(self, program: SourcedProgram) -> None:
        """Keep a program to be mutated: an even choice of those offered for an op, of which large ones are left out."""
        bases = self._bases.get(program.op, {})
        if len(program.blob) > MAX_BASE_BYTES or program.digest in bases:
            return
        bases = self._bases.setdefault(program.op, bases)
        place = self._offered.get(program.op, 0)
        self._offered[program.op] = place + 1
        if len(bases) < MAX_BASES:
            bases[program.digest] = program.blob
            return
        draws = self._draws.setdefault(program.op, Random(f"bases/{self._seed}/{program.op}"))
        chosen = draws.randrange(place + 1)
        if chosen < MAX_BASES:
            del bases[list(bases)[chosen]]
            bases[program.digest] = program.blob

    def programs(self, op: str, count: int, counts: SourceCounts) -> Iterator[SourcedProgram]:
        """The next ``count`` mutants of an op, fewer when no more come; each is counted as a case.

        The bases are fixed when this is first called for an op.
        """
        if op not in self._bases:
            return
        made = self._made.get(op)
        if made is None:
            made = self._made[op] = self._make(op)
        for _ in range(count):
            try:
                program = next(made)
            except StopIteration:
                return
            counts.cases += 1
            if program is None:
                counts.merge_skipped({HELD_BACK: 1})
                continue
            counts.expressed += 1
            counts.programs += 1
            yield program

    def note(self, program: str, failed: bool, died: bool) -> None:
        """Say what came of a program that ran, by its digest; other sources' programs count as bases."""
        known = self._traits.pop(program, None)
        if known is not None:
            op, traits = known
            self._setbacks_of(op).record(traits, failed, died)
            return
        for op, bases in self._bases.items():
            if program in bases:  # one failure is enough: whatever is made of it fails too
                self._setbacks_of(op).record([f"base/{program}"] * ENOUGH, failed, died)

    def _setbacks_of(self, op: str) -> Setbacks:
        return self._setbacks.setdefault(op, Setbacks())

    def _make(self, op: str) -> Iterator[SourcedProgram | None]:
        """An op's mutants, each once; None for one that is held back."""
        bases = self._bases[op]
        seen = set(bases)
        setbacks = self._setbacks_of(op)
        mutator = OpMutator(op, list(bases.items()), self._known_of(op), self._seed)
        for mutant in mutator.mutants():
            name = digest(mutant.blob)
            if name in seen:
                continue
            seen.add(name)
            if setbacks.holds_back(mutant.traits):
                yield None
                continue
            self._traits[name] = op, mutant.traits
            yield SourcedProgram(mutant.blob, name, op, group=f"{op} {mutant.group}")
