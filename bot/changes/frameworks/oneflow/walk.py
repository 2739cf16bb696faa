"""OneFlow's walk: where a change begins, and which part of the rules says what it changes next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.oneflow.composites import MAX_NEAR, python_gives
from bot.changes.frameworks.oneflow.declared import BINDINGS, FUNCTIONAL_YAMLS
from bot.changes.frameworks.oneflow.functionals import Functionals
from bot.changes.frameworks.oneflow.members import calls_one_of, changed_members, guards, takes_part
from bot.changes.frameworks.oneflow.op_types import OpTypes
from bot.changes.frameworks.oneflow.statements import Statements
from bot.changes.frameworks.oneflow.tree import (
    FEW_USERS,
    MAX_INTERNAL_USERS,
    OneFlowTree,
    composites,
    file_stem,
    general_tool,
)
from bot.changes.graph import Edge, Node
from bot.changes.index.cpp_index import HEADERS
from bot.changes.index.tree import Note, Tree
from bot.changes.python_walk import PythonWalk
from bot.changes.sources.tablegen import MNEMONIC

_RUNTIME: Final = re.compile(
    r"oneflow/core/(?:actor|auto_parallel|autograd/[^/]*$|boxing|comm_network|control|eager|graph|graph_impl|hardware"
    r"|intrusive|job|job_rewriter|lazy|memory|persistence|platform|profiler|register|rpc|stream|thread|transport|vm"
    r"|framework/(?!tensor_methods|random))"
)
"""Folders whose code runs, places and schedules every op alike."""
_ROWS: Final = ("statement", "entry")
VIEWS: Final = "oneflow/core/framework/tensor_methods"
"""Where ``view::Reshape`` and its like are, which have the names of functionals."""


class OneFlowReader:
    """One tree through OneFlow's rules; ``note`` is told what the walk leaves out."""

    def __init__(self, tree: Tree, python: PythonWalk, note: Note) -> None:
        self.of = OneFlowTree(tree, python, note)
        self.statements = Statements(self.of)
        self.functionals = Functionals(self.of)
        self.op_types = OpTypes(self.of)

    def start(self, definition: Definition, added: bool) -> Node | str:
        """Where the walk from a changed definition begins, or why none is possible."""
        path = definition.file
        if path.endswith((".py", ".pyi")):
            # ``import oneflow.x`` binds the package itself, which every module uses.
            if definition.kind == "import" and definition.name == "oneflow":
                return ""
            return self.of.python.start(definition, added)
        if path in FUNCTIONAL_YAMLS:
            return Node("api", definition.name)
        if path.endswith(".td"):
            return _start_record(definition)
        if not path.startswith("oneflow/") or path.startswith("oneflow/ir/"):
            return "C++ outside the op sources (compiler, tools)"
        if _RUNTIME.match(path):
            return "the runtime of all ops: no single op can be named"
        node = self.of.node(definition)
        return replace(node, kind="changed cpp") if definition.before else node

    def successors(self, node: Node) -> Iterable[Edge]:
        """What a change of the node changes next."""
        if node.kind.startswith("python"):
            return self._of_python(node)
        if node.kind.endswith("cpp") and node.definition is not None:
            return self._of_cpp(node.definition)
        named = {
            "api": self.functionals.api,
            "functor": self.functionals.functor,
            "op type": self.op_types.op_type,
            "record": self.op_types.record,
            "primitive": self.statements.primitive,
            "system op": self.statements.system_op,
        }
        return named[node.kind](node.name) if node.kind in named else ()

    def _of_python(self, node: Node) -> Iterator[Edge]:
        """Python's edges; of the composites that call a public op in Python those whose result it makes, while they are few."""
        edges = list(self.of.python.successors(node))
        if not any(edge.target.kind == "public" for edge in edges):
            yield from edges
            return
        yield from (edge for edge in edges if edge.direct)
        others = [edge for edge in edges if not edge.direct]
        near = [edge for edge in others if python_gives(self.of, edge.target, node.name)]
        if len(near) > MAX_NEAR:
            near = []
        yield from near
        if len(near) < len(others):
            self.of.note(composites(len(others) - len(near), f"{node.name} in Python"))

    def _of_cpp(self, definition: Definition) -> Iterator[Edge]:
        if definition.kind in ("statement", "entry"):
            yield from self._of_statement(definition)
            return
        owner = owner_of(definition.name)
        op_type = self.of.declared.op_classes.get(owner)
        if op_type is not None:
            yield Edge(Node("op type", op_type), f"{owner} is op {op_type}")
            return
        slots = list(self.functionals.method(definition))
        if slots:
            yield from slots
            return
        enumerators = self.statements.changed_enumerators(definition)
        for name in enumerators or (definition.name,):
            yield from self.statements.enumerator(name)
        if not enumerators:
            yield from self._users(owner or definition.name, definition)

    def _of_statement(self, definition: Definition) -> Iterator[Edge]:
        """Registrations, and macro calls that make functions."""
        if definition.name.endswith("]"):
            yield from self.statements.row(definition)
            return
        registered = list(self.statements.registrations(definition))
        yield from registered
        if definition.file.startswith(BINDINGS):
            yield from self.functionals.binding(definition)
        if not registered:
            for name in self.statements.instantiated(definition):
                yield from self._users(name, definition)

    def _users(self, name: str, definition: Definition) -> Iterator[Edge]:
        """What names a symbol: that of the same op is direct, and so are all when they are few; others while they are few."""
        if len(name) < 3:
            self.of.note(f"{definition.place}: users of so short a name are not looked for")
            return
        naming = list(self.of.cpp.users(name, definition.file, definition))
        if not naming:
            return
        # functional::Slice is not the class Slice of a gradient file.
        view = definition.file.startswith(VIEWS) and definition.kind == "function"
        before = "view :: " if view else r"(?<!functional :: )\b"
        word = re.compile(rf"{before}{re.escape(name)}\b")
        changed = changed_members(definition)
        users = [user for user in naming if word.search(user.code)]
        users = _calling(users, name, definition) or users
        if changed is not None:
            users = [
                user
                for user in users
                if (takes_part if _derives(user, name) else calls_one_of)(user, definition, changed)
            ]
        if definition.kind not in ("statement", "entry") and not self._is_declared(
            name, definition
        ):
            users = [user for user in users if user.file == definition.file]
        if name.startswith(
            "PyTensorObject_"
        ):  # a method leads to its row; the type leads to every method
            users = [u for u in users if u.kind in _ROWS or u.name.startswith("PyTensorObject_")]
        stem = file_stem(definition.file)
        own = [u for u in users if file_stem(u.file) == stem]
        stems = {file_stem(u.file) for u in users} - {stem}
        if len(stems) > MAX_INTERNAL_USERS:
            self.of.note(general_tool(name, len(users)))
            users = own
        for user in users:
            direct = user in own or (not own and len(stems) <= FEW_USERS)
            step = f"{user.place} uses {name}"
            guarded = guards(user.code, name) if user.kind in ("class", "function") else ()
            for op_type in guarded:
                yield Edge(Node("op type", op_type), f"{step} for {op_type} alone", direct)
            if not guarded:
                yield Edge(self.of.node(user), step, direct)

    def _is_declared(self, name: str, definition: Definition) -> bool:
        """Whether other files can mean a source's symbol: a header that the source includes has it at its top level."""
        if PurePosixPath(definition.file).suffix in HEADERS:
            return True
        cpp = self.of.cpp
        headers = [
            p for p in cpp.scope(name, definition.file) if PurePosixPath(p).suffix in HEADERS
        ]
        # Top-level declarations begin at a line's first character; members of classes are indented.
        # A header's constant of the same name is another one: a source's own is not to be seen elsewhere.
        before = r"extern\b" if definition.kind == "assignment" else r"[^\s/*]"
        declared = re.compile(rf"^{before}.*\b{re.escape(name)}\b", re.MULTILINE)
        return any(declared.search(self.of.tree.text(header) or "") for header in headers)


def owner_of(name: str) -> str:
    """The class of a member that is defined out of it: ``X`` of ``impl::X::f``."""
    return name.rpartition("::")[0].rpartition("::")[2]


def _calling(users: list[Definition], name: str, definition: Definition) -> list[Definition]:
    """Of the users of a member's class those that call the member by its full name (``Util<device, T>::Forward``)."""
    member = definition.name.rpartition("::")[2]
    if member == definition.name:
        return []
    call = re.compile(rf"\b{re.escape(name)} (?:< [^;]{{0,400}}? > )?:: {re.escape(member)}\b")
    return [user for user in users if user.kind in ("class", "function") and call.search(user.code)]


def _start_record(record: Definition) -> Node | str:
    match = MNEMONIC.search(record.code)
    if record.kind == "entry" and match:
        return Node("op type", match[1])
    return Node("record", record.name)


def _derives(user: Definition, base: str) -> bool:
    """Whether a definition is a class that names the other among its bases."""
    header = user.code.partition("{")[0]
    bases = header.partition(" : ")[2]
    return user.kind == "class" and re.search(rf"\b{re.escape(base)}\b", bases) is not None
