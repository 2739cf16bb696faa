"""One tree of OneFlow's: its C++ and Python indices, and the folders that an edge is looked for in."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.oneflow.declared import (
    AUTOGRAD,
    BINDINGS,
    FUNCTORS,
    KERNELS,
    PASSES,
    STATEFUL,
    USER_OPS,
    OneFlowDeclared,
)
from bot.changes.graph import Node, cpp_node
from bot.changes.index.cpp_index import CppIndex
from bot.changes.index.tree import Note, Tree
from bot.changes.python_walk import PythonWalk
from bot.changes.roles import is_cpp

FEW_USERS: Final = 3  # so few users of an internal thing are part of the same op
MAX_INTERNAL_USERS: Final = 12  # beyond this an internal functional, op or helper is a general tool
MAX_COMPOSITES: Final = 3  # users of an internal functional under other names that are told apart
_FILE_SUFFIX: Final = re.compile(
    r"(_(kernels?|utils?|ops?|functor|grad|impl|cpu|cuda|gpu|kernel_util)){1,9}$"
)
_GRADIENT: Final = re.compile(r"(grad){1,9}$")


class OneFlowTree:
    """What the parts of the walk share; ``note`` is told what the walk leaves out."""

    def __init__(self, tree: Tree, python: PythonWalk, note: Note) -> None:
        self.tree = tree
        self.python = python
        self.note = note
        self.sources = tuple(path for path in tree.paths if _is_source(path))
        self.cpp = CppIndex(tree, self.sources, note)
        self.declared = OneFlowDeclared(tree, self.cpp)

    @cached_property
    def functors(self) -> tuple[str, ...]:
        """Where functionals are written."""
        return self._below(FUNCTORS, STATEFUL)

    @cached_property
    def gradients(self) -> tuple[str, ...]:
        """Where eager gradients are written."""
        return self._below(AUTOGRAD)

    @cached_property
    def bindings(self) -> tuple[str, ...]:
        """Where Tensor methods are bound."""
        return self._below(BINDINGS)

    @cached_property
    def user_ops(self) -> tuple[str, ...]:
        """Where shapes are inferred and graph gradients written."""
        return self._below(USER_OPS)

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        """Where kernels are written."""
        return self._below(KERNELS)

    @cached_property
    def passes(self) -> tuple[str, ...]:
        """Where graph passes rewrite ops."""
        return self._below(PASSES)

    def _below(self, *folders: str) -> tuple[str, ...]:
        return tuple(path for path in self.sources if path.startswith(folders))

    def node(self, definition: Definition) -> Node:
        """The node of a C++ definition."""
        return cpp_node(definition)


def _is_source(path: str) -> bool:
    return (
        path.startswith("oneflow/")
        and is_cpp(path)
        and not path.startswith("oneflow/ir/")
        and "/test/" not in path
        and not re.search(r"_test\.\w+$", path)
    )


def file_stem(path: str) -> str:
    """A file's name without what OneFlow hangs on: ``gather_kernel_util.cu`` and ``gather_kernel.cpp`` are ``gather``."""
    return _FILE_SUFFIX.sub("", PurePosixPath(path).name.partition(".")[0])


def plain(name: str) -> str:
    """A name in one spelling: ``HardTanhGradFunctor`` and ``hardtanh_grad`` are the same."""
    return re.sub(r"(Functor|BaseFunctor|Base|_op)$", "", name).replace("_", "").lower()


def alike(name: str, other: str) -> bool:
    """Whether one name, without its gradient's suffix, holds the other."""
    first, second = (_GRADIENT.sub("", plain(n)) for n in (name, other))
    return bool(first and second) and (first in second or second in first)


def composites(count: int, called: str) -> str:
    """The note on composites that were left out."""
    callers = "1 composite that calls" if count == 1 else f"{count} composites that call"
    return f"{callers} {called}: not followed, for what is called is public and tested itself"


def general_tool(name: str, users: int) -> str:
    """The note on a thing with too many users."""
    return f"{name} has {users} users: a general tool, which was not followed"
