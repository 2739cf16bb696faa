"""Out-of-tree backends of PyTorch, whose trees hold none of PyTorch's own declarations."""

from __future__ import annotations

import importlib.resources

import pytest
from torch_tree import Run, Tree, aliases, edit

from bot.changes.frameworks.torch.macros import split_arguments, substituted
from bot.changes.frameworks.torch.natives import native_table
from bot.changes.frameworks.torch.overloads import Overload, may_call

HARDTANH = {"nn.functional.hardtanh", "nn.Hardtanh"}
POW = {"pow", "Tensor.pow"}
TANH = "src/ATen/native/xpu/sycl/TanhKernels.cpp"
OPS = "src/ATen/native/xpu/Ops.cpp"
YAML = "yaml/native/native_functions.yaml"
FALLBACK = "src/ATen/native/xpu/XPUFallback.template"
TREE: Tree = {
    "src/ATen/native/xpu/sycl/TanhKernels.h": "#pragma once\nnamespace at::native::xpu {\nvoid tanh9_kernel(int x);\n}\n",
    TANH: (
        "namespace at::native::xpu {\ntemplate <typename T> struct Functor { T operator()(T a) const { return a; } };\n"
        "void tanh9_kernel(int x) { run(Functor<float>(), x); }\n}\n"
    ),
    OPS: (
        "#include <ATen/native/xpu/sycl/TanhKernels.h>\nnamespace at {\n"
        "namespace native {\nREGISTER_XPU_DISPATCH(hardtanh_backward_stub, &xpu::tanh9_kernel);\n}\n"
        "Tensor XPUNativeFunctions::pow(const Tensor& self) { return self + 1; }\n"
        "namespace native {\nTensor im2col_xpu(const Tensor& self) { return self + 2; }\n"
        "Tensor _thnn_fused_lstm_cell_xpu(const Tensor& self) { return self + 3; }\n}\n}\n"
    ),
    YAML: "- func: _foreach_minimum.List(Tensor[] self, Tensor[] other) -> Tensor[]\n  dispatch:\n    XPU: foreach_tensor_clamp_max_list_kernel_xpu\n",
    "yaml/xpu_functions.yaml": "backend: XPU\nsupported:\n  - add.Tensor\n  - pow.Scalar\n",
    FALLBACK: (
        'namespace at {\nTORCH_LIBRARY_IMPL(aten, XPU, m) {\n  std::vector<std::string> fallback_list = {\n    "cholesky",\n    "geqrf.a",\n  };\n}\n}\n'
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (TANH, "return a;", "return -a;", HARDTANH),
        (OPS, "self + 1", "self - 1", POW),
        (OPS, "self + 2", "self - 2", {"nn.functional.unfold", "nn.Unfold"}),
        (OPS, "self + 3", "self - 3", {"lstm", "lstm_cell", "nn.LSTM", "nn.LSTMCell"}),
        (YAML, "_list_kernel_xpu", "_list_kernel_slow", {"_foreach_minimum"}),
        ("yaml/xpu_functions.yaml", "  - pow.Scalar\n", "", POW),
        (FALLBACK, '    "geqrf.a",\n', "", {"geqrf", "Tensor.geqrf"}),
    ],
)  # fmt: skip
def test_a_backend_s_change_leads_to_pytorch_s_ops(
    changes_of: Run, file: str, old: str, new: str, expected: set[str]
) -> None:
    """Expected names are PyTorch's documented functions and modules of each native function."""
    changes = changes_of(TREE, edit(TREE, file, old, new))
    assert changes.framework == "torch"
    assert aliases(changes, "direct") == expected


def test_npu_names_its_kernels_after_the_ops(changes_of: Run) -> None:
    tree: Tree = {
        "op_plugin/config/op_plugin_functions.yaml": "official:\n  - func: erf(Tensor self) -> Tensor\n",
        "op_plugin/ops/opapi/ErfKernelNpu.cpp": "namespace op_api {\nat::Tensor erf(const at::Tensor& self) { return self; }\n}\n",
    }
    changes = changes_of(
        tree, edit(tree, "op_plugin/ops/opapi/ErfKernelNpu.cpp", "return self", "return x")
    )
    assert aliases(changes) == {"erf", "Tensor.erf"}


def test_the_table_says_what_it_is_of() -> None:
    table = native_table()
    file = importlib.resources.files("bot.changes.frameworks.torch").joinpath("natives.yml")
    assert len(file.read_bytes()) < 400_000
    assert table.source == "PyTorch 2.13.0"
    assert "BSD-3-Clause" in table.licence
    assert "nn.functional.softplus" in table.natives["softplus_backward"].public
    assert len(table.natives) > 1500
    assert table.stubs["hardtanh_backward_stub"] == ("hardtanh_backward",)


def test_a_macro_is_its_body_with_the_arguments_in_place() -> None:
    macro = "# define OP ( NAME , ... ) void NAME ## _kernel ( ) { f ( __VA_ARGS__ ) ; }"
    assert substituted(macro, ["exp", "1", "2"]) == "void exp_kernel ( ) { f ( 1 , 2 ) ; }"
    assert substituted("# define N 3", []) == ""
    assert split_arguments("f ( a < b , c > , g ( x , y ) )", 3) == ["a < b", "c >", "g ( x , y )"]


def test_a_call_means_the_overload_whose_types_it_names() -> None:
    local, world = (
        Overload(2, frozenset({"local_pointer"})),
        Overload(2, frozenset({"world_pointer"})),
    )
    call = "put ( ( local_pointer < int > ) a , 1 ) ;"
    assert may_call(call, "put", local, (world,))
    assert not may_call(call, "put", world, (local,))
    assert not may_call("put ( a , b , c ) ;", "put", local, (world,))
    assert may_call("apply ( & put ) ;", "put", local, (world,))
