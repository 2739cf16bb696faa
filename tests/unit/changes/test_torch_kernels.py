"""PyTorch 2's kernels, macros and registrations, on a small repository in its layout."""

from __future__ import annotations

import pytest
from torch_tree import Run, Tree, aliases, edit

NATIVE = "aten/src/ATen/native/native_functions.yaml"
UNARY = "aten/src/ATen/native/UnaryOps.cpp"
CPU = "aten/src/ATen/native/cpu/UnaryOpsKernel.cpp"
CUDA = "aten/src/ATen/native/cuda/UnaryGammaKernels.cu"
MATH = "aten/src/ATen/native/cuda/Math.cuh"
COL = "aten/src/ATen/native/cuda/col.cuh"
CONVOLUTION = "aten/src/ATen/native/Convolution.cpp"
LINEAR = "aten/src/ATen/native/Linear.cpp"
FOREACH = "aten/src/ATen/native/cuda/ForeachUnaryOp.cu"
LIBRARY = "aten/src/ATen/native/quantized/cpu/qconv.cpp"
SPARSE = "aten/src/ATen/native/sparse/SparseTensorMath.cpp"
TREE: Tree = {
    NATIVE: (
        "- func: exp.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n  structured: True\n  dispatch:\n    CPU, CUDA: exp_out\n\n"
        "- func: exp(Tensor self) -> Tensor\n  structured_delegate: exp.out\n  variants: function, method\n\n"
        "- func: sin.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n  structured: True\n  dispatch:\n    CPU, CUDA: sin_out\n\n"
        "- func: sin(Tensor self) -> Tensor\n  structured_delegate: sin.out\n  variants: function, method\n\n"
        "- func: digamma.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n  structured: True\n  dispatch:\n    CPU, CUDA: digamma_out\n\n"
        "- func: digamma(Tensor self) -> Tensor\n  structured_delegate: digamma.out\n  variants: function, method\n\n"
        "- func: im2col(Tensor self) -> Tensor\n  python_module: nn\n  dispatch:\n    CUDA: im2col_cuda\n\n"
        "- func: col2im(Tensor self) -> Tensor\n  python_module: nn\n  dispatch:\n    CUDA: col2im_cuda\n\n"
        "- func: _foreach_exp(Tensor[] self) -> Tensor[]\n  variants: function\n  dispatch:\n    CUDA: foreach_tensor_exp_cuda\n\n"
        "- func: _foreach_sin(Tensor[] self) -> Tensor[]\n  variants: function\n  dispatch:\n    CUDA: foreach_tensor_sin_cuda\n\n"
        "- func: mkldnn_linear(Tensor self) -> Tensor\n  python_module: nn\n  dispatch:\n    MkldnnCPU: mkldnn_linear\n\n"
        "- func: linear(Tensor self) -> Tensor\n  python_module: nn\n  dispatch:\n    CompositeImplicitAutograd: linear\n\n"
        "- func: slow_conv_transpose3d(Tensor self) -> Tensor\n  python_module: nn\n  dispatch:\n    CPU: slow_conv_transpose3d_cpu\n\n"
        "- func: cudnn_convolution(Tensor self) -> Tensor\n  dispatch:\n    CUDA: cudnn_convolution\n\n"
        "- func: _convolution(Tensor self) -> Tensor\n\n"
        "- func: ldexp(Tensor self) -> Tensor\n  variants: function, method\n\n"
        "- func: logical_xor(Tensor self) -> Tensor\n  variants: function, method\n  dispatch:\n    CompositeExplicitAutograd: logical_xor\n\n"
        "- func: _private_only(Tensor self) -> Tensor\n  dispatch:\n    CPU: private_only_cpu\n\n"
        "- func: hspmm(Tensor self) -> Tensor\n  dispatch:\n    SparseCPU: hspmm_sparse_cpu\n"
    ),
    "aten/src/ATen/native/DispatchStub.h": (
        "#pragma once\n#define REGISTER_ARCH_DISPATCH(name, arch, fn) template <> FnPtr DispatchStub<FnPtr, struct name>::arch = fn;\n"
        "#define REGISTER_DISPATCH(name, fn) REGISTER_ARCH_DISPATCH(name, CPU_CAPABILITY, fn)\n"
        "#define TORCH_IMPL_FUNC(name) void structured_##name::impl\n"
    ),
    "aten/src/ATen/native/UnaryOps.h": "#pragma once\n#include <ATen/native/DispatchStub.h>\nDECLARE_DISPATCH(fn, exp_stub)\nDECLARE_DISPATCH(fn, sin_stub)\nDECLARE_DISPATCH(fn, digamma_stub)\n",
    UNARY: (
        "#include <ATen/native/UnaryOps.h>\nnamespace at::native {\n"
        "#define CREATE_UNARY_TORCH_IMPL_FUNC(func_out, func_stub) \\\n"
        "  TORCH_IMPL_FUNC(func_out)(const Tensor& self, const Tensor& out) { func_stub(device_type(), *this); }\n\n"
        "CREATE_UNARY_TORCH_IMPL_FUNC(exp_out, exp_stub)\nCREATE_UNARY_TORCH_IMPL_FUNC(sin_out, sin_stub)\n"
        "CREATE_UNARY_TORCH_IMPL_FUNC(digamma_out, digamma_stub)\n"
        "Tensor ldexp(const Tensor& self) { return self * 2; }\n"
        "Tensor logical_xor(const Tensor& self) { return self ^ 1; }\n"
        "Tensor private_only_cpu(const Tensor& self) { return self; }\n"
        "}\n"
    ),
    CPU: (
        "#include <ATen/native/UnaryOps.h>\nnamespace at::native {\nnamespace CPU_CAPABILITY {\n"
        "static void sin_kernel(TensorIteratorBase& iter) { vec_loop(iter, 1); }\n}\n"
        "#define IMPLEMENT_VML_KERNEL(op) \\\n"
        "  static void op##_kernel(TensorIteratorBase& iter) { vml(iter, 1); } \\\n"
        "  REGISTER_DISPATCH(op##_stub, &op##_kernel)\n\n"
        "IMPLEMENT_VML_KERNEL(exp)\nREGISTER_DISPATCH(sin_stub, &CPU_CAPABILITY::sin_kernel)\n}\n"
    ),
    MATH: (
        "#pragma once\nnamespace at::native {\nconst auto digamma_string = jiterator_stringify(\n"
        "  template <typename T> T digamma(T x) { return x + 1; }\n);\n"
        "template <typename T> T calc_sin(T x) { return x + 3; }\n}\n"
    ),
    CUDA: (
        "#include <ATen/native/cuda/Math.cuh>\n#include <ATen/native/UnaryOps.h>\nnamespace at::native {\n"
        "void digamma_kernel_cuda(TensorIteratorBase& iter) { jitted_gpu_kernel<1>(iter, digamma_string); }\n"
        "REGISTER_DISPATCH(digamma_stub, &digamma_kernel_cuda)\n}\n"
    ),
    COL: (
        "#pragma once\nnamespace at::native {\n"
        "template <typename T> void copy_block(const local_pointer<T>& address, T value) { put(address, 1); }\n"
        "template <typename T> void copy_block(const global_pointer<T>& address, T value) { put(address, 2); }\n}\n"
    ),
    "aten/src/ATen/native/cuda/Im2Col.cu": (
        "#include <ATen/native/cuda/col.cuh>\nnamespace at::native {\n"
        "Tensor im2col_cuda(const Tensor& self) { copy_block((global_pointer<float>)self, 1.f); return self; }\n}\n"
    ),
    "aten/src/ATen/native/cuda/Col2Im.cu": (
        "#include <ATen/native/cuda/col.cuh>\nnamespace at::native {\n"
        "Tensor col2im_cuda(const Tensor& self) { copy_block(local_pointer<float>(self), 1.f); return self; }\n}\n"
    ),
    FOREACH: (
        "namespace at::native {\ntemplate <typename F> std::vector<Tensor> foreach_unary(TensorList t) { return apply(t, 1); }\n"
        "#define FOREACH_OP(NAME, FUNCTOR) \\\n  std::vector<Tensor> foreach_tensor_##NAME##_cuda(TensorList t) { return foreach_unary<FUNCTOR>(t); }\n\n"
        "template <typename T> struct Exp { T operator()(T t) const { return exp(t); } };\n"
        "template <typename T> struct Sin { T operator()(T t) const { return sin(t); } };\n"
        "FOREACH_OP(exp, Exp)\nFOREACH_OP(sin, Sin)\n}\n"
    ),
    "aten/src/ATen/native/mkldnn/Linear.cpp": (
        "namespace at::native {\nstatic int blocks(int n) { return n; }\n"
        "Tensor mkldnn_linear(const Tensor& self) { return run(self, blocks(1)); }\n}\n"
    ),
    LINEAR: "namespace at::native {\nTensor linear(const Tensor& self) { return at::mkldnn_linear(self); }\n}\n",
    "aten/src/ATen/native/NaiveConvolutionTranspose3d.cpp": (
        "namespace at::native {\nTensor slow_conv_transpose3d_cpu(const Tensor& self) { return self; }\n}\n"
    ),
    "aten/src/ATen/native/cudnn/Conv_v8.cpp": "namespace at::native {\nTensor cudnn_convolution(const Tensor& self) { return self; }\n}\n",
    CONVOLUTION: "namespace at::native {\nTensor _convolution(const Tensor& self) { return at::cudnn_convolution(self); }\n}\n",
    LIBRARY: (
        "namespace at::native {\nclass QConv final {\n public:\n  static Tensor run(Tensor act) { return act; }\n};\n"
        'TORCH_LIBRARY_IMPL(quantized, QuantizedCPU, m) {\n  m.impl(TORCH_SELECTIVE_NAME("quantized::conv9d"), TORCH_FN(QConv::run));\n}\n'
        "static Tensor dense_ldexp(const Tensor& self) { return self; }\n"
        'TORCH_LIBRARY_IMPL(aten, Meta, m) {\n  m.impl("ldexp", TORCH_FN(dense_ldexp));\n}\n}\n'
    ),
    SPARSE: "namespace at::native {\nTensor hspmm_sparse_cpu(const Tensor& self) { return self; }\n}\n",
    "torch/__init__.py": "from torch import nn\n",
    "torch/nn/__init__.py": "from .modules import *\n",
    "torch/nn/functional.py": (
        "import torch\nfrom torch._jit_internal import boolean_dispatch\n\n"
        "linear = _add_docstr(torch._C._nn.linear, 'docs')\n"
        "def fold(input):\n    return torch._C._nn.col2im(input)\n\n"
        "def unfold(input):\n    return torch._C._nn.im2col(input)\n"
    ),
    "torch/nn/modules/__init__.py": "from .fold import Fold, Unfold\n",
    "torch/nn/modules/fold.py": (
        "import torch.nn.functional as F\n\nclass Fold:\n    def forward(self, x):\n        return F.fold(x)\n\n"
        "class Unfold:\n    def forward(self, x):\n        return F.unfold(x)\n"
    ),
}  # fmt: skip
SIN = {"sin", "Tensor.sin"}
EXP = {"exp", "Tensor.exp"}
DIGAMMA = {"digamma", "Tensor.digamma"}
FOLD = {"nn.functional.fold", "nn.Fold"}
UNFOLD = {"nn.functional.unfold", "nn.Unfold"}


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (CPU, "vec_loop(iter, 1)", "vec_loop(iter, 2)", SIN),
        (CPU, "vml(iter, 1)", "vml(iter, 2)", EXP),
        (UNARY, "CREATE_UNARY_TORCH_IMPL_FUNC(sin_out, sin_stub)", "CREATE_UNARY_TORCH_IMPL_FUNC(sin_out, sin2_stub)", SIN),
        (UNARY, "self * 2", "self * 3", {"ldexp", "Tensor.ldexp"}),
        (UNARY, "self ^ 1", "self ^ 3", {"logical_xor", "Tensor.logical_xor"}),
        (UNARY, "private_only_cpu(const Tensor& self) { return self;", "private_only_cpu(const Tensor& self) { return x;", {"_private_only"}),
        (MATH, "return x + 1", "return x + 2", DIGAMMA),
        (CUDA, "jitted_gpu_kernel<1>", "jitted_gpu_kernel<2>", DIGAMMA),
        (COL, "put(address, 1)", "put(address, 3)", FOLD),
        (COL, "put(address, 2)", "put(address, 3)", UNFOLD),
        (FOREACH, "return exp(t)", "return exp2(t)", {"_foreach_exp"}),
        (FOREACH, "apply(t, 1)", "apply(t, 2)", {"_foreach_exp", "_foreach_sin"}),
        ("aten/src/ATen/native/mkldnn/Linear.cpp", "return n;", "return n + 1;", {"nn.functional.linear"}),
        (LINEAR, "at::mkldnn_linear(self)", "at::mkldnn_linear(self) + 1", {"nn.functional.linear"}),
        ("aten/src/ATen/native/NaiveConvolutionTranspose3d.cpp", "return self", "return x", {"nn.functional.conv_transpose3d"}),
        ("aten/src/ATen/native/cudnn/Conv_v8.cpp", "return self", "return x", {f"nn.functional.conv{n}d" for n in (1, 2, 3)}),
        (LIBRARY, "return act", "return other", {"ops.quantized.conv9d"}),
        (LIBRARY, "dense_ldexp(const Tensor& self) { return self;", "dense_ldexp(const Tensor& self) { return x;", {"ldexp", "Tensor.ldexp"}),
        (SPARSE, "return self", "return x", {"hspmm"}),
        (NATIVE, "SparseCPU: hspmm_sparse_cpu", "SparseCPU, SparseCUDA: hspmm_sparse_cpu", {"hspmm"}),
    ],
)  # fmt: skip
def test_each_kernel_leads_to_its_ops(
    changes_of: Run, file: str, old: str, new: str, expected: set[str]
) -> None:
    assert aliases(changes_of(TREE, edit(TREE, file, old, new)), "direct") == expected


