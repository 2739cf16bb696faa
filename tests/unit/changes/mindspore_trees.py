"""Small repositories in MindSpore's layouts: of 2020 to 2021, and of 2025."""

from __future__ import annotations

from typing import Final

Tree = dict[str, str | bytes | None]

PYTHON: Final = "mindspore/python/mindspore/"
NOW: Final[Tree] = {
    "mindspore/ops/op_def/yaml/softplus_ext_op.yaml": (
        "#operator softplus_ext\nsoftplus_ext:\n    args:\n        input:\n            dtype: tensor\n        beta:\n"
        "            dtype: number\n            default: 1\n    returns:\n        output:\n            dtype: tensor\n"
        "    dispatch:\n        enable: True\n        Ascend: SoftplusExtAscend\n"
    ),
    "mindspore/ops/op_def/yaml/softplus_grad_ext_op.yaml": (
        "softplus_grad_ext:\n    args:\n        dout:\n            dtype: tensor\n    returns:\n        dx:\n"
        "            dtype: tensor\n    function:\n        disable: True\n    dispatch:\n        enable: True\n"
    ),
    "mindspore/ops/op_def/yaml/max_op.yaml": "max:\n    args:\n        input:\n            dtype: tensor\n    function:\n        disable: True\n",
    "mindspore/ops/op_def/yaml/max_dim_op.yaml": "max_dim:\n    args:\n        input:\n            dtype: tensor\n    function:\n        disable: True\n",
    "mindspore/ops/op_def/yaml/relu_op.yaml": "relu:\n    args:\n        input:\n            dtype: tensor\n    class:\n        name: ReLU\n",
    "mindspore/ops/op_def/yaml/abs_op.yaml": "abs:\n    args:\n        input:\n            dtype: tensor\n",
    "mindspore/ops/op_def/yaml/sinc_op.yaml": "sinc:\n    args:\n        input:\n            dtype: tensor\n",
    "mindspore/ops/op_def/deprecated/abs_method.yaml": "abs:\n    args:\n        input:\n            dtype: tensor\n    function:\n        disable: True\n",
    "mindspore/ops/api_def/relu.yaml": "relu:\n  - op_yaml: deprecated/abs_method.yaml\n    py_method: deprecated_tensor_relu\n    interface: tensor\n",
    "mindspore/ops/op_def/yaml/doc/abs_doc.yaml": "abs:\n    description: |\n        Absolute value.\n",
    "mindspore/ops/api_def/max.yaml": (
        "max:\n  - op_yaml: max_op.yaml\n    py_method: tensor_max\n    Ascend: pyboost\n    interface: tensor, function\n\n"
        "  - op_yaml: max_dim_op.yaml\n    py_method: tensor_maxdim\n    Ascend: pyboost\n    interface: tensor, function\n"
    ),
    "mindspore/ops/api_def/abs.yaml": "abs:\n  op_yaml: abs_op.yaml\n  py_method: tensor_abs\n  CPU: pyboost\n  interface: tensor\n",
    "mindspore/ops/api_def/__abs__.yaml": "__abs__:\n  alias: abs\n",
    "mindspore/ops/infer/ops_func_impl/softplus_ext.h": "#ifndef A_H_\n#define A_H_\nclass SoftplusExtFuncImpl : public OpFuncImpl { int x; };\n#endif\n",
    "mindspore/ops/infer/ops_func_impl/softplus_ext.cc": (
        '#include "infer/ops_func_impl/softplus_ext.h"\nnamespace mindspore {\nnamespace ops {\n'
        "ShapeArray SoftplusExtFuncImpl::InferShape(const PrimitivePtr &primitive) const {\n  return {1};\n}\n"
        "REGISTER_SIMPLE_INFER(kNameSoftplusExt, SoftplusExtFuncImpl)\n}  // namespace ops\n}  // namespace mindspore\n"
    ),
    "mindspore/ops/grad/grad_nn_ops.cc": (
        "namespace mindspore::expander::bprop {\nNodePtrList Common(BpropBuilder *ib) { return {ib->GetInput(0)}; }\n"
        "REG_BPROP_BUILDERS_BEGIN(GradNnOps)\n"
        'REG_BPROP_BUILDER("SoftplusExt").SetUnusedInputs({i3}).SetBody(BODYFUNC(ib) {\n'
        "  auto dx = ib->SoftplusGradExt(ib->GetInput(kIndex4));\n  return {dx};\n});\n\n"
        'REG_BPROP_BUILDER("ReLU").SetBody(BODYFUNC(ib) {\n  return Common(ib);\n});\nREG_BPROP_BUILDERS_END\n}\n'
    ),
    "mindspore/ops/kernel/ascend/pyboost/customize/softplus_ext.cc": (
        "namespace mindspore {\nvoid SoftplusExtAscendCustomize(const TensorPtr &x) {\n  LAUNCH_ACLNN(aclnnSoftplus, x);\n}\n}\n"
    ),
    "mindspore/ops/kernel/ascend/opapi/aclnn/softplus_grad_ext_aclnn_kernel.cc": (
        '#include "kernel/ascend/opapi/aclnn/softplus_grad_ext_aclnn_kernel.h"\nnamespace mindspore {\n'
        "bool SoftplusGradExtAscend::Launch(void *stream) {\n  return RunOp(stream);\n}\n"
        "MS_ACLNN_KERNEL_FACTORY_REG(SoftplusGradExt, SoftplusGradExtAscend);\n}\n"
    ),
    "mindspore/ops/kernel/ascend/opapi/aclnn/softplus_grad_ext_aclnn_kernel.h": (
        "#ifndef B_H_\n#define B_H_\nclass SoftplusGradExtAscend : public AclnnKernelMod { int x; };\n#endif\n"
    ),
    "mindspore/ops/kernel/cpu/nnacl/fp32/activation_fp32.h": "#ifndef C_H_\n#define C_H_\nint ElementRelu(const float *src, float *dst, int n);\n#endif\n",
    "mindspore/ops/kernel/cpu/nnacl/fp32/activation_fp32.c": (
        '#include "nnacl/fp32/activation_fp32.h"\nint ElementRelu(const float *src, float *dst, int n) {\n  return n;\n}\n'
        "int Unused(int n) { return n; }\n"
    ),
    "mindspore/ops/kernel/cpu/relu_cpu_kernel.h": "#ifndef D_H_\n#define D_H_\nclass ReluCpuKernelMod : public NativeCpuKernelMod { int x; };\n#endif\n",
    "mindspore/ops/kernel/cpu/relu_cpu_kernel.cc": (
        '#include "kernel/cpu/relu_cpu_kernel.h"\n#include "nnacl/fp32/activation_fp32.h"\nnamespace mindspore {\nnamespace {\n'
        "int InferShape(int x) { return x; }\n}  // namespace\n"
        "bool ReluCpuKernelMod::Launch(int n) {\n  return ElementRelu(nullptr, nullptr, InferShape(n));\n}\n"
        "std::vector<std::pair<KernelAttr, ReluCpuKernelMod::Func>> ReluCpuKernelMod::func_list_ = {\n"
        "  {KernelAttr().AddInputAttr(kNumberTypeFloat32), &ReluCpuKernelMod::LaunchKernel<float>},\n"
        "  {KernelAttr().AddInputAttr(kNumberTypeFloat16), &ReluCpuKernelMod::LaunchKernel<float16>},\n};\n"
        "MS_KERNEL_FACTORY_REG(NativeCpuKernelMod, ReLU, ReluCpuKernelMod);\n}\n"
    ),
    "mindspore/ops/kernel/cpu/arithmetic_self_cpu_kernel.cc": (
        '#include "kernel/cpu/shared.h"\nnamespace mindspore {\nclass ArithmeticSelfCpuKernelMod { int x; };\n'
        "MS_KERNEL_FACTORY_REG_BY_CREATOR(NativeCpuKernelMod, Abs, []() { return std::make_shared<AbsMod>(kAbs); });\n"
        "MS_KERNEL_FACTORY_REG_BY_CREATOR(NativeCpuKernelMod, Sinc, []() { return std::make_shared<SincMod>(kSinc); });\n"
        "class AbsMod { int Run() { return Shared(1); } };\nclass SincMod { int Run() { return Shared(2); } };\n}\n"
    ),
    "mindspore/ops/kernel/cpu/shared.h": "#ifndef E_H_\n#define E_H_\nint Shared(int x) { return x; }\n#endif\n",
    "mindspore/ops/kernel/gpu/cuda_impl/cuda_ops/sinc_impl.cuh": "#ifndef F_H_\n#define F_H_\nvoid CalSinc(int n);\n#endif\n",
    "mindspore/ops/kernel/gpu/cuda_impl/cuda_ops/sinc_impl.cu": (
        '#include "sinc_impl.cuh"\ntemplate <typename T>\n__global__ void SincKernel(int n, T *out) {\n  out[0] = n;\n}\n'
        "void CalSinc(int n) {\n  SincKernel<<<1, 1>>>(n, nullptr);\n}\n"
    ),
    "mindspore/ops/kernel/gpu/math/sinc_gpu_kernel.h": (
        '#ifndef G_H_\n#define G_H_\n#include "kernel/gpu/cuda_impl/cuda_ops/sinc_impl.cuh"\n'
        "template <typename T>\nclass SincGpuKernelMod : public NativeGpuKernelMod {\n  bool Launch() { CalSinc(1); return true; }\n};\n#endif\n"
    ),
    "mindspore/ops/kernel/gpu/math/sinc_gpu_kernel.cc": (
        '#include "kernel/gpu/math/sinc_gpu_kernel.h"\nnamespace mindspore {\n'
        "MS_REG_GPU_KERNEL_ONE(Sinc, KernelAttr().AddInputAttr(kNumberTypeFloat32), SincGpuKernelMod, float)\n"
        "MS_REG_GPU_KERNEL_ONE(Sinc, KernelAttr().AddInputAttr(kNumberTypeFloat16), SincGpuKernelMod, half)\n}\n"
    ),
    "mindspore/ccsrc/runtime/device/stream.cc": "namespace mindspore { int Stream(int x) { return x; } }\n",
    PYTHON + "__init__.py": "from mindspore.common import *\n",
    PYTHON + "common/__init__.py": "from mindspore.common.tensor import Tensor\n__all__ = ['Tensor']\n",
    PYTHON + "common/tensor.py": "class Tensor:\n    def numpy(self):\n        return 1\n",
    PYTHON + "ops/__init__.py": (
        "from mindspore.ops import operations, function\nfrom mindspore.ops.operations import *\nfrom mindspore.ops.function import *\n"
        "__all__ = []\n__all__.extend(operations.__all__)\n__all__.extend(function.__all__)\n"
    ),
    PYTHON + "ops/primitive.py": "class Primitive:\n    pass\n",
    PYTHON + "ops/operations/__init__.py": "from .nn_ops import ReLU, Abs\n__all__ = ['ReLU', 'Abs']\n",
    PYTHON + "ops/operations/nn_ops.py": "from ..auto_generate import ReLU, Abs\n",
    PYTHON + "ops/function/__init__.py": "from .nn_func import relu, softplus_ext\nfrom mindspore.ops.auto_generate import abs\n__all__ = ['relu', 'abs']\n",
    PYTHON + "ops/function/nn_func.py": (
        "from mindspore.ops.auto_generate import softplus_ext_op, relu as _relu\n\n"
        "def softplus_ext(input, beta=1):\n    return softplus_ext_op(input, beta)\n\ndef relu(input):\n    return _relu(input)\n"
    ),
    PYTHON + "ops/tensor_method.py": "def tensor_max(input):\n    return input\n\ndef tensor_maxdim(input, dim):\n    return input\n\ndef tensor_abs(input):\n    return input\n",
    PYTHON + "mint/__init__.py": "from mindspore.ops.functional_overload import max\nfrom mindspore.ops.auto_generate import abs, sinc\n__all__ = ['max', 'abs', 'sinc']\n",
    PYTHON + "mint/nn/__init__.py": "from mindspore.mint.nn.layer.activation import Softplus\n__all__ = ['Softplus']\n",
    PYTHON + "mint/nn/functional.py": "from mindspore.ops.function.nn_func import softplus_ext as softplus\n__all__ = ['softplus']\n",
    PYTHON + "mint/nn/layer/activation.py": "import mindspore.mint.nn.functional as F\n\nclass Softplus:\n    def construct(self, x):\n        return F.softplus(x)\n",
    PYTHON + "nn/__init__.py": "from .cell import Cell\nfrom .layer.activation import ReLU\n",
    PYTHON + "nn/cell.py": "class Cell:\n    def __call__(self, x):\n        return x\n",
    PYTHON + "nn/layer/activation.py": (
        "from mindspore.ops import operations as P\n\nclass ReLU:\n    def __init__(self):\n        self.relu = P.ReLU()\n"
    ),
}  # fmt: skip

