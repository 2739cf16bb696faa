"""OneFlow's rules: its layout, what its files are for and how they are cut into definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.oneflow.declared import (
    FUNCTIONAL_YAML,
    FUNCTIONAL_YAMLS,
    OPS_FOLDER,
)
from bot.changes.frameworks.oneflow.walk import OneFlowReader
from bot.changes.index.python_index import PythonIndex, PythonLayout
from bot.changes.index.tree import Note, Tree
from bot.changes.python_walk import PythonRules, PythonWalk
from bot.changes.roles import shared_role
from bot.changes.rules import Reader, Role
from bot.changes.sources.cpp_source import read_cpp, tokenize
from bot.changes.sources.python_source import python_definitions
from bot.changes.sources.tablegen import read_tablegen
from bot.changes.sources.yaml_entries import entry_definitions

LAYOUT: Final = PythonLayout(
    package="oneflow",
    roots=("python/", ""),
    public=(
        "oneflow", "oneflow.nn.functional", "oneflow.nn", "oneflow.linalg", "oneflow.fft", "oneflow.special",
        "oneflow.nn.init", "oneflow.one_embedding", "oneflow.sparse", "oneflow.nn.utils", "oneflow.optim",
        "oneflow.comm", "oneflow.utils",
    ),
    ignored=("/test/", "/docstr/", "/test_utils/", "/unittest/", "/mock_torch/", "/onnx/", "/compatible/"),
)  # fmt: skip

PYTHON_RULES: Final = PythonRules(
    tensor_class="oneflow.Tensor",
    method_decorators=("register_tensor_op",),
    tables=("RegisterMethods", "register_tensor_op", "__getattr__"),
    quiet_methods=(
        "extra_repr", "__repr__", "__str__", "_repr", "_str", "_meta_repr", "state_dict", "load_state_dict",
        "_save_to_state_dict", "_load_from_state_dict",
    ),
    not_ops=(
        "oneflow.Tensor", "oneflow.nn.Module", "oneflow.nn.Graph", "oneflow.nn.Parameter", "oneflow.nn.Sequential",
        "oneflow.nn.ModuleList", "oneflow.nn.ModuleDict", "oneflow.nn.ParameterList", "oneflow.nn.ParameterDict",
        "oneflow.save", "oneflow.load", "oneflow.env", "oneflow.Size", "oneflow.device", "oneflow.placement",
        "oneflow.Generator", "oneflow.manual_seed", "oneflow.set_printoptions", "oneflow.optim.lr_scheduler.",
        "oneflow.optim.Optimizer", "oneflow.Tensor.__setstate__", "oneflow.Tensor.__getstate__", "oneflow.utils.data.",
    ),
)  # fmt: skip
"""``not_ops``: containers, state and set-up (python/oneflow/nn/modules/{module,container}.py, oneflow/__init__.py)."""

_LIST_MACRO: Final = re.compile(r"# define (\w+) ((?:OF_PP_MAKE_TUPLE_SEQ \( [^()]* \) ?)+)")
_LIST_ROW: Final = re.compile(r"OF_PP_MAKE_TUPLE_SEQ \( [^()]* \)")


@dataclass(frozen=True)
class OneFlowRules:
    """OneFlow's repository (``oneflow/``, ``python/oneflow/``) or its installed release (``oneflow/``)."""

    name: str = "oneflow"

    def matches(self, tree: Tree) -> bool:
        """Whether the tree is OneFlow's."""
        known = ("python/oneflow/__init__.py", FUNCTIONAL_YAML, "oneflow/framework/tensor.py")
        return any(path in tree.path_set for path in known)

    def role(self, path: str, text: str | None) -> Role:
        """What a file is for."""
        if path.endswith(".py") and re.search(r"(^|/)test/", path) and text and "autotest" in text:
            return "autotest"
        if "/docstr/" in path:
            return "documentation"
        if path in FUNCTIONAL_YAMLS or (path.startswith(OPS_FOLDER) and path.endswith(".td")):
            return "source"
        return shared_role(path)

    def definitions(self, path: str, text: str) -> tuple[Definition, ...] | None:
        """The definitions of a source file; None when it cannot be parsed."""
        if path.endswith((".py", ".pyi")):
            return python_definitions(path, text, LAYOUT.roots, PYTHON_RULES.tables)
        if path.endswith(".td"):
            return read_tablegen(path, text)
        if path.endswith(".yaml"):
            return entry_definitions(path, text, "name")
        return tuple(row for found in read_cpp(path, text) for row in _rows(found))

    def reader(self, tree: Tree, note: Note) -> Reader:
        """The tree, ready to be walked."""
        python = PythonWalk(PythonIndex(tree, LAYOUT, note), PYTHON_RULES, note)
        return OneFlowReader(tree, python, note)


def _rows(definition: Definition) -> Iterator[Definition]:
    """A macro that is a list (``#define SEQ ROW("abs", Abs) ROW("acos", Acos)``) as one definition per row."""
    match = _LIST_MACRO.fullmatch(definition.code) if definition.kind == "macro" else None
    if match is None:
        yield definition
        return
    for row in _LIST_ROW.findall(match[2]):
        tokens = tokenize(row)
        uses = tokens.names | set(tokens.texts)
        yield replace(definition, name=f"{match[1]}[{row}]", kind="entry", code=row, uses=uses)