def test_a_helper_that_nothing_names_makes_its_file_unmapped(changes_of: Run) -> None:
    changes = changes_of(TREE, edit(TREE, MATH, "x + 3", "x + 4"))
    assert not changes.ops
    assert [entry.file for entry in changes.unmapped] == [MATH]


def test_the_engine_and_the_frontend(changes_of: Run) -> None:
    """A change of the autograd engine may be one of any op; the C++ frontend is no op of Python."""
    engine, frontend = (
        "torch/csrc/autograd/engine.cpp",
        "torch/csrc/api/include/torch/nn/functional/loss.h",
    )
    tree = {
        **TREE,
        engine: "int sin_kernel(int x) { return x; }\n",
        frontend: "int sin(int x) { return x; }\n",
    }
    edits = {
        **edit(tree, engine, "return x", "return -x"),
        **edit(tree, frontend, "return x", "return -x"),
    }
    changes = changes_of(tree, edits)
    assert not changes.ops
    assert [entry.file for entry in changes.unmapped] == [engine]


def test_a_changed_row_of_old_wrappers_leads_to_its_op(changes_of: Run) -> None:
    """Trees before 1.9: TH's function, Declarations.cwrap, native_functions.yaml."""
    cwrap, th = "aten/src/ATen/Declarations.cwrap", "aten/src/TH/generic/THTensorMath.cpp"
    tree: Tree = {
        NATIVE: "- func: trace(Tensor self) -> Tensor\n  variants: method, function\n  dispatch:\n    CPU: legacy::cpu::_th_trace\n",
        cwrap: "[[\n  name: _th_trace\n  cname: trace\n  variants:\n    - function\n]]\n[[\n  name: _th_other\n  cname: other\n]]\n",
        th: "accreal THTensor_(trace)(THTensor *t)\n{\n  return sum(t, 1);\n}\n\naccreal THTensor_(other)(THTensor *t)\n{\n  return sum(t, 2);\n}\n",
        "torch/nn/functional.py": "import torch\n",
    }  # fmt: skip
    trace = {"trace", "Tensor.trace"}
    assert aliases(changes_of(tree, edit(tree, th, "sum(t, 1)", "sum(t, 3)"))) == trace
    assert aliases(changes_of(tree, edit(tree, cwrap, "    - function", "    - method"))) == trace


