"""Edits that change what the code does, but are written so that a reader may take them for none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from git_repository import Files
from test_python_changes import TREE

from bot.changes.change import Changes
from bot.changes.difference import difference
from bot.changes.file_text import decode_text
from bot.changes.notes import merged
from bot.changes.sources.cpp_source import read_cpp
from bot.changes.sources.python_source import read_python, why_unreadable
from bot.changes.sources.tablegen import read_tablegen
from bot.changes.sources.yaml_entries import read_entries


def cpp_differs(old: str, new: str) -> bool:
    return difference(read_cpp("a.cpp", old), read_cpp("a.cpp", new)) != ([], [])


def python_differs(old: str, new: str) -> bool:
    before, after = read_python("a.py", old, "a"), read_python("a.py", new, "a")
    assert before is not None
    assert after is not None
    return difference(before.definitions, after.definitions) != ([], [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("// a\n x = 1;\n", "// a \\ \n x = 1;\n"),  # GCC joins the lines
        ("// a\n x = 1;\n", "// a ??/\n x = 1;\n"),  # a trigraph for the backslash
        ("// a\n", "// a\r x = 1;\n"),  # Clang ends the line here
        ("/* a *\\\n/ x = 3; /* */", "/* a *\\\n/ x = 4; /* */"),
        ("x = x ++ + y;", "x = x + ++ y;"),
        ("x = - - y;", "x = -- y;"),
        ("LOG(INFO) << x;", "LOG(INFO) << (x = 3);"),
        ("LOG(INFO) << x;", "LOG(INFO) << x, x = 3;"),
        ("LOG(INFO) << x;", "LOG(INFO) << x++;"),
        ("LOG(INFO) << x;", "LOG(INFO) << (x >>= 1);"),
        ("LOG(INFO) << x;", "LOG(INFO) << x.add_(1);"),
        ("if (x) LOG(INFO) << 1; x = 0;", "if (x) x = 0;"),
        ("x = LOG(2) * 3;", "x = LOG(2) * 4;"),
    ],
)
def test_in_a_body_of_cpp(old: str, new: str) -> None:
    function = "int f(int x, int y) {{ {} return x; }}"
    assert cpp_differs(function.format(old), function.format(new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("#define F(x) (x)\n", "#define F (x) (x)\n"),
        ("#define A 1\n#undef A\n#define A 2\n", "#define A 2\n#undef A\n#define A 1\n"),
        ("using X [[maybe_unused]] = int;", "using X [[maybe_unused]] = long;"),
        ('static Reg r("add", &k<float>);', 'static Reg r("add", &e<float>);'),
        ("static Reg r(&k<float>);", "static Reg r(&e<float>);"),
        ("static Reg r(sizeof(int), k);", "static Reg r(sizeof(int), e);"),
        ("int f() { return 1; }", "#if 0 && A\n#define A\nint f() { return 1; }\n#endif"),
        ("#ifndef A\n#define A\nint f();\nint g() { return 1; }\n#endif",
         "#ifdef A\n#define A\nint f();\nint g() { return 1; }\n#endif"),
        ("int g() { return 1; }\nint f() { return 1; }",
         "int g() { return 1; }\n#ifndef A\n#define A\nint f() { return 1; }\n#endif"),
    ],
)  # fmt: skip
def test_at_the_top_of_cpp(old: str, new: str) -> None:
    assert cpp_differs(old, new)


def test_a_log_message_alone_is_no_change() -> None:
    function = "int f(int x) {{ x = 1; {} if (x) {{ {} return x; }} }}"
    log = 'LOG(INFO) << "x is " << x.size() << (x <= 2) << (x == 1); VLOG(1) << x;'
    assert not cpp_differs(function.format("", ""), function.format(log, log))


@pytest.mark.parametrize("guard", ["#ifndef {0}", "#if !defined({0})", "#pragma once\n#ifndef {0}"])
def test_another_include_guard_is_no_change(guard: str) -> None:
    text = "// a\n" + guard + "\n#define {0}\nint f() {{ return 1; }}\n#endif\n"
    assert not cpp_differs(text.format("A_H_"), text.format("B_H_"))


def test_bytes_that_are_no_utf8_differ() -> None:
    assert decode_text(b'g("\xff")') != decode_text(b'g("\xfe")')


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def f(x):\n logger.info(x)\n", "def f(x):\n logger.info(x.add_(1))\n"),
        ("def f(x):\n logger.info(x)\n", "def f(x):\n logger.info(x := 1)\n"),
        ("x = 1\n", 'x = 1\nif __name__ != "__main__":\n x = 2\n'),
        ("x = 1\n", 'x = 1\nif __name__ == "a":\n x = 2\n'),
        ("if a.TYPE_CHECKING:\n x = 1\n", "if a.TYPE_CHECKING:\n x = 2\n"),
        ('f.__doc__ = "a"\n', "f.__doc__ = replace_all(f)\n"),
        ('add_docstr(f, "a")\n', 'add_docstr(f, "a".format(replace_all(f)))\n'),
        ("def f(x: int): pass\n", "def f(x: change()): pass\n"),
        ("def f(x) -> int: pass\n", "def f(x) -> change(): pass\n"),
        ("x: int = 1\n", "x: change() = 1\n"),
        ("x = 1\n", "x = 1\ny: change()\n"),
        (
            "def f():\n return 1\ndef f():\n return 2\n",
            "def f():\n return 2\ndef f():\n return 1\n",
        ),
        ("x = 1\nx = 2\n", "x = 2\nx = 1\n"),
        ("from a import f\nfrom b import f\n", "from b import f\nfrom a import f\n"),
        ("import a.b\n", "import a.c\n"),
    ],
)
def test_in_python(old: str, new: str) -> None:
    assert python_differs(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def f(x):\n return x\n", "def f(x):\n logger.info('%s', str(x.size(0)))\n return x\n"),
        ("x = 1\n", 'x = 1\nif __name__ == "__main__":\n main()\n'),
        ("def f(x): pass\n", "def f(x: List[int]) -> 'Tensor': pass\n"),
        ('f.__doc__ = "a"\n', 'f.__doc__ = dedent("b".format(**c))\n'),
    ],
)
def test_quiet_in_python(old: str, new: str) -> None:
    assert not python_differs(old, new)


@pytest.mark.parametrize(
    "text",
    ["# coding: unicode_escape\nx = 1\n# \\nx = 2\n", "\n# -*- coding: utf-7 -*-\n# +AAo-x = 2\n"],
)
def test_a_comment_that_an_encoding_makes_code_is_not_read(text: str) -> None:
    assert read_python("a.py", text, "a") is None
    assert "only UTF-8 is read" in why_unreadable(text)


@pytest.mark.parametrize("coding", ["utf-8", "utf8", "UTF-8", "utf_8", "ascii", "us-ascii"])
def test_utf8_is_read(coding: str) -> None:
    assert read_python("a.py", f"# -*- coding: {coding} -*-\nx = 1\n", "a") is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("class A:\n if a:\n  x = 1\n  y = 2\n", "class A:\n if a:\n  x = 1\n y = 2\n"),
        ("class A:\n if a:\n  x = 1\n y = 2\n", "class A:\n x = 1\n if a:\n  y = 2\n"),
    ],
)
def test_what_a_class_asks_is_part_of_it(old: str, new: str) -> None:
    assert python_differs(old, new)


def test_long_conditions_are_compared_and_said_once() -> None:
    condition = " + ".join(f"a{number}" for number in range(500))
    body = "".join(f"    x{number} = {number}\n" for number in range(2000))
    found = read_python("a.py", f"if {condition}:\n{body}", "a")
    assert found is not None
    assert sum(len(each.code) for each in found.definitions) < 2_000_000
    assert python_differs(f"if {condition}:\n{body}", f"if {condition} + b:\n{body}")


def test_many_targets_of_one_value_share_its_code() -> None:
    found = read_python("a.py", "a = " * 20_000 + "1", "a")
    assert found is not None
    assert len(found.definitions) == 20_000
    assert len({id(each.code) for each in found.definitions}) == 1


def test_nested_conditions_of_cpp_are_bounded() -> None:
    text = "".join(f"#if A{n}\n#define B{n} 1\n" for n in range(3000))
    found = read_cpp("a.cpp", text)
    assert [each.name for each in found] == [f"B{n}" for n in range(3000)]
    assert sum(len(each.code) for each in found) < 15_000_000
    assert cpp_differs(text, text.replace("#if A0\n", "#if A\n"))


def test_nested_scopes_of_tablegen_are_bounded() -> None:
    text = "".join(f"let a{n}=1 in {{\n" for n in range(2000)) + "def B;\n" * 1000
    found = read_tablegen("a.td", text)
    assert len(found) == 1000
    assert sum(len(each.code) for each in found) < 4_100_000  # without a bound 28 MB
    changed = read_tablegen("a.td", text.replace("let a0=1", "let a0=2"))
    assert difference(found, changed) != ([], [])


def test_a_key_written_thousands_of_times() -> None:
    entries = read_entries("- " + "".join(f"a: {n}\n  " for n in (1, 2, 1, 3, *range(4, 20_000))))
    assert entries is not None
    assert list(entries[0].values)[:3] == ["a", "a#2", "a#3"]
    assert list(entries[0].values.values())[:3] == ["1", "2", "3"]
    assert len(entries[0].values) == 19_999


def test_a_source_that_gitattributes_calls_binary_is_read(
    changes_of: Callable[[Files, Files], Changes],
) -> None:
    path = "torch/nn/functional.py"
    before = {**TREE, path: "def f(x):\n    return x\n"}
    edits = {path: "def f(x):\n    return -x\n", ".gitattributes": "*.py binary\n"}
    changes = changes_of(before, edits)
    assert [op.op for op in changes.ops] == ["nn.functional.f"]
    assert changes.unmapped == ()


def test_what_a_loop_over_rows_binds_is_part_of_them() -> None:
    loop = 'for name, function in [("abs", f), ("acos", g)]:\n    setattr(Tensor, name, function)\n'
    assert python_differs(loop, loop.replace("function in", "other in"))


def test_an_entry_that_ends_with_an_alias_ends_on_its_own_line() -> None:
    entries = read_entries("- &a\n  op: abs\n- op: acos\n- <<: *a")
    assert entries is not None
    assert [(each.first, each.last) for each in entries] == [(1, 2), (3, 3), (4, 4)]


def test_lines_of_an_entry_lie_in_the_text() -> None:
    entries = read_entries('- op: "\r\rabs"\n- op: acos')
    assert entries is not None
    assert [(each.first, each.last) for each in entries] == [(1, 2), (2, 2)]


def test_a_note_with_a_word_of_a_million_letters() -> None:
    word = "a" * 1_000_000
    assert merged([f"x_1: {word}", f"x_2: {word}"]) == (f"x_1, x_2: {word}",)
