"""MindSpore's chains of 2020 and 2021, on a small repository in its layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mindspore_trees import THEN, Tree

from bot.changes.change import Changes

Run = Callable[[Tree, Tree], Changes]

SQRT = {"mindspore.ops.Sqrt", "mindspore.ops.sqrt", "mindspore.Tensor.sqrt"}
ADD = {"mindspore.ops.Add", "mindspore.ops.tensor_add", "mindspore.Tensor.__add__", "mindspore.Tensor.__radd__", "mindspore.Tensor.__iadd__"}  # fmt: skip
KERNELS = "mindspore/ccsrc/backend/kernel_compiler/"


def aliases(changes: Changes) -> set[str]:
    return {alias for op in changes.ops for alias in op.aliases}


def edit(file: str, old: str, new: str) -> Tree:
    text = THEN[file]
    assert isinstance(text, str)
    assert old in text
    return {file: text.replace(old, new, 1)}


@pytest.mark.parametrize(
    ("file", "old", "new", "wanted"),
    [
        ("mindspore/ops/operations/math_ops.py", "return x", "return float(x)", SQRT),
        ("mindspore/ops/operations/_grad_ops.py", "return x", "return float(x)", SQRT),
        ("mindspore/ops/_grad/grad_math_ops.py", "grad(out, dout)", "grad(dout, out)", SQRT),
        ("mindspore/ops/_grad/grad_math_ops.py", "return 1", "return 2", ADD),
        ("mindspore/ops/_op_impl/tbe/sqrt.py", '.attr("x")', '.attr("y")', SQRT),
        ("mindspore/core/abstract/prim_maths.cc", "InferImplSqrtGrad(int x) { return x; }", "InferImplSqrtGrad(int x) { return 1; }", SQRT),
        ("mindspore/core/abstract/prim_maths.cc", "InferImplAdd(int x) { return x; }", "InferImplAdd(int x) { return 1; }", ADD),
        ("mindspore/core/abstract/primitive_infer_map.cc", "{InferImplAdd, true}", "{InferImplAdd, false}", ADD),
        ("mindspore/core/ops/sqrt.cc", "InferType(int x) { return x; }", "InferType(int x) { return 1; }", SQRT),
        (KERNELS + "cpu/eltwise_grad_cpu_kernel.cc", "x * 2", "x * 3", SQRT),
        (KERNELS + "gpu/math/unary_op_gpu_kernel.cc", "REG_COS(half)", "REG_COS(double)", {"mindspore.ops.Cos"}),
        (KERNELS + "gpu/math/unary_op_gpu_kernel.cc", "UnaryOpGpuKernel, T)", "UnaryGpuKernel, T)", {"mindspore.ops.Cos"}),
        (KERNELS + "gpu/math/unary_op_gpu_kernel.cc", "UnaryOpGpuKernel, float)", "UnaryOpGpuKernel, half)", {"mindspore.ops.Sin"}),
        ("mindspore/_extends/parse/standard_method.py", "F.sqrt(x)", "F.sqrt(x + 0)", {"mindspore.Tensor.sqrt"}),
        ("mindspore/ops/composite/multitype_ops/add_impl.py", "F.tensor_add(x, y)", "F.tensor_add(y, x)",
         {"mindspore.Tensor.__add__", "mindspore.Tensor.__radd__", "mindspore.Tensor.__iadd__"}),
        ("mindspore/common/tensor.py", "get('sqrt')()(self)", "get('sqrt')()(self + 0)", {"mindspore.Tensor.sqrt"}),
    ],
)  # fmt: skip
def test_every_link_of_the_chain_leads_to_the_op(
    changes_of: Run, file: str, old: str, new: str, wanted: set[str]
) -> None:
    changes = changes_of(THEN, edit(file, old, new))
    assert changes.framework == "mindspore"
    assert aliases(changes) == wanted
    (op,) = changes.ops
    assert op.how == "direct"
    assert not changes.unmapped


def test_forms_of_one_op_are_one_op(changes_of: Run) -> None:
    changes = changes_of(THEN, edit("mindspore/ops/operations/math_ops.py", "return x", "return 1"))
    assert [op.op for op in changes.ops] == ["sqrt"]


def test_a_new_row_of_the_inference_table_is_of_one_primitive(changes_of: Run) -> None:
    file = "mindspore/core/abstract/primitive_infer_map.cc"
    row = "    {prim::kPrimCos, {InferImplSqrt, true}},\n  };"
    changes = changes_of(THEN, edit(file, "  };", row))
    assert aliases(changes) == {"mindspore.ops.Cos"}
    (op,) = changes.ops
    assert [(run.first, run.last) for run in op.lines] == [(8, 8)]


def test_a_removed_kernel_is_followed_in_the_base(changes_of: Run) -> None:
    file = KERNELS + "gpu/math/unary_op_gpu_kernel.cc"
    changes = changes_of(THEN, {file: "namespace mindspore {}\n"})
    assert aliases(changes) == {"mindspore.ops.Cos", "mindspore.ops.Sin"}


def test_an_import_that_tells_no_op_is_quiet(changes_of: Run) -> None:
    file = "mindspore/ops/_op_impl/tbe/sqrt.py"
    changes = changes_of(THEN, edit(file, "import TBERegOp", "import TBERegOp, DataType"))
    assert (changes.ops, changes.unmapped) == ((), ())


def test_before_release_0_7_ops_are_public_in_their_modules(changes_of: Run) -> None:
    tree = dict(THEN)
    tree["mindspore/ops/__init__.py"] = (
        "from .primitive import Primitive\n__all__ = ['Primitive']\n"
    )
    changes = changes_of(tree, edit("mindspore/ops/operations/math_ops.py", "return x", "return 1"))
    assert aliases(changes) == {
        "mindspore.ops.operations.Sqrt",
        "mindspore.ops.functional.sqrt",
        "mindspore.Tensor.sqrt",
    }
    assert [op.op for op in changes.ops] == ["sqrt"]


def test_a_row_of_the_method_table_is_a_tensor_method(changes_of: Run) -> None:
    file = "mindspore/ccsrc/pipeline/jit/resource.cc"
    changes = changes_of(THEN, edit(file, 'std::string("sqrt_")', 'std::string("root_")'))
    assert aliases(changes) == {"mindspore.Tensor.sqrt"}
    assert not changes.unmapped


def test_the_init_of_a_class_that_is_not_public_is_its_subclasses(changes_of: Run) -> None:
    tree = dict(THEN)
    tree["mindspore/nn/__init__.py"] = "from .layer import Pad1d\n"
    tree["mindspore/nn/layer.py"] = (
        "class PadNd_:\n    def __init__(self, n):\n        self.n = n\n\n\n"
        "class Pad1d(PadNd_):\n    def __init__(self):\n        super().__init__(1)\n"
    )
    changes = changes_of(
        tree,
        {"mindspore/nn/layer.py": str(tree["mindspore/nn/layer.py"]).replace("= n", "= n + 0")},
    )
    assert aliases(changes) == {"mindspore.nn.Pad1d"}


def test_a_base_of_primitives_is_theirs_but_where_it_is_overridden(changes_of: Run) -> None:
    file = "mindspore/ops/operations/math_ops.py"
    tree = dict(THEN)
    base = "class _Unary(PrimitiveWithInfer):\n    def infer_shape(self, x):\n        return x\n\n    def infer_dtype(self, x):\n        return x\n\n\n"
    text = str(THEN[file]).replace("class Sqrt(PrimitiveWithInfer)", base + "class Sqrt(_Unary)")
    tree[file] = text.replace("class Cos(PrimitiveWithInfer)", "class Cos(_Unary)")
    shape = str(tree[file]).replace(
        "infer_shape(self, x):\n        return x", "infer_shape(self, x):\n        return 1"
    )
    assert aliases(changes_of(tree, {file: shape})) == SQRT | {"mindspore.ops.Cos"}
    dtype = str(tree[file]).replace(
        "infer_dtype(self, x):\n        return x", "infer_dtype(self, x):\n        return 1", 1
    )
    assert aliases(changes_of(tree, {file: dtype})) == set()