def test_formulas_helpers_and_bindings_in_c(changes_of: Run) -> None:
    manual = "torch/csrc/autograd/FunctionsManual.cpp"
    methods = "tools/autograd/templates/python_variable_methods.cpp"
    indexing = "torch/csrc/autograd/python_variable_indexing.cpp"
    tree: Tree = {
        **TREE,
        "tools/autograd/derivatives.yaml": (
            "- name: sin(Tensor self) -> Tensor\n  self: sin_grad(grad, self)\n\n"
            "- name: exp(Tensor self) -> Tensor\n  self: exp_grad_symint(grad, result)\n"
        ),
        manual: (
            "Tensor part(const Tensor& g) { return g; }\nTensor sin_grad(const Tensor& g) { return part(g); }\n"
            "Tensor exp_grad(const Tensor& g) { return g * 2; }\n"
        ),
        methods: (
            "static PyObject * THPVariable_stride(PyObject* self) { return wrap(1); }\n"
            'PyMethodDef variable_methods[] = {\n  {"stride", castPyCFunctionWithKeywords(THPVariable_stride), METH_VARARGS, NULL},\n'
            '  {"tolist", THPVariable_tolist, METH_NOARGS, NULL},\n  {NULL}\n};\n'
        ),
        indexing: "int THPVariable_setitem(PyObject* self) {\n  return set(1);\n}\n",
    }  # fmt: skip
    assert aliases(changes_of(tree, edit(tree, manual, "return g;", "return -g;"))) == SIN
    assert aliases(changes_of(tree, edit(tree, manual, "g * 2", "g * 3"))) == EXP
    assert aliases(changes_of(tree, edit(tree, methods, "wrap(1)", "wrap(2)"))) == {"Tensor.stride"}
    assert aliases(changes_of(tree, edit(tree, indexing, "set(1)", "set(2)"))) == {
        "Tensor.__setitem__"
    }
