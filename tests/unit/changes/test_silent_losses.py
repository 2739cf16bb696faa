"""Changes that are easily read as none: conditions, tables of methods, removed registrations, limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_oneflow_changes import TREE as ONEFLOW
from test_python_changes import TREE as PYTHON
from test_torch_native_changes import TREE as TORCH

from bot.changes.change import Changes

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
