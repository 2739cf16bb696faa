"""What a hostile source makes the readers look at, counted: users of a name, calls by it, macros written out."""

from __future__ import annotations

from typing import Any

import pytest

from bot.changes.definition import Definition
from bot.changes.frameworks.torch import overloads as torch_overloads
from bot.changes.frameworks.torch.macros import MAX_WRITTEN, Expansions
from bot.changes.index import cpp_index
from bot.changes.index.cpp_index import CppIndex
from bot.changes.index.tree import Tree
from bot.changes.sources import cpp_calls
from bot.changes.sources.cpp_source import read_cpp
from bot.changes.sources.yaml_entries import MAX_MARKS, read_entries

FILES = 20
USERS_IN_A_FILE = 10


def hub() -> Tree:
    """A header's function that 200 functions in 20 sources call."""
    texts = {"hub.h": "inline int hub(int x) { return x; }\n"}
    for file in range(FILES):
        users = "".join(f"int user{n}() {{ return hub({n}); }}\n" for n in range(USERS_IN_A_FILE))
        texts[f"f{file:02}.cpp"] = f'#include "hub.h"\n{users}'
    return Tree(texts, texts.get)


def test_of_very_many_users_only_the_files_of_the_first_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpp_index, "MAX_NAMING", 35)
    tree = hub()
    notes: list[str] = []
    index = CppIndex(tree, tree.paths, notes.append)
    # The header's own function, ten users in each of three files, four of the fourth.
    assert len(list(index.users("hub", "hub.h"))) == 34
    assert tree.shared.parsed.parsed == 5
    assert notes == ["hub is named in more than 35 C++ definitions; the first were looked at"]


def test_as_many_users_as_are_looked_at_leave_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp_index, "MAX_NAMING", FILES * USERS_IN_A_FILE + 1)
    tree = hub()
    notes: list[str] = []
    users = list(CppIndex(tree, tree.paths, notes.append).users("hub", "hub.h"))
    assert (len(users), notes) == (FILES * USERS_IN_A_FILE, [])


def test_what_all_names_of_a_tree_are_looked_at_for_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpp_index, "MAX_NAMING_IN_ALL", 250)
    tree = hub()
    notes: list[str] = []
    index = CppIndex(tree, tree.paths, notes.append)
    found = [len(list(index.naming("hub", tree.paths))) for _ in range(3)]
    assert found == [201, 49, 0]
    assert "more than 250 uses of names in C++: hub and" in notes[0]


def test_a_definition_with_thousands_of_macros_reads_the_first_and_says_so() -> None:
    text = "".join(f"#define MACRO_{n} int a{n};\n" for n in range(2_000))
    text += "void f() { " + " ".join(f"MACRO_{n}" for n in range(2_000)) + " }\n"
    tree = Tree(["a.cpp"], {"a.cpp": text}.get)
    notes: list[str] = []
    index = CppIndex(tree, tree.paths, notes.append)
    user = next(found for found in index.definitions("a.cpp") if found.name == "f")
    assert len(index.closure(user)) == 1 + cpp_index.MAX_MACROS
    assert notes == ["f (a.cpp:2001): more than 500 macros stand behind it; the first were read"]


def test_macros_that_double_are_in_a_closure_once_each() -> None:
    text = "".join(f"#define M{n}0(x) M{n + 1}0(x) M{n + 1}0(x)\n" for n in range(8))
    text += "M00(a)\n"
    tree = Tree(["a.cpp"], {"a.cpp": text}.get)
    notes: list[str] = []
    index = CppIndex(tree, tree.paths, notes.append)
    call = next(found for found in index.definitions("a.cpp") if found.kind == "statement")
    assert [piece.name for piece in index.closure(call)[1:]] == [f"M{n}0" for n in range(8)]
    assert notes == []


class _Macros:
    """Stands for the index: macros of one text, and how often one was asked for."""

    def __init__(self, text: str) -> None:
        self.known = {found.name: found for found in read_cpp("a.h", text)}
        self.asked = 0

    def macro(self, name: str, path: str) -> Definition | None:
        self.asked += 1
        return self.known.get(name)


