"""MegEngine's chains, on a small repository in its layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from megengine_tree import TREE, Tree, edit

from bot.changes.change import Changes

Run = Callable[[Tree, Tree], Changes]

F, M, T = "megengine.functional.", "megengine.module.", "megengine.Tensor."
PYTHON = "imperative/python/megengine/"
CONV1D = {F + "conv1d", M + "Conv1d"}
CONV2D = {F + "conv2d", M + "Conv2d"}
TRANSPOSED = {F + "conv_transpose2d"}
FLOOR_DIV = {F + "floor_div", T + "__floordiv__"}
ADD = {F + "add", T + "__add__"}
MATMUL = {F + "matmul", T + "__matmul__", F + "linear"}
SUM = {F + "sum", T + "sum"}
MAX = {F + "max", T + "max"}
POOLING = {F + "max_pool2d"}
OPS_CPP = "imperative/src/impl/ops/specializations.cpp"
SCALAR = "imperative/src/impl/transformations/scalar.cpp"
TD = "src/core/include/megbrain/ir/ops.td"
KERNELS = "dnn/src/common/elemwise/kern_defs.cuh"
PARAMS = "dnn/scripts/opr_param_defs.py"


def said(changes: Changes, how: str) -> set[str]:
    """The public names said, but for longer paths to the same function (``functional.nn.conv2d``)."""
    return {
        alias
        for op in changes.ops
        if op.how == how
        for alias in op.aliases
        if not alias.startswith(F + "nn.")
    }


@pytest.mark.parametrize(
    ("file", "old", "new", "ops"),
    [
        # Elementwise kernels, one mode at a time
        (KERNELS, "DEF_KERN_INT(ADD, x + y)", "DEF_KERN_INT(ADD, y + x)", ADD),
        (KERNELS, "{ return x / y; }", "{ return x / y - 1; }", FLOOR_DIV),
        (KERNELS, "x > 0 ? y : 0", "x >= 0 ? y : 0", {F + "relu"}),
        ("dnn/src/cuda/elemwise/kimpl/EXP_dt_float32.cu", "dt_float32", "dt_float16", {F + "exp"}),
        ("dnn/src/arm_common/elemwise_helper/kimpl/relu.h", "return x;", "return x + 1;", {F + "relu"}),
        ("src/opr/impl/basic_arith.cpp", "RET(og * out);", "RET(out * og);", {F + "exp"}),
        # Kernels by folder and class
        ("dnn/src/cuda/conv_bias/cudnn.cpp", "x > 0", "x > 1", {F + "quantized.conv_bias_activation"} | CONV1D | CONV2D),
        ("dnn/src/cuda/conv_bias/chanwise/kern.cuh", "return x;", "return -x;", {F + "quantized.conv_bias_activation"} | CONV1D | CONV2D),
        ("dnn/src/cuda/convolution/backward_data/kern.cu", "x = 1", "x = 2", CONV1D | CONV2D | TRANSPOSED),
        ("dnn/src/x86/matrix_mul/f32/kernel.h", "return x;", "return -x;", MATMUL),
        ("dnn/src/common/pooling.cpp", "x = 1;", "x = 2;", POOLING),
        ("dnn/include/megdnn/oprs/nn.h", "PoolingBackward : public OperatorBase {\n    int", "PoolingBackward : public OperatorBase {\n    long", POOLING),
        ("dnn/src/naive/softmax/opr_impl.cpp", "x = 1;", "x = 2;", {F + "softmax"}),
        ("dnn/src/naive/handle.cpp", "MEGDNN_SPECIALIZE_CREATE_OPERATOR(PoolingForward);\n", "", POOLING),
        # OpDefs
        (TD, '"Softmax", [EmptyParam]', '"Softmax", [AxisParam]', {F + "softmax"}),
        (OPS_CPP, "opr::Convolution::make(inputs[0]", "opr::Convolution::make(inputs[1]", CONV1D | CONV2D),
        (OPS_CPP, "return x > 0;", "return x > 1;", {F + "softmax"}),
        (SCALAR, "reduce_rule(const OpDef& op, Span<ValueRef> inputs) { return inputs; }", "reduce_rule(const OpDef& op, Span<ValueRef> inputs) { return {}; }", SUM | MAX),
        (SCALAR, "softmax_rule(const OpDef& op, Span<ValueRef> inputs) { return inputs; }", "softmax_rule(const OpDef& op, Span<ValueRef> inputs) { return {}; }", {F + "softmax"}),
        # The table of parameters, by its modes
        (PARAMS, "'MAX = 1'", "'MAX = 2', 'MAX_ABS = 1'", set[str]()),
        (PARAMS, "Doc('axis', 'along which'), -1", "Doc('axis', 'along which'), 0", SUM | MAX),
        (PARAMS, "add_fields('uint32', 'window', 2)", "add_fields('uint32', 'window', 3)", POOLING),
        # The graph's operators
        ("src/opr/impl/dnn/convolution.cpp", "return 1;", "return 2;", CONV1D | CONV2D),
        ("src/opr/impl/dnn/convolution.cpp", "return 0;", "return 4;", CONV1D | CONV2D),
        # Bindings
        ("imperative/python/src/tensor_utils.cpp", "Padding::make(ndim_of(1))", "Padding::make(ndim_of(2))", {F + "pad"}),
        ("imperative/python/src/tensor_utils.cpp", "int ndim_of(int x) { return x; }", "int ndim_of(int x) { return -x; }", {F + "pad"}),
        # Python
        (PYTHON + "functional/nn.py", "Pooling(mode", "Pooling(window=3, mode", POOLING),
        (PYTHON + "functional/vision.py", "def _scaled(inp):\n    return inp", "def _scaled(inp):\n    return inp + 1", {F + "vision.interpolate"}),
        (PYTHON + "core/tensor/array_method.py", "__add__ = _binary_elwise(_ElwMod.ADD)", "__add__ = _binary(_ElwMod.ADD)", {T + "__add__"}),
        (PYTHON + "core/tensor/array_method.py", 'return _reduce("sum")(self, axis)', 'return _reduce("sum")(self, axis + 1)', SUM),
        (PYTHON + "module/conv.py", "return conv1d(x, self.weight)", "return conv1d(x, -self.weight)", {M + "Conv1d"}),
        (PYTHON + "module/batchnorm.py", "forward(self, x):\n        return x", "forward(self, x):\n        return -x", {M + "BatchNorm2d"}),
        (PYTHON + "functional/inplace.py", "apply(InplaceAdd(), dest, delta)[0]", "apply(InplaceAdd(), delta, dest)[0]", {"megengine.optimizer.SGD"}),
    ],
)  # fmt: skip
def test_a_chain_ends_in_the_ops_that_it_changes(
    changes_of: Run, file: str, old: str, new: str, ops: set[str]
) -> None:
    changes = changes_of(TREE, edit(file, old, new))
    assert said(changes, "direct") == ops
    if ops:
        assert not changes.unmapped


def test_a_shared_function_reaches_every_mode_indirectly(changes_of: Run) -> None:
    file = PYTHON + "core/tensor/array_method.py"
    changes = changes_of(TREE, edit(file, "builtin.Elemwise(mode), *args", "builtin.Elemwise(mode=mode), *args"))  # fmt: skip
    assert not said(changes, "direct")
    assert said(changes, "indirect") >= {F + "add", F + "floor_div", F + "exp", F + "log", F + "relu"}  # fmt: skip


def test_what_only_calls_a_public_op_is_not_followed(changes_of: Run) -> None:
    changes = changes_of(TREE, edit(PYTHON + "functional/nn.py", "Softmax(axis=1)", "Softmax(axis=2)"))  # fmt: skip
    assert said(changes, "direct") == {F + "softmax"}
    assert not said(changes, "indirect")
    assert any("tested itself" in note for note in changes.notes)


def test_function_module_and_method_are_one_op(changes_of: Run) -> None:
    conv = changes_of(TREE, edit(PYTHON + "functional/nn.py", "Convolution(stride=2)", "Convolution(stride=3)"))  # fmt: skip
    assert [op.op for op in conv.ops] == ["nn.functional.conv2d"]
    floor_div = changes_of(TREE, edit(KERNELS, "floor_div_int(x, y))", "floor_div_int(y, x))"))
    assert [op.op for op in floor_div.ops] == ["floor_divide"]
    assert not floor_div.ops[0].in_python


def test_a_new_op_from_td_to_function(changes_of: Run) -> None:
    td = TREE[TD]
    assert isinstance(td, str)
    python = edit(PYTHON + "functional/vision.py", '"interpolate"]', '"interpolate", "flip"]')[
        PYTHON + "functional/vision.py"
    ]
    assert isinstance(python, str)
    flip = "\n\ndef flip(inp):\n    (out,) = apply(builtin.Flip(), inp)\n    return out\n"
    changes = changes_of(
        TREE,
        {
            TD: td + 'def Flip: MgbHashableOp<"Flip", [EmptyParam]>;\n',
            PYTHON + "functional/vision.py": python + flip,
        },
    )
    assert said(changes, "direct") == {F + "vision.flip"}


@pytest.mark.parametrize(
    "edits",
    [
        {"README.md": "# Words\n"},
        {"imperative/python/test/unit/test_conv.py": "def test_conv():\n    assert 2\n"},
        {"ci/run.sh": "true\n"},
        edit(KERNELS, "#pragma once\n", "/* A licence. */\n#pragma once\n"),
        edit(PARAMS, "'unary: exp(x)'", "'unary: the exponential'"),
        edit(PYTHON + "functional/nn.py", "def pad(inp):\n", 'def pad(inp):\n    r"""Pads."""\n'),
        edit(OPS_CPP, "int shared_by_convolutions(int x) { return x; }", "int shared_by_convolutions(int x) {\n    return x;\n}"),
    ],
)  # fmt: skip
def test_words_tests_and_layout_change_no_op(changes_of: Run, edits: Tree) -> None:
    changes = changes_of(TREE, edits)
    assert not changes.ops
    assert not changes.unmapped
    assert changes.notes


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("src/core/impl/graph/cg_impl.cpp", "return 1;", "return 2;"),
        ("dnn/scripts/gen_elemwise_kern_impls.py", "print(1)", "print(2)"),
        ("lite/src/mge/network_impl.cpp", "return 1;", "return 2;"),
        (OPS_CPP, "int shared_by_convolutions(int x) { return x; }", "int shared_by_convolutions(int x) { return -x; }"),
    ],
)  # fmt: skip
def test_what_reaches_no_op_is_said(changes_of: Run, file: str, old: str, new: str) -> None:
    changes = changes_of(TREE, edit(file, old, new))
    assert not changes.ops
    assert [entry.file for entry in changes.unmapped] == [file]


def test_the_handle_of_a_backend_is_followed_by_its_members(changes_of: Run) -> None:
    handle = "#pragma once\nclass HandleImpl {\n    int x;\n    int default_algorithm() { return 1; }\n};\n"
    tree = {**TREE, "dnn/src/naive/handle.h": handle}
    changes = changes_of(tree, edit("dnn/src/naive/handle.h", "int x;", "long x;", tree))
    assert not changes.ops
    assert changes.unmapped


def test_before_there_was_a_td_operators_name_the_opdefs(changes_of: Run) -> None:
    tree: Tree = {path: text for path, text in TREE.items() if path != TD}
    changes = changes_of(tree, edit("dnn/src/common/pooling.cpp", "x = 1;", "x = 2;", tree))
    assert said(changes, "direct") == POOLING


def test_users_of_a_renamed_function_are_not_changed_by_its_name(changes_of: Run) -> None:
    file = PYTHON + "functional/nn.py"
    text = TREE[file]
    assert isinstance(text, str)
    changes = changes_of(TREE, {file: text.replace("softmax(inp)", "soft_max(inp)").replace('"softmax"', '"soft_max"').replace("logsoft_max", "logsoftmax")})  # fmt: skip
    assert said(changes, "direct") == {F + "softmax", F + "soft_max"}


def test_a_renamed_method_of_a_private_class_changes_nothing(changes_of: Run) -> None:
    file = PYTHON + "module/batchnorm.py"
    text = "from .module import Module\n\n\nclass _BatchNorm(Module):\n    def {0}(self, x):\n        return x + 1\n\n    def forward(self, x):\n        return self.{0}(x)\n\n\nclass BatchNorm2d(_BatchNorm):\n    pass\n"
    tree: Tree = {**TREE, file: text.format("chekc")}
    changes = changes_of(tree, {file: text.format("check")})
    assert not changes.ops


def test_a_name_that_all_lists_twice_is_offered_once(changes_of: Run) -> None:
    file = PYTHON + "functional/elemwise.py"
    tree = {**TREE, **edit(file, '["add",', '["add", "add",')}
    changes = changes_of(tree, edit(file, '["add", "add",', '["add",', tree))
    assert not changes.ops


X86 = "dnn/src/x86/elemwise/opr_impl.cpp"
DISPATCH: Tree = {
    **TREE,
    "dnn/src/x86/elemwise/opr_impl.h": "#pragma once\nclass ElemwiseImpl : public fallback::ElemwiseImpl {\n    bool x;\n};\n",
    X86: (
        '#include "src/x86/elemwise/opr_impl.h"\nbool ElemwiseImpl::exec_unary() {\n    switch (param().mode) {\n'
        "        DISPATCH_MKL(EXP, vsExp);\n        DISPATCH_MKL(LOG, vsLn);\n        default: return false;\n    }\n}\n"
    ),
    PYTHON + "functional/elemwise.py": (
        "from ..core.ops.builtin import Elemwise\nfrom ..core.tensor.array_method import _elwise_apply\n\n"
        '__all__ = ["exp", "log", "add"]\n\n\n'
        "def _elwise(*args, mode):\n    if mode in (Elemwise.Mode.EXP, Elemwise.Mode.LOG):\n        args = args[0]\n"
        "    return _elwise_apply(args, mode)\n\n\n"
        "def exp(x):\n    return _elwise(x, mode=Elemwise.Mode.EXP)\n\n\n"
        "def log(x):\n    return _elwise(x, mode=Elemwise.Mode.LOG)\n\n\n"
        "def add(x, y):\n    return _elwise(x, y, mode=Elemwise.Mode.ADD)\n"
    ),
    PYTHON + "core/tensor/array_method.py": (
        "from .._imperative_rt.core2 import apply\nfrom ..ops import builtin\n\n\n"
        "def _elwise_apply(args, mode):\n    (result,) = apply(builtin.Elemwise(mode), *args)\n    return result\n\n\n"
        "class ArrayMethodMixin:\n    def item(self):\n        return 1\n"
    ),
}  # fmt: skip


def test_a_row_of_a_dispatch_over_modes_is_that_mode(changes_of: Run) -> None:
    changes = changes_of(DISPATCH, edit(X86, "        DISPATCH_MKL(LOG, vsLn);\n", "", DISPATCH))
    assert said(changes, "direct") == {F + "log", F + "logsoftmax"}  # both apply the mode LOG
    assert not said(changes, "indirect")


def test_the_modes_that_a_shared_function_treats_otherwise_are_direct(changes_of: Run) -> None:
    file = PYTHON + "functional/elemwise.py"
    changes = changes_of(DISPATCH, edit(file, "(Elemwise.Mode.EXP, Elemwise.Mode.LOG)", "(Elemwise.Mode.EXP, Elemwise.Mode.ADD)", DISPATCH))  # fmt: skip
    assert said(changes, "direct") >= {F + "log", F + "add"}


def test_a_binding_that_calls_another_is_not_changed_by_it(changes_of: Run) -> None:
    cpp, table = "imperative/python/src/tensor_utils.cpp", "imperative/python/src/tensor.cpp"
    text, rows = TREE[cpp], TREE[table]
    assert isinstance(text, str)
    assert isinstance(rows, str)
    tree: Tree = {
        **TREE,
        cpp: text.removesuffix("}\n") + "py::object _flip_cpp(py::handle inp) {\n    return _pad_cpp(inp);\n}\n"
        "PyObject* flip_cpp(PyObject* self, PyObject* const* args, size_t nargs) {\n    return _flip_cpp(args[0]);\n}\n}\n",
        table: rows.replace("MGE_PY_INTERFACE(pad_cpp, pad_cpp),", "MGE_PY_INTERFACE(pad_cpp, pad_cpp), MGE_PY_INTERFACE(flip_cpp, flip_cpp),"),
        PYTHON + "functional/vision.py": 'from ..core._imperative_rt.core2 import flip_cpp\n\n__all__ = ["flip"]\n\n\ndef flip(inp):\n    return flip_cpp(inp)\n',
    }  # fmt: skip
    changes = changes_of(tree, edit(cpp, "ndim_of(1)", "ndim_of(2)", tree))
    assert said(changes, "direct") == {F + "pad"}
    assert not said(changes, "indirect")
    flipped = changes_of(tree, edit(cpp, "_flip_cpp(args[0])", "_flip_cpp(args[1])", tree))
    assert said(flipped, "direct") == {F + "vision.flip"}


def test_a_stage_that_tells_many_ops_apart_is_part_of_none(changes_of: Run) -> None:
    file = "imperative/src/impl/transformations/complex.cpp"
    text = (
        "namespace mgb { namespace imperative {\nValueRefList ComplexTransformation::apply(const Operator& op) {\n"
        + "".join(f"    if (op.same_type<{name}>()) return {{}};\n" for name in ("Reduce", "Softmax", "Padding", "Pooling"))
        + "    return 0;\n}\n}}\n"
    )  # fmt: skip
    tree = {**TREE, file: text}
    changes = changes_of(tree, edit(file, "return 0;", "return 1;", tree))
    assert not changes.ops
    assert [entry.file for entry in changes.unmapped] == [file]
