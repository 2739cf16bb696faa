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

    notes: list[str] = []
    written = MacroCalls(find, notes.append).written_out("BOTH ( grown )", "a.cc")
    assert [row.name for row in written.registered] == ["relu"]
    assert notes == ["a.cc: BOTH is too long or nested too deep to be written out whole"]


def test_a_macro_that_writes_an_argument_too_often_stands_for_nothing() -> None:
    copies = " ".join(["x"] * 1000)
    assert substituted(f"# define MANY ( x ) {copies}", ["long" * 100]) is None
    assert substituted("# define ONE ( x ) f ( x )", ["y"]) == "f ( y )"


def test_macros_that_multiply_and_write_nothing_are_bounded() -> None:
    # Twenty calls in each of six rounds would be 6.4e7 replacements of which nothing is left.
    lines = [f"#define ROUND{i}(x) " + f"ROUND{i + 1}(x) " * 20 for i in range(6)]
    lines += ["#define ROUND6(x)"]
    lines += ["#define BOTH(x) PD_REGISTER_KERNEL(relu, CPU, ALL_LAYOUT, Relu, float) ROUND0(x)"]
    macros = {found.name: found for found in read_cpp("a.h", "\n".join(lines))}
    asked = 0

    def find(name: str, _: str) -> Definition | None:
        nonlocal asked
        asked += 1
        return macros.get(name)

    notes: list[str] = []
    written = MacroCalls(find, notes.append).written_out("BOTH ( one )", "a.cc")
    assert [row.name for row in written.registered] == ["relu"]
    assert notes == ["a.cc: BOTH is too long or nested too deep to be written out whole"]
    assert asked < 50_000


def test_twenty_nested_rounds_of_doubling_are_bounded() -> None:
    lines = [f"#define TWICE{i}(x) TWICE{i + 1}(x) TWICE{i + 1}(x)" for i in range(20)]
    lines += ["#define TWICE20(x) int f;"]
    macros = {found.name: found for found in read_cpp("a.h", "\n".join(lines))}
    kernel = "PD_REGISTER_KERNEL ( relu , CPU , ALL_LAYOUT , Relu , float )"
    macros["BOTH"] = read_cpp("b.h", f"#define BOTH(x) {kernel} TWICE0(x)")[0]
    notes: list[str] = []
    written = MacroCalls(lambda name, _: macros.get(name), notes.append).written_out(
        "BOTH ( one )", "a.cc"
    )
    assert [row.name for row in written.registered] == ["relu"]
    assert notes == ["a.cc: BOTH is too long or nested too deep to be written out whole"]
