"""PaddlePaddle's rules: its layout, what its files are for and how they are cut into definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.paddle.declared import is_op_yaml, yaml_definitions
from bot.changes.frameworks.paddle.macros import list_rows
from bot.changes.frameworks.paddle.python import PYTHON_RULES, PaddlePython, paddle_layout
from bot.changes.frameworks.paddle.walk import PaddleReader
from bot.changes.index.python_index import PythonIndex
from bot.changes.index.tree import Note, Tree
from bot.changes.roles import shared_role
from bot.changes.rules import Reader, Role
from bot.changes.sources.cpp_source import read_cpp, tokenize
from bot.changes.sources.python_source import python_definitions

_MARKS: Final = (
    "python/paddle/__init__.py",  # the repository
    "paddle/base/__init__.py", "paddle/fluid/__init__.py",  # a release: since 2.6, and before
)  # fmt: skip
_CI: Final = re.compile(r"^(tools|paddle/scripts|paddle/testing|scripts)/")
_BUILD: Final = re.compile(r"^(cmake|third_party|patches)/")
_XPU_LIST: Final = re.compile(r"/xpu\d?_op_list\.(h|cc)$")
_XPU_ROW: Final = re.compile(r'\{ "(\w+)" , XPUKernelSet \( \{ (?:(?!XPUKernelSet).)*? \} \) \}')


@dataclass(frozen=True)
class PaddleRules:
    """PaddlePaddle's repository (``paddle/``, ``python/paddle/``) or its installed release (``paddle/``)."""

    name: str = "paddle"

    def matches(self, tree: Tree) -> bool:
        """Whether the tree is PaddlePaddle's."""
        return any(path in tree.path_set for path in _MARKS)

    def role(self, path: str, text: str | None) -> Role:
        """What a file is for."""
        if is_op_yaml(path):
            return "source"
        if _CI.match(path):
            return "ci"
        if _BUILD.match(path):
            return "build"
        return shared_role(path)

    def definitions(self, path: str, text: str) -> tuple[Definition, ...] | None:
        """The definitions of a source file; None when it cannot be parsed."""
        if path.endswith((".py", ".pyi")):
            return python_definitions(path, text, ("python/",), PYTHON_RULES.tables)
        if path.endswith(".yaml"):
            return yaml_definitions(path, text)
        return tuple(row for found in read_cpp(path, text) for row in _rows(found))

    def reader(self, tree: Tree, note: Note) -> Reader:
        """The tree, ready to be walked."""
        index = PythonIndex(tree, paddle_layout(tree.path_set), note)
        return PaddleReader(tree, PaddlePython(index, PYTHON_RULES, note), note)


def _rows(definition: Definition) -> Iterator[Definition]:
    """A table that holds a row for each op as one definition per row: list macros, and the dtypes that XPU has."""
    listed = [(f"list {definition.name} {row}", row) for row in list_rows(definition)]
    if _XPU_LIST.search(definition.file) and definition.kind == "function":
        listed = [(f"xpu op {match[1]}", match[0]) for match in _XPU_ROW.finditer(definition.code)]
    if not listed:
        yield definition
    for name, code in listed:
        tokens = tokenize(code)
        uses = tokens.names | set(tokens.texts)
        yield replace(definition, name=name, kind="entry", code=code, uses=frozenset(uses))
