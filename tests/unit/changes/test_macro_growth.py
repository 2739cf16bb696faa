"""Macros whose arguments grow with each call: what is written out stays small."""

from __future__ import annotations

from bot.changes.definition import Definition
from bot.changes.frameworks.paddle.macros import MacroCalls
from bot.changes.frameworks.torch.macros import substituted
from bot.changes.sources.cpp_source import read_cpp

ROUNDS = 6
COPIES = 60


def test_an_argument_copied_by_each_macro_is_bounded() -> None:
    # 60 copies in each of six rounds would be 4.7e10 names; the registration beside them is still read.
    copies = " ".join(["x"] * COPIES)
    lines = [f"#define GROW{i}(x) GROW{i + 1}({copies})" for i in range(ROUNDS)]
    lines += ["#define BOTH(x) PD_REGISTER_KERNEL(relu, CPU, ALL_LAYOUT, Relu, float) GROW0(x)"]
    macros = {found.name: found for found in read_cpp("a.h", "\n".join(lines))}

    def find(name: str, _: str) -> Definition | None:
        return macros.get(name)

    written = MacroCalls(find).written_out("BOTH ( grown )", "a.cc")
    assert [row.name for row in written.registered] == ["relu"]


def test_a_macro_that_writes_an_argument_too_often_stands_for_nothing() -> None:
    copies = " ".join(["x"] * 1000)
    assert substituted(f"# define MANY ( x ) {copies}", ["long" * 100]) == ""
    assert substituted("# define ONE ( x ) f ( x )", ["y"]) == "f ( y )"
