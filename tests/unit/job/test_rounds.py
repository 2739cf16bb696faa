"""Under a budget, the first few programs of every op run before more of any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

from bot.carry_out import ROUNDS, in_rounds
from bot.programs.builder import ProgramBuilder
from bot.programs.program import Origin, digest
from bot.programs.source import SourceCounts, SourcedProgram, SourceRequest


def made(op: str, number: int, kind: str = "sample") -> SourcedProgram:
    builder = ProgramBuilder(op, seed=number, origin=Origin(source="builder", kind=kind))
    builder.output(builder.call(op, number))
    return SourcedProgram(builder.blob(), digest(builder.blob()), op)


class Source:
    """Offers the same programs at each asking, and counts them."""

    def __init__(self, programs: list[SourcedProgram]) -> None:
        self._programs = programs
        self.asked = 0

    def programs(
        self, requests: Iterable[SourceRequest], counts: SourceCounts
    ) -> Iterator[SourcedProgram]:
        self.asked += 1
        for program in self._programs:
            counts.cases += 1
            yield program


ADD = [made("add", number) for number in range(40)]
MUL = [made("mul", number) for number in range(3)]
EDGE = [made("mul", number, "reference") for number in range(10, 13)]


def ordered(per_op: int | None = None) -> tuple[list[SourcedProgram], Source, SourceCounts, Any]:
    source, counts, left_out = Source(ADD + MUL + EDGE), SourceCounts(), Counter[str]()
    found = list(in_rounds(cast(Any, source), (), counts, per_op, left_out))
    return found, source, counts, left_out


def test_each_program_comes_once_and_every_op_early() -> None:
    assert ROUNDS == (2, 8, 32)
    found, source, counts, left_out = ordered()
    assert found == [
        *ADD[:2], *MUL[:2], *EDGE[:2],
        *ADD[2:8], *MUL[2:], *EDGE[2:],
        *ADD[8:32],
        *ADD[32:],
    ]  # fmt: skip
    assert counts.cases == 46  # counted once, though asked four times
    assert (source.asked, left_out) == (4, Counter())


def test_a_cap_ends_the_rounds_and_is_counted() -> None:
    found, source, _, left_out = ordered(per_op=5)
    assert found == [*ADD[:2], *MUL[:2], *EDGE[:2], *ADD[2:5], *MUL[2:], *EDGE[2:]]
    assert left_out == {"sample": 35}
    assert source.asked == 2
