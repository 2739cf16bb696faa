"""Readers of sources, by properties: layout changes nothing, every token of a body counts, nothing is an error."""

from __future__ import annotations

import io
import keyword
import re
import tokenize as python_tokens
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from test_cpp_source import SOURCE
from test_oneflow_changes import TREE as ONEFLOW
from test_python_changes import TREE as PYTHON
from test_torch_native_changes import TREE as TORCH
from test_yaml_and_tablegen import ENTRIES, RECORDS

from bot.changes.definition import Definition
from bot.changes.sources.cpp_source import macro_rows, read_cpp
from bot.changes.sources.cpp_tokens import TokenList, token_list
from bot.changes.sources.python_source import read_python
from bot.changes.sources.tablegen import read_tablegen
from bot.changes.sources.yaml_entries import entry_definitions

KERNEL: Final = """// Copyright
#include <cuda.h>
#define BLOCK 256
#define DISPATCH(T, ...) \\
  if (type == kInt) { run<int>(__VA_ARGS__); } else { run<T>(__VA_ARGS__); }
namespace native { namespace {
template <typename T, int N = 4>
__global__ void __launch_bounds__(BLOCK) k(const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef FAST
  if (i < n) {
#else
  if (i < n && x[i] != T(0)) {
#endif
    y[i] = x[i] > 0 ? x[i] : -x[i] * T(0.5e-3);
  }
}
struct Add final : public Base<float, 2> {
  Add(int a) : a_{a} {}
  float operator()(float x) const { return x + a_; }
  int a_;
};
template <> struct Functor<UnaryOp::kAbs> { float run(float x) { return x < 0 ? -x : x; } };
}  // namespace
constexpr float kSlope = 0.25f;
static const std::vector<Row> rows = {{"abs", &abs<float>}, {"acos", &acos<double>}};
REGISTER_DISPATCH(abs_stub, &abs_kernel)
REGISTER_KERNEL("abs").SetCreateFn<Abs<float>>().SetInfer([](Ctx* c) { return c->n() * 4; });
LIBRARY(aten, m) {
  m.impl("abs", TORCH_FN(abs));
  m.impl("acos", &acos);
}
TORCH_IMPL_FUNC(abs_out)
(const Tensor& self, const Tensor& out) { abs_stub(self.device(), out, self); }
}
"""
MODULE: Final = '''"""A module."""
import math as m
from torch import relu
__all__ = ["f", "A"]

@decorate(1)
def f(x, factor=2, *rest, key=None):
    """Doc."""
    if x > factor:
        raise ValueError(f"bad {x}")
    return [g(y) for y in rest] or m.exp(x)

class A(Base):
    slope = 0.5

    def forward(self, x):
        return relu(x) * self.slope - 1

TABLE = {"a": f, "b": lambda x: x ** 3}
for name, function in [("abs", f), ("acos", A)]:
    setattr(Tensor, name, function)
'''
CPP: Final = [
    SOURCE,
    KERNEL,
    *(str(t) for tree in (ONEFLOW, TORCH) for p, t in tree.items() if p.endswith((".cpp", ".h"))),
]
PY: Final = [
    MODULE,
    *(str(t) for tree in (ONEFLOW, PYTHON) for p, t in tree.items() if p.endswith(".py") and t),
]
TD: Final = [RECORDS, *(str(t) for p, t in ONEFLOW.items() if p.endswith(".td"))]
YAML: Final = [
    ENTRIES,
    *(str(t) for tree in (ONEFLOW, TORCH) for p, t in tree.items() if p.endswith(".yaml")),
]

PIECES: Final = [
    *"ab_(){}[]<>;:,.#\"'\\/*=&-|?@%~\n\r\t 01\u00e9\x00\x0c\u2028\ufeff", "def ", "class ", "#define X", 'R"(', "#if A\n",
    "#else\n", "#endif\n", "template ", "namespace ", "operator", "struct ", "[{", "}]", "let x in ", '"""', "f'{", "lambda: ",
    "&a ", "*a ", "<<: ", "- ", "match x:\n", "async ", "extern \"C\" {", "//", "/*", "*/", "using ", "= ", "->", "::",
]  # fmt: skip
JUNK: Final = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def read_module(file: str, text: str) -> tuple[Definition, ...] | None:
    found = read_python(file, text, "pkg.m")
    return None if found is None else found.definitions


READERS: Final[list[tuple[list[str], Callable[[str], Sequence[Definition] | None]]]] = [
    (CPP, lambda text: read_cpp("x.cu", text)),
    (PY, lambda text: read_module("m.py", text)),
    (TD, lambda text: read_tablegen("x.td", text)),
    (YAML, lambda text: entry_definitions("x.yaml", text, "name")),
]


def codes(definitions: Sequence[Definition] | None) -> Counter[tuple[str, str, str]]:
    return Counter((d.kind, d.name, d.code) for d in definitions or ())


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_text_is_read_or_refused(data: st.DataObject) -> None:
    sources, read = data.draw(st.sampled_from(READERS))
    text = data.draw(st.sampled_from(sources))
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    changed = data.draw(
        st.sampled_from([text[:start], text[:start] + data.draw(JUNK) + text[stop:]])
    )
    lines = changed.count("\n") + 1
    for found in read(changed) or ():
        assert 1 <= found.first <= found.last <= lines
        assert isinstance(macro_rows(found), tuple)


