"""MIOpen, MPS, dispatch macros, vector members, primitives, windows, sparse kernels and bindings, in PyTorch's layout."""

from __future__ import annotations

import pytest
from torch_tree import Run, Tree, aliases, edit

NATIVE = "aten/src/ATen/native/native_functions.yaml"
NORMALIZATION = "aten/src/ATen/native/Normalization.cpp"
MIOPEN = "aten/src/ATen/native/miopen/BatchNorm_miopen.cpp"
MPS = "aten/src/ATen/native/mps/operations/UnaryOps.mm"
CPU = "aten/src/ATen/native/cpu/UnaryOpsKernel.cpp"
VECTOR = "aten/src/ATen/cpu/vec/vec256/vec256_float.h"
WIDE = "aten/src/ATen/cpu/vec/vec512/vec512_float.h"
SPARSE = "aten/src/ATen/native/sparse/SparseCsrTensorMath.cpp"
PRIMS = "torch/_prims/__init__.py"
WINDOWS = "torch/signal/windows/windows.py"
PARSER = "torch/csrc/utils/python_arg_parser.cpp"


def _vector(width: int) -> str:
    return (
        f"#pragma once\nnamespace at::vec {{\ntemplate <> class Vectorized<float> {{\n  __m{width} values;\n public:\n"
        f"  Vectorized<float> exp() const {{ return Vectorized<float>(exp_{width}(values)); }}\n"
        f"  Vectorized<float> frac() const {{ return *this - this->trunc(); }}\n}};\n}}\n"
    )


def _unary(name: str) -> str:
    return (
        f"- func: {name}.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n  structured: True\n  dispatch:\n"
        f"    CPU, CUDA: {name}_out\n    MPS: {name}_out_mps\n\n"
        f"- func: {name}(Tensor self) -> Tensor\n  structured_delegate: {name}.out\n  variants: function, method\n\n"
    )


TREE: Tree = {
    NATIVE: (
        _unary("exp")
        + _unary("frac")
        + "- func: batch_norm(Tensor input) -> Tensor\n\n"
        + "- func: miopen_batch_norm(Tensor input) -> Tensor\n  dispatch:\n    CUDA: miopen_batch_norm\n\n"
        + "- func: addmv(Tensor self, Tensor mat, Tensor vec) -> Tensor\n  variants: function, method\n  dispatch:\n"
        + "    CPU: addmv_cpu\n    SparseCsrCPU: addmv_sparse_compressed\n"
    ),
    "aten/src/ATen/native/UnaryOps.cpp": (
        "namespace at::native {\nTORCH_IMPL_FUNC(exp_out)(const Tensor& self, const Tensor& out) { exp_stub(device_type(), *this); }\n"
        "TORCH_IMPL_FUNC(frac_out)(const Tensor& self, const Tensor& out) { frac_stub(device_type(), *this); }\n}\n"
    ),
    CPU: (
        "#include <ATen/cpu/vec/vec.h>\nnamespace at::native {\nnamespace CPU_CAPABILITY {\n"
        "static void exp_kernel(TensorIteratorBase& iter) {\n"
        '  AT_DISPATCH_FLOATING_TYPES(iter.dtype(), "exp_cpu", [&]() {\n'
        "    cpu_kernel_vec(iter, [](Vectorized<scalar_t> a) { return a.exp(); });\n  });\n}\n"
        "static void frac_kernel(TensorIteratorBase& iter) {\n"
        '  AT_DISPATCH_FLOATING_TYPES(iter.dtype(), "frac_cpu", [&]() {\n'
        "    cpu_kernel_vec(iter, [](Vectorized<scalar_t> a) { return a.frac(); });\n  });\n}\n}\n"
        "REGISTER_DISPATCH(exp_stub, &CPU_CAPABILITY::exp_kernel)\n"
        "REGISTER_DISPATCH(frac_stub, &CPU_CAPABILITY::frac_kernel)\n}\n"
    ),
    VECTOR: _vector(256),
    WIDE: _vector(512),
    "aten/src/ATen/cpu/vec/vec.h": (
        "#pragma once\n#include <ATen/cpu/vec/vec256/vec256_float.h>\n#include <ATen/cpu/vec/vec512/vec512_float.h>\n"
    ),
    MPS: (
        "namespace at::native {\n"
        'TORCH_IMPL_FUNC(exp_out_mps)(const Tensor& self, const Tensor& out) { mps::unary_op(self, out, "exp_out_mps"); }\n'
        'TORCH_IMPL_FUNC(frac_out_mps)(const Tensor& self, const Tensor& out) { mps::unary_op(self, out, "frac_out_mps"); }\n}\n'
    ),
    NORMALIZATION: (
        "namespace at::native {\nTensor batch_norm(const Tensor& input) {\n"
        "  if (use_miopen(input)) { return at::miopen_batch_norm(input); }\n  return input;\n}\n}\n"
    ),
    MIOPEN: "namespace at::native {\nTensor miopen_batch_norm(const Tensor& input) { return run(input, 1); }\n}\n",
    SPARSE: "namespace at::native {\nTensor addmv_sparse_compressed(const Tensor& self, const Tensor& mat, const Tensor& vec) { return run(self, 1); }\n}\n",
    PARSER: "namespace torch {\nbool is_int_list(PyObject* obj) { return PyTuple_Check(obj); }\n}\n",
    PRIMS: (
        'def _make_prim(name, impl_aten):\n    return impl_aten\n\nexp = _make_prim("exp", impl_aten=torch.exp)\n'
        'frac = _make_prim("frac", impl_aten=torch.frac)\n'
    ),
    "torch/_refs/__init__.py": (
        "import torch._prims as prims\n\ndef exp(a):\n    return prims.exp(a)\n\ndef frac(a):\n    return prims.frac(a)\n"
    ),
    "torch/signal/__init__.py": "from . import windows\n\n__all__ = ['windows']\n",
    "torch/signal/windows/__init__.py": "from .windows import cosine, hann\n\n__all__ = ['cosine', 'hann']\n",
    WINDOWS: "__all__ = ['cosine', 'hann']\n\ndef cosine(m):\n    return m + 1\n\ndef hann(m):\n    return m + 2\n",
    "torch/nn/functional.py": "import torch\n\ndef batch_norm(input):\n    return torch.batch_norm(input)\n",
    "torch/nn/__init__.py": "from . import functional\n",
    "torch/__init__.py": "from torch import nn, signal\n",
}


