"""PaddlePaddle's chains, on a small repository in its layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from paddle_tree import SILU, SOFTPLUS, TOPK_NAMES, TREE, Tree, edited

from bot.changes.change import Changes

Run = Callable[[Tree, Tree], Changes]


def said(changes: Changes, how: str) -> set[str]:
    return {alias for op in changes.ops if op.how == how for alias in op.aliases}


CHAINS = {
    "yaml entry": (edited("paddle/phi/api/yaml/ops.yaml", "float beta = 1.0", "float beta = 2.0"), SOFTPLUS),
    "kernel behind a macro that defines it": (
        edited("paddle/phi/kernels/cpu/activation_kernel.cc", "KERNEL(Softplus, SoftplusFunctor)", "KERNEL(Softplus, SiluFunctor)"),
        SOFTPLUS,
    ),
    "registration behind a wrapper macro": (
        edited("paddle/phi/kernels/cpu/activation_kernel.cc",
               "PD_REGISTER_ACTIVATION_KERNEL(silu, SiluKernel)",
               "PD_REGISTER_KERNEL(silu, CPU, ALL_LAYOUT, phi::SiluKernel, float, double, int) {}"),
        SILU,
    ),
    "functor of a header that many share": (
        edited("paddle/phi/kernels/funcs/activation_functor.h", "return log1p(exp(x));", "return x + log1p(exp(-x));"), SOFTPLUS,
    ),
    "gradient's functor": (
        edited("paddle/phi/kernels/funcs/activation_functor.h", "return dout / (1", "return dout / (2"), SOFTPLUS,
    ),
    "gradient kernel to forward op": (
        edited("paddle/phi/kernels/cpu/activation_grad_kernel.cc", "functor(x, dx);", "functor(dx, x);"), SOFTPLUS,
    ),
    "gradient's yaml entry": (
        edited("paddle/phi/api/yaml/backward.yaml", "args : (Tensor x, Tensor out_grad)", "args : (Tensor x, Tensor out_grad, float b)"),
        SOFTPLUS,
    ),
    "second gradient": (
        edited("paddle/phi/api/yaml/backward.yaml", "args : (Tensor x)\n", "args : (Tensor x, Tensor y)\n"), SOFTPLUS,
    ),
    "Python name that is not the op's": (
        edited("paddle/phi/kernels/cpu/squared_l2_norm_kernel.cc", "out = 1;", "out = 2;"), {"paddle.squared_norm"},
    ),
    "dtypes of one registration": (
        edited("paddle/phi/kernels/gpu/top_k_kernel.cu", "phi::TopkKernel, float, double)", "phi::TopkKernel, float)"), TOPK_NAMES,
    ),
    "body of a registration": (edited("paddle/phi/kernels/gpu/top_k_kernel.cu", "OutputAt(1)", "OutputAt(0)"), TOPK_NAMES),
    "shape function": (edited("paddle/phi/infermeta/unary.cc", "set_dims(k)", "set_dims(k + 1)"), TOPK_NAMES),
    "distribution rule": (edited("paddle/phi/infermeta/spmd_rules/topk.cc", "SpmdInfo()", "SpmdInfo(x)"), TOPK_NAMES),
    "row of the XPU's dtypes": (
        edited("paddle/phi/backends/xpu/xpu3_op_list.cc", '"topk", XPUKernelSet({phi::DataType::FLOAT32',
               '"topk", XPUKernelSet({phi::DataType::FLOAT16'), TOPK_NAMES,
    ),
    "old operator": (
        edited("paddle/fluid/operators/scale_op.cc", "void InferShape() const override { int x = 1;", "void InferShape() const override { int x = 2;"),
        {"paddle.scale", "paddle.Tensor.scale"},
    ),
    "old operator under its other name": (
        edited("paddle/fluid/operators/elementwise/elementwise_add_op.cc", "return 1;", "return 2;"),
        {"paddle.add", "paddle.Tensor.__add__", "paddle.Tensor.__radd__"},
    ),
    "composite gradient": (
        edited("paddle/fluid/prim/api/composite_backward/composite_backward_api.h",
               "void silu_grad(const Tensor& x, Tensor* x_grad) { set_output<T>(x, x_grad)",
               "void silu_grad(const Tensor& x, Tensor* x_grad) { set_output<T>(x * x, x_grad)"),
        SILU,
    ),
    "decomposition in Python": (
        edited("python/paddle/decomposition/rules.py", "return x", "return x * x"), SILU,
    ),
    "sparse op": (
        edited("paddle/phi/api/yaml/sparse_ops.yaml", "(Tensor x)", "(Tensor x, int y)"), {"paddle.sparse.nn.functional.relu"},
    ),
    "Tensor method bound in C++": (
        edited("paddle/fluid/pybind/eager_method.cc",
               "tensor_method_detach(TensorObject* self, PyObject* args) { return self;",
               "tensor_method_detach(TensorObject* self, PyObject* args) { return args;"),
        {"paddle.Tensor.detach"},
    ),
    "old way of running an op": (
        edited("python/paddle/tensor/math.py", "_legacy_C_ops.concat(x, 'axis', axis)", "_legacy_C_ops.concat(x, 'axis', 0)"),
        {"paddle.concat"},
    ),
    "layer": (
        edited("python/paddle/nn/layer/activation.py", "return F.silu(x)", "return F.silu(x) + 0"), SILU - {"paddle.nn.functional.silu"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("chain", CHAINS)
def test_a_change_reaches_its_op_and_no_other(changes_of: Run, chain: str) -> None:
    edits, expected = CHAINS[chain]
    changes = changes_of(dict(TREE), edits)
    assert changes.framework == "paddle"
    assert said(changes, "direct") == expected
    assert changes.unmapped == ()


QUIET = {
    "documentation": edited("docs/readme.md", "words", "other words"),
    "test": edited("test/legacy_test/test_softplus_op.py", "pass", "x = 1"),
    "tool": edited("tools/check.py", "x = 1", "x = 2"),
    "docstring": edited("python/paddle/tensor/math.py", "The largest.", "The k largest."),
    "comment": edited(
        "paddle/phi/kernels/funcs/shared.h", "#pragma once\n", "#pragma once\n// words\n"
    ),
    "method that only prints": edited(
        "python/paddle/nn/layer/activation.py", "return 'x'", "return 'y'"
    ),
    "functor renamed with its users": {
        **edited("paddle/phi/kernels/funcs/activation_functor.h", "SiluFunctor", "SwishFunctor"),
        **edited("paddle/phi/kernels/cpu/activation_kernel.cc", "SiluFunctor", "SwishFunctor"),
    },
}


@pytest.mark.parametrize("kind", QUIET)
def test_what_changes_nothing_reaches_no_op(changes_of: Run, kind: str) -> None:
    changes = changes_of(dict(TREE), QUIET[kind])
    assert changes.ops == ()
    assert changes.unmapped == ()


def test_composites_of_a_public_function_are_indirect(changes_of: Run) -> None:
    changes = changes_of(
        dict(TREE),
        edited("paddle/phi/kernels/gpu/top_k_kernel.cu", "Everywhere(x)", "Everywhere(out)"),
    )
    assert said(changes, "direct") == TOPK_NAMES
    assert said(changes, "indirect") == {"paddle.median"}


def test_a_header_that_very_many_kernels_use_is_indirect_and_capped(changes_of: Run) -> None:
    names = [f"made{number}" for number in range(60)]
    kernels: Tree = {
        f"paddle/phi/kernels/cpu/{name}_kernel.cc": (
            '#include "paddle/phi/kernels/funcs/shared.h"\nnamespace phi {\ntemplate <typename T, typename Context>\n'
            f"void {name.title()}Kernel(const Context& c, DenseTensor* out) {{ funcs::Everywhere(1); }}\n}}\n"
            f"PD_REGISTER_KERNEL({name}, CPU, ALL_LAYOUT, phi::{name.title()}Kernel, float) {{}}\n"
        )
        for name in names
    }
    entries = "".join(
        f"- op : {name}\n  args : ()\n  kernel :\n    func : {name}\n\n" for name in names
    )
    functions = "".join(f"def {name}():\n    return _C_ops.{name}()\n\n" for name in names)
    tree = {
        **TREE,
        **kernels,
        "paddle/phi/api/yaml/legacy_ops.yaml": entries,
        "python/paddle/tensor/math.py": f"{TREE['python/paddle/tensor/math.py']}\n{functions}",
        "python/paddle/__init__.py": f"from .tensor.math import {', '.join(names)}\n__all__ = {names!r}\n",
    }
    changes = changes_of(
        tree, edited("paddle/phi/kernels/funcs/shared.h", "return x;", "return x + 1;")
    )
    assert said(changes, "direct") == set()
    assert len(said(changes, "indirect")) == 40
    assert any("Everywhere" in note and "40" in note for note in changes.notes)


def test_a_removed_registration_changes_its_op(changes_of: Run) -> None:
    text = TREE["paddle/phi/kernels/gpu/top_k_kernel.cu"]
    assert isinstance(text, str)
    changes = changes_of(
        dict(TREE),
        {"paddle/phi/kernels/gpu/top_k_kernel.cu": text[: text.index("PD_REGISTER_KERNEL")]},
    )
    assert said(changes, "direct") == TOPK_NAMES


def test_a_compiler_outside_the_ops_is_said_to_be_so(changes_of: Run) -> None:
    changes = changes_of(
        dict(TREE), edited("paddle/cinn/hlir/op/op.cc", "return x;", "return x + 1;")
    )
    assert changes.ops == ()
    assert [entry.file for entry in changes.unmapped] == ["paddle/cinn/hlir/op/op.cc"]
    assert "outside the ops" in changes.unmapped[0].why


def test_ops_that_are_bound_by_a_yaml_table(changes_of: Run) -> None:
    """Since 2025 some public names have no Python function: python_api_info.yaml binds them."""
    table = "paddle/phi/ops/yaml/python_api_info.yaml"
    tree = {
        **{path: text for path, text in TREE.items() if "/yaml/" not in path},
        "paddle/phi/ops/yaml/ops.yaml": "- op : amax\n  args : (Tensor x)\n  kernel :\n    func : amax\n",
        "paddle/phi/kernels/cpu/amax_kernel.cc": (
            "namespace phi {\ntemplate <typename T, typename Context>\nvoid AMaxKernel(const Context& c) { int x = 1; }\n}\n"
            "PD_REGISTER_KERNEL(amax, CPU, ALL_LAYOUT, phi::AMaxKernel, float) {}\n"
        ),
        table: "- op : amax\n  name : [paddle.amax,paddle.Tensor.amax]\n  args_alias :\n    use_default_mapping : True\n",
    }
    expected = {"paddle.amax", "paddle.Tensor.amax"}
    kernel: Tree = {
        "paddle/phi/kernels/cpu/amax_kernel.cc": str(
            tree["paddle/phi/kernels/cpu/amax_kernel.cc"]
        ).replace("x = 1", "x = 2")
    }
    assert said(changes_of(tree, kernel), "direct") == expected
    assert (
        said(changes_of(tree, {table: str(tree[table]).replace("True", "False")}), "direct")
        == expected
    )


def test_yaml_lists_of_2022(changes_of: Run) -> None:
    """``- api`` and ``- backward_api`` in python/paddle/utils/code_gen, run as ``_C_ops.final_state_x``."""
    folder = "python/paddle/utils/code_gen/"
    tree = {
        **{path: text for path, text in TREE.items() if "/yaml/" not in path},
        folder
        + "api.yaml": "- api : abs\n  args : (Tensor x)\n  kernel :\n    func : abs\n  backward : abs_grad\n",
        folder
        + "backward.yaml": "- backward_api : abs_grad\n  forward : abs (Tensor x) -> Tensor(out)\n  args : (Tensor x)\n",
        "python/paddle/tensor/math.py": "from paddle import _C_ops\n\ndef abs(x):\n    return _C_ops.final_state_abs(x)\n",
        "python/paddle/__init__.py": "from .tensor.math import abs\n__all__ = ['abs']\n",
    }
    changes = changes_of(
        tree,
        {
            folder + "backward.yaml": str(tree[folder + "backward.yaml"]).replace(
                "args : (Tensor x)", "args : ()"
            )
        },
    )
    assert said(changes, "direct") == {"paddle.abs"}


def test_an_installed_release_is_read_too(changes_of: Run) -> None:
    tree: Tree = {
        path.removeprefix("python/"): text
        for path, text in TREE.items()
        if path.startswith("python/")
    }
    tree["paddle/base/__init__.py"] = ""
    path = "paddle/nn/functional/activation.py"
    changes = changes_of(tree, {path: str(tree[path]).replace("(x, beta)", "(x, 2)")})
    assert changes.framework == "paddle"
    assert said(changes, "direct") == SOFTPLUS
    assert all(op.in_python for op in changes.ops)
