"""MindSpore's rules: its layout, what its files are for and how they are cut into definitions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.mindspore.declared import is_api_yaml, is_op_yaml
from bot.changes.frameworks.mindspore.op_yamls import mapping_definitions
from bot.changes.frameworks.mindspore.rows import method_rows, table_rows
from bot.changes.frameworks.mindspore.walk import MindSporeReader
from bot.changes.index.python_index import PythonIndex, PythonLayout
from bot.changes.index.tree import Note, Tree
from bot.changes.python_walk import PythonRules, PythonWalk
from bot.changes.roles import shared_role
from bot.changes.rules import Reader, Role
from bot.changes.sources.cpp_source import read_cpp
from bot.changes.sources.python_source import python_definitions

PYTHON_ROOT: Final = "mindspore/python/"
"""Since release 1.6; before it, and in an installed release, the package is the folder ``mindspore`` itself."""

LAYOUT: Final = PythonLayout(
    package="mindspore",
    roots=(PYTHON_ROOT, ""),
    public=(
        "mindspore.ops", "mindspore.mint", "mindspore.mint.nn.functional", "mindspore.mint.nn",
        "mindspore.mint.linalg", "mindspore.mint.special", "mindspore.mint.optim", "mindspore.nn",
        "mindspore.numpy", "mindspore.scipy.linalg", "mindspore",
    ),
    ignored=(
        "mindspore/lite/", "mindspore/dataset/", "mindspore/train/", "mindspore/profiler/", "mindspore/rewrite/",
        "mindspore/boost/", "mindspore/parallel/", "mindspore/communication/", "mindspore/explainer/",
        "mindspore/_extends/graph_kernel/", "mindspore/_extends/parallel_compile/", "mindspore/_akg/",
        "mindspore/mindrecord/", "mindspore/ops_generate/", "mindspore/nn/metrics/", "mindspore/compression/",
        "mindspore/ops/bprop_mindir/", "mindspore/nn/probability/", "mindspore/model_zoo/", "/resources/",
    ),
    searched=(
        "mindspore.ops", "mindspore.mint", "mindspore.nn", "mindspore.numpy", "mindspore.scipy",
        "mindspore.common", "mindspore._extends.parse",
    ),
)  # fmt: skip
"""The package of each release (mindspore/__init__.py and the folders beside it)."""

_MODULES_OF_OPS: Final = (
    "mindspore.ops.operations",
    "mindspore.ops.functional",
    "mindspore.ops.composite",
)
"""Where users found ops before release 0.7, when ``mindspore.ops`` began to pass them on."""


TYPES: Final = frozenset(
    {"Tensor", "Parameter", "Primitive", "Cell", "CSRTensor", "COOTensor", "RowTensor", "Generator", "constexpr"}
)  # fmt: skip
"""What modules of ops import for themselves (mint/__init__.py, ops/__init__.py)."""


@dataclass(frozen=True)
class MindSporePython(PythonRules):
    """Directly under ``mindspore`` lie models, contexts and types; of those ``Tensor`` alone has ops."""

    def is_op(self, alias: str) -> bool:
        """Whether a public name can be an op."""
        last = alias.rpartition(".")[2]
        return alias.count(".") > 1 and last not in TYPES and super().is_op(alias)


PYTHON_RULES: Final = MindSporePython(
    tensor_class="mindspore.Tensor",
    quiet_methods=("extra_repr", "extend_repr", "__repr__", "__str__", "__dir__"),
    not_ops=(
        "mindspore.nn.Cell", "mindspore.nn.GraphCell", "mindspore.nn.SequentialCell", "mindspore.nn.CellList",
        "mindspore.nn.CellDict", "mindspore.nn.Metric", "mindspore.nn.ParameterUpdate", "mindspore.ops.Primitive",
        "mindspore.ops.PrimitiveWithInfer", "mindspore.ops.PrimitiveWithCheck", "mindspore.ops.prim_attr_register",
        "mindspore.ops.prim_arg_register", "mindspore.ops.constexpr", "mindspore.ops.signature",
        "mindspore.ops.op_info_register", "mindspore.ops.custom_info_register", "mindspore.ops.get_vm_impl_fn",
        "mindspore.ops.vm_impl_registry", "mindspore.ops.TBERegOp", "mindspore.ops.AiCPURegOp",
        "mindspore.ops.CpuRegOp", "mindspore.ops.AkgGpuRegOp", "mindspore.ops.AkgAscendRegOp",
        "mindspore.ops.CustomRegOp", "mindspore.ops.DataType", "mindspore.ops.composite", "mindspore.ops.operations",
        "mindspore.ops.functional", "mindspore.ops.function", "mindspore.ops.GradOperation", "mindspore.ops.HyperMap",
        "mindspore.ops.Map", "mindspore.ops.MultitypeFuncGraph", "mindspore.ops.add_flags", "mindspore.ops.set_seed", "mindspore.ops.composite.set_seed",
        "mindspore.ops.get_seed", "mindspore.ops.tensor_operator_registry", "mindspore.ops.P",
    ),
)  # fmt: skip
"""``not_ops``: containers, registration and set-up (nn/cell.py, nn/layer/container.py, ops/__init__.py)."""

_CI: Final = (".jenkins/", ".gitee/", ".github/", "scripts/")
_DOCUMENTATION: Final = re.compile(
    r"/doc/|_doc\.yaml$|/(function|method)_doc/|(^|/)OWNERS$|^model_zoo/|(^|/)(NOTICE|RELEASE\.md)$"
)
_BUILD: Final = re.compile(
    r"^(cmake|third_party|akg|graphengine)(/|$)|(^|/)build\.(sh|bat)$|^version\.txt$"
)


@dataclass(frozen=True)
class MindSporeRules:
    """MindSpore's repository, of release 0.1 to today's, or its installed release (``mindspore/``)."""

    name: str = "mindspore"

    def matches(self, tree: Tree) -> bool:
        """Whether the tree is MindSpore's."""
        known = (f"{PYTHON_ROOT}mindspore/ops/primitive.py", "mindspore/ops/primitive.py")
        return any(path in tree.path_set for path in known)

    def role(self, path: str, text: str | None) -> Role:
        """What a file is for."""
        if path.startswith(_CI):
            return "ci"
        if path.startswith("tests/"):
            return "test"
        if _DOCUMENTATION.search(path):
            return "documentation"
        if _BUILD.search(path):
            return "build"
        if is_op_yaml(path) or is_api_yaml(path):
            return "source"
        return shared_role(path)

    def definitions(self, path: str, text: str) -> tuple[Definition, ...] | None:
        """The definitions of a source file; None when it cannot be parsed."""
        if path.endswith((".py", ".pyi")):
            return python_definitions(path, text, LAYOUT.roots)
        if path.endswith(".yaml"):
            return mapping_definitions(path, text)
        rows = method_rows if path.endswith("/resource.cc") else table_rows
        lines = text.split("\n")
        return tuple(row for found in read_cpp(path, text) for row in rows(found, lines))

    def reader(self, tree: Tree, note: Note) -> Reader:
        """The tree, ready to be walked."""
        python = PythonWalk(PythonIndex(tree, _layout(tree), note), PYTHON_RULES, note)
        return MindSporeReader(tree, python, note)


def _layout(tree: Tree) -> PythonLayout:
    text = tree.text("mindspore/ops/__init__.py")
    if text is None or "import *" in text:
        return LAYOUT
    return replace(LAYOUT, public=(*_MODULES_OF_OPS, *LAYOUT.public))