def _expanded(text: str, code: str) -> tuple[str, int, list[str]]:
    macros: Any = _Macros(text)
    notes: list[str] = []
    statement = Definition("a.cpp", "CALL", "statement", 7, 7, code, frozenset())
    written = Expansions(macros, notes.append).expanded(statement)
    return written, macros.asked, notes


def test_a_macro_that_ends_is_written_out_without_a_note() -> None:
    written, _, notes = _expanded("#define CALL(x) void x##_kernel() {}\n", "CALL ( add )")
    assert written.split() == "void add_kernel ( ) { }".split()
    assert notes == []


def test_macros_that_multiply_stop_and_say_so() -> None:
    rounds = "".join(f"#define M{n}0(x) {f'M{n + 1}0(x) ' * 200}\n" for n in range(4))
    _, asked, notes = _expanded(rounds + "#define M40(x) ;\n", "M00 ( a )")
    # Each replacement writes at least six characters of the 200,000; 200 ** 4 would be 1.6e9 of them.
    assert asked < MAX_WRITTEN / 6
    assert notes == [
        "CALL (a.cpp:7): its macros are too long or nested too deep to be written out whole"
    ]


def test_calls_that_never_close_are_read_once() -> None:
    # Each reads to the end of the text; the macro of no parameters that they name stands for nothing.
    code = "EMPTY ( " * 50_000
    _, asked, notes = _expanded("#define EMPTY(x)\n", code)
    assert asked <= 2
    assert len(notes) == 1


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters each search for a closing parenthesis went through."""
    lengths: list[int] = []
    closing = torch_overloads.closing

    def counted(code: str, start: int, limit: int | None = None) -> int:
        end = closing(code, start, limit)
        lengths.append(end - start)
        return end

    monkeypatch.setattr(torch_overloads, "closing", counted)
    return lengths


def test_nested_calls_by_one_name_are_read_up_to_a_limit_and_mean_any(read: list[int]) -> None:
    code = "{ " + "f ( 1 , " * 20_000
    one = torch_overloads.Overload(1, frozenset())
    assert torch_overloads.may_call(code, "f", one, ())
    assert sum(read) <= torch_overloads.MAX_READ
    read.clear()
    assert list(torch_overloads.overloads(code, "f")) == []
    assert sum(read) <= torch_overloads.MAX_READ


def test_calls_with_too_many_arguments_are_still_ruled_out() -> None:
    one = torch_overloads.Overload(1, frozenset())
    assert not torch_overloads.may_call("{ f ( 1 , 2 ) ; f ( 3 , 4 ) ; }", "f", one, ())
    assert torch_overloads.may_call("{ f ( 1 , 2 ) ; f ( 3 ) ; }", "f", one, ())


def _user(code: str) -> Definition:
    return Definition("a.cpp", "user", "function", 1, 1, code, frozenset({"f"}))


def test_nested_calls_of_an_overload_are_read_up_to_a_limit_and_mean_any() -> None:
    # Two arguments each, so that the innermost, if it were read, would rule the overload out.
    depth = 3_000
    code = "int user ( ) { " + "f ( 1 , " * depth + "2" + " )" * depth + " ; }"
    one = cpp_calls.Signature(1, 1, ("",))
    assert depth * depth * 3 > cpp_calls.MAX_READ
    assert cpp_calls.may_call(_user(code), "f", one)
    assert not cpp_calls.may_call(_user("int user ( ) { f ( 1 , f ( 1 , 2 ) ) ; }"), "f", one)


def test_template_arguments_longer_than_any_are_told_from_no_comparison() -> None:
    one = cpp_calls.Signature(1, 1, ("",))
    long = "f < " + "a , " * cpp_calls.MAX_ANGLES + "a > ( 1 , 2 )"
    assert cpp_calls.may_call(_user(f"int user ( ) {{ {long} ; }}"), "f", one)
    assert not cpp_calls.may_call(_user("int user ( ) { f < a , a > ( 1 , 2 ) ; }"), "f", one)


def test_a_yaml_list_of_more_marks_than_any_real_one_is_none() -> None:
    assert read_entries("- a: 1\n" * 2_000) is not None
    assert read_entries("- a: 1\n" * (MAX_MARKS // 2 + 1)) is None
