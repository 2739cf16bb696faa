"""MindSpore's chains of today (2025), on a small repository in its layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mindspore_trees import NOW, PYTHON, Tree

from bot.changes.change import Changes
from bot.changes.op_names import canonical_op

Run = Callable[[Tree, Tree], Changes]

SOFTPLUS = {"mindspore.mint.nn.functional.softplus", "mindspore.mint.nn.Softplus"}
RELU = {"mindspore.ops.ReLU", "mindspore.ops.relu", "mindspore.nn.ReLU"}
ABS = {"mindspore.ops.Abs", "mindspore.ops.abs", "mindspore.mint.abs", "mindspore.Tensor.abs", "mindspore.Tensor.__abs__"}  # fmt: skip
MAX = {"mindspore.mint.max", "mindspore.Tensor.max"}
KERNELS = "mindspore/ops/kernel/"


def aliases(changes: Changes, how: str = "") -> set[str]:
    return {alias for op in changes.ops if how in ("", op.how) for alias in op.aliases}


def edit(file: str, old: str, new: str) -> Tree:
    text = NOW[file]
    assert isinstance(text, str)
    assert old in text
    return {file: text.replace(old, new, 1)}


@pytest.mark.parametrize(
    ("file", "old", "new", "wanted", "op"),
    [
        ("mindspore/ops/op_def/yaml/softplus_ext_op.yaml", "default: 1", "default: 2", SOFTPLUS, "nn.functional.softplus"),
        ("mindspore/ops/op_def/yaml/softplus_grad_ext_op.yaml", "dtype: tensor", "dtype: number", SOFTPLUS, "nn.functional.softplus"),
        ("mindspore/ops/op_def/yaml/max_dim_op.yaml", "dtype: tensor", "dtype: number", MAX, "max"),
        ("mindspore/ops/api_def/max.yaml", "tensor_maxdim\n    Ascend: pyboost", "tensor_maxdim\n    Ascend: py_method", MAX, "max"),
        ("mindspore/ops/api_def/abs.yaml", "CPU: pyboost", "CPU: py_method", {"mindspore.Tensor.abs", "mindspore.Tensor.__abs__"}, "abs"),
        ("mindspore/ops/infer/ops_func_impl/softplus_ext.cc", "return {1}", "return {2}", SOFTPLUS, "nn.functional.softplus"),
        ("mindspore/ops/grad/grad_nn_ops.cc", "kIndex4", "kIndex3", SOFTPLUS, "nn.functional.softplus"),
        ("mindspore/ops/grad/grad_nn_ops.cc", "GetInput(0)", "GetInput(1)", RELU, "nn.functional.relu"),
        (KERNELS + "ascend/pyboost/customize/softplus_ext.cc", "aclnnSoftplus", "aclnnSoftplusV2", SOFTPLUS, "nn.functional.softplus"),
        (KERNELS + "ascend/opapi/aclnn/softplus_grad_ext_aclnn_kernel.cc", "RunOp(stream)", "RunOp(0)", SOFTPLUS, "nn.functional.softplus"),
        (KERNELS + "cpu/nnacl/fp32/activation_fp32.c", "return n;", "return n + 1;", RELU, "nn.functional.relu"),
        (KERNELS + "cpu/relu_cpu_kernel.cc", "InferShape(n)", "InferShape(0)", RELU, "nn.functional.relu"),
        (KERNELS + "cpu/relu_cpu_kernel.cc", "int InferShape(int x) { return x; }", "int InferShape(int x) { return 1; }", RELU, "nn.functional.relu"),
        (KERNELS + "cpu/relu_cpu_kernel.cc", "LaunchKernel<float16>", "LaunchKernel<half>", RELU, "nn.functional.relu"),
        (KERNELS + "gpu/cuda_impl/cuda_ops/sinc_impl.cu", "out[0] = n", "out[0] = n + 1", {"mindspore.mint.sinc"}, "sinc"),
        (KERNELS + "gpu/math/sinc_gpu_kernel.cc", "SincGpuKernelMod, half", "SincGpuKernelMod, double", {"mindspore.mint.sinc"}, "sinc"),
        (KERNELS + "cpu/arithmetic_self_cpu_kernel.cc", "AbsMod>(kAbs)", "AbsMod>(kSign)", ABS, "abs"),
        (PYTHON + "ops/tensor_method.py", "def tensor_maxdim(input, dim):\n    return input", "def tensor_maxdim(input, dim):\n    return dim", MAX, "max"),
    ],
)  # fmt: skip
def test_every_link_of_the_chain_leads_to_the_op(
    changes_of: Run, file: str, old: str, new: str, wanted: set[str], op: str
) -> None:
    changes = changes_of(NOW, edit(file, old, new))
    assert changes.framework == "mindspore"
    assert aliases(changes) == wanted
    (found,) = changes.ops
    assert (found.op, found.how) == (op, "direct")
    assert found.path[0].startswith(f"{file}:")
    assert not changes.unmapped


def test_python_names_and_renamed_exports(changes_of: Run) -> None:
    changes = changes_of(
        NOW,
        edit(
            PYTHON + "ops/function/nn_func.py",
            "softplus_ext_op(input, beta)",
            "softplus_ext_op(input)",
        ),
    )
    assert aliases(changes, "direct") == {
        "mindspore.mint.nn.functional.softplus",
        "mindspore.mint.nn.Softplus",
    }
    assert changes.ops[0].in_python


def test_a_cell_is_its_own_op(changes_of: Run) -> None:
    changes = changes_of(
        NOW, edit(PYTHON + "nn/layer/activation.py", "P.ReLU()", "P.ReLU().add_prim_attr(1)")
    )
    assert aliases(changes) == {"mindspore.nn.ReLU"}


def test_a_shared_header_leads_to_its_users(changes_of: Run) -> None:
    changes = changes_of(NOW, edit(KERNELS + "cpu/shared.h", "return x", "return -x"))
    assert aliases(changes) == ABS | {"mindspore.mint.sinc"}


def test_a_header_that_many_share_is_capped(changes_of: Run) -> None:
    names = [f"Wide{number}" for number in range(60)]
    tree = dict(NOW)
    tree["mindspore/ops/op_def/yaml/wide_op.yaml"] = "".join(
        f"wide{n}:\n    args: {{}}\n" for n in range(60)
    )
    tree[PYTHON + "mint/__init__.py"] = "from mindspore.ops.auto_generate import sinc\n" + "".join(
        f"from mindspore.ops.auto_generate import wide{n}\n" for n in range(60)
    )
    for name in names:
        tree[f"{KERNELS}cpu/{name.lower()}_cpu_kernel.cc"] = (
            f'#include "kernel/cpu/shared.h"\nclass {name}CpuKernelMod {{ int Run() {{ return Shared(1); }} }};\n'
            f"MS_KERNEL_FACTORY_REG(NativeCpuKernelMod, {name}, {name}CpuKernelMod);\n"
        )
    changes = changes_of(tree, edit(KERNELS + "cpu/shared.h", "return x", "return -x"))
    assert len(changes.ops) == 40
    assert {op.how for op in changes.ops} == {"indirect"}
    assert any("62 users" in note for note in changes.notes)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (KERNELS + "cpu/nnacl/fp32/activation_fp32.c", "int Unused(int n) { return n; }", "int Unused(int n) { return 1; }"),
        ("mindspore/ccsrc/runtime/device/stream.cc", "return x", "return 1"),
    ],
)  # fmt: skip
def test_what_reaches_no_op_is_said(changes_of: Run, file: str, old: str, new: str) -> None:
    changes = changes_of(NOW, edit(file, old, new))
    assert changes.ops == ()
    assert [entry.file for entry in changes.unmapped] == [file]


def test_documentation_tests_and_ci_change_no_op(changes_of: Run) -> None:
    edits: Tree = {
        "mindspore/ops/op_def/yaml/doc/abs_doc.yaml": "abs:\n    description: |\n        The absolute value.\n",
        "mindspore/ops/api_def/method_doc/abs_doc.yaml": "abs:\n    description: new\n",
        "docs/api/api_python/mint/mindspore.mint.abs.rst": "abs\n",
        "tests/st/mint/test_abs.py": "def test_abs(): pass\n",
        "tests/ut/cpp/ops/test_abs.cc": "int x;\n",
        ".jenkins/check/config/filter_pylint.txt": "x\n",
        "scripts/build/x.sh": "x\n",
        "RELEASE.md": "x\n",
    }
    changes = changes_of(NOW, edits)
    assert (changes.ops, changes.unmapped, changes.tests) == ((), (), ())


def test_a_renamed_kernel_class_changes_nothing(changes_of: Run) -> None:
    files = [KERNELS + "cpu/relu_cpu_kernel.h", KERNELS + "cpu/relu_cpu_kernel.cc"]
    edits: Tree = {
        file: str(NOW[file]).replace("ReluCpuKernelMod", "ReLUCpuKernelMod") for file in files
    }
    changes = changes_of(NOW, edits)
    assert (changes.ops, changes.unmapped) == ((), ())


def test_comments_and_yaml_comments_change_nothing(changes_of: Run) -> None:
    edits = edit(
        "mindspore/ops/op_def/yaml/softplus_ext_op.yaml", "#operator softplus_ext", "# the operator"
    )
    edits |= edit(
        KERNELS + "cpu/relu_cpu_kernel.cc", "namespace {\n", "// only here\nnamespace {\n"
    )
    changes = changes_of(NOW, edits)
    assert (changes.ops, changes.unmapped) == ((), ())


def test_a_yaml_that_is_none_is_said(changes_of: Run) -> None:
    changes = changes_of(NOW, {"mindspore/ops/op_def/yaml/abs_op.yaml": "abs: [1\n"})
    assert [entry.file for entry in changes.unmapped] == ["mindspore/ops/op_def/yaml/abs_op.yaml"]


def test_a_deprecated_method_makes_no_primitive(changes_of: Run) -> None:
    file = "mindspore/ops/op_def/deprecated/abs_method.yaml"
    changes = changes_of(NOW, edit(file, "dtype: tensor", "dtype: number"))
    assert aliases(changes) == {"mindspore.Tensor.relu"}


@pytest.mark.parametrize(
    ("alias", "op"),
    [
        ("ops.ReduceSum", "sum"), ("ops.equal", "eq"), ("nn.Dense", "nn.functional.linear"),
        ("mint.nn.functional.softplus", "nn.functional.softplus"), ("mint.nn.Softplus", "nn.functional.softplus"),
        ("mint.gather", "gather"), ("ops.gather_d", "gather"), ("Tensor.gather_elements", "gather"),
        ("ops.gather", "mindspore.ops.gather"), ("ops.select", "mindspore.ops.select"), ("mint.select", "select"),
        ("numpy.sin", "mindspore.numpy.sin"), ("ops.operations.Conv2D", "nn.functional.conv2d"),
        ("nn.AdaMax", "mindspore.nn.AdaMax"), ("Tensor.__add__", "add"),
    ],
)  # fmt: skip
def test_names_of_what_pytorch_has_too(alias: str, op: str) -> None:
    assert canonical_op(f"mindspore.{alias}", "mindspore") == op
