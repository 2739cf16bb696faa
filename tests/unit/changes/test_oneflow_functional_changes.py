"""OneFlow's functionals: internal names, bindings, operators, base classes, gradients, passes, stateful ops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.changes.change import Changes

Tree = dict[str, str | bytes | None]
Run = Callable[[Tree, Tree], Changes]

FUNCTORS = "oneflow/core/functional/impl/nn_functor.cpp"
METHODS = "oneflow/api/python/framework/tensor_functions.cpp"
TREE: Tree = {
    "oneflow/ir/include/OneFlow/OneFlowUserOps.td": "".join(
        f'def OneFlow_{name}Op : OneFlow_BaseOp<"{mnemonic}", []> {{ let x = 1; }}\n'
        for name, mnemonic in (
            ("Gather", "gather"), ("LogicalAnd", "logical_and"), ("Lookup", "lookup_placeholder_table"),
            ("Prefetch", "table_prefetch"), ("Sgd", "sgd_update"), ("Relu", "relu"), ("ReluGrad", "relu_grad"),
        )
    ),
    FUNCTORS: (
        "namespace impl {\n"
        "class LossBase {\n public:\n"
        "  Maybe<Tensor> reduce(int x) const { return Sum(x); }\n"
        "  Maybe<Tensor> check(int x) const { return x; }\n};\n"
        "class NearFunctor : public LossBase { Maybe<Tensor> operator()(int x) { return reduce(x); } };\n"
        "class FarFunctor : public LossBase { Maybe<Tensor> operator()(int x) { return check(x); } };\n"
        'class GatherFunctor { GatherFunctor() { op_ = OpBuilder("gather").Build(); } };\n'
        'class LogicalAndFunctor { LogicalAndFunctor() { op_ = OpBuilder("logical_and").Build(); } };\n'
        'class LookupFunctor { LookupFunctor() { op_ = OpBuilder("lookup_placeholder_table").Build(); } };\n'
        'class ReluFunctor { ReluFunctor() { op_ = OpBuilder("relu").Build(); } };\n'
        'class ReluGradFunctor { ReluGradFunctor() { op_ = OpBuilder("relu_grad").Build(); } };\n'
        "class WholeFunctor { Maybe<Tensor> operator()(int x) { return functional::LogicalAnd(x); } };\n"
        "}\nONEFLOW_FUNCTION_LIBRARY(m) {\n"
        + "".join(
            f'  m.add_functor<impl::{name}Functor>("{name}");\n'
            for name in ("Near", "Far", "Gather", "LogicalAnd", "Lookup", "Relu", "ReluGrad", "Whole")
        )
        + "}\n"
    ),
    "oneflow/core/functional/functional_api.yaml": "\n".join(
        f'- name: "{name}"\n  signature: "Tensor (Tensor x) => {functor}"\n  bind_python: {bound}\n'
        for name, functor, bound in (
            ("near", "Near", True), ("far", "Far", True), ("gather", "Gather", True), ("lookup", "Lookup", True),
            ("logical_and", "LogicalAnd", True), ("relu", "Relu", True), ("relu_grad", "ReluGrad", False),
            ("whole", "Whole", True),
        )
    ),
    "oneflow/api/python/functional/dispatch_stateful_ops.yaml": (
        '- name: "dispatch_sgd_update"\n  signature: "Void (OpExpr op) => DispatchSgdUpdate"\n  bind_python: True\n'
    ),
    "oneflow/api/python/functional/dispatch_stateful_ops.cpp": (
        "ONEFLOW_FUNCTION_LIBRARY(m) {\n"
        '  m.add_functor("DispatchSgdUpdate", [](int op) { return SetAttr("rate", op); });\n}\n'
    ),
    "oneflow/core/autograd/gradient_funcs/relu.cpp": (
        "class ReLU { Maybe<void> Apply() { return functional::ReluGrad(1); } };\n"
        'REGISTER_OP_EXPR_GRAD_FUNCTION("relu", ReLU);\n'
    ),
    "oneflow/core/autograd/gradient_funcs/near.cpp": (
        "class FusedNear { Maybe<void> Apply() { return functional::ReluGrad(2); } };\n"
        'REGISTER_OP_EXPR_GRAD_FUNCTION("gather", FusedNear);\n'
    ),
    "oneflow/core/job_rewriter/replace_tables_pass.cpp": (
        'void Build() { builder.OpTypeName("table_prefetch").Build(); }\n'
        'void Apply() { if (conf.op_type_name() == "lookup_placeholder_table") { Build(); } }\n'
    ),
    "oneflow/user/kernels/prefetch_kernel.cpp": (
        "class PrefetchKernel { int x = 1; };\n"
        'REGISTER_USER_KERNEL("table_prefetch").SetCreateFn<PrefetchKernel>();\n'
    ),
    METHODS: (
        "NB_BINARY_FUNC(PyTensorObject_nb_and, functional::logical_and);\n"
        "PyObject* PyTensorObject_richcompare(PyObject* self, PyObject* other, int op) {\n"
        "  switch (op) {\n    case Py_LT: return less(self);\n"
        "    case Py_EQ: {\n      return equal(self);\n    }\n"
        "    case Py_NE: return not_equal(self);\n  }\n  return NULL;\n}\n"
    ),
    "python/oneflow/__init__.py": "from oneflow._C import logical_and, near, far, relu, whole\n",
    "python/oneflow/nn/__init__.py": "from oneflow.nn.modules.sparse import Embedding\n",
    "python/oneflow/nn/modules/sparse.py": (
        "import oneflow as flow\n\nclass Embedding:\n    def forward(self, x):\n        return flow._C.gather(x)\n"
    ),
    "python/oneflow/one_embedding.py": (
        "import oneflow._oneflow_internal._C as _C\n\nclass Table:\n    def forward(self, x):\n        return _C.lookup(x)\n"
    ),
    "python/oneflow/linalg.py": "from oneflow.framework.norm import _size as size\n",
    "python/oneflow/framework/norm.py": "def _size(x):\n    return 1\n",
    "python/oneflow/optim/__init__.py": "from oneflow.nn.optimizer.sgd import SGD\n",
    "python/oneflow/nn/optimizer/sgd.py": (
        "import oneflow as flow\n\nclass SGD:\n    def __init__(self):\n"
        '        self.op = flow.stateful_op("sgd_update").Build()\n'
    ),
}  # fmt: skip


def edit(file: str, old: str, new: str) -> Tree:
    text = TREE[file]
    assert isinstance(text, str)
    assert old in text
    return {file: text.replace(old, new, 1)}


def aliases(changes: Changes, how: str = "direct") -> dict[str, set[str]]:
    return {op.op: set(op.aliases) for op in changes.ops if op.how == how}


def test_an_internal_name_is_an_alias_of_the_op_that_uses_it(changes_of: Run) -> None:
    changes = changes_of(TREE, edit(FUNCTORS, '("gather").Build()', '("gather").Input(1).Build()'))
    assert aliases(changes) == {
        "nn.functional.embedding": {"oneflow.nn.Embedding", "oneflow._C.gather"}
    }


def test_an_operator_is_the_op_that_its_slot_calls(changes_of: Run) -> None:
    changes = changes_of(TREE, edit(FUNCTORS, '("logical_and").Bui', '("logical_and").In(1).Bui'))
    names = {"oneflow.logical_and", "oneflow._C.logical_and", "oneflow.Tensor.__and__"}
    assert aliases(changes) == {"logical_and": names}
    assert set(aliases(changes, "indirect")) == {"oneflow.whole"}


def test_a_comparison_is_narrowed_to_the_branch(changes_of: Run) -> None:
    changes = changes_of(TREE, edit(METHODS, "return equal(self)", "return equal(self, 1)"))
    assert aliases(changes) == {"eq": {"oneflow.Tensor.__eq__"}}


def test_a_base_class_is_narrowed_to_those_that_use_the_member(changes_of: Run) -> None:
    changes = changes_of(TREE, edit(FUNCTORS, "return Sum(x)", "return Mean(x)"))
    assert aliases(changes) == {"oneflow.near": {"oneflow.near", "oneflow._C.near"}}


def test_a_gradient_op_is_of_the_op_of_its_name(changes_of: Run) -> None:
    changes = changes_of(
        TREE, edit(FUNCTORS, '("relu_grad").Build()', '("relu_grad").In(1).Build()')
    )
    assert set(aliases(changes)) == {"nn.functional.relu"}
    assert aliases(changes, "indirect") == {}


def test_a_gradient_functional_that_only_macros_name_is_of_the_op_of_its_name(
    changes_of: Run,
) -> None:
    functor = (
        "class ReluGradGradFunctor { Maybe<Tensor> operator()(int x) { return x; } };\n}\nONEFLOW"
    )
    added = 'ONEFLOW_FUNCTION_LIBRARY(m) {\n  m.add_functor<impl::ReluGradGradFunctor>("ReluGradGrad");\n'
    yaml = "oneflow/core/functional/functional_api.yaml"
    entry = '\n- name: "relu_grad_grad"\n  signature: "Tensor (Tensor x) => ReluGradGrad"\n  bind_python: False\n'
    text = str(TREE[FUNCTORS]).replace("}\nONEFLOW", functor)
    tree: Tree = {
        **TREE,
        FUNCTORS: text.replace("ONEFLOW_FUNCTION_LIBRARY(m) {\n", added),
        yaml: str(TREE[yaml]) + entry,
    }
    changed = str(tree[FUNCTORS]).replace(
        "(int x) { return x; } };\n}", "(int x) { return 2; } };\n}"
    )
    changes = changes_of(tree, {FUNCTORS: changed})
    assert set(aliases(changes)) == {"nn.functional.relu"}


@pytest.mark.parametrize("named", ['SetAttr<Shape>("gather", x)', 'Input("gather").Output("y")'])
def test_a_functor_that_only_names_an_attribute_as_an_op_does_not_build_it(
    changes_of: Run, named: str
) -> None:
    # Another functor that builds the op is told while it is the only one.
    functor = (
        f"class LookAroundFunctor {{ int F(int x) {{ return {named}; }} }};\nclass GatherFunctor"
    )
    second = (
        'class SpotFunctor { SpotFunctor() { op_ = OpBuilder("gather").Build(); } };\n'
        "class GatherFunctor"
    )
    added = 'm.add_functor<impl::SpotFunctor>("Spot");\n  m.add_functor<impl::GatherFunctor>'
    yaml = "oneflow/core/functional/functional_api.yaml"
    text = str(TREE[FUNCTORS]).replace("class GatherFunctor", functor)
    text = text.replace("class GatherFunctor", second)
    entry = '\n- name: "spot"\n  signature: "Tensor (Tensor x) => Spot"\n  bind_python: True\n'
    tree: Tree = {
        **TREE,
        FUNCTORS: text.replace("m.add_functor<impl::GatherFunctor>", added),
        yaml: str(TREE[yaml]) + entry,
        "oneflow/user/kernels/gather_kernel.cpp": (
            "class GatherKernel { int x = 1; };\n"
            'REGISTER_USER_KERNEL("gather").SetCreateFn<GatherKernel>();\n'
        ),
    }
    changes = changes_of(
        tree,
        {
            "oneflow/user/kernels/gather_kernel.cpp": str(
                tree["oneflow/user/kernels/gather_kernel.cpp"]
            ).replace("x = 1", "x = 2")
        },
    )
    assert set(aliases(changes, "indirect")) == {"oneflow._C.spot"}


def test_an_op_of_a_graph_pass_alone_stands_for_what_the_pass_replaces(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("oneflow/user/kernels/prefetch_kernel.cpp", "x = 1", "x = 2"))
    names = {"oneflow.one_embedding.Table", "oneflow._C.lookup"}
    assert aliases(changes) == {"oneflow.one_embedding.Table": names}


def test_a_stateful_op_belongs_to_its_optimizer(changes_of: Run) -> None:
    changes = changes_of(
        TREE,
        edit(
            "oneflow/ir/include/OneFlow/OneFlowUserOps.td", '"sgd_update", []', '"sgd_update", [A]'
        ),
    )
    assert aliases(changes) == {"oneflow.optim.SGD": {"oneflow.optim.SGD"}}


def test_a_lambda_is_added_under_its_first_text(changes_of: Run) -> None:
    file = "oneflow/api/python/functional/dispatch_stateful_ops.cpp"
    changes = changes_of(TREE, edit(file, '"rate", op', '"rate", op + 1'))
    assert aliases(changes) == {
        "oneflow._C.dispatch_sgd_update": {"oneflow._C.dispatch_sgd_update"}
    }


def test_an_import_under_another_name_is_public(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("python/oneflow/framework/norm.py", "return 1", "return 2"))
    assert aliases(changes) == {"oneflow.linalg.size": {"oneflow.linalg.size"}}
