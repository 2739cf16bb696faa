"""OneFlow's kernels and ops: instantiations, type lists, primitives, guarded branches, members, macros of ops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.changes.change import Changes

Tree = dict[str, str | bytes | None]
Run = Callable[[Tree, Tree], Changes]

KERNELS = "oneflow/user/kernels/"
NAMES = ("take", "blur", "norm", "norm_relu", "tint", "keep", "top", "low")


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _functors() -> str:
    classes = "".join(
        f'class {_camel(n)}Functor {{ {_camel(n)}Functor() {{ op_ = OpBuilder("{n}").Build(); }} }};\n'
        for n in NAMES
    )
    rows = "".join(f'  m.add_functor<impl::{_camel(n)}Functor>("{_camel(n)}");\n' for n in NAMES)
    return f"namespace impl {{\n{classes}}}\nONEFLOW_FUNCTION_LIBRARY(m) {{\n{rows}}}\n"


TREE: Tree = {
    "oneflow/ir/include/OneFlow/OneFlowUserOps.td": "".join(
        f'def OneFlow_{_camel(n)}Op : OneFlow_BaseOp<"{n}", []> {{ let x = 1; }}\n' for n in NAMES
    ),
    "oneflow/core/functional/functional_api.yaml": "\n".join(
        f'- name: "{n}"\n  signature: "Tensor (Tensor x) => {_camel(n)}"\n  bind_python: True\n'
        for n in NAMES
    ),
    "oneflow/core/functional/impl/array_functor.cpp": _functors(),
    "python/oneflow/__init__.py": f"from oneflow._C import {', '.join(NAMES)}\n",
    # A helper template, instantiated by a list of types in a file of its own.
    KERNELS + "take_kernel_util.h": (
        "#pragma once\n"
        "template<typename T, typename K>\nstruct TakeUtil { static void Forward(const T* x); };\n"
        "#define TAKE_INDEX_SEQ OF_PP_MAKE_TUPLE_SEQ(int32_t, DataType::kInt32)\n"
    ),
    KERNELS + "take_kernel_util.cu": (
        '#include "oneflow/user/kernels/take_kernel_util.h"\n'
        "#define INITIATE_TAKE_UTIL(t, k) template struct TakeUtil<OF_PP_PAIR_FIRST(t), OF_PP_PAIR_FIRST(k)>;\n"
        "OF_PP_SEQ_PRODUCT_FOR_EACH_TUPLE(INITIATE_TAKE_UTIL, FLOATING_DATA_TYPE_SEQ, TAKE_INDEX_SEQ);\n"
    ),
    KERNELS + "take_kernel.cpp": (
        '#include "oneflow/user/kernels/take_kernel_util.h"\n'
        "class TakeKernel { void Compute() { TakeUtil<float, int>::Forward(x); } };\n"
        'REGISTER_USER_KERNEL("take").SetCreateFn<TakeKernel>();\n'
    ),
    # One kernel class for two ops; a helper that one of them alone calls.
    KERNELS + "norm_kernel.cu": (
        "template<typename T>\n__global__ void ReluGpu(int n, const T* x) { return x; }\n"
        "void Relu(int n) { ReluGpu<float>(n, nullptr); }\n"
        "class NormKernel {\n  void Compute(Ctx* ctx) {\n    Mean(1);\n"
        '    if (ctx->op_type_name() == "norm_relu") {\n      Relu(2);\n    }\n  }\n};\n'
        'REGISTER_USER_KERNEL("norm").SetCreateFn<NormKernel>();\n'
        'REGISTER_USER_KERNEL("norm_relu").SetCreateFn<NormKernel>();\n'
    ),
    # A primitive: its factory, and the kernel that makes it.
    "oneflow/core/ep/include/primitive/blur.h": "class BlurFactory : public Factory<Blur> { int x; };\n",
    "oneflow/core/ep/cuda/primitive/blur.cu": (
        '#include "oneflow/core/ep/include/primitive/blur.h"\n'
        "namespace {\ntemplate<typename T>\n__global__ void LaunchKernel(T x) { return x; }\n"
        "class BlurFactoryImpl : public BlurFactory { void New() { LaunchKernel<float>(1); } };\n"
        "REGISTER_PRIMITIVE_FACTORY(DeviceType::kCUDA, BlurFactory, BlurFactoryImpl);\n}\n"
    ),
    KERNELS + "blur_kernel.cpp": (
        '#include "oneflow/core/ep/include/primitive/blur.h"\n'
        "class BlurKernel { void Compute() { NewPrimitive<ep::primitive::BlurFactory>(); } };\n"
        'REGISTER_USER_KERNEL("blur").SetCreateFn<BlurKernel>();\n'
    ),
    # A list of modes that kernels ask a primitive for.
    "oneflow/core/ep/include/primitive/unary_op.h": "enum class UnaryOp {\n  kTint,\n  kKeep,\n};\n",
    "oneflow/core/ep/common/primitive/unary_functor.h": (
        '#include "oneflow/core/ep/include/primitive/unary_op.h"\n'
        "template<DeviceType device, typename D>\nstruct UnaryFunctor<device, UnaryOp::kTint, D> { D f(D x) { return x; } };\n"
        "template<DeviceType device, typename D>\nstruct UnaryFunctor<device, UnaryOp::kKeep, D> { D f(D x) { return x; } };\n"
    ),
    KERNELS + "unary_primitive_kernel.cpp": (
        '#include "oneflow/core/ep/include/primitive/unary_op.h"\n'
        '#define UNARY_SEQ OF_PP_MAKE_TUPLE_SEQ("tint", ep::primitive::UnaryOp::kTint) '
        'OF_PP_MAKE_TUPLE_SEQ("keep", ep::primitive::UnaryOp::kKeep)\n'
        "#define REGISTER_UNARY(name, op) REGISTER_USER_KERNEL(name).SetCreateFn(NewUnary(op));\n"
        "OF_PP_FOR_EACH_TUPLE(REGISTER_UNARY, UNARY_SEQ)\n"
    ),
    # A macro that writes the members of op classes, and the helper that they call.
    "oneflow/user/ops/reduce_ops.cpp": (
        "Maybe<void> InferShapeFn(Ctx* ctx) { return 1; }\n"
        "#define IMPLEMENT_OP_FUNCS(name, dtype) Maybe<void> name##Op::InferLogicalTensorDesc(Ctx* c) { return InferShapeFn(c); }\n"
        "IMPLEMENT_OP_FUNCS(Top, oneflow::InferDataType)\n"
        "IMPLEMENT_OP_FUNCS(Low, InferLogical)\n"
        'REGISTER_USER_OP_GRAD("keep").SetGenBackwardOpConfFn([](Ctx* c) { b.Op("blur").Tint("x"); });\n'
    ),
    "oneflow/core/vm/engine.cpp": "void Receive(int x) { Take(x); }\n",
}


def ops(changes: Changes) -> dict[str, str]:
    return {op.op.rpartition(".")[2]: op.how for op in changes.ops}


def edit(file: str, old: str, new: str) -> Tree:
    text = TREE[file]
    assert isinstance(text, str)
    assert old in text
    return {file: text.replace(old, new, 1)}


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (KERNELS + "take_kernel_util.cu", "FLOATING_DATA_TYPE_SEQ", "ALL_DATA_TYPE_SEQ", {"take"}),
        (KERNELS + "take_kernel_util.h", "MAKE_TUPLE_SEQ(int32_t, DataType::kInt32)", "MAKE_TUPLE_SEQ(int64_t, DataType::kInt64)", {"take"}),
        (KERNELS + "norm_kernel.cu", "return x;", "return x + 1;", {"norm_relu"}),
        (KERNELS + "norm_kernel.cu", "Mean(1)", "Mean(3)", {"norm", "norm_relu"}),
        ("oneflow/core/ep/cuda/primitive/blur.cu", "LaunchKernel<float>(1)", "LaunchKernel<float>(2)", {"blur"}),
        ("oneflow/core/ep/cuda/primitive/blur.cu", "return x;", "return -x;", {"blur"}),
        ("oneflow/core/ep/common/primitive/unary_functor.h", "kTint, D> { D f(D x) { return x;", "kTint, D> { D f(D x) { return -x;", {"tint"}),
        ("oneflow/core/ep/include/primitive/unary_op.h", "  kKeep,\n", "", {"keep"}),
        ("oneflow/user/ops/reduce_ops.cpp", "return 1;", "return 2;", {"top", "low"}),
        ("oneflow/user/ops/reduce_ops.cpp", "IMPLEMENT_OP_FUNCS(Low, InferLogical)\n", "", {"low"}),
        ("oneflow/user/ops/reduce_ops.cpp", 'Tint("x")', 'Tint("y")', {"keep"}),
    ],
)  # fmt: skip
def test_a_change_leads_to_the_ops_that_it_is_part_of(
    changes_of: Run, file: str, old: str, new: str, expected: set[str]
) -> None:
    assert ops(changes_of(TREE, edit(file, old, new))) == dict.fromkeys(expected, "direct")


def test_the_runtime_names_no_op(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("oneflow/core/vm/engine.cpp", "Take(x)", "Take(x + 1)"))
    assert changes.ops == ()
    assert [entry.file for entry in changes.unmapped] == ["oneflow/core/vm/engine.cpp"]


ALL = {"take", "blur", "norm", "norm_relu"}


@pytest.mark.parametrize(
    ("bases", "old", "new", "expected"),
    [
        ("", "int Put(int x) { return x; }", "int Put(int x) { return -x; }", {"blur", "norm", "norm_relu"}),
        ("", "  int Drop() { return 1; }\n", "  int Drop() { return 1; }\n  int Fill() { return 2; }\n", set()),
        ("", "int Look() { return 1; }", "int Look() { return 2; }", {"take"}),
        ("", "int size_ = 1;", "int size_ = 2;", ALL),
        # Whoever has a table as one of its base's runs what it overrides.
        (" : public Store", "int Look() { return 1; }", "int Look() { return 2; }", ALL),
    ],
)  # fmt: skip
def test_users_of_a_class_are_those_that_may_run_what_changed_of_it(
    changes_of: Run, bases: str, old: str, new: str, expected: set[str]
) -> None:
    table = "oneflow/core/embedding/table.h"
    tree: Tree = {
        **TREE,
        table: (
            f"#pragma once\nclass Table{bases} {{\n public:\n"
            "  int Look() { return 1; }\n  int Put(int x) { return x; }\n"
            "  int PutAll() { return Put(1); }\n  int Drop() { return 1; }\n  int size_ = 1;\n};\n"
        ),
    }
    for kernel, old_code, call in (
        ("take_kernel.cpp", "TakeUtil<float, int>::Forward(x);", "Look()"),
        ("blur_kernel.cpp", "NewPrimitive<ep::primitive::BlurFactory>();", "Put(2)"),
        ("norm_kernel.cu", "Mean(1);", "PutAll()"),
    ):
        text = str(tree[KERNELS + kernel])
        assert old_code in text
        used = f"static_cast<Table*>(state)->{call}; {old_code}"
        tree[KERNELS + kernel] = f'#include "{table}"\n' + text.replace(old_code, used)
    changes = changes_of(tree, {table: str(tree[table]).replace(old, new)})
    assert set(ops(changes)) == expected
