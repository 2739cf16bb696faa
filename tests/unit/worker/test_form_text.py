"""Call forms: what is read, what is refused, and which names of the framework a form needs."""

from __future__ import annotations

import contextlib
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.worker.form_text import REQUIRED, TYPES, FormError, Parameter, parse


def test_a_form_is_read() -> None:
    form = parse(
        "(input, dim:int|ints, *, keepdim=False) when input.ndim > 0 -> np.sum(input, axis=dim)"
    )
    assert form.parameters == (
        Parameter("input", "positional", (), REQUIRED),
        Parameter("dim", "positional", ("int", "ints"), REQUIRED),
        Parameter("keepdim", "keyword", (), False),
    )
    assert form.condition == "input.ndim > 0"
    assert form.expression == "np.sum(input, axis=dim)"
    assert form.used == {"input", "dim"}
    assert form.paths == {"np.sum"}


def test_literals_and_variadic_parameters() -> None:
    form = parse("(input, *shape:int, mode:'mean'|'sum'|-1 = 'mean') -> f(input, shape, mode)")
    assert [p.kind for p in form.parameters] == ["positional", "variadic", "keyword"]
    assert form.parameters[2].types == (("=", "mean"), ("=", "sum"), ("=", -1))


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("(x) -> np.a.b(x).c + m.d", {"np.a.b", "m.d"}),  # .c is an attribute of the result
        ("(x) -> [f(i) for i in x]", {"f"}),
        ("(x) -> (y := np.abs(x)) + y.sum()", {"np.abs"}),
        ("(x) -> sorted(x, key=lambda v: v[0])", {"sorted"}),
        ("(x) when isinstance(x, list) -> np.max(x)", {"isinstance", "list", "np.max"}),
        ("(x) -> x.sum()", set[str]()),
    ],
)
def test_the_paths_that_a_form_needs(text: str, paths: set[str]) -> None:
    assert parse(text).paths == paths


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("add(input)", "is not (arguments) -> expression"),
        ("(input,,) -> f(input)", "no Python signature"),
        ("(input, **rest) -> f(input)", "** would take"),
        ("(input, dim=axis) -> f(input, dim)", "no literal"),
        ("(input:Tenser) -> f(input)", "can be"),
        ("(input) -> f(", "no Python expression"),
        ("(input) when ( -> f(input)", "no Python expression"),
        ("(input, other) -> f(input)", "what becomes of other"),
    ],
)
def test_what_is_no_form_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(FormError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_required_argument_may_be_used_by_the_condition_alone() -> None:
    assert parse("(input, dim) when dim == 0 -> f(input)").used == {"input", "dim"}


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)


@given(
    st.lists(NAMES, unique=True, min_size=1, max_size=6),
    st.lists(st.sampled_from(sorted(TYPES)), min_size=6, max_size=6),
    NAMES.map(lambda name: f"root_{name}.{name}"),
)
def test_every_parameter_comes_back(names: list[str], types: list[str], path: str) -> None:
    signature = ", ".join(f"{name}:{kind}" for name, kind in zip(names, types, strict=False))
    form = parse(f"({signature}) -> {path}({', '.join(names)})")
    assert [p.name for p in form.parameters] == names
    assert [p.types for p in form.parameters] == [
        (kind,) for kind, _ in zip(types, names, strict=False)
    ]
    assert form.used == set(names)
    assert form.paths == {path}


@given(st.text(max_size=80))
def test_any_text_is_a_form_or_a_form_error(text: str) -> None:
    with contextlib.suppress(FormError):
        assert parse(text).text == text
