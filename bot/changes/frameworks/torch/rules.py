"""PyTorch's rules: its layout, what its files are for and how they are cut into definitions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.torch.declared import (
    CWRAP,
    DERIVATIVES,
    NATIVE_YAMLS,
    OUT_OF_TREE,
    cwrap_blocks,
    cwrap_names,
)
from bot.changes.frameworks.torch.walk import TorchReader, is_source
from bot.changes.index.python_index import PythonIndex, PythonLayout
from bot.changes.index.tree import Note, Tree
from bot.changes.python_walk import PythonRules, PythonWalk
from bot.changes.roles import is_cpp, shared_role
from bot.changes.rules import Reader, Role
from bot.changes.sources.cpp_source import read_cpp, tokenize
from bot.changes.sources.python_source import python_definitions
from bot.changes.sources.text_lines import TextLines
from bot.changes.sources.yaml_entries import entry_definitions

LAYOUT: Final = PythonLayout(
    package="torch",
    roots=("",),
    public=(
        "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.nn", "torch.nn.init", "torch",
        "torch.signal.windows", "torch.sparse", "torch.nested", "torch.nn.utils", "torch.nn.utils.rnn", "torch.optim",
        "torch.nn.quantized", "torch.nn.quantized.functional", "torch.ao.nn.quantized",
        "torch.ao.nn.quantized.functional", "torch.nn.attention.flex_attention", "torch.masked",
    ),
    ignored=("/testing/", "/_docs", "_docs.py", "/test/", "torch/_dynamo/", "torch/onnx/", "torch/distributed/"),
    searched=(
        "torch!", "torch.functional", "torch._tensor", "torch.tensor", "torch._VF", "torch._lobpcg", "torch._lowrank",
        "torch._linalg_utils", "torch._jit_internal", "torch._autograd_functions", "torch._prims",
        "torch._prims_common", "torch._refs", "torch._decomp", "torch._meta_registrations",
        "torch._inductor.lowering", "torch.nn", "torch.linalg", "torch.fft", "torch.special", "torch.signal",
        "torch.sparse", "torch.nested", "torch.masked", "torch.optim", "torch.ao.nn.quantized",
    ),
)  # fmt: skip

PYTHON_RULES: Final = PythonRules(
    tensor_class="torch.Tensor",
    not_ops=(
        "torch.Tensor", "torch.nn.Module", "torch.nn.Parameter", "torch.nn.Sequential", "torch.nn.ModuleList",
        "torch.nn.ModuleDict", "torch.nn.ParameterList", "torch.nn.ParameterDict", "torch.save", "torch.load",
        "torch.manual_seed", "torch.set_printoptions", "torch.compile", "torch.classes", "torch.ops",
        "torch.optim.Optimizer", "torch.optim.lr_scheduler.",
        "torch.nn.utils.remove_weight_norm", "torch.nn.utils.remove_spectral_norm",
        *(f"{module}.Tensor" for module in LAYOUT.public if module != "torch"),
    ),
)  # fmt: skip
"""``not_ops``: containers, state and set-up (torch/nn/modules/{module,container}.py, torch/__init__.py, torch/optim)."""

BACKEND_FOLDERS: Final = (
    "src/ATen/native/", "src/aten/", "yaml/xpu_functions.yaml", "torch_npu/csrc/aten/", "op_plugin/ops/",
)  # fmt: skip
"""Where out-of-tree backends keep their kernels: torch-xpu-ops (also of 2024), torch_npu and its op-plugin."""

_STUBS: Final = re.compile(r"\.pyi(\.in)?$")
_OVERRIDES: Final = re.compile(
    r"ImportFrom\(module='torch\.overrides', names=\[(?:(?!ImportFrom)[^\]])*\][^()]*\)(, )?"
)
_ROW: Final = re.compile(r"^  - ([A-Za-z_]\w*(?:\.\w+)?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class TorchRules:
    """PyTorch's repository (``aten/``, ``torch/``), its installed release (``torch/``) or an out-of-tree backend."""

    name: str = "torch"

    def matches(self, tree: Tree) -> bool:
        """Whether the tree is PyTorch's, or a backend of it."""
        known = ("torch/nn/functional.py", *NATIVE_YAMLS)
        return any(path in tree.path_set for path in known) or any(
            path.startswith(BACKEND_FOLDERS) for path in tree.paths
        )

    def role(self, path: str, text: str | None) -> Role:
        """What a file is for."""
        if path in (*NATIVE_YAMLS, *DERIVATIVES, CWRAP) or OUT_OF_TREE.search(path):
            return "source"
        if path.startswith("src/") and path.endswith(".template"):
            return "source"  # C++ of torch-xpu-ops (XPUFallback.template)
        if path.endswith(("_docs.py", "_torch_docs.py", "_tensor_docs.py")) or _STUBS.search(path):
            return "documentation"
        return shared_role(path)

    def definitions(self, path: str, text: str) -> tuple[Definition, ...] | None:
        """The definitions of a source file; None when it cannot be parsed."""
        if path.endswith(".py"):
            found = python_definitions(path, text)
            return None if found is None else tuple(map(_without_override_imports, found))
        if path == CWRAP:
            return tuple(_legacy_definitions(path, text))
        if path.endswith(".yaml"):
            key = "name" if path in DERIVATIVES else "func"
            entries = entry_definitions(path, text, key)
            return entries if entries is not None else listed_definitions(path, text)
        return read_cpp(path, text)

    def reader(self, tree: Tree, note: Note) -> Reader:
        """The tree, ready to be walked."""
        python = PythonWalk(PythonIndex(tree, LAYOUT, note), PYTHON_RULES, note)
        sources = tuple(
            path
            for path in tree.paths
            if is_source(path) and (is_cpp(path) or path.endswith(".template"))
        )
        return TorchReader(tree, python, sources, note)


def _without_override_imports(definition: Definition) -> Definition:
    """A function's own import of torch.overrides, which stands there only to break a cycle of imports, is no change of it."""
    code = _OVERRIDES.sub("", definition.code)
    return definition if code == definition.code else replace(definition, code=code)


def listed_definitions(path: str, text: str) -> tuple[Definition, ...]:
    """Rows (``  - add.out``) of a yaml file that lists the ops which a backend has."""
    found: list[Definition] = []
    lines = TextLines(text)
    for match in _ROW.finditer(text):
        line = lines.number(match.start())
        found.append(Definition(path, match[1], "entry", line, line, match[1]))
    return tuple(found)


def _legacy_definitions(path: str, text: str) -> list[Definition]:
    found: list[Definition] = []
    for block, first in cwrap_blocks(text):
        names = cwrap_names(block)["name"]
        last = first + block.count("\n")
        found.append(
            Definition(path, names[0] if names else "", "entry", first, last, tokenize(block).code)
        )
    return found
