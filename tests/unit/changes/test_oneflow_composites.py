"""OneFlow's composites: told when a public op makes their result and they are few, else left to the op that they call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.changes.change import Changes

Tree = dict[str, str | bytes | None]
Run = Callable[[Tree, Tree], Changes]

FUNCTORS = "oneflow/core/functional/impl/array_functor.cpp"
YAML = "oneflow/core/functional/functional_api.yaml"
GATHER = "oneflow/core/autograd/gradient_funcs/strided.cpp"
GIVES = "return functional::Strided(x);"


def tree(functors: dict[str, str], python: str = "", names: tuple[str, ...] = ("strided",)) -> Tree:
    """``functors``: class -> body of its operator; the functional of ``Spin2Functor`` is ``spin``, as of ``SpinFunctor``."""
    classes = {"StridedFunctor": "return view::Strided(x);", **functors}
    registered = {name: name.removesuffix("Functor") for name in classes}
    signatures: dict[str, list[str]] = {}
    for name in registered.values():
        signatures.setdefault(name.rstrip("0123456789").lower(), []).append(
            f'"Tensor (Tensor x) => {name}"'
        )
    return {
        FUNCTORS: (
            "namespace impl {\n"
            + "".join(
                f"class {name} {{ Maybe<Tensor> operator()(int x) const {{ {body} }} }};\n"
                for name, body in classes.items()
            )
            + "}\nONEFLOW_FUNCTION_LIBRARY(m) {\n"
            + "".join(f'  m.add_functor<impl::{c}>("{n}");\n' for c, n in registered.items())
            + "}\n"
        ),
        YAML: "\n".join(
            f'- name: "{name}"\n  signature: [{", ".join(rows)}]\n  bind_python: True\n'
            for name, rows in signatures.items()
        ),
        "python/oneflow/__init__.py": (
            f"from oneflow._C import {', '.join(sorted({*signatures, *names}))}\n"
            "from oneflow.nn.modules.more import first, second, third\n"
        ),
        "python/oneflow/nn/modules/more.py": "import oneflow as flow\n\n" + python,
    }


def told(changes_of: Run, before: Tree) -> dict[str, str]:
    """How each op but the changed one is said to change when ``strided`` does."""
    text = str(before[FUNCTORS])
    changes = changes_of(
        before, {FUNCTORS: text.replace("view::Strided(x)", "view::Strided(x, 1)")}
    )
    assert next(op.how for op in changes.ops if "oneflow.strided" in op.aliases) == "direct"
    return {
        op.op.removeprefix("oneflow."): op.how
        for op in changes.ops
        if "oneflow.strided" not in op.aliases
    }


@pytest.mark.parametrize(
    ("body", "how"),
    [
        (GIVES, {"spin": "indirect"}),
        ("return Strided(x);", {"spin": "indirect"}),
        ("auto y = JUST(Strided(x)); return Mul(y);", {"spin": "indirect"}),
        ("if (functional::Strided(x)) { return Sort(x); } return x;", {}),
        ("if (x == 1) { return functional::Strided(x); } if (x) { return Aa(x); } if (y) { return Bb(x); } return Cc(x);", {}),
    ],
)  # fmt: skip
def test_a_functor_is_told_when_the_op_makes_its_result(
    changes_of: Run, body: str, how: dict[str, str]
) -> None:
    assert told(changes_of, tree({"SpinFunctor": body})) == how


def test_two_ops_are_told_and_three_are_not(changes_of: Run) -> None:
    two = {"SpinFunctor": GIVES, "Spin2Functor": GIVES, "TurnFunctor": GIVES}
    assert told(changes_of, tree(two)) == {"spin": "indirect", "turn": "indirect"}
    assert told(changes_of, tree({**two, "BendFunctor": GIVES})) == {}


def test_what_many_call_is_a_general_tool(changes_of: Run) -> None:
    passing = {
        f"Look{letter}Functor": "if (functional::Strided(x)) { return 1; } return x;"
        for letter in "ABCDEF"
    }
    assert told(changes_of, tree({"SpinFunctor": GIVES, **passing})) == {}


def test_a_numbered_functor_is_the_same_op(changes_of: Run) -> None:
    assert told(changes_of, tree({"Strided2Functor": GIVES, "SpinFunctor": GIVES})) == {
        "spin": "indirect"
    }


def test_a_functor_with_an_op_of_its_own_uses_others_in_passing(changes_of: Run) -> None:
    own = (
        'static auto op = OpBuilder("spin").Build(); if (x) { return Dispatch<Tensor>(*op, x); } '
        + GIVES
    )
    assert (
        told(changes_of, tree({"SpinFunctor": own, "Look2Functor": "return Sort(Strided(x)->y);"}))
        == {}
    )
    # What nothing else calls is a part of it.
    assert told(changes_of, tree({"SpinFunctor": own})) == {"spin": "indirect"}


WRAPPER = "def {0}(x):\n    return flow.strided(x)\n\n\n"
CONDITION = "def {0}(x):\n    if flow.strided(x):\n        return flow.sort(x)\n    return x\n\n\n"
OWN = "def {0}(x):\n    y = flow._C.{0}(x)\n    return flow.strided(y)\n\n\n"


@pytest.mark.parametrize(
    ("functions", "how"),
    [
        ((WRAPPER, CONDITION, OWN), {"first": "indirect"}),
        ((WRAPPER, WRAPPER, CONDITION), {"first": "indirect", "second": "indirect"}),
        ((WRAPPER, WRAPPER, WRAPPER), {}),
        ((CONDITION, OWN, OWN), {}),
    ],
)
def test_python_functions_are_told_when_the_op_is_what_they_return(
    changes_of: Run, functions: tuple[str, str, str], how: dict[str, str]
) -> None:
    names = ("first", "second", "third")
    python = "".join(text.format(name) for text, name in zip(functions, names, strict=True))
    assert told(changes_of, tree({}, python)) == how
