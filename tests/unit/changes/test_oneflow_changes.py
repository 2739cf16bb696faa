"""OneFlow's chains, on a small repository in its layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.changes.change import Changes

Tree = dict[str, str | bytes | None]
Run = Callable[[Tree, Tree], Changes]

KERNEL = """#include "oneflow/user/kernels/softplus_util.h"
namespace oneflow {
namespace {
template<typename T>
T Helper(T x) { return x; }
}  // namespace
template<typename T>
class SoftplusKernel final : public user_op::OpKernel {
  void Compute() const override { Helper<T>(Shared(1)); }
};
#define REGISTER_SOFTPLUS_KERNEL(op_name, dtype)      \\
  REGISTER_USER_KERNEL(#op_name)                      \\
      .SetCreateFn<SoftplusKernel<dtype>>()           \\
      .SetIsMatchedHob(user_op::HobDataType("out", 0) == 1);

REGISTER_SOFTPLUS_KERNEL(softplus, float)
REGISTER_SOFTPLUS_KERNEL(softplus, double)
}  // namespace oneflow
"""
TREE: Tree = {
    "oneflow/ir/include/OneFlow/OneFlowUserOps.td": (
        'def OneFlow_SoftplusOp : OneFlow_BaseOp<"softplus", [NoMemoryEffect]> {\n  let input = (ins T:$in);\n}\n'
        'def OneFlow_SoftplusGradOp : OneFlow_BaseOp<"softplus_grad", []> {\n  let input = (ins T:$dy);\n}\n'
        'def OneFlow_GatherOp : OneFlow_BaseOp<"gather", []> { let x = 1; }\n'
        'def OneFlow_DimGatherOp : OneFlow_BaseOp<"dim_gather", []> { let x = 1; }\n'
        'def OneFlow_OutOp : OneFlow_BaseOp<"out", []> { let x = 1; }\n'
        'def OneFlow_AbsOp : OneFlow_BaseOp<"abs", []> { let x = 1; }\n'
        'def OneFlow_AcosOp : OneFlow_BaseOp<"acos", []> { let x = 1; }\n'
    ),
    "oneflow/user/ops/softplus_op.cpp": (
        "namespace oneflow {\n/* static */ Maybe<void> SoftplusOp::InferDataType(Ctx* c) { return 1; }\n"
        "/* static */ Maybe<void> SoftplusGradOp::InferDataType(Ctx* c) { return 1; }\n}\n"
    ),
    "oneflow/user/kernels/softplus_util.h": "#ifndef A_H_\n#define A_H_\nint Shared(int x) { return x; }\nint Lonely(int x) { return x; }\n#endif\n",
    "oneflow/user/kernels/softplus_kernel.cpp": KERNEL,
    "oneflow/user/kernels/gather_kernel.cu": (
        "namespace oneflow {\nclass GatherKernel { int x = 1; };\n"
        'REGISTER_USER_KERNEL("gather").SetCreateFn<GatherKernel>();\n}\n'
    ),
    "oneflow/user/kernels/unary_kernel.cpp": (
        '#define UNARY_SEQ OF_PP_MAKE_TUPLE_SEQ("abs", Abs) OF_PP_MAKE_TUPLE_SEQ("acos", Acos)\n'
        "#define REGISTER_UNARY(name, functor) REGISTER_USER_KERNEL(name).SetCreateFn<functor##Kernel>();\n"
        "OF_PP_FOR_EACH_TUPLE(REGISTER_UNARY, UNARY_SEQ)\n"
    ),
    "oneflow/core/functional/impl/activation_functor.cpp": (
        "namespace oneflow { namespace impl {\n"
        "class BaseFunctor { int x = 1; };\n"
        'class SoftplusFunctor : public BaseFunctor { SoftplusFunctor() { op_ = OpBuilder("softplus").Build(); } };\n'
        'class SoftplusGradFunctor { SoftplusGradFunctor() { op_ = OpBuilder("softplus_grad").Build(); } };\n'
        'class GatherFunctor { GatherFunctor() { op_ = OpBuilder("gather").Build(); } };\n'
        'class DimGatherFunctor { DimGatherFunctor() { op_ = OpBuilder("dim_gather").Build(); } };\n'
        'class AbsFunctor { AbsFunctor() { op_ = OpBuilder("abs").Build(); } };\n'
        'class AcosFunctor { AcosFunctor() { op_ = OpBuilder("acos").Build(); } };\n'
        "}\nONEFLOW_FUNCTION_LIBRARY(m) {\n"
        '  m.add_functor<impl::SoftplusFunctor>("Softplus");\n'
        '  m.add_functor<impl::SoftplusGradFunctor>("SoftplusGrad");\n'
        '  m.add_functor<impl::GatherFunctor>("Gather");\n'
        '  m.add_functor<impl::DimGatherFunctor>("DimGather");\n'
        '  m.add_functor<impl::AbsFunctor>("Abs");\n'
        '  m.add_functor<impl::AcosFunctor>("Acos");\n'
        "}\n}\n"
    ),
    "oneflow/core/functional/functional_api.yaml": (
        '- name: "softplus"\n  signature: "Tensor (Tensor x) => Softplus"\n  bind_python: True\n\n'
        '- name: "softplus_grad"\n  signature: "Tensor (Tensor dy) => SoftplusGrad"\n  bind_python: False\n\n'
        '- name: "gather"\n  signature: "Tensor (Tensor x) => Gather"\n  bind_python: True\n\n'
        '- name: "dim_gather"\n  signature: "Tensor (Tensor x) => DimGather"\n  bind_python: True\n\n'
        '- name: "abs"\n  signature: "Tensor (Tensor x) => Abs"\n  bind_python: True\n\n'
        '- name: "acos"\n  signature: "Tensor (Tensor x) => Acos"\n  bind_python: True\n'
    ),
    "oneflow/core/autograd/gradient_funcs/softplus.cpp": (
        "namespace oneflow { namespace one {\n"
        "class SoftplusGrad : public OpExprGradFunction<S> {\n"
        "  Maybe<void> Apply() const { return functional::SoftplusGrad(dy); }\n};\n"
        'REGISTER_OP_EXPR_GRAD_FUNCTION("softplus", SoftplusGrad);\n}}\n'
    ),
    "oneflow/api/python/framework/tensor_functions.cpp": (
        "DIRECT_PASS_FUNC(PyTensorObject_abs, functional::abs)\n"
        "DIRECT_PASS_FUNC(PyTensorObject_acos, functional::acos)\n"
        "PyMethodDef PyTensorObject_extra_methods[] = {\n"
        '    {"abs", PyTensorObject_abs, METH_NOARGS, NULL},\n'
        '    {"acos", PyTensorObject_acos, METH_NOARGS, NULL},\n'
        "    {NULL},\n};\n"
    ),
    "python/oneflow/__init__.py": "from oneflow._C import abs, acos\nfrom oneflow._C import dim_gather as gather\n",
    "python/oneflow/nn/__init__.py": "from oneflow.nn.modules.activation import Softplus\nfrom oneflow.nn.modules.sparse import Embedding\n",
    "python/oneflow/nn/functional/__init__.py": "from oneflow._C import softplus\n",
    "python/oneflow/nn/modules/activation.py": (
        "import oneflow as flow\n\nclass Softplus:\n    def forward(self, x):\n        return flow._C.softplus(x)\n"
    ),
    "python/oneflow/nn/modules/sparse.py": (
        "import oneflow as flow\n\nclass Embedding:\n    def forward(self, x):\n        return flow._C.gather(x)\n"
    ),
    "python/oneflow/framework/tensor.py": (
        "import oneflow as flow\n\ndef _new_ones(self):\n    return 1\n\n"
        "def RegisterMethods():\n    Tensor.new_ones = _new_ones\n"
    ),
}
SOFTPLUS = {"oneflow.nn.functional.softplus", "oneflow.nn.Softplus", "oneflow._C.softplus"}


def aliases(changes: Changes) -> set[str]:
    return {alias for op in changes.ops for alias in op.aliases}


def edit(file: str, old: str, new: str) -> Tree:
    text = TREE[file]
    assert isinstance(text, str)
    assert old in text
    return {file: text.replace(old, new, 1)}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("oneflow/user/kernels/softplus_kernel.cpp", "return x;", "return x + 1;"),
        ("oneflow/user/kernels/softplus_kernel.cpp", "Shared(1)", "Shared(2)"),
        ("oneflow/user/kernels/softplus_kernel.cpp", "softplus, double", "softplus, half"),
        ("oneflow/user/kernels/softplus_kernel.cpp", '"out", 0', '"out", 1'),
        ("oneflow/user/kernels/softplus_util.h", "int Shared(int x) { return x; }", "int Shared(int x) { return -x; }"),
        ("oneflow/user/ops/softplus_op.cpp", "return 1;", "return 2;"),
        ("oneflow/user/ops/softplus_op.cpp", "SoftplusGradOp::InferDataType(Ctx* c) { return 1;", "SoftplusGradOp::InferDataType(Ctx* c) { return 3;"),
        ("oneflow/core/functional/impl/activation_functor.cpp", '("softplus").Build()', '("softplus").Input(1).Build()'),
        ("oneflow/core/functional/impl/activation_functor.cpp", '("softplus_grad").Build()', '("softplus_grad").Input(1).Build()'),
        ("oneflow/core/functional/impl/activation_functor.cpp", "BaseFunctor { int x = 1; }", "BaseFunctor { int x = 2; }"),
        ("oneflow/core/functional/functional_api.yaml", "(Tensor x) => Softplus", "(Tensor x, Double beta=1) => Softplus"),
        ("oneflow/core/autograd/gradient_funcs/softplus.cpp", "SoftplusGrad(dy)", "SoftplusGrad(dy, 1)"),
        ("oneflow/ir/include/OneFlow/OneFlowUserOps.td", "[NoMemoryEffect]", "[NoGrad]"),
        ("oneflow/ir/include/OneFlow/OneFlowUserOps.td", "T:$dy", "T:$grad"),
    ],
)  # fmt: skip
def test_every_link_of_the_chain_leads_to_the_op(
    changes_of: Run, file: str, old: str, new: str
) -> None:
    changes = changes_of(TREE, edit(file, old, new))
    assert aliases(changes) == SOFTPLUS
    (op,) = changes.ops
    assert (changes.framework, op.op, op.in_python) == ("oneflow", "nn.functional.softplus", False)
    assert op.path[0].startswith(f"{file}:")


def test_a_false_friend_is_told_apart(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("oneflow/user/kernels/gather_kernel.cu", "x = 1", "x = 2"))
    assert "oneflow.gather" not in aliases(changes)
    assert "oneflow.nn.Embedding" in aliases(changes)


def test_one_row_of_a_list_macro(changes_of: Run) -> None:
    changes = changes_of(
        TREE, edit("oneflow/user/kernels/unary_kernel.cpp", '("acos", Acos)', '("acos", FastAcos)')
    )
    assert aliases(changes) == {"oneflow.acos", "oneflow.Tensor.acos", "oneflow._C.acos"}


def test_one_row_of_the_method_table(changes_of: Run) -> None:
    file = "oneflow/api/python/framework/tensor_functions.cpp"
    changes = changes_of(
        TREE, edit(file, '"acos", PyTensorObject_acos', '"acos", PyTensorObject_abs')
    )
    assert aliases(changes) == {"oneflow.Tensor.acos"}


def test_a_symbol_without_users_is_said_to_have_none(changes_of: Run) -> None:
    changes = changes_of(
        TREE,
        edit(
            "oneflow/user/kernels/softplus_util.h",
            "int Lonely(int x) { return x; }",
            "int Lonely(int x) { return 1; }",
        ),
    )
    assert changes.ops == ()
    assert [entry.file for entry in changes.unmapped] == ["oneflow/user/kernels/softplus_util.h"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("namespace oneflow {", "/* Copyright */\n// words\nnamespace oneflow {"),
        ("{ Helper<T>(Shared(1)); }", "{\n    Helper<T>(\n        Shared(1));  // why\n  }"),
        ("SoftplusKernel", "SoftplusKernel"),
    ],
)
def test_comments_and_layout_change_nothing(changes_of: Run, old: str, new: str) -> None:
    changes = changes_of(TREE, edit("oneflow/user/kernels/softplus_kernel.cpp", old, new))
    assert (changes.ops, changes.unmapped) == ((), ())


def test_a_pure_rename_of_a_class_changes_nothing(changes_of: Run) -> None:
    text = str(TREE["oneflow/core/autograd/gradient_funcs/softplus.cpp"])
    renamed = text.replace("class SoftplusGrad", "class SoftplusBackward").replace(
        ", SoftplusGrad)", ", SoftplusBackward)"
    )
    changes = changes_of(TREE, {"oneflow/core/autograd/gradient_funcs/softplus.cpp": renamed})
    assert (changes.ops, changes.unmapped) == ((), ())


def test_a_moved_file_changes_nothing(changes_of: Run) -> None:
    old = "oneflow/core/autograd/gradient_funcs/softplus.cpp"
    changes = changes_of(TREE, {old: None, "oneflow/core/autograd/higher/softplus.cpp": TREE[old]})
    assert (changes.ops, changes.unmapped) == ((), ())


def test_a_deleted_gradient_is_followed_in_the_base(changes_of: Run) -> None:
    changes = changes_of(TREE, {"oneflow/core/autograd/gradient_funcs/softplus.cpp": None})
    assert aliases(changes) == SOFTPLUS


def test_a_changed_export_names_the_op(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("python/oneflow/__init__.py", "dim_gather as gather", "gather"))
    assert "oneflow.gather" in aliases(changes)


def test_tensor_methods_in_python(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("python/oneflow/framework/tensor.py", "return 1", "return 2"))
    assert aliases(changes) == {"oneflow.Tensor.new_ones"}
    assert changes.ops[0].in_python


def test_autotests_are_listed_and_documentation_is_quiet(changes_of: Run) -> None:
    edits: Tree = {
        "python/oneflow/test/modules/test_softplus.py": "@autotest(n=5)\ndef test_x(): pass\n",
        "python/oneflow/test/modules/test_plain.py": "def test_x(): pass\n",
        "python/oneflow/framework/docstr/activation.py": 'add_docstr(oneflow.relu, "x")\n',
        "docs/source/nn.rst": "x\n",
    }
    changes = changes_of(TREE, edits)
    assert changes.tests == ("python/oneflow/test/modules/test_softplus.py",)
    assert (changes.ops, changes.unmapped) == ((), ())


def test_a_constant_of_a_source_is_not_the_header_s_of_the_same_name(changes_of: Run) -> None:
    header = "oneflow/core/cuda/elementwise.cuh"
    gather = "oneflow/user/kernels/gather_kernel.cu"
    other = "oneflow/user/kernels/softplus_kernel.cpp"
    constant = f'#include "{header}"\nconstexpr int kSize = 1;\n'
    tree: Tree = {
        **TREE,
        header: "#ifndef E_H_\n#define E_H_\nconstexpr int kSize = 256;\n#endif\n",
        gather: constant + str(TREE[gather]).replace("x = 1", "x = kSize"),
        other: f'#include "{header}"\n' + KERNEL.replace("Shared(1)", "Shared(kSize)"),
    }
    changes = changes_of(tree, {gather: str(tree[gather]).replace("kSize = 1;", "kSize = 2;")})
    assert "oneflow._C.gather" in aliases(changes)
    assert not aliases(changes) & SOFTPLUS


@pytest.mark.parametrize(
    ("built", "told"), [(("gather",), True), (("gather", "abs", "acos"), False)]
)
def test_another_functor_that_builds_an_op_is_told_when_it_builds_little_else(
    changes_of: Run, built: tuple[str, ...], told: bool
) -> None:
    path, yaml = (
        "oneflow/core/functional/impl/activation_functor.cpp",
        "oneflow/core/functional/functional_api.yaml",
    )
    body = " ".join(f'OpBuilder("{name}").Build();' for name in built)
    functor = f"class FusedLookFunctor {{ FusedLookFunctor() {{ {body} }} }};\nclass GatherFunctor"
    added = (
        'm.add_functor<impl::FusedLookFunctor>("FusedLook");\n  m.add_functor<impl::GatherFunctor>'
    )
    text = str(TREE[path]).replace("class GatherFunctor", functor)
    entry = '\n- name: "fused_look"\n  signature: "Tensor (Tensor x) => FusedLook"\n  bind_python: True\n'
    tree: Tree = {
        **TREE,
        path: text.replace("m.add_functor<impl::GatherFunctor>", added),
        yaml: str(TREE[yaml]) + entry,
    }
    changes = changes_of(tree, edit("oneflow/user/kernels/gather_kernel.cu", "x = 1", "x = 2"))
    how = {op.op: op.how for op in changes.ops}
    assert how.get("oneflow._C.fused_look") == ("indirect" if told else None)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("one::LocalToGlobalOpExpr", False), ("one::CastFromConsistentOpExpr", False),
        ("one::SelectTopNOpExpr", True),
    ],
)  # fmt: skip
def test_what_places_a_tensor_is_a_tool_of_its_callers(
    changes_of: Run, made: str, told: bool
) -> None:
    path, yaml = (
        "oneflow/core/functional/impl/spread_functor.cpp",
        "oneflow/core/functional/functional_api.yaml",
    )
    activation = "oneflow/core/functional/impl/activation_functor.cpp"
    caller = "class AbsFunctor { int F() { return functional::Spread(x); } "
    tree: Tree = {
        **TREE,
        path: (
            f'namespace oneflow {{\nclass SpreadFunctor {{ SpreadFunctor() {{ op_ = {made}::New("x"); }}\n'
            "  int F() { return 1; } };\n"
            'ONEFLOW_FUNCTION_LIBRARY(m) {\n  m.add_functor<SpreadFunctor>("Spread");\n}\n}\n'
        ),
        activation: str(TREE[activation]).replace("class AbsFunctor { ", caller),
        yaml: str(TREE[yaml])
        + '\n- name: "spread"\n  signature: "Tensor (Tensor x) => Spread"\n  bind_python: True\n',
    }
    changes = changes_of(tree, {path: str(tree[path]).replace("return 1", "return 2")})
    how = {op.op: op.how for op in changes.ops}
    assert how["oneflow._C.spread"] == "direct"
    assert how.get("abs") == ("indirect" if told else None)


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ("return OpInterpUtil::Dispatch<Tensor>(*op_, {x});", True),
        ("auto y = Empty(x); JUST(OpInterpUtil::Dispatch(*op_, {y, x}, &outputs)); return y;", False),
    ],
)  # fmt: skip
def test_another_functor_that_only_fills_a_tensor_with_an_op_is_no_form_of_it(
    changes_of: Run, run: str, told: bool
) -> None:
    path, yaml = (
        "oneflow/core/functional/impl/activation_functor.cpp",
        "oneflow/core/functional/functional_api.yaml",
    )
    functor = (
        f'class FastenFunctor {{ FastenFunctor() {{ op_ = OpBuilder("gather").Build(); }} int F(int x) {{ {run} }} }};\n'
        "class GatherFunctor"
    )
    added = 'm.add_functor<impl::FastenFunctor>("Fasten");\n  m.add_functor<impl::GatherFunctor>'
    text = str(TREE[path]).replace("class GatherFunctor", functor)
    tree: Tree = {
        **TREE,
        path: text.replace("m.add_functor<impl::GatherFunctor>", added),
        yaml: str(TREE[yaml])
        + '\n- name: "fasten"\n  signature: "Tensor (Tensor x) => Fasten"\n  bind_python: True\n',
    }
    changes = changes_of(tree, edit("oneflow/user/kernels/gather_kernel.cu", "x = 1", "x = 2"))
    how = {op.op: op.how for op in changes.ops}
    assert "direct" in how.values()
    assert how.get("oneflow._C.fasten") == ("indirect" if told else None)
