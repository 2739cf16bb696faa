"""Python cut into definitions: what counts as a change, and names that are made by calls and loops."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_python_changes import TREE

from bot.changes.change import Changes
from bot.changes.roles import shared_role
from bot.changes.sources.python_source import PythonFile, read_python

Tree = dict[str, str | bytes | None]
Run = Callable[[Tree, Tree], Changes]


def read(text: str) -> PythonFile:
    file = read_python("m.py", text, "m")
    assert file is not None
    return file


def codes(text: str) -> list[tuple[str, str, str]]:
    return sorted((d.kind, d.name, d.code) for d in read(text).definitions)


def named(text: str) -> list[str]:
    return [f"{d.kind} {d.name}" for d in read(text).definitions]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def f(x):\n    return x\n", 'def f(x):\n    """Doc."""\n    return x\n'),
        ("def f(x):\n    return x\n", "def f(x: int) -> int:\n    return x\n"),
        ("def f(x):\n    y = x\n    return y\n", "def f(x):\n    y: int = x\n    return y\n"),
        ("def f(x):\n    return x\n", "def f(x):\n    z: int\n    return x\n"),
        ("def f(x):\n    return x\n", "def f(x):  # type: (int) -> int\n    return x\n"),
        ("def f(x):\n    return x\n", "def f(x):\n    logger.warning('slow %s', x)\n    return x\n"),
        ("def f(x):\n    if x:\n        pass\n    return x\n",
         "def f(x):\n    if x:\n        logging.info('x')\n    return x\n"),
        ("def f(x):\n    return g(x, 1)\n", "def f(x):\n    return g(\n        x,\n        1,\n    )\n"),
        ("s = 'ab'\n", 's = ("a"\n     "b")\n'),
        ("def f(x):\n    return x\n", "@overload\ndef f(x: int) -> int: ...\n@typing.overload\ndef f(x: str) -> str: ...\ndef f(x):\n    return x\n"),
        ("x = 1\n", "from typing import TYPE_CHECKING\nx = 1\nif TYPE_CHECKING:\n    from a import T\n"),
        ("x = 1\n", "x = 1\nif __name__ == '__main__':\n    main()\n"),
        ("def f(x):\n    return x\n", "def f(x):\n    return x\nf.__doc__ = 'Doc.' + other\n"),
        ("class A:\n    y = 1\n", "class A:\n    x: int\n    y: int = 1\n"),
        ("def f():\n    return 1\n", "\r\ndef f():\r\n\treturn 1\r\n"),
    ],
)  # fmt: skip
def test_what_changes_nothing(old: str, new: str) -> None:
    kept = [code for code in codes(new) if "TYPE_CHECKING" not in code[1]]
    assert kept == codes(old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def f(x):\n    raise E('a')\n", "def f(x):\n    raise E('b')\n"),
        ("def f(x):\n    raise E(f'a {x}')\n", "def f(x):\n    raise E(f'b {x}')\n"),
        ("def f(x=1):\n    return x\n", "def f(x=2):\n    return x\n"),
        ("@a\ndef f(x):\n    return x\n", "@b\ndef f(x):\n    return x\n"),
        ("@dataclass\nclass A:\n    x: int\n", "@dataclass\nclass A:\n    y: int\n"),
        ("@dataclass\nclass A:\n    x: int\n", "@dataclass\nclass A:\n    x: float\n"),
        ("class A(NamedTuple):\n    x: int\n", "class A(NamedTuple):\n    x: float\n"),
        ("@triton.jit\ndef f(x: tl.constexpr):\n    return x\n", "@triton.jit\ndef f(x):\n    return x\n"),
        ("f = lambda x: x\n", "f = lambda x: -x\n"),
        ("f = partial(g, 1)\n", "f = partial(g, 2)\n"),
        ("def f():\n    def g():\n        return 1\n    return g\n", "def f():\n    def g():\n        return 2\n    return g\n"),
        ("class A:\n    x = 1\n", "class A:\n    x = 2\n"),
        ("if a:\n    x = 1\n", "if b:\n    x = 1\n"),
        ("try:\n    x = 1\nexcept* E:\n    x = 2\n", "try:\n    x = 1\nexcept* E:\n    x = 3\n"),
        ("def f():\n    mathlog(1)\n", "def f():\n    mathlog(2)\n"),
    ],
)  # fmt: skip
def test_what_changes_something(old: str, new: str) -> None:
    assert codes(old) != codes(new)


@pytest.mark.parametrize(
    ("text", "names", "attributes"),
    [
        ("setattr(Tensor, 'abs', f)\n", ["Tensor.abs"], [("Tensor", "abs", "f")]),
        ("for n, f in [('abs', g), ('acos', h)]:\n    setattr(Tensor, n, f)\n", ["Tensor.abs", "Tensor.acos"],
         [("Tensor", "abs", "g"), ("Tensor", "acos", "h")]),
        ("T = {'abs': g, 'acos': h}\nfor n, f in T.items():\n    setattr(Tensor, '__r' + n + '__', f)\n",
         ["T", "Tensor.__rabs__", "Tensor.__racos__"],
         [("Tensor", "__rabs__", "g"), ("Tensor", "__racos__", "h")]),
        ("for n in ('a', 'b'):\n    f = make(n)\n    globals()[f'{n}_'] = f\n", ["a_", "b_"], []),
        ("globals().update({'a': f, 'b': g})\n", ["a", "b"], []),
        ("globals().update(dict(a=f))\n", ["<module>"], []),
        ("for n in dir(m):\n    setattr(Tensor, n, f)\n", ["<module>"], []),
        ("for n in ['a']:\n    setattr(Tensor, n, f)\n    other(n)\n", ["<module>"], []),
        ("setattr(Tensor, 'a%s' % 'b', f)\nsetattr(Tensor, '{}_{}'.format('a', 'b'), f)\n", ["Tensor.ab", "Tensor.a_b"],
         [("Tensor", "ab", "f"), ("Tensor", "a_b", "f")]),
    ],
)  # fmt: skip
def test_names_made_by_calls_and_loops(
    text: str, names: list[str], attributes: list[tuple[str, str, str]]
) -> None:
    file = read(text)
    assert [d.name for d in file.definitions] == names
    assert [row[:3] for row in file.attributes] == attributes


def test_a_row_of_a_loop_is_told_from_the_others() -> None:
    loop = "for n, f in [('abs', g), ('acos', {})]:\n    setattr(Tensor, n, f)\n"
    old, new = ({d.name: d.code for d in read(loop.format(f)).definitions} for f in "hk")
    assert [name for name in old if old[name] != new[name]] == ["Tensor.acos"]


def test_names_in_annotations_are_not_used() -> None:
    (found,) = read(
        "def f(x: Tensor, *, y: List[T] = z) -> Out:\n    a: Q = g(x)\n    return a\n"
    ).definitions
    assert found.uses == {"z", "g", "x", "a"}


def test_exports_are_definitions() -> None:
    assert named("__all__ = ['a', 'b']\n__all__ += ['c']\n") == ["export a", "export b", "export c"]


@pytest.mark.parametrize(
    "text", ["print 'a'\n", "def f(:\n", "x = (\n", "a\0b", "type X[T = int] = T\nx = 1 ?\n"]
)
def test_what_is_not_python(text: str) -> None:
    assert read_python("m.py", text, "m") is None


def ops(changes: Changes) -> list[str]:
    return [op.op for op in changes.ops]


def test_a_function_put_into_another_module(changes_of: Run) -> None:
    patch = "import torch\n\ndef fast(x):\n    return x\n\ntorch.nn.functional.softsign = fast\n"
    path = "torch/nn/patches.py"
    changes = changes_of({**TREE, path: patch}, {path: patch.replace("= fast", "= other")})
    assert ops(changes) == ["nn.functional.softsign"]


def test_stubs_change_nothing(changes_of: Run) -> None:
    path = "torch/nn/functional.pyi"
    changes = changes_of(
        {**TREE, path: "def f(x: int) -> int: ...\n"}, {path: "def f(x: str) -> int: ...\n"}
    )
    assert (ops(changes), changes.unmapped) == ([], ())
    assert [note.partition(":")[0] for note in changes.notes] == [path]


@pytest.mark.parametrize("path", ["oneflow/_C/__init__.pyi", "torch/_C/_nn.pyi.in"])
def test_stubs_have_a_role_of_their_own(path: str) -> None:
    assert shared_role(path) == "stub"


def test_what_is_not_python_says_why(changes_of: Run) -> None:
    path = "torch/nn/functional.py"
    changes = changes_of({**TREE, path: "x = 1\n"}, {path: "x = 1\nprint 'x'\n"})
    (lost,) = changes.unmapped
    assert lost.why.startswith("cannot be parsed (head side: not Python 3.")
    assert "line 2" in lost.why
