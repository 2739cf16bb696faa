"""OneFlow's walk: where a change begins, and which part of the rules says what it changes next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from bot.changes.definition import Definition
from bot.changes.frameworks.oneflow_declared import BINDINGS, FUNCTIONAL_YAMLS
from bot.changes.frameworks.oneflow_functionals import Functionals
from bot.changes.frameworks.oneflow_members import changed_members, guards, takes_part
from bot.changes.frameworks.oneflow_op_types import OpTypes
from bot.changes.frameworks.oneflow_statements import Statements
from bot.changes.frameworks.oneflow_tree import (
    FEW_USERS,
    MAX_INTERNAL_USERS,
    OneFlowTree,
    file_stem,
    general_tool,
)
from bot.changes.graph import Edge, Node
from bot.changes.index.tree import Note, Tree
from bot.changes.python_walk import PythonWalk
from bot.changes.sources.tablegen import MNEMONIC


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
            return self.of.python.start(definition, added)
        if path in FUNCTIONAL_YAMLS:
            return Node("api", definition.name)
        if path.endswith(".td"):
            return _start_record(definition)
        if not path.startswith("oneflow/") or path.startswith("oneflow/ir/"):
            return "C++ outside the op sources (compiler, tools)"
        node = self.of.node(definition)
        return replace(node, kind="changed cpp") if definition.before else node

    def successors(self, node: Node) -> Iterable[Edge]:
        """What a change of the node changes next."""
        if node.kind.startswith("python"):
            return self.of.python.successors(node)
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

    def _of_cpp(self, definition: Definition) -> Iterator[Edge]:
        if definition.kind in ("statement", "entry"):
            yield from self._of_statement(definition)
            return
        owner, _, _ = definition.name.rpartition("::")
        owner = owner.rpartition("::")[2]
        op_type = self.of.declared.op_classes.get(owner)
        if op_type is not None:
            yield Edge(Node("op type", op_type), f"{owner} is op {op_type}")
            return
        slots = list(self.functionals.method(definition))
        if slots:
            yield from slots
            return
        yield from self.statements.enumerator(definition.name)
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
        # functional::Slice is not the class Slice of a gradient file.
        word = re.compile(rf"(?<!functional :: )\b{re.escape(name)}\b")
        changed = changed_members(definition)
        users = [u for u in self.of.cpp.users(name, definition.file) if word.search(u.code)]
        if changed is not None:
            users = [
                u for u in users if not _derives(u, name) or takes_part(u, definition, changed)
            ]
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
