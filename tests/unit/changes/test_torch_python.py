"""PyTorch's Python: functional, modules, references, registrations, Tensor's methods, optimizers."""

from __future__ import annotations

import pytest
from torch_tree import Run, Tree, aliases, edit

NATIVE = "aten/src/ATen/native/native_functions.yaml"
FUNCTIONAL = "torch/nn/functional.py"
TENSOR = "torch/_tensor.py"
TREE: Tree = {
    NATIVE: (
        "- func: max_pool2d_with_indices(Tensor self) -> (Tensor, Tensor)\n  python_module: nn\n  dispatch:\n    CPU: pool_cpu\n\n"
        "- func: max_pool2d(Tensor self) -> Tensor\n\n"
        "- func: lstm.input(Tensor self) -> Tensor\n\n"
        "- func: softmax.int(Tensor self, int dim) -> Tensor\n  variants: function, method\n\n"
        "- func: grid_sampler(Tensor self) -> Tensor\n\n"
        "- func: special_zeta(Tensor self) -> Tensor\n  python_module: special\n  variants: function\n  dispatch:\n    CPU: special_zeta\n\n"
        "- func: erf(Tensor self) -> Tensor\n  variants: function, method\n\n"
        "- func: _fused_adam_(Tensor(a!)[] self) -> ()\n  variants: function\n  dispatch:\n    CUDA: _fused_adam_cuda_\n\n"
        "- func: relu6(Tensor self) -> Tensor\n  python_module: nn\n"
    ),
    "aten/src/ATen/native/Pool.cpp": (
        "namespace at::native {\nTensor pool_cpu(const Tensor& self) { return self; }\n"
        "Tensor lstm(const Tensor& self) { return self + 1; }\nTensor softmax(const Tensor& self, int64_t dim) { return self + 2; }\n"
        "Tensor grid_sampler(const Tensor& self) { return self + 3; }\nTensor special_zeta(const Tensor& self) { return self + 4; }\n"
        "void _fused_adam_cuda_(TensorList self) { run(5); }\n}\n"
    ),
    "torch/__init__.py": "from torch import nn, optim\nfrom ._tensor import Tensor\nfrom .functional import norm\nfrom torch import special as special\n",
    "torch/special/__init__.py": "from torch._C import _add_docstr, _special\n\nzeta = _add_docstr(_special.special_zeta, 'docs')\n",
    "torch/functional.py": "import torch\nfrom torch import _VF\n\ndef norm(input, p=2):\n    return _VF.frobenius(input, p)\n",
    TENSOR: (
        "import torch\n\nclass Tensor(torch._C.TensorBase):\n    def split(self, size):\n"
        "        from torch.overrides import has_torch_function, handle_torch_function\n        return torch._VF.split(self, size)\n\n"
        "    def unique(self):\n        return torch.unique(self)\n"
    ),
    "torch/_jit_internal.py": "def boolean_dispatch(arg_name, if_true, if_false):\n    return if_true\n",
    FUNCTIONAL: (
        "import torch\nfrom torch._jit_internal import boolean_dispatch\n\n"
        "def max_pool2d_with_indices(input):\n    return torch._C._nn.max_pool2d_with_indices(input)\n\n"
        "def _max_pool2d(input):\n    return torch.max_pool2d(input)\n\n"
        "max_pool2d = boolean_dispatch(arg_name='x', if_true=max_pool2d_with_indices, if_false=_max_pool2d)\n\n"
        "def softmax(input, dim):\n    return input.softmax(dim)\n\n"
        "def grid_sample(input):\n    return torch.grid_sampler(input)\n\n"
        "def _scaled(input):\n    return input * 2\n\ndef celu(input):\n    return _scaled(input)\n"
    ),
    "torch/nn/__init__.py": "from .modules import *\n",
    "torch/nn/modules/__init__.py": "from .all import MaxPool2d, LSTM, CELU\n",
    "torch/nn/modules/all.py": (
        "import torch\nfrom torch import _VF\nfrom .. import functional as F\n\n"
        "class MaxPool2d:\n    def forward(self, x):\n        return F.max_pool2d(x)\n\n"
        "class LSTM:\n    def forward(self, x):\n        return _VF.lstm(x)\n\n"
        "class CELU:\n    def forward(self, x):\n        return F.celu(x)\n\n    def extra_repr(self):\n        return ''\n"
    ),
    "torch/_refs/__init__.py": "import torch\n\ndef erf(a):\n    return prim(a, 1)\n",
    "torch/_decomp/decompositions.py": (
        "import torch\nfrom torch._decomp import register_decomposition\n\naten = torch.ops.aten\n\n"
        "@register_decomposition([aten.erf])\ndef erf_by_parts(a):\n    return prim(a, 2)\n"
    ),
    "torch/_meta_registrations.py": (
        "import torch\n\naten = torch.ops.aten\n\n@register_meta(aten.special_zeta.default)\ndef meta_zeta(a):\n    return a.new_empty(3)\n"
    ),
    "torch/_inductor/lowering.py": (
        "import torch\n\naten = torch.ops.aten\n\n@register_lowering(aten.erf)\ndef lower_erf(a):\n    return a * 4\n\n"
        "register_pointwise(aten.special_zeta)\n"
    ),
    "torch/optim/__init__.py": "from .adam import Adam\n",
    "torch/optim/adam.py": (
        "import torch\n\nclass Adam:\n    def step(self):\n        adam([], 1)\n\n\ndef adam(params, lr):\n    _fused_adam(params)\n\n\n"
        "def _fused_adam(params):\n    torch._fused_adam_(params)\n"
    ),
    "torch/overrides.py": "import torch\n\ndef get_testing_overrides():\n    return {torch.erf: lambda input: -1}\n",
    "torch/_C/_nn.pyi": "def relu6(input): ...\n",
}  # fmt: skip
POOL = {
    "nn.functional.max_pool2d", "nn.functional.max_pool2d_with_indices", "nn.MaxPool2d",
}  # fmt: skip
ERF = {"erf", "Tensor.erf"}
CPP = "aten/src/ATen/native/Pool.cpp"


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (CPP, "pool_cpu(const Tensor& self) { return self;", "pool_cpu(const Tensor& self) { return x;", POOL),
        (CPP, "self + 1", "self - 1", {"lstm", "nn.LSTM"}),
        (CPP, "self + 2", "self - 2", {"softmax", "Tensor.softmax", "nn.functional.softmax"}),
        (CPP, "self + 3", "self - 3", {"grid_sampler", "nn.functional.grid_sample"}),
        (CPP, "self + 4", "self - 4", {"special.zeta"}),
        (CPP, "run(5)", "run(6)", {"_fused_adam_", "optim.Adam"}),
        (FUNCTIONAL, "torch.max_pool2d(input)", "torch.max_pool2d(input, 1)", {"nn.functional.max_pool2d", "nn.MaxPool2d"}),
        (FUNCTIONAL, "input * 2", "input * 3", {"nn.functional.celu", "nn.CELU"}),
        ("torch/_refs/__init__.py", "prim(a, 1)", "prim(a, 3)", {"erf"}),
        ("torch/_decomp/decompositions.py", "prim(a, 2)", "prim(a, 3)", ERF),
        ("torch/_meta_registrations.py", "new_empty(3)", "new_empty(4)", {"special.zeta"}),
        ("torch/_inductor/lowering.py", "a * 4", "a * 5", ERF),
        ("torch/_inductor/lowering.py", "register_pointwise(aten.special_zeta)", "register_pointwise(aten.special_zeta, 1)", {"special.zeta"}),
        (TENSOR, "_VF.split(self, size)", "_VF.split(self, size, 0)", {"Tensor.split"}),
        (TENSOR, "torch.unique(self)", "torch.unique(self, 1)", {"Tensor.unique"}),
        ("torch/functional.py", "frobenius(input, p)", "frobenius(input)", {"norm"}),
        ("torch/optim/adam.py", "adam([], 1)", "adam([], 2)", {"optim.Adam"}),
    ],
)  # fmt: skip
def test_each_definition_leads_to_its_ops(
    changes_of: Run, file: str, old: str, new: str, expected: set[str]
) -> None:
    assert aliases(changes_of(TREE, edit(TREE, file, old, new))) == expected


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("torch/overrides.py", "-1", "-2"),
        ("torch/_C/_nn.pyi", "input", "input: Tensor"),
        ("torch/nn/modules/all.py", "return ''", "return 'x'"),
        (TENSOR, "        from torch.overrides import has_torch_function, handle_torch_function\n", ""),
    ],
)  # fmt: skip
def test_what_computes_nothing_changes_no_op(
    changes_of: Run, file: str, old: str, new: str
) -> None:
    changes = changes_of(TREE, edit(TREE, file, old, new))
    assert not changes.ops
    assert not changes.unmapped
