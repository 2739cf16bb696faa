"""A small repository in PaddlePaddle's layout, written for the tests."""

from __future__ import annotations

from collections.abc import Mapping

Tree = dict[str, str | bytes | None]

KERNEL_HEADER = """#pragma once
namespace phi {
template <typename T, typename Context>
void SoftplusKernel(const Context& dev_ctx, const DenseTensor& x, DenseTensor* out);
}  // namespace phi
"""
FUNCTORS = """#pragma once
namespace phi {
namespace funcs {
template <typename T>
struct SoftplusFunctor {
  T operator()(T x) const { return log1p(exp(x)); }
};
template <typename T>
struct SoftplusGradFunctor {
  T operator()(T x, T dout) const { return dout / (1 + exp(-x)); }
};
template <typename T>
struct SiluFunctor {
  T operator()(T x) const { return x / (1 + exp(-x)); }
};
}  // namespace funcs
}  // namespace phi
"""
ACTIVATIONS = """#include "paddle/phi/kernels/activation_kernel.h"
#include "paddle/phi/kernels/funcs/activation_functor.h"

namespace phi {

#define DEFINE_CPU_ACTIVATION_KERNEL(name, functor_class)                \\
  template <typename T, typename Context>                                \\
  void name##Kernel(                                                     \\
      const Context& dev_ctx, const DenseTensor& x, DenseTensor* out) {  \\
    funcs::functor_class<T> functor;                                     \\
    ActivationImpl<T, Context>(dev_ctx, x, out, functor);                \\
  }

DEFINE_CPU_ACTIVATION_KERNEL(Softplus, SoftplusFunctor)
DEFINE_CPU_ACTIVATION_KERNEL(Silu, SiluFunctor)

}  // namespace phi

#define PD_REGISTER_ACTIVATION_KERNEL(name, func) \\
  PD_REGISTER_KERNEL(name, CPU, ALL_LAYOUT, phi::func, float, double) {}

PD_REGISTER_ACTIVATION_KERNEL(softplus, SoftplusKernel)
PD_REGISTER_ACTIVATION_KERNEL(silu, SiluKernel)
"""
GRADIENTS = """#include "paddle/phi/kernels/funcs/activation_functor.h"
namespace phi {
template <typename T, typename Context>
void SoftplusGradKernel(const Context& dev_ctx, const DenseTensor& x, DenseTensor* dx) {
  funcs::SoftplusGradFunctor<T> functor;
  functor(x, dx);
}
}  // namespace phi
PD_REGISTER_KERNEL(softplus_grad, CPU, ALL_LAYOUT, phi::SoftplusGradKernel, float, double) {}
"""
TOPK = """#include "paddle/phi/kernels/funcs/shared.h"
namespace phi {
template <typename T, typename Context>
void TopkKernel(const Context& dev_ctx, const DenseTensor& x, DenseTensor* out) {
  funcs::Everywhere(x);
}
}  // namespace phi
PD_REGISTER_KERNEL(topk, GPU, ALL_LAYOUT, phi::TopkKernel, float, double) {
  kernel->OutputAt(1).SetDataType(phi::DataType::INT64);
}
"""
OPS = """- op : silu
  args : (Tensor x)
  output : Tensor(out)
  infer_meta :
    func : UnchangedInferMeta
  kernel :
    func : silu

- op : softplus
  args : (Tensor x, float beta = 1.0)
  output : Tensor(out)
  infer_meta :
    func : UnchangedInferMeta
  kernel :
    func : softplus
  backward : softplus_grad

- op : sum_of_squares
  args : (Tensor x)
  output : Tensor(out)
  infer_meta :
    func : ReducedInferMeta
  kernel :
    func : squared_l2_norm

- op : topk
  args : (Tensor x, int k)
  output : Tensor(out), Tensor(indices)
  infer_meta :
    func : TopKInferMeta
    spmd_rule : TopkInferSpmd
  kernel :
    func : topk {dense -> dense, dense},
           topk_sr {selected_rows -> dense, dense}

- op : concat
  args : (Tensor[] x, int axis)
  output : Tensor
  infer_meta :
    func : ReducedInferMeta
  kernel :
    func : concat
"""
BACKWARD = """- backward_op : softplus_double_grad
  forward : softplus_grad (Tensor x, Tensor grad_out) -> Tensor(grad_x)
  args : (Tensor x)
  kernel :
    func : softplus_double_grad

- backward_op : softplus_grad
  forward : softplus (Tensor x, float beta) -> Tensor(out)
  args : (Tensor x, Tensor out_grad)
  output : Tensor(x_grad)
  kernel :
    func : softplus_grad
  backward : softplus_double_grad
"""
MATH = """from paddle import _C_ops, _legacy_C_ops
from paddle.fluid.layer_helper import LayerHelper

def norm_of(x):
    return _C_ops.sum_of_squares(x)

def topk(x, k):
    \"\"\"The largest.\"\"\"
    return _C_ops.topk(x, k)

def topk_(x, k):
    return _C_ops.topk_(x, k)

def median(x):
    return topk(x, 2)

def scale(x):
    helper = LayerHelper('scale', **locals())
    helper.append_op(type='scale', inputs={'X': x})
    return x

def concat(x, axis=0):
    return _legacy_C_ops.concat(x, 'axis', axis)
"""
TREE: Mapping[str, str | bytes | None] = {
    "paddle/phi/kernels/activation_kernel.h": KERNEL_HEADER,
    "paddle/phi/kernels/funcs/activation_functor.h": FUNCTORS,
    "paddle/phi/kernels/funcs/shared.h": "#pragma once\nnamespace phi { namespace funcs {\ninline int Everywhere(int x) { return x; }\n} }\n",
    "paddle/phi/kernels/cpu/activation_kernel.cc": ACTIVATIONS,
    "paddle/phi/kernels/cpu/activation_grad_kernel.cc": GRADIENTS,
    "paddle/phi/kernels/gpu/top_k_kernel.cu": TOPK,
    "paddle/phi/kernels/cpu/squared_l2_norm_kernel.cc": (
        "namespace phi {\ntemplate <typename T, typename Context>\n"
        "void SquaredL2NormKernel(const Context& c, const DenseTensor& x, DenseTensor* out) { out = 1; }\n}\n"
        "PD_REGISTER_KERNEL(squared_l2_norm, CPU, ALL_LAYOUT, phi::SquaredL2NormKernel, float, double) {}\n"
    ),
    "paddle/phi/infermeta/unary.cc": (
        '#include "paddle/phi/infermeta/unary.h"\nnamespace phi {\n'
        "void TopKInferMeta(const MetaTensor& x, int k, MetaTensor* out) { out->set_dims(k); }\n"
        "void UnchangedInferMeta(const MetaTensor& x, MetaTensor* out) { out->share_meta(x); }\n}\n"
    ),
    "paddle/phi/infermeta/unary.h": "#pragma once\nnamespace phi {\nvoid TopKInferMeta(const MetaTensor& x, int k, MetaTensor* out);\n}\n",
    "paddle/phi/infermeta/spmd_rules/topk.cc": (
        "namespace phi {\nSpmdInfo TopkInferSpmd(const DistMetaTensor& x) { return SpmdInfo(); }\n}\n"
    ),
    "paddle/phi/api/yaml/ops.yaml": OPS,
    "paddle/phi/api/yaml/backward.yaml": BACKWARD,
    "paddle/phi/api/yaml/sparse_ops.yaml": "- op : relu\n  args : (Tensor x)\n  kernel :\n    func : relu_coo{sparse_coo -> sparse_coo},\n           relu_csr{sparse_csr -> sparse_csr}\n",
    "paddle/phi/api/yaml/op_compat.yaml": "- op : add (elementwise_add)\n  backward : add_grad (elementwise_add_grad)\n",
    "paddle/fluid/operators/scale_op.cc": (
        "namespace paddle { namespace operators {\n"
        "class ScaleOp : public framework::OperatorWithKernel { void InferShape() const override { int x = 1; } };\n"
        "class ScaleOpMaker : public framework::OpProtoAndCheckerMaker { void Make() override { int x = 1; } };\n}}\n"
        "namespace ops = paddle::operators;\nREGISTER_OPERATOR(scale, ops::ScaleOp, ops::ScaleOpMaker);\n"
    ),
    "paddle/fluid/operators/elementwise/elementwise_add_op.cc": (
        "namespace paddle { namespace operators {\n"
        "class ElementwiseAddOpMaker : public ElementwiseOpMaker { int Name() { return 1; } };\n}}\n"
        "REGISTER_OPERATOR(elementwise_add, ops::ElementwiseOp, ops::ElementwiseAddOpMaker);\n"
    ),
    "paddle/fluid/prim/api/composite_backward/composite_backward_api.h": (
        "#pragma once\nnamespace paddle { namespace prim {\n"
        "template <typename T>\nvoid softplus_grad(const Tensor& x, Tensor* x_grad) { set_output<T>(x, x_grad); }\n"
        "template <typename T>\nvoid silu_grad(const Tensor& x, Tensor* x_grad) { set_output<T>(x, x_grad); }\n}}\n"
    ),
    "paddle/fluid/pybind/eager_method.cc": (
        "namespace paddle { namespace pybind {\n"
        "static PyObject* tensor_method_detach(TensorObject* self, PyObject* args) { return self; }\n"
        "static PyObject* tensor_method_numpy(TensorObject* self, PyObject* args) { return self; }\n"
        "PyMethodDef variable_methods[] = {\n"
        '    {"detach", (PyCFunction)(void (*)())tensor_method_detach, METH_VARARGS | METH_KEYWORDS, nullptr},\n'
        '    {"numpy", (PyCFunction)(void (*)())tensor_method_numpy, METH_VARARGS | METH_KEYWORDS, nullptr},\n'
        "    {nullptr, nullptr, 0, nullptr}};\n}}\n"
    ),
    "paddle/phi/backends/xpu/xpu3_op_list.cc": (
        "namespace phi {\nXPUOpMap& get_kl3_ops() {\n  static XPUOpMap s_xpu3_kernels{\n"
        '      {"topk", XPUKernelSet({phi::DataType::FLOAT32})},\n'
        '      {"silu", XPUKernelSet({phi::DataType::FLOAT32})},\n  };\n  return s_xpu3_kernels;\n}\n}\n'
    ),
    "paddle/cinn/hlir/op/op.cc": "namespace cinn { int Lower(int x) { return x; } }\n",
    "python/paddle/__init__.py": (
        "from .tensor.math import topk, topk_, median, scale, concat, norm_of as squared_norm\n"
        "from .tensor.math import add\n"
        "__all__ = ['topk', 'topk_', 'median', 'scale', 'concat', 'squared_norm', 'add']\n"
    ),
    "python/paddle/tensor/__init__.py": (
        "from .math import topk, topk_, scale, add\n"
        "tensor_method_func = [\n    'topk',\n    'topk_',\n    'scale',\n]\n"
        "magic_method_func = [\n    ('__add__', 'add'),\n]\n"
    ),
    "python/paddle/tensor/math.py": MATH + "\ndef add(x, y):\n    return _C_ops.add(x, y)\n",
    "python/paddle/nn/__init__.py": "from .layer.activation import Softplus, Silu\n__all__ = ['Softplus', 'Silu']\n",
    "python/paddle/nn/layer/__init__.py": "",
    "python/paddle/nn/layer/activation.py": (
        "from .. import functional as F\n\nclass Softplus:\n    def forward(self, x):\n        return F.softplus(x)\n\n"
        "class Silu:\n    def forward(self, x):\n        return F.silu(x)\n\n    def extra_repr(self):\n        return 'x'\n"
    ),
    "python/paddle/nn/functional/__init__.py": (
        "from .activation import softplus, silu\n__all__ = ['softplus', 'silu']\n"
    ),
    "python/paddle/nn/functional/activation.py": (
        "from paddle import _C_ops\n\ndef softplus(x, beta=1):\n    return _C_ops.softplus(x, beta)\n\n"
        "def silu(x):\n    return _C_ops.silu(x)\n"
    ),
    "python/paddle/sparse/__init__.py": "__all__ = []\n",
    "python/paddle/sparse/nn/__init__.py": "__all__ = []\n",
    "python/paddle/sparse/nn/functional/__init__.py": "from .activation import relu\n__all__ = ['relu']\n",
    "python/paddle/sparse/nn/functional/activation.py": (
        "from paddle import _C_ops\n\ndef relu(x):\n    return _C_ops.sparse_relu(x)\n"
    ),
    "python/paddle/decomposition/rules.py": (
        "from .register import register_decomp\n\n@register_decomp('pd_op.silu')\ndef silu(x):\n    return x\n"
    ),
    "test/legacy_test/test_softplus_op.py": "from op_test import OpTest\n\nclass TestSoftplus(OpTest):\n    pass\n",
    "docs/readme.md": "words\n",
    "tools/check.py": "x = 1\n",
}
SOFTPLUS = {"paddle.nn.functional.softplus", "paddle.nn.Softplus"}
SILU = {"paddle.nn.functional.silu", "paddle.nn.Silu"}
TOPK_NAMES = {"paddle.topk", "paddle.topk_", "paddle.Tensor.topk", "paddle.Tensor.topk_"}


def edited(file: str, old: str, new: str) -> Tree:
    """One file of the tree with a piece of text replaced."""
    text = TREE[file]
    assert isinstance(text, str)
    assert old in text, (file, old)
    return {file: text.replace(old, new)}