@settings(max_examples=150, deadline=None)
@given(JUNK)
@example("(" * 3000)
def test_no_token_is_lost(text: str) -> None:
    tokens = token_list(text)
    end = 0
    for start, value in zip([*tokens.starts, len(text)], [*tokens.values, ""], strict=True):
        left_out = re.sub(r"\\[ \t\f\v]*\r?\n|\s", "", text[end:start])
        assert left_out == "" or left_out.startswith(("//", "/*"))
        end = start + len(value)
        assert text[start:end] == value
    for reader in (read_cpp, read_tablegen):
        assert all(row.first >= 1 for row in reader("x", text))


def in_directive(tokens: TokenList, token: int) -> bool:
    """Whether a token is part of a preprocessor line, where a line end means something."""
    start = token
    while start > 0 and tokens.line_end(start - 1) > token:
        start -= 1
    return tokens.values[start] == "#" and tokens.begins_line(start)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CPP + TD), st.data())
def test_comments_and_blanks_between_tokens_are_no_change(text: str, data: st.DataObject) -> None:
    tokens = token_list(text)
    token = data.draw(st.integers(0, len(tokens.values) - 1))
    assume(not in_directive(tokens, token))
    added = data.draw(
        st.sampled_from(
            ["/* int f() { */", "\n", "  ", "// }\n", "\n\n/** doc\n * @x */\n", "\r\n"]
        )
    )
    changed = text[: tokens.starts[token]] + added + text[tokens.starts[token] :]
    if text in TD:
        assume(tokens.values[token - 1 : token + 1] != ["[", "{"])  # one token of TableGen
        assume(
            "[{" not in text[: tokens.starts[token]]
            and "include" not in text[tokens.starts[token] - 12 :][:24]
        )
        assert codes(read_tablegen("x.td", changed)) == codes(read_tablegen("x.td", text))
    else:
        # A call on a line of its own ends there when it has no semicolon: after one, a line end is a token.
        assume("\n" not in added or tokens.values[token - 1] != ")" or token == 0)
        assert codes(read_cpp("x.cu", changed)) == codes(read_cpp("x.cu", text))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CPP), st.data())
def test_every_token_of_a_cpp_definition_counts(text: str, data: st.DataObject) -> None:
    found = data.draw(st.sampled_from(read_cpp("x.cu", text)))
    values = found.code.rpartition("\n")[2].split(" ")
    place = data.draw(st.integers(0, len(values) - 1))
    assume(values[place] not in [*"(){}[]<>#,;:", "::", "extern", "namespace", "define"])
    line = "\n".join(text.split("\n")[found.first - 1 : found.last])
    inner = token_list(line)
    spots = [n for n, value in enumerate(inner.values) if value == values[place]]
    assume(bool(spots))
    spot = data.draw(st.sampled_from(spots))
    assume(
        inner.kinds[spot] in ("name", "number")
        and (spot == 0 or inner.values[spot - 1] not in ("#", "namespace", "include"))
    )
    end = inner.starts[spot] + len(inner.values[spot])
    changed_line = line[:end] + "9" + line[end:]
    changed = text.replace(line, changed_line, 1)
    assert codes(read_cpp("x.cu", changed)) != codes(read_cpp("x.cu", text))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PY), st.data())
def test_every_name_and_number_of_a_python_body_counts(text: str, data: st.DataObject) -> None:
    tokens = [
        token
        for token in python_tokens.generate_tokens(io.StringIO(text).readline)
        if token.type in (python_tokens.NAME, python_tokens.NUMBER)
        and not keyword.iskeyword(token.string)
    ]
    assume(bool(tokens))
    token = data.draw(st.sampled_from(tokens))
    lines = text.split("\n")
    row, column = token.end[0] - 1, token.end[1]
    lines[row] = lines[row][:column] + "9" + lines[row][column:]
    changed = read_module("m.py", "\n".join(lines))
    assert changed is None or codes(changed) != codes(read_module("m.py", text))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PY), st.data())
def test_comments_and_blank_lines_in_python_are_no_change(text: str, data: st.DataObject) -> None:
    lines = text.split("\n")
    place = data.draw(st.integers(0, len(lines)))
    inside = [
        t
        for t in python_tokens.generate_tokens(io.StringIO(text).readline)
        if t.type == python_tokens.STRING
    ]
    assume(not any(t.start[0] <= place < t.end[0] for t in inside))
    added = data.draw(st.sampled_from(["", "# note", "    # def f():", "\t"]))
    changed = [*lines[:place], added, *lines[place:]]
    assert codes(read_module("m.py", "\n".join(changed))) == codes(read_module("m.py", text))


@settings(max_examples=40, deadline=None)
@given(st.permutations(["int f() { return 1; }", "struct A { int x; };", "REG(a, b);", "#define M(x) x", "REG(c)",
                        "constexpr int k = 1;", "template <class T> void g(T) { }", "using T = int;"]))  # fmt: skip
def test_moved_definitions_are_no_change(order: list[str]) -> None:
    assert codes(read_cpp("x.cpp", "\n".join(order))) == codes(
        read_cpp("x.cpp", "\n".join(sorted(order)))
    )


def test_deep_and_huge_python_is_refused_or_read() -> None:
    for text in ("(" * 5000, "x = " + "[" * 150 + "]" * 150, "x = " + "-" * 5000 + "1", "x = " + "+".join(["1"] * 20_000),
                 "x" + ".a" * 20_000, "if a:\n" + "".join(" " * n + "if a:\n" for n in range(1, 90)) + " " * 91 + "x = 1\n",
                 "x = '" + "a" * 1_000_000 + "'\n", "\n" * 50_000 + "x = 1\n", "def f():\n" + "    x = 1\n" * 20_000):  # fmt: skip
        found = read_module("m.py", text)
        assert found is None or len(found) <= 1