THEN: Final[Tree] = {
    "mindspore/__init__.py": "from .common import *\n",
    "mindspore/common/__init__.py": "from .tensor import Tensor\n__all__ = ['Tensor']\n",
    "mindspore/common/tensor.py": (
        "from ._register_for_tensor import tensor_operator_registry\n\nclass Tensor:\n    def __add__(self, other):\n"
        "        return tensor_operator_registry.get('__add__')(self, other)\n\n    def sqrt(self):\n"
        "        return tensor_operator_registry.get('sqrt')()(self)\n"
    ),
    "mindspore/_extends/parse/standard_method.py": "from ...ops import functional as F\nfrom ...common.tensor import Tensor\n\ndef sin_(x):\n    return Tensor(x)\n\ndef sqrt_(x):\n    return F.sqrt(x)\n",
    "mindspore/ccsrc/pipeline/jit/resource.cc": 'MethodMap m = {{kObjectTypeTensorType, {{"sqrt", std::string("sqrt_")}, {"__add__", std::string("sin_")}}}};\n',
    "mindspore/ops/__init__.py": (
        "from . import composite, operations, functional\nfrom .operations import *\nfrom .functional import *\n"
        "__all__ = []\n__all__.extend(operations.__all__)\n__all__.extend(functional.__all__)\n"
    ),
    "mindspore/ops/primitive.py": "class Primitive:\n    pass\n",
    "mindspore/ops/functional.py": (
        "from mindspore.common._register_for_tensor import tensor_operator_registry\nfrom . import operations as P\n\n"
        "sqrt = P.Sqrt()\ntensor_add = P.Add()\n"
        "tensor_operator_registry.register('__add__', tensor_add)\ntensor_operator_registry.register('sqrt', P.Sqrt)\n"
    ),
    "mindspore/ops/operations/__init__.py": "from .math_ops import Sqrt, Add, Cos, Sin\n__all__ = ['Sqrt', 'Add', 'Cos', 'Sin']\n",
    "mindspore/ops/operations/math_ops.py": (
        "from ..primitive import PrimitiveWithInfer\n\n\nclass Sqrt(PrimitiveWithInfer):\n    def infer_dtype(self, x):\n        return x\n\n\n"
        "class Add(PrimitiveWithInfer):\n    def infer_dtype(self, x):\n        return x\n\n\n"
        "class Cos(PrimitiveWithInfer):\n    def infer_dtype(self, x):\n        return x\n\n\n"
        "class Sin(PrimitiveWithInfer):\n    def infer_dtype(self, x):\n        return x\n"
    ),
    "mindspore/ops/operations/_grad_ops.py": (
        "from ..primitive import PrimitiveWithInfer\n\n\nclass SqrtGrad(PrimitiveWithInfer):\n    def infer_dtype(self, x):\n        return x\n"
    ),
    "mindspore/ops/_grad/grad_math_ops.py": (
        "from .. import operations as P\nfrom ..operations import _grad_ops as G\n\n\n@bprop_getters.register(P.Sqrt)\n"
        "def get_bprop_sqrt(self):\n    grad = G.SqrtGrad()\n\n    def bprop(x, out, dout):\n        return (grad(out, dout),)\n    return bprop\n\n\n"
        "@bprop_getters.register(P.Add)\ndef get_bprop_add(self):\n    return 1\n"
    ),
    "mindspore/ops/_op_impl/tbe/__init__.py": "from .sqrt import _sqrt_tbe\n",
    "mindspore/ops/_op_impl/tbe/sqrt.py": (
        'from mindspore.ops.op_info_register import TBERegOp\n\nsqrt_op_info = TBERegOp("Sqrt").attr("x").get_op_info()\n\n\n'
        "@op_info_register(sqrt_op_info)\ndef _sqrt_tbe():\n    return\n"
    ),
    "mindspore/ops/op_info_register.py": '"""Registration, as in TBERegOp("Add")."""\n\nclass TBERegOp:\n    pass\n',
    "mindspore/ops/composite/multitype_ops/add_impl.py": "from ... import functional as F\n\n\n@add.register('Tensor', 'Tensor')\ndef _add_tensor(x, y):\n    return F.tensor_add(x, y)\n",
    "mindspore/core/abstract/prim_maths.cc": (
        "namespace mindspore { namespace abstract {\nAbstractBasePtr InferImplSqrtGrad(int x) { return x; }\n"
        "AbstractBasePtr InferImplSqrt(int x) { return x; }\nAbstractBasePtr InferImplAdd(int x) { return x; }\n}}\n"
    ).replace("namespace mindspore {", '#include "abstract/infer_functions.h"\nnamespace mindspore {', 1),
    "mindspore/core/abstract/infer_functions.h": (
        "#ifndef H_H_\n#define H_H_\nAbstractBasePtr InferImplSqrtGrad(int x);\nAbstractBasePtr InferImplSqrt(int x);\n"
        "AbstractBasePtr InferImplAdd(int x);\n#endif\n"
    ),
    "mindspore/core/abstract/primitive_infer_map.cc": (
        '#include "abstract/infer_functions.h"\nnamespace mindspore { namespace abstract {\n'
        "PrimitiveEvalImplMap &GetPrimitiveToEvalImplMap() {\n  static PrimitiveEvalImplMap map = {\n"
        "    {prim::kPrimSqrt, {InferImplSqrt, true}},\n    {prim::kPrimSqrtGrad, {InferImplSqrtGrad, true}},\n"
        "    {prim::kPrimAdd, {InferImplAdd, true}},\n  };\n  return map;\n}\n}}\n"
    ),
    "mindspore/core/ops/sqrt.cc": (
        "namespace mindspore { namespace ops {\nnamespace {\nTypePtr InferType(int x) { return x; }\n}  // namespace\n"
        "AbstractBasePtr SqrtInfer(int x) { return InferType(x); }\n"
        "REGISTER_PRIMITIVE_EVAL_IMPL(Sqrt, prim::kPrimSqrt, SqrtInfer, nullptr, true);\n}}\n"
    ),
    "mindspore/ccsrc/backend/kernel_compiler/cpu/eltwise_grad_cpu_kernel.h": (
        "#ifndef I_H_\n#define I_H_\nclass EltWiseGradCPUKernel : public CPUKernel { int x; };\n"
        "MS_REG_CPU_KERNEL_T(SqrtGrad, KernelAttr().AddInputAttr(kNumberTypeFloat32), EltWiseGradCPUKernel, float);\n#endif\n"
    ),
    "mindspore/ccsrc/backend/kernel_compiler/cpu/eltwise_grad_cpu_kernel.cc": (
        '#include "backend/kernel_compiler/cpu/eltwise_grad_cpu_kernel.h"\nnamespace mindspore {\n'
        "void EltWiseGradCPUKernel::SqrtGrad(int x) { x = x * 2; }\n}\n"
    ),
    "mindspore/ccsrc/backend/kernel_compiler/gpu/math/unary_op_gpu_kernel.cc": (
        "namespace mindspore {\n#define REG_COS(T) MS_REG_GPU_KERNEL_ONE(Cos, KernelAttr(), UnaryOpGpuKernel, T)\nREG_COS(float)\nREG_COS(half)\n"
        "MS_REG_GPU_KERNEL_ONE(Sin, KernelAttr(), UnaryOpGpuKernel, float)\n}\n"
    ),
    "mindspore/nn/__init__.py": "from .cell import Cell\n",
    "mindspore/nn/cell.py": "class Cell:\n    pass\n",
}  # fmt: skip
