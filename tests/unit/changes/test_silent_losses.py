"""Changes that are easily read as none: conditions, tables of methods, removed registrations, limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_oneflow_changes import TREE as ONEFLOW
from test_python_changes import TREE as PYTHON
from test_torch_native_changes import TREE as TORCH

from bot.changes.change import Changes
from bot.changes.sources.yaml_entries import read_entries

Tree = dict[str, str | bytes | None]
Run = Callable[[Tree, Tree], Changes]

FUNCTIONAL = "torch/nn/functional.py"
KERNEL = "aten/src/ATen/native/cpu/Extra.cpp"
STUBS = """#include <ATen/native/Activation.h>
namespace at::native {
REGISTER_DISPATCH(softplus_backward_stub, &softplus_backward_kernel)
REGISTER_DISPATCH(other_stub, &other_kernel)
}
"""


def ops(changes: Changes) -> list[str]:
    return [op.op for op in changes.ops]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if FAST:\n    def f(x):\n        return x\n", "if not FAST:\n    def f(x):\n        return x\n"),
        ("if FAST:\n    def f(x):\n        return x\nelse:\n    def f(x):\n        return -x\n",
         "if FAST:\n    def f(x):\n        return -x\nelse:\n    def f(x):\n        return x\n"),
        ("try:\n    import q\nexcept ImportError:\n    def f(x):\n        return x\n",
         "try:\n    import q\nexcept OSError:\n    def f(x):\n        return x\n"),
        ("with mode(1):\n    def f(x):\n        return x\n", "with mode(2):\n    def f(x):\n        return x\n"),
    ],
)  # fmt: skip
def test_what_a_definition_stands_under_is_part_of_it(changes_of: Run, old: str, new: str) -> None:
    changes = changes_of({**PYTHON, FUNCTIONAL: old}, {FUNCTIONAL: new})
    assert ops(changes) == ["torch.nn.functional.f".removeprefix("torch.")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("#ifdef WIDE\n{f}\n#endif", "#ifndef WIDE\n{f}\n#endif"),
        ("#ifdef WIDE\n{f}\n#else\n{g}\n#endif", "#ifdef WIDE\n{g}\n#else\n{f}\n#endif"),
        ("#if WIDE\n{f}\n#endif", "#if WIDE > 2\n{f}\n#endif"),
    ],
)
def test_so_it_is_in_cpp(changes_of: Run, old: str, new: str) -> None:
    path = "aten/src/ATen/native/Extra.cpp"
    functions = {
        "f": "Tensor hinge(const Tensor& self) { return self; }",
        "g": "Tensor hinge(const Tensor& self) { return -self; }",
    }
    changes = changes_of({**TORCH, path: old.format(**functions)}, {path: new.format(**functions)})
    assert ops(changes) == ["hinge"]


def test_a_removed_registration_is_followed_beside_a_changed_one(changes_of: Run) -> None:
    changed = STUBS.replace("&other_kernel", "&new_kernel").replace(
        "REGISTER_DISPATCH(softplus_backward_stub, &softplus_backward_kernel)\n", ""
    )
    changes = changes_of({**TORCH, KERNEL: STUBS}, {KERNEL: changed})
    assert "nn.functional.softplus" in ops(changes)


TENSOR = """import oneflow

def _first(self):
    return 1

def _second(self):
    return 2

def RegisterMethods():
    Tensor.abs = _first
    Tensor.acos = _second
    Tensor.ndim = property(_first)
