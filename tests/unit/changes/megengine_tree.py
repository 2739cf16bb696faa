"""A small repository in MegEngine's layout, written for the tests."""

from __future__ import annotations

from collections.abc import Mapping

Tree = dict[str, str | bytes | None]

FUNCTIONAL = """from ..core._imperative_rt.core2 import apply, pad_cpp
from ..core.ops import builtin
from ..core.tensor.array_method import _matmul
from ..core.tensor.utils import shape_of
from .elemwise import _elwise, exp

__all__ = ["conv1d", "conv2d", "conv_transpose2d", "max_pool2d", "matmul", "linear", "softmax", "logsoftmax", "pad"]


def conv1d(inp, weight):
    (out,) = apply(builtin.Convolution(stride=1), inp, weight)
    return out


def conv2d(inp, weight):
    (out,) = apply(builtin.Convolution(stride=2), inp, weight)
    return out


def conv_transpose2d(inp, weight):
    (out,) = apply(builtin.ConvolutionBackwardData(), weight, inp)
    return out


def max_pool2d(inp):
    (out,) = apply(builtin.Pooling(mode="MAX"), inp)
    return out


def matmul(a, b):
    return _matmul(a, b)


def linear(inp, weight):
    return _matmul(inp, weight)


def softmax(inp):
    (out,) = apply(builtin.Softmax(axis=1), inp)
    return out


def logsoftmax(inp):
    return _elwise(softmax(inp), mode=Elemwise.Mode.LOG)


def pad(inp):
    return pad_cpp(inp)
"""
ELEMWISE = """from ..core.ops import builtin
from ..core.ops.builtin import Elemwise
from ..core.tensor.array_method import _elwise

__all__ = ["add", "floor_div", "exp", "log", "relu"]


def add(x, y):
    return _elwise(x, y, mode=Elemwise.Mode.ADD)


def floor_div(x, y):
    return _elwise(x, y, mode=Elemwise.Mode.FLOOR_DIV)


def exp(x):
    return _elwise(x, mode=Elemwise.Mode.EXP)


def log(x):
    return _elwise(x, mode=Elemwise.Mode.LOG)


def relu(x):
    return _elwise(x, mode="relu")
"""
ARRAY_METHOD = """from .._imperative_rt.core2 import apply
from ..ops import builtin

_ElwMod = builtin.Elemwise.Mode


def _elwise(*args, mode):
    (result,) = apply(builtin.Elemwise(mode), *args)
    return result


def _matmul(a, b):
    (result,) = apply(builtin.MatrixMul(), a, b)
    return result


def _binary(mode):
    def f(self, value):
        return _elwise(self, value, mode=mode)

    return f


def _binary_elwise(mode):
    return _binary(mode)


def _reduce(mode):
    def f(self, axis=None):
        (result,) = apply(builtin.Reduce(mode=mode, axis=axis), self)
        return result

    return f


class ArrayMethodMixin:
    __add__ = _binary_elwise(_ElwMod.ADD)
    __floordiv__ = _binary_elwise(_ElwMod.FLOOR_DIV)
    __matmul__ = lambda self, other: _matmul(self, other)

    def sum(self, axis=None):
        return _reduce("sum")(self, axis)

    def max(self, axis=None):
        return _reduce("max")(self, axis)
"""
KERNELS = """#pragma once
namespace megdnn {
__device__ inline int floor_div_int(int x, int y) { return x / y; }
#define DEF_KERN(_ctype, _mode, _imp) struct Kern<_ctype, _mode> { _imp; }
#define DEF_KERN_INT(_mode, _imp) DEF_KERN(dt_int32, _mode, _imp);
#define DEF_KERN_FLOAT(_mode, _imp) DEF_KERN(dt_float32, _mode, _imp);
DEF_KERN_INT(ADD, x + y);
DEF_KERN_FLOAT(ADD, x + y);
DEF_KERN_INT(FLOOR_DIV, floor_div_int(x, y));
DEF_KERN_FLOAT(EXP, expf(x));
DEF_KERN_FLOAT(RELU_GRAD, x > 0 ? y : 0);
}  // namespace megdnn
"""
PARAMS = """pdef('Empty')

(pdef('Elemwise').
 add_enum('Mode',
          Doc('RELU = 0', 'unary: max(x, 0)'),
          Doc('EXP = 1', 'unary: exp(x)'),
          Doc('LOG = 2', 'unary: log(x)'),
          Doc('ADD = 3', 'binary: x + y'),
          Doc('FLOOR_DIV = 4', 'binary: floor(x / y)'),
          Doc('RELU_GRAD = 5', 'binary: the gradient')))

(pdef('Reduce').
 add_enum('Mode', 'SUM = 0', 'MAX = 1').
 add_fields('int32', Doc('axis', 'along which'), -1))

pdef('Pooling').add_enum('Mode', 'MAX = 0').add_fields('uint32', 'window', 2)
"""
TD = """include "base.td"

def Elemwise : MgbHashableOp<"Elemwise", [ElemwiseParam], [NoSideEffect]> {
  let inputs = (ins Variadic<AnyType>:$input);
}
def Reduce: MgbHashableOp<"Reduce", [ReduceParam]>;
def Convolution: MgbHashableOp<"Convolution", [ConvolutionParam]>;
def ConvolutionBackwardData: MgbHashableOp<"ConvolutionBackwardData", [ConvolutionParam]>;
def ConvBias: MgbHashableOp<"ConvBias", [ConvBiasParam]>;
def Pooling: MgbHashableOp<"Pooling", [PoolingParam]>;
def MatrixMul: MgbHashableOp<"MatrixMul", [EmptyParam]>;
def Softmax: MgbHashableOp<"Softmax", [EmptyParam]>;
def Padding: MgbHashableOp<"Padding", [EmptyParam]>;
def BatchNorm: MgbHashableOp<"BatchNorm", [EmptyParam]>;
def InplaceAdd: MgbHashableOp<"InplaceAdd", [EmptyParam]>;
"""
OPS = """#include "../op_trait.h"
namespace mgb {
namespace imperative {
namespace {
int shared_by_convolutions(int x) { return x; }
}
namespace convolution {
auto apply_on_var_node(const OpDef& def, const VarNodeArray& inputs) {
    auto&& op = static_cast<const Convolution&>(def);
    return opr::Convolution::make(inputs[0], op.param());
}
OP_TRAIT_REG(Convolution, Convolution, opr::Convolution)
        .apply_on_var_node(apply_on_var_node)
        .fallback();
}  // namespace convolution
namespace softmax {
bool usable(int x) { return x > 0; }
auto apply_on_var_node(const OpDef& def, const VarNodeArray& inputs) {
    return usable(1) ? inputs : inputs;
}
OP_TRAIT_REG(Softmax, Softmax, opr::Softmax).apply_on_var_node(apply_on_var_node).fallback();
}  // namespace softmax
}  // namespace imperative
}  // namespace mgb
"""
GRADIENT = """namespace mgb { namespace opr {
MGB_DYN_TYPE_OBJ_FINAL_IMPL(Elemwise);
#if MGB_ENABLE_GRAD
MGB_IMPL_OPR_GRAD(Elemwise) {
    auto mode = opr.param().mode;
    switch (mode) {
        case Mode::RELU:
            RET(EL2(RELU_GRAD, i0, og));
        case Mode::EXP:
            RET(og * out);
        case Mode::LOG:
            RET(og / i0);
        case Mode::ADD:
            RET(og);
        default:
            mgb_throw(GraphError, "grad");
    }
}
#endif
}}
"""
TREE: Tree = {
    "imperative/python/megengine/__init__.py": "from .tensor import Tensor\nimport megengine.functional\nimport megengine.module\n",
    "imperative/python/megengine/tensor.py": (
        "from .core._imperative_rt.core2 import Tensor as _Tensor\n"
        "from .core.tensor.array_method import ArrayMethodMixin\n\n\n"
        "class Tensor(_Tensor, ArrayMethodMixin):\n    def item(self):\n        return 1\n"
    ),
    "imperative/python/megengine/core/__init__.py": "",
    "imperative/python/megengine/core/ops/__init__.py": "",
    "imperative/python/megengine/core/ops/builtin/__init__.py": "from ..._imperative_rt import ops\n",
    "imperative/python/megengine/core/tensor/__init__.py": "",
    "imperative/python/megengine/core/tensor/array_method.py": ARRAY_METHOD,
    "imperative/python/megengine/core/tensor/utils.py": "def shape_of(x):\n    return x.shape\n",
    "imperative/python/megengine/functional/__init__.py": "from . import vision, quantized\nfrom .elemwise import *\nfrom .math import *\nfrom .nn import *\n",
    "imperative/python/megengine/functional/elemwise.py": ELEMWISE,
    "imperative/python/megengine/functional/nn.py": FUNCTIONAL,
    "imperative/python/megengine/functional/math.py": (
        '__all__ = ["sum", "max"]\n\n\ndef sum(inp, axis=None):\n    return inp.sum(axis=axis)\n\n\n'
        "def max(inp, axis=None):\n    return inp.max(axis=axis)\n"
    ),
    "imperative/python/megengine/functional/vision.py": (
        "from ..core._imperative_rt.core2 import apply\nfrom ..core.ops import builtin\n\n"
        '__all__ = ["interpolate"]\n\n\ndef interpolate(inp):\n    return _scaled(inp)\n\n\ndef _scaled(inp):\n    return inp\n'
    ),
    "imperative/python/megengine/functional/quantized.py": (
        "from ..core._imperative_rt.core2 import apply\nfrom ..core.ops import builtin\n\n\n"
        "def conv_bias_activation(inp, weight):\n    (out,) = apply(builtin.ConvBias(), inp, weight)\n    return out\n"
    ),
    "imperative/python/megengine/functional/inplace.py": (
        "from ..core._imperative_rt.core2 import apply\nfrom ..core.ops.builtin import InplaceAdd\n\n\n"
        "def _inplace_add_(dest, delta):\n    return apply(InplaceAdd(), dest, delta)[0]\n"
    ),
    "imperative/python/megengine/optimizer/__init__.py": "from .sgd import SGD\n",
    "imperative/python/megengine/optimizer/sgd.py": (
        "from ..functional.inplace import _inplace_add_\n\n\nclass SGD:\n    def _updates(self, group):\n"
        "        _inplace_add_(group, 1)\n\n    def state_dict(self):\n        return 1\n"
    ),
    "imperative/python/megengine/module/__init__.py": "from .conv import Conv1d, Conv2d, ConvRelu2d\nfrom .batchnorm import BatchNorm2d\nfrom .module import Module\n",
    "imperative/python/megengine/module/module.py": "class Module:\n    def __call__(self, x):\n        return self.forward(x)\n",
    "imperative/python/megengine/module/conv.py": (
        "from ..functional import conv1d, conv2d, relu\nfrom .module import Module\n\n\n"
        "class Conv1d(Module):\n    def forward(self, x):\n        return conv1d(x, self.weight)\n\n\n"
        "class Conv2d(Module):\n    def forward(self, x):\n        return conv2d(x, self.weight)\n\n\n"
        "class ConvRelu2d(Module):\n    def forward(self, x):\n        return relu(conv2d(x, self.weight))\n"
    ),
    "imperative/python/megengine/module/batchnorm.py": (
        "from .module import Module\n\n\nclass _BatchNorm(Module):\n    def forward(self, x):\n        return x\n\n\n"
        "class BatchNorm2d(_BatchNorm):\n    def _check(self, x):\n        return x\n"
    ),
    "imperative/python/test/unit/test_conv.py": "def test_conv():\n    assert 1\n",
    "imperative/src/impl/ops/specializations.cpp": OPS,
    "imperative/src/impl/transformations/scalar.cpp": (
        "namespace mgb { namespace imperative { namespace {\n"
        "ValueRefList reduce_rule(const OpDef& op, Span<ValueRef> inputs) { return inputs; }\n"
        "ValueRefList softmax_rule(const OpDef& op, Span<ValueRef> inputs) { return inputs; }\n"
        "struct ScalarRuleRegistry {\n  ScalarRuleRegistry() {\n    register_scalar_rule(Reduce::typeinfo(), reduce_rule);\n"
        "    register_scalar_rule<Softmax>(softmax_rule);\n  }\n} _;\n}}}\n"
    ),
    "imperative/python/src/tensor_utils.cpp": (
        "namespace mgb::imperative::python {\nint ndim_of(int x) { return x; }\n"
        "py::object _pad_cpp(py::handle inp) {\n    std::shared_ptr<OpDef> op = Padding::make(ndim_of(1));\n    return op;\n}\n"
        "PyObject* pad_cpp(PyObject* self, PyObject* const* args, size_t nargs) {\n    return _pad_cpp(args[0]);\n}\n}\n"
    ),
    "imperative/python/src/tensor.cpp": (
        '#include "./tensor_utils.h"\nnamespace mgb::imperative::python {\nvoid init_tensor(py::module m) {\n'
        "    static PyMethodDef method_defs[] = {MGE_PY_INTERFACE(pad_cpp, pad_cpp), {nullptr}};\n}\n}\n"
    ),
    "imperative/python/src/tensor_utils.h": "#pragma once\nPyObject* pad_cpp(PyObject* self, PyObject* const* args, size_t nargs);\n",
    "src/core/include/megbrain/ir/ops.td": TD,
    "src/core/impl/graph/cg_impl.cpp": "namespace mgb { int graph_option() { return 1; } }\n",
    "src/opr/include/megbrain/opr/dnn/batch_norm.h": (
        "#pragma once\nnamespace mgb { namespace opr {\n"
        "MGB_DEFINE_OPR_CLASS(\n        BatchNorm, intl::MegDNNOprWrapperFwd<megdnn::BNForward>) // {\npublic:\n    int axis() { return 1; }\n};\n}}\n"
    ),
    "src/opr/impl/basic_arith.cpp": GRADIENT,
    "src/opr/impl/dnn/convolution.cpp": (
        "namespace mgb { namespace opr {\nMGB_IMPL_OPR_GRAD(ConvolutionForward) {\n    return 1;\n}\n"
        "size_t ConvolutionForward::get_workspace_size_bytes(int x) const {\n    return 0;\n}\n}}\n"
    ),
    "dnn/scripts/opr_param_defs.py": PARAMS,
    "dnn/scripts/gen_elemwise_kern_impls.py": "print(1)\n",
    "dnn/include/megdnn/oprs/nn.h": (
        "#pragma once\nnamespace megdnn {\nclass PoolingForward : public OperatorBase {\npublic:\n    int axis();\n};\n"
        "class PoolingBackward : public OperatorBase {\n    int axis();\n};\n}\n"
    ),
    "dnn/src/common/handle_impl.h": (
        "#define MEGDNN_FOREACH_OPR_CLASS(cb) cb(ConvolutionForward) cb(ConvolutionBackwardData) cb(ConvBiasForward) "
        "cb(ElemwiseForward) cb(ReduceForward) cb(PoolingForward) cb(PoolingBackward) cb(MatrixMulForward) "
        "cb(SoftmaxForward) cb(BNForward) cb(AddUpdateForward)\n"
    ),
    "dnn/src/common/elemwise/kern_defs.cuh": KERNELS,
    "dnn/src/common/pooling.cpp": "namespace megdnn {\nvoid PoolingForward::deduce_layout(int x) {\n    x = 1;\n}\n}\n",
    "dnn/src/naive/handle.cpp": (
        '#include "src/naive/softmax/opr_impl.h"\nnamespace megdnn { namespace naive {\n'
        "MEGDNN_SPECIALIZE_CREATE_OPERATOR(PoolingForward);\nMEGDNN_SPECIALIZE_CREATE_OPERATOR(SoftmaxForward);\n}}\n"
    ),
    "dnn/src/naive/softmax/opr_impl.h": "#pragma once\nclass SoftmaxForwardImpl final : public SoftmaxForward {\npublic:\n    void exec(int x);\n};\n",
    "dnn/src/naive/softmax/opr_impl.cpp": '#include "src/naive/softmax/opr_impl.h"\nvoid SoftmaxForwardImpl::exec(int x) {\n    x = 1;\n}\n',
    "dnn/src/cuda/elemwise/kimpl/EXP_dt_float32.cu": "#define KERN_IMPL_MODE(cb) MEGDNN_ELEMWISE_MODE_ENABLE(EXP, cb)\n#define KERN_IMPL_CTYPE dt_float32\n",
    "dnn/src/arm_common/elemwise_helper/kimpl/relu.h": "#pragma once\nstruct ReluOp {\n    int operator()(int x) const { return x; }\n};\n",
    "dnn/src/cuda/conv_bias/opr_impl.h": "#pragma once\nclass ConvBiasForwardImpl : public ConvBiasForward {\n    class AlgoCUDNN;\n};\n",
    "dnn/src/cuda/conv_bias/cudnn.cpp": (
        '#include "src/cuda/conv_bias/opr_impl.h"\nbool ConvBiasForwardImpl::AlgoCUDNN::is_available(int x) const {\n    return x > 0;\n}\n'
    ),
    "dnn/src/cuda/conv_bias/chanwise/kern.cuh": "#pragma once\ninline int chanwise_kern(int x) { return x; }\n",
    "dnn/src/cuda/convolution/opr_impl.h": (
        "#pragma once\nclass ConvolutionForwardImpl : public ConvolutionForward {\n    int x;\n};\n"
        "class ConvolutionBackwardDataImpl : public ConvolutionBackwardData {\n    int x;\n};\n"
    ),
    "dnn/src/cuda/convolution/backward_data/kern.cu": "void run_backward(int x) { x = 1; }\n",
    "dnn/src/x86/matrix_mul/opr_impl.h": "#pragma once\nclass MatrixMulImpl : public fallback::MatrixMulImpl {\n    int x;\n};\n",
    "dnn/src/x86/matrix_mul/f32/kernel.h": "#pragma once\nstatic inline int pack_a(int x) { return x; }\n",
    "lite/src/mge/network_impl.cpp": "int lite_only() { return 1; }\n",
    "README.md": "# MegEngine\n",
}  # fmt: skip


def edit(file: str, old: str, new: str, tree: Mapping[str, str | bytes | None] = TREE) -> Tree:
    """One file of the tree with one place of it changed."""
    text = tree[file]
    assert isinstance(text, str)
    assert old in text
    return {file: text.replace(old, new, 1)}
