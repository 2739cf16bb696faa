"""Mutations in a run: what is offered to be mutated, how many mutants come when, and what the report says of them.

The suite's programs come first, for they are known to be legal; mutants of an op follow in rounds, like its programs, and at
last take turns with the rest of the suite until the budget ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from bot.oracle.coverage import DIED
from bot.plan import Plan
from bot.programs.mutation.known import Known
from bot.programs.mutation.signatures import Signatures
from bot.programs.mutation.source import MutationSource
from bot.programs.op_index import OpIndex
from bot.programs.source import SourceCounts, SourcedProgram
from bot.run_directory import Entry

PER_OP: Final = 200  # mutants of an op in a check, and in a run without a budget
PER_OP_OF_ALL: Final = 32  # where all ops are run: some 20,000 in all
A_PROGRAM: Final = 4  # mutants for each program of a round, under a budget
TURN: Final = 8  # mutants of one op at a time


class Mutations:
    """The mutants of one run. ``per_op`` bounds them (None: only the budget does), ``groups`` names the ops (None: all)."""

    def __init__(
        self, source: MutationSource, per_op: int | None, groups: frozenset[str] | None
    ) -> None:
        self._source = source
        self._per_op = per_op
        self._groups = groups
        self._bounded = per_op is not None
        self._taken: dict[str, int] = {}
        self.counts = SourceCounts()
        self.between = (
            groups is not None
        )  # with all ops, the suite's programs are many: mutants come last

    def offering(self, programs: Iterable[SourcedProgram]) -> Iterator[SourcedProgram]:
        """The same programs; each is kept to be mutated as it passes."""
        for program in programs:
            self._source.offer(program)
            yield program

    def each(self, count: int) -> Iterator[SourcedProgram]:
        """The next mutants of every op."""
        for op in self._ops():
            yield from self._of(op, count)

    def rest(self) -> Iterator[SourcedProgram]:
        """Mutants of all ops in turn, until none has any more."""
        before = -1
        while self.counts.cases != before:
            before = self.counts.cases
            yield from self.each(TURN)

    def last(self) -> Iterator[SourcedProgram]:
        """The rest, when all other programs have come: a budget may end among them."""
        return (replace(program, extra=True) for program in self.rest())

    def note(self, program: SourcedProgram, entry: Entry) -> None:
        """Say what came of a program that ran.

        Where their number is bounded, failures hold nothing back, so that two runs have the same programs: only deaths
        do, which cost seconds each.
        """
        died = any(status.status in DIED for status in entry.statuses)
        failed = bool(entry.mismatches) and not self._bounded
        self._source.note(program.digest, failed, died)

    def notes(self) -> Iterator[str]:
        """What a report should say."""
        counts, ops = self.counts, sum(count > 0 for count in self._taken.values())
        if counts.cases:
            held = sum(counts.skipped.values())
            more = f"; {held:,} more were held back, like many that had failed" if held else ""
            yield f"--source mutation: {counts.programs:,} mutants of the programs of {ops:,} ops were made{more}"

    def _ops(self) -> list[str]:
        return [op for op in self._source.ops if self._groups is None or op in self._groups]

    def _of(self, op: str, count: int) -> Iterator[SourcedProgram]:
        taken = self._taken.get(op, 0)
        left = count if self._per_op is None else min(count, self._per_op - taken)
        before = self.counts.cases
        yield from self._source.programs(op, left, self.counts)
        self._taken[op] = taken + self.counts.cases - before


def mutations_of(
    plan: Plan, groups: Sequence[str], index: OpIndex, signatures: Callable[[], Signatures]
) -> Mutations | None:
    """The mutations that a plan asks for, None for none. ``signatures`` are read when the first op needs them."""
    if "mutation" not in plan.sources:
        return None
    read: list[Signatures] = []

    def known_of(op: str) -> Known:
        if not read:
            read.append(signatures())
        dtypes = dict.fromkeys(dtype for entry in index.entries_of(op) for dtype in entry.dtypes)
        return Known(read[0], tuple(dtypes))

    return Mutations(
        MutationSource(plan.seed, known_of),
        per_op(plan),
        None if plan.ops is None else frozenset(groups),
    )


def per_op(plan: Plan) -> int | None:
    """How many mutants of an op a plan wants at most; None where only its budget ends them.

    The budget of a check is a bound that a workflow sets once for all pull requests: a small one must not use it up.
    """
    if plan.mutations is not None or (plan.budget is not None and plan.command == "run"):
        return plan.mutations
    usual = PER_OP_OF_ALL if plan.ops is None or plan.every else PER_OP
    return usual if plan.per_op is None else min(usual, plan.per_op)


def in_turn(
    first: Iterator[SourcedProgram], second: Iterator[SourcedProgram]
) -> Iterator[SourcedProgram]:
    """All of the first, with one of the second after each as long as there are any."""
    for program in first:
        yield program
        yield from islice(second, 1)
