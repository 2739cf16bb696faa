"""When mutants come in a run, how many, and what a report says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
import pytest

from bot.carry_out import in_order
from bot.mutations import PER_OP, PER_OP_OF_ALL, Mutations, in_turn, mutations_of, per_op
from bot.oracle.counts import Counts, TargetStatus
from bot.oracle.finding import Mismatch
from bot.plan import DEFAULT_SOURCES, Plan, PlannedTarget
from bot.programs.builder import ProgramBuilder
from bot.programs.mutation.known import Known
from bot.programs.mutation.signatures import Signatures
from bot.programs.mutation.source import MutationSource
from bot.programs.op_index import OpIndex
from bot.programs.program import decode, digest
from bot.programs.source import SourceCounts, SourcedProgram, SourceEntry, SourceRequest
from bot.run_directory import Entry

TARGETS = (PlannedTarget(spec="torch==2.13.0:cpu"), PlannedTarget(spec="numpy:cpu"))


def sample(op: str, number: int) -> SourcedProgram:
    builder = ProgramBuilder(op, seed=number)
    builder.output(builder.call(op, builder.tensor("x", np.arange(6, dtype=np.float32))))
    blob = builder.blob()
    return SourcedProgram(blob, digest(blob), op)


SAMPLES = [sample("exp", n) for n in range(3)] + [sample("log", n) for n in range(2)]


class Suite:
    """Offers the samples, whatever is asked."""

    def programs(
        self, requests: Iterable[SourceRequest], counts: SourceCounts
    ) -> Iterator[SourcedProgram]:
        yield from SAMPLES if list(requests) else ()


def plan(**fields: Any) -> Plan:
    usual = {"sources": DEFAULT_SOURCES, "ops": ("exp", "log")}
    return Plan(command="run", targets=TARGETS, **{**usual, **fields})


ENTRY = SourceEntry("opinfo", "exp")


def ordered(plan: Plan, mutations: Mutations | None) -> Iterator[SourcedProgram]:
    asked = [SourceRequest(ENTRY, kinds=("sample",))]
    return in_order(plan, cast(Any, Suite()), asked, SourceCounts(), Counter(), mutations)


def mutations(
    per_op: int | None, groups: frozenset[str] | None = frozenset(("exp", "log"))
) -> Mutations:
    return Mutations(MutationSource(0, lambda op: Known()), per_op, groups)


def is_mutant(program: SourcedProgram) -> bool:
    return decode(program.blob)[0].origin.source == "mutation"


def test_without_a_budget_so_many_of_each_op_follow_the_samples() -> None:
    made = mutations(4)
    found = list(ordered(plan(), made))
    assert found[:5] == SAMPLES
    assert Counter(program.op for program in found[5:]) == {"exp": 4, "log": 4}
    assert all(is_mutant(program) and program.extra for program in found[5:])
    assert list(made.notes()) == ["--source mutation: 8 mutants of the programs of 2 ops were made"]


def test_under_a_budget_mutants_come_early_and_do_not_end() -> None:
    programs = ordered(plan(budget=60.0), mutations(None))
    found = [next(programs) for _ in range(400)]
    # Two samples of each op, then mutants of each before the third.
    assert found[:4] == [*SAMPLES[:2], *SAMPLES[3:]]
    third = found.index(SAMPLES[2])
    assert Counter(program.op for program in found[4:third]) == {"exp": 8, "log": 8}
    assert [p for p in found if not is_mutant(p)] == [*SAMPLES[:2], *SAMPLES[3:], SAMPLES[2]]
    # Only when all samples have come may a budget end without anything missing.
    assert not any(program.extra for program in found[:third])
    assert found[-1].extra


def test_with_all_ops_the_suite_comes_first() -> None:
    programs = ordered(plan(ops=None, budget=60.0), mutations(None, None))
    found = [next(programs) for _ in range(30)]
    assert not any(map(is_mutant, found[:5]))
    assert all(map(is_mutant, found[5:]))


def test_mutants_alone() -> None:
    found = list(ordered(plan(sources=("mutation",)), mutations(3)))
    assert len(found) == 6
    assert all(map(is_mutant, found))


def test_ops_that_nobody_asked_for_are_not_mutated() -> None:
    found = list(ordered(plan(), mutations(3, frozenset(("log",)))))
    assert {program.op for program in found if is_mutant(program)} == {"log"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, PER_OP),
        ({"ops": None}, PER_OP_OF_ALL),
        ({"per_op": 5}, 5),
        ({"budget": 60.0}, None),
        ({"budget": 60.0, "mutations": 7}, 7),
        ({"mutations": 0}, 0),
    ],
)
def test_how_many(fields: dict[str, Any], expected: int | None) -> None:
    assert per_op(plan(**fields)) == expected


def test_the_budget_of_a_check_is_a_bound_for_any_pull_request() -> None:
    check = plan(budget=1800.0).model_copy(update={"command": "check"})
    assert per_op(check) == PER_OP


def test_a_plan_without_the_source_has_no_mutations() -> None:
    index = OpIndex([ENTRY])
    without = plan(sources=("opinfo",))
    assert mutations_of(without, ("exp",), index, Signatures) is None
    assert mutations_of(plan(), ("exp",), index, Signatures) is not None


def test_what_died_often_is_held_back_and_said() -> None:
    made = mutations(60, frozenset(("exp",)))
    programs = ordered(plan(), made)
    for program in programs:
        died = Entry(
            program.digest, program.op, (TargetStatus("crash"), TargetStatus("ok")), Counts(), ()
        )
        made.note(program, died)
    (note,) = made.notes()
    assert "more were held back, like many that had failed" in note
    assert made.counts.cases == 60
    assert made.counts.programs < 60


def test_what_merely_differs_holds_nothing_back_where_the_number_is_bounded() -> None:
    """What comes of a program is known sooner or later: two runs would not have the same programs."""
    made = mutations(60, frozenset(("exp",)))
    ok = TargetStatus("ok")
    for program in ordered(plan(), made):
        mismatch = Mismatch(program.digest, "value", "", "", (), (("a",), ("b",)), ())
        made.note(program, Entry(program.digest, program.op, (ok, ok), Counts(), (mismatch,)))
    assert made.counts.programs == 60


def test_one_of_each_by_turns_until_the_first_ends() -> None:
    first, second = iter(SAMPLES[:2]), iter(SAMPLES[2:])
    assert list(in_turn(first, second)) == [SAMPLES[0], SAMPLES[2], SAMPLES[1], SAMPLES[3]]
    assert next(second) == SAMPLES[4]