"""


@pytest.mark.parametrize(
    ("old", "new", "alias"),
    [
        ("Tensor.abs = _first", "Tensor.abs = _second", "oneflow.Tensor.abs"),
        ("    Tensor.acos = _second\n", "", "oneflow.Tensor.acos"),
        ("property(_first)", "property(_second)", "oneflow.Tensor.ndim"),
    ],
)
def test_a_row_of_a_table_of_methods_in_python(
    changes_of: Run, old: str, new: str, alias: str
) -> None:
    path = "python/oneflow/framework/tensor.py"
    tree = {**ONEFLOW, path: TENSOR}
    changes = changes_of(tree, {path: TENSOR.replace(old, new)})
    assert [name for op in changes.ops for name in op.aliases] == [alias]


def noted(changes: Changes, words: str) -> bool:
    return any(words in note for note in changes.notes)


def test_users_beyond_a_limit_are_said_to_be_left_out(changes_of: Run) -> None:
    users = "".join(f"def user{n}(x):\n    return softsign(x)\n\n" for n in range(13))
    text = "def softsign(x):\n    return x\n\n" + users
    changes = changes_of(
        {**PYTHON, FUNCTIONAL: text}, {FUNCTIONAL: text.replace("return x\n", "return -x\n", 1)}
    )
    assert ops(changes) == ["nn.functional.softsign"]
    assert noted(changes, "torch.nn.functional.softsign has 14 users in Python: not followed")


def composites_of_softplus(changes_of: Run, *functors: str, public: tuple[str, ...]) -> Changes:
    """A changed softplus that some functors call, of which some are functionals."""
    path = "oneflow/core/functional/impl/activation_functor.cpp"
    yaml = "oneflow/core/functional/functional_api.yaml"
    text, entries = str(ONEFLOW[path]), str(ONEFLOW[yaml])
    for name in functors:
        body = "int F() { return functional::Softplus(x); }"
        text = text.replace(
            "class GatherFunctor", f"class {name}Functor {{ {body} }};\nclass GatherFunctor"
        )
    for name in public:
        added = (
            f'm.add_functor<impl::{name}Functor>("{name}");\n  m.add_functor<impl::GatherFunctor>'
        )
        text = text.replace("m.add_functor<impl::GatherFunctor>", added)
        entries += f'\n- name: "{name.lower()}"\n  signature: "Tensor (Tensor x) => {name}"\n  bind_python: True\n'
    changed = text.replace('("softplus").Build()', '("softplus").Input(1).Build()')
    return changes_of({**ONEFLOW, path: text, yaml: entries}, {path: changed})


def test_the_one_composite_of_a_public_op_is_indirect(changes_of: Run) -> None:
    changes = composites_of_softplus(changes_of, "Mish", public=("Mish",))
    found = {op.op: op.how for op in changes.ops}
    assert found == {"nn.functional.softplus": "direct", "nn.functional.mish": "indirect"}


def test_a_composite_that_is_not_public_is_no_op(changes_of: Run) -> None:
    changes = composites_of_softplus(changes_of, "Mish", public=())
    assert ops(changes) == ["nn.functional.softplus"]


def test_composites_of_a_public_op_are_said_to_be_left_out(changes_of: Run) -> None:
    many = ("Mish", "Swish", "Elu")  # two would be told
    changes = composites_of_softplus(changes_of, *many, public=many)
    assert ops(changes) == ["nn.functional.softplus"]
    assert noted(changes, "3 composites that call functional softplus in C++: not followed")


def test_composites_in_cpp_of_a_public_op_of_pytorch_too(changes_of: Run) -> None:
    path = "aten/src/ATen/native/Activation.cpp"
    text = str(TORCH[path])
    changes = changes_of(TORCH, {path: text.replace("self + 1", "self + 2")})
    assert noted(changes, "composites that call hinge in C++ are not followed")


def test_steps_beyond_the_first_indirect_one_are_said_to_be_left_out(changes_of: Run) -> None:
    users = [
        f"def user{n}(x):\n    return _middle(x)\n\ndef _other{n}(x):\n    return _base(x)\n\n"
        for n in range(4)
    ]
    text = "def _base(x):\n    return x\n\ndef _middle(x):\n    return _base(x)\n\n" + "".join(
        users
    )
    changes = changes_of(
        {**PYTHON, FUNCTIONAL: text}, {FUNCTIONAL: text.replace("return x\n", "return -x\n", 1)}
    )
    assert ops(changes) == []
    assert noted(changes, "more than 1 step through shared code away from a change: not followed")


def test_a_module_that_cannot_be_read_is_named(changes_of: Run) -> None:
    tree = {**PYTHON, "torch/nn/broken.py": "def user(x:\n  return softsign(x)\n"}
    text = str(PYTHON[FUNCTIONAL])
    changes = changes_of(tree, {FUNCTIONAL: text.replace("factor\n", "factor + 1\n", 1)})
    assert noted(changes, "torch/nn/broken.py cannot be read as Python")


def test_aliases_of_aliases_in_yaml_cost_nothing() -> None:
    lines = ["- &a0 {name: x}"] + [
        f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)
    ]
    assert read_entries("\n".join(lines)) is None
    assert read_entries("- &a {name: x}\n- {name: [*a, *a]}") is not None


def test_an_import_taken_from_under_its_user_is_followed(changes_of: Run) -> None:
    text = "from math import exp\nimport os\n\ndef softsign(x):\n    return exp(x)\n"
    without = {FUNCTIONAL: text.replace("from math import exp\n", "")}
    assert ops(changes_of({**PYTHON, FUNCTIONAL: text}, without)) == ["nn.functional.softsign"]


def test_an_import_that_nobody_used_is_not(changes_of: Run) -> None:
    text = "from math import exp\nimport os\n\ndef softsign(x):\n    return exp(x)\n"
    changes = changes_of(
        {**PYTHON, FUNCTIONAL: text}, {FUNCTIONAL: text.replace("import os\n", "")}
    )
    assert ops(changes) == []
    assert changes.unmapped == ()
