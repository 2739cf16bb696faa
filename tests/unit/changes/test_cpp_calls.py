"""Which overload a call may mean, by C++'s rules of arity and of pointers' types."""

from __future__ import annotations

import pytest

from bot.changes.sources.cpp_calls import signature, users_of_overload
from bot.changes.sources.cpp_source import read_cpp


def users(text: str, changed: int) -> list[str]:
    found = read_cpp("x.cpp", text)
    return [d.name for d in users_of_overload(found[changed], "f", found) if "f" in d.uses]


BY_COUNT = """int f(int a) { return a; }
int f(int a, int b) { return a + b; }
int one() { return f(1); }
int two() { return f(g(1, 2), h<int, int>(3)); }
int named() { return apply(&f); }
int spread(T... x) { return f(x...); }
"""
BY_POINTER = """void f(const float* x, int n) { go(x); }
void f(const int8_t* x, int n) { go(x); }
template <typename T> void f(const T* x, long n, long m) { go(x); }
void a(const float* src, int n) { f(src, n); }
void b(int n) { const int8_t* src = get(); f(src, n); }
void c(Tensor t, int n) { auto src = t.data(); f(src, n); }
void d(Tensor t, int n) { f(t.data(), n); }
"""
DEFAULTS = """int f(int a, int b = 2);
int f(int a, int b) { return a; }
int f(int a, int b, int c) { return f(a, b) + c; }
int one() { return f(1); }
int three() { return f(1, 2, 3); }
"""


@pytest.mark.parametrize(
    ("text", "changed", "expected"),
    [
        (BY_COUNT, 0, ["one", "named", "spread"]),
        (BY_COUNT, 1, ["two", "named", "spread"]),
        (BY_POINTER, 0, ["a", "c", "d"]),
        (BY_POINTER, 1, ["b", "c", "d"]),
        (BY_POINTER, 2, []),
        (DEFAULTS, 1, ["one", "three"]),
        (DEFAULTS, 2, ["three"]),
        (
            "int f(int a) { return a; }\nint f(int a, int b) { return a; }\nint B::f() { return f(1); }\nint C::f() { return 2; }",
            0,
            ["B::f"],
        ),
        ("int f(int a) { return a; }\nint one() { return f(1, 2); }", 0, ["one"]),
    ],
)
def test_users_of_an_overload(text: str, changed: int, expected: list[str]) -> None:
    assert users(text, changed) == expected


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("int f() { return 1; }", 0, 0),
        ("int f(void) { return 1; }", 0, 0),
        ("int f(std::map<int, int> a, int b = g(1, 2)) { return 1; }", 1, 2),
        ("template <class... A> int f(int a, A&&... b) { return 1; }", 1, None),
        ("int f(int (*g)(int, int), int b[2]) { return 1; }", 2, 2),
        ("int A::f(int a, int b) const { return 1; }", 2, 2),
    ],
)
def test_arity(text: str, least: int, most: int | None) -> None:
    found = signature(read_cpp("x.cpp", text)[0])
    assert found is not None
    assert (found.least, found.most) == (least, most)
