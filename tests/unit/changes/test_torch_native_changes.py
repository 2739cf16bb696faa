"""PyTorch's chains through yaml, kernels and stubs, on a small repository in its layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.changes.change import Changes

Tree = dict[str, str | bytes | None]
Run = Callable[[Tree, Tree], Changes]

NATIVE = "aten/src/ATen/native/native_functions.yaml"
TREE: Tree = {
    NATIVE: (
        "- func: softplus.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n  structured: True\n"
        "  python_module: nn\n  dispatch:\n    CPU, CUDA: softplus_out\n\n"
        "- func: softplus(Tensor self) -> Tensor\n  structured_delegate: softplus.out\n  python_module: nn\n\n"
        "- func: softplus_backward.grad_input(Tensor g, Tensor self, *, Tensor(a!) grad_input) -> Tensor(a!)\n"
        "  structured: True\n  python_module: nn\n  dispatch:\n    CPU, CUDA: softplus_backward_out\n\n"
        "- func: masked_fill_.Scalar(Tensor(a!) self, Tensor mask) -> Tensor(a!)\n  variants: method\n"
        "  dispatch:\n    CPU: masked_fill__cpu\n    CUDA: masked_fill__cuda\n\n"
        "- func: hinge(Tensor self) -> Tensor\n  variants: function, method\n\n"
        "- func: _addmm_activation(Tensor self) -> Tensor\n  variants: function\n"
        "  dispatch:\n    CPU: addmm_activation_cpu\n\n"
        "- func: fused_thing(Tensor self) -> Tensor\n  variants: function, method\n"
    ),
    "tools/autograd/derivatives.yaml": (
        "- name: softplus(Tensor self) -> Tensor\n  self: softplus_backward(grad, self)\n\n"
        "- name: hinge(Tensor self) -> Tensor\n  self: hinge_helper(grad)\n"
    ),
    "torch/csrc/autograd/FunctionsManual.cpp": (
        "namespace torch { Tensor hinge_helper(Tensor g) { return g; }\nTensor other(Tensor g) { return g; } }\n"
    ),
    "aten/src/ATen/native/Activation.h": "#pragma once\nusing fn = void (*)(int);\nDECLARE_DISPATCH(fn, softplus_backward_stub)\n",
    "aten/src/ATen/native/Activation.cpp": (
        '#include <ATen/native/Activation.h>\nnamespace at::meta {\nTORCH_META_FUNC(softplus)(const Tensor& self) {\n  build(1);\n}\n}\n'
        "namespace at::native {\nDEFINE_DISPATCH(softplus_backward_stub);\n"
        "TORCH_IMPL_FUNC(softplus_out)(const Tensor& self) {\n  run(1);\n}\n"
        "TORCH_IMPL_FUNC(softplus_backward_out)(const Tensor& g) {\n  softplus_backward_stub(device_type(), *this);\n}\n"
        "Tensor hinge(const Tensor& self) { return self + 1; }\n"
        "Tensor fused_thing(const Tensor& self) { return at::_addmm_activation(self); }\n"
        "Tensor addmm_activation_cpu(const Tensor& self) { return self; }\n"
        "Tensor& masked_fill__cpu(Tensor& self) { return self; }\n}\n"
    ),
    "aten/src/ATen/native/cpu/Activation.cpp": (
        "#include <ATen/native/Activation.h>\nnamespace at::native {\nnamespace {\n"
        "void softplus_backward_kernel(int x) { loop(x); }\n}\n"
        "REGISTER_DISPATCH(softplus_backward_stub, &softplus_backward_kernel)\n}\n"
    ),
    "aten/src/ATen/native/mkldnn/Conv.cpp": "namespace at::native { static int pick(int x) { return x; } }\n",
    "torch/__init__.py": "from torch import nn\n",
    "torch/nn/__init__.py": "from .modules import *\n",
    "torch/nn/functional.py": "import torch\n\nsoftplus = _add_docstr(torch._C._nn.softplus, 'docs')\n",
    "torch/nn/modules/__init__.py": "from .activation import Softplus\n",
    "torch/nn/modules/activation.py": (
        "import torch.nn.functional as F\n\nclass Softplus:\n    def forward(self, x):\n        return F.softplus(x)\n"
    ),
}  # fmt: skip
SOFTPLUS = {"torch.nn.functional.softplus", "torch.nn.Softplus"}
CPP = "aten/src/ATen/native/Activation.cpp"


def edit(file: str, old: str, new: str) -> Tree:
    text = TREE[file]
    assert isinstance(text, str)
    assert old in text
    return {file: text.replace(old, new, 1)}


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("aten/src/ATen/native/cpu/Activation.cpp", "loop(x)", "loop(x + 1)", SOFTPLUS),
        (CPP, "run(1)", "run(2)", SOFTPLUS),
        (CPP, "build(1)", "build(2)", SOFTPLUS),
        (CPP, "device_type()", "device()", SOFTPLUS),
        (NATIVE, "CPU, CUDA: softplus_out", "CPU: softplus_out", SOFTPLUS),
        ("tools/autograd/derivatives.yaml", "softplus_backward(grad, self)", "softplus_backward(grad, 2 * self)", SOFTPLUS),
        (CPP, "self + 1", "self + 2", {"torch.hinge", "torch.Tensor.hinge"}),
        ("torch/csrc/autograd/FunctionsManual.cpp", "return g;", "return -g;", {"torch.hinge", "torch.Tensor.hinge"}),
        (CPP, "masked_fill__cpu(Tensor& self) { return self;", "masked_fill__cpu(Tensor& self) { return other;", {"torch.Tensor.masked_fill_"}),
        (CPP, "addmm_activation_cpu(const Tensor& self) { return self;", "addmm_activation_cpu(const Tensor& self) { return x;", {"torch.fused_thing", "torch.Tensor.fused_thing"}),
    ],
)  # fmt: skip
def test_each_link_leads_to_the_ops(
    changes_of: Run, file: str, old: str, new: str, expected: set[str]
) -> None:
    changes = changes_of(TREE, edit(file, old, new))
    assert {alias for op in changes.ops for alias in op.aliases} == expected
    assert not any(op.in_python for op in changes.ops)
    assert changes.framework == "torch"


def test_in_place_forms_are_of_their_ops_group(changes_of: Run) -> None:
    edits = edit(
        CPP,
        "masked_fill__cpu(Tensor& self) { return self;",
        "masked_fill__cpu(Tensor& self) { return x;",
    )
    assert [op.op for op in changes_of(TREE, edits).ops] == ["masked_fill"]


def test_a_convolution_backend_reaches_every_convolution(changes_of: Run) -> None:
    changes = changes_of(
        TREE, edit("aten/src/ATen/native/mkldnn/Conv.cpp", "return x", "return -x")
    )
    expected = {f"nn.functional.conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)}
    assert {op.op for op in changes.ops} == expected
