"""What a function gives back: which share of it a call makes. Shares are counted by hand from the sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.changes.frameworks.oneflow.cpp_results import share_of_results
from bot.changes.frameworks.oneflow.python_results import calls_of
from bot.changes.frameworks.oneflow.python_results import share_of_results as share_in_python
from bot.changes.sources.cpp_source import read_cpp


def names_view(tokens: tuple[str, ...], place: int) -> bool:
    return tokens[place] == "View"


def share(body: str) -> float:
    source = f"class WholeFunctor {{ Maybe<Tensor> operator()(const Tensor& x, int n) const {{ {body} }} }};"
    definition = next(found for found in read_cpp("a.cpp", source) if found.kind == "class")
    return share_of_results(definition.code, names_view)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return View(x, n);", 1),
        ("return JUST(functional::View(x));", 1),
        ("auto y = JUST(functional::View(x)); return y;", 1),
        ("TensorTuple out(2); (*out)[0] = JUST(View(x)); (*out)[1] = JUST(Sort(x)); return out;", 0.5),
        ("TensorTuple out(2); for (int i = 0; i < n; ++i) { out[i] = JUST(View(x, i)); } return out;", 1),
        # One step: another functional gets it.
        ("return Mul(JUST(View(x)), n);", 1),
        ("const auto& y = JUST(functional::View(x)); if (n == 1) { return y; } return ScalarMul(y, n);", 1),
        # Two steps.
        ("return Add(x, JUST(Mul(JUST(View(x)), n)));", 0),
        # Only a condition, a check, a shape, or an error.
        ("if (View(x)->ndim() > 1) { return Sort(x); } return x;", 0),
        ("CHECK_OR_RETURN(View(x)) << 1; return Sort(x);", 0),
        ("return Empty(JUST(View(x))->shape());", 0),
        ("if (n) return View(x); else return Sort(x);", 0.5),
        ("switch (n) { case 1: return View(x); default: return Error::RuntimeError() << Name(n); }", 1),
        # One branch of four.
        ("if (n == 0) { return View(x); } if (n == 1) { return A1a(x); } if (n) { return Bb(x); } return Cc(x);", 0.25),
        # What only works on the variable further is neither.
        ("std::shared_ptr<Tensor> y; y = JUST(View(x)); if (n) { y = JUST(Cast(y)); } return y;", 1),
        ("auto y = JUST(Sort(x)); if (n) { y = JUST(View(y)); } return y;", 0),
        # Chains: the last function makes the result.
        ("return sequence_function(functional::Sort).then(functional::View).call(x);", 1),
        ("return sequence_function(functional::View).then(functional::Sort).call(x);", 0),
        ("return sequence_function(Sort).then(std::bind(View, _1, n)).call(x);", 1),
        ("return SequenceFunction<F>([](const auto& x) { return functional::View(x); }).then(G).call(x);", 0),
        ("return sequence_function(G).then([&](const auto& x) { return functional::View(x); }).call(x);", 1),
        # A function of nothing: its calls, but for those that fill variables.
        ("JUST(Prepare(n, &dims)); JUST(View(x, dims)); return Maybe<void>::Ok();", 1),
        ("if (n) { JUST(View(x)); } else { JUST(Sort(x)); } return Maybe<void>::Ok();", 0.5),
        ("JUST(View(x)); return Sort(x);", 0),
        ("const auto make = [&](int m) -> Maybe<Tensor> { return functional::View(x); }; return Sort(x);", 0),
        ("return x;", 0),
        ("", 0),
    ],
)  # fmt: skip
def test_share_of_what_a_functor_gives_back(body: str, expected: float) -> None:
    assert share(body) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return flow.view(x)", 1),
        ("y = flow._C.view(x)\n    return y", 1),
        ("if a:\n        return view(x)\n    return sort(x)", 0.5),
        ("if view(x):\n        return sort(x)\n    return x", 0),
        ("y = view(x)\n    return sort(y, 1)", 0),
        ("return view(x) if a else sort(x)", 1),
        ("return view(x)[0] == 1", 0),
        ("return sort(x), view(x)", 0),
        ("y = sort(x)\n    y = view(y)\n    return y", 0.5),
        ("if a:\n        y = view(y)\n    return y", 0),
        ("return None", 0),
    ],
)
def test_share_of_what_a_python_function_returns(body: str, expected: float) -> None:
    source = f"    def f(x, a):\n        {body.replace(chr(10), chr(10) + '    ')}\n"
    assert share_in_python(source, {"view"}) == pytest.approx(expected)


def test_what_a_python_function_calls() -> None:
    source = "def f(x):\n    y = flow._C.view(x)\n    return y.sum()\n"
    assert calls_of(source) == {"flow._C.view", "y.sum"}


def test_what_cannot_be_read_gives_nothing_back() -> None:
    assert share_in_python("def f(:", {"view"}) == 0
    assert calls_of("def f(:") == frozenset()


@given(st.text(alphabet="View ()[]{};=.,<>&*:return", max_size=200))
def test_a_share_is_one_of_any_text(code: str) -> None:
    assert 0 <= share_of_results(code, names_view) <= 1


def test_a_long_function_takes_time_in_proportion() -> None:
    # 60 KB of nested calls and statements: what is looked at, counted, grows as the text does.
    looked = 0

    def count(tokens: tuple[str, ...], place: int) -> bool:
        nonlocal looked
        looked += 1
        return tokens[place] == "View"

    counts: list[int] = []
    for size in (1000, 2000):
        looked = 0
        share_of_results("{ " + "y = JUST ( View ( x ) ) ; " * size + "return y ; }", count)
        counts.append(looked)
    assert counts[1] <= 2.1 * counts[0]