@pytest.mark.parametrize(
    ("file", "old", "new", "found", "other"),
    [
        (MIOPEN, "input, 1", "input, 2", "nn.functional.batch_norm", "exp"),
        (MPS, '"exp_out_mps"', '"exp"', "exp", "frac"),
        (
            CPU,
            "AT_DISPATCH_FLOATING_TYPES",
            "AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES",
            "exp",
            "frac",
        ),
        (SPARSE, "self, 1", "self, 2", "addmv", "exp"),
        (PRIMS, '_make_prim("exp", impl', '_make_prim("exp", 1, impl', "exp", "frac"),
        (WINDOWS, "m + 1", "m + 3", "signal.windows.cosine", "signal.windows.hann"),
    ],
)
def test_a_change_reaches_its_op_alone(
    changes_of: Run, file: str, old: str, new: str, found: str, other: str
) -> None:
    reached = aliases(changes_of(TREE, edit(TREE, file, old, new)))
    assert found in reached
    assert other not in reached


@pytest.mark.parametrize(
    ("file", "old", "new", "found"),
    [
        (VECTOR, "this->trunc()", "trunc(1)", "frac"),
        (WIDE, "exp_512(values)", "exp_512(values, 1)", "exp"),
    ],
)
def test_a_vector_s_member_reaches_the_kernel_that_calls_it(
    changes_of: Run, file: str, old: str, new: str, found: str
) -> None:
    # A class is one definition: the other kernels that name it are said too.
    assert found in aliases(changes_of(TREE, edit(TREE, file, old, new)))


def test_the_parser_of_every_binding_s_arguments_is_unmapped(changes_of: Run) -> None:
    changes = changes_of(TREE, edit(TREE, PARSER, "PyTuple_Check(obj)", "PyList_Check(obj)"))
    assert changes.ops == ()
    assert [row.file for row in changes.unmapped] == [PARSER]
