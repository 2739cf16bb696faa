"""OneFlow's edges: from kernels, ops, functors, yaml entries and bindings to public names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.oneflow_declared import (
    AUTOGRAD,
    BINDINGS,
    FUNCTIONAL_YAML,
    FUNCTORS,
    REGISTERED,
    USER_OPS,
    OneFlowDeclared,
)
from bot.changes.graph import Edge, Node
from bot.changes.index.cpp_index import CppIndex
from bot.changes.index.tree import Note, Tree
from bot.changes.python_walk import PythonWalk
from bot.changes.roles import CPP_SUFFIXES
from bot.changes.sources.cpp_source import tokenize
from bot.changes.sources.tablegen import MNEMONIC

_METHOD_ROW: Final = re.compile(r'\{ "(\w+)" ,.*\bPyTensorObject_')

NUMBER_SLOTS: Final = {
    "nb_add": ("__add__", "__radd__"), "nb_sub": ("__sub__", "__rsub__"), "nb_mul": ("__mul__", "__rmul__"),
    "nb_fmod": ("__mod__",), "nb_pow": ("__pow__", "__rpow__"), "nb_negative": ("__neg__",),
    "nb_absolute": ("__abs__",), "nb_invert": ("__invert__",), "nb_and": ("__and__",), "nb_xor": ("__xor__",),
    "nb_or": ("__or__",), "nb_inplace_add": ("__iadd__",), "nb_inplace_sub": ("__isub__",),
    "nb_inplace_mul": ("__imul__",), "nb_inplace_pow": ("__ipow__",), "nb_div": ("__truediv__", "__rtruediv__"),
    "nb_floor_div": ("__floordiv__", "__rfloordiv__"), "nb_true_div": ("__truediv__", "__rtruediv__"),
    "nb_inplace_true_div": ("__itruediv__",), "nb_inplace_div": ("__itruediv__",),
    "nb_matrix_multiply": ("__matmul__",), "richcompare": ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"),
    "mp_subscript": ("__getitem__",), "mp_ass_subscript": ("__setitem__",), "sq_item": ("__getitem__",),
}  # fmt: skip
"""CPython slot -> methods (https://docs.python.org/3/c-api/typeobj.html#sub-slots)."""

MAX_INTERNAL_USERS: Final = (
    12  # users of an internal functional or op: beyond this it is a general tool
)
FEW_USERS: Final = 3
_STEM: Final = re.compile(r"(_grad_grad|_grad|_backward)$")


class OneFlowReader:
    """One tree through OneFlow's rules; ``note`` is told what the walk leaves out."""

    def __init__(self, tree: Tree, python: PythonWalk, note: Note) -> None:
        self.tree = tree
        self.python = python
        self.note = note
        sources = tuple(
            path
            for path in tree.paths
            if path.startswith("oneflow/")
            and "." + path.rpartition(".")[2] in CPP_SUFFIXES
            and not path.startswith("oneflow/ir/")
            and "/test/" not in path
            and not re.search(r"_test\.\w+$", path)
        )
        self.cpp = CppIndex(tree, sources, note)
        self.declared = OneFlowDeclared(tree, self.cpp)
        self.functor_paths = tuple(p for p in sources if p.startswith(FUNCTORS))
        self.autograd_paths = tuple(p for p in sources if p.startswith(AUTOGRAD))
        self.binding_paths = tuple(p for p in sources if p.startswith(BINDINGS))
        self.user_op_paths = tuple(p for p in sources if p.startswith(USER_OPS))

    # Where a walk begins

    def start(self, definition: Definition, added: bool) -> Node | str:
        """Where the walk from a changed definition begins, or why none is possible."""
        path = definition.file
        if path.endswith((".py", ".pyi")):
            return self.python.start(definition, added)
        if path == FUNCTIONAL_YAML:
            return Node("api", definition.name)
        if path.endswith(".td"):
            return self._start_record(definition)
        if not path.startswith("oneflow/") or path.startswith("oneflow/ir/"):
            return "C++ outside the op sources (compiler, tools)"
        return self._cpp_node(definition)

    def _start_record(self, record: Definition) -> Node | str:
        match = MNEMONIC.search(record.code)
        if record.kind == "entry" and match:
            return Node("op type", match[1])
        return Node("record", record.name)

    def _cpp_node(self, definition: Definition) -> Node:
        unique = definition.kind in ("statement", "entry", "macro") or not definition.name
        name = f"{definition.name}@{definition.first}" if unique else definition.name
        return Node("cpp", name, definition.file, definition)

    # What a change changes next

    def successors(self, node: Node) -> Iterable[Edge]:
        """What a change of the node changes next."""
        if node.kind.startswith("python"):
            return self.python.successors(node)
        if node.kind == "api":
            return self._of_api(node.name)
        if node.kind == "functor":
            return self._of_functor(node.name)
        if node.kind == "op type":
            return self._of_op_type(node.name)
        if node.kind == "record":
            return self._of_record(node.name)
        if node.kind == "cpp" and node.definition is not None:
            return self._of_cpp(node.definition)
        return ()

    def _of_record(self, name: str) -> Iterator[Edge]:
        for record in self.declared.records:
            if name in record.uses and record.name != name:
                match = MNEMONIC.search(record.code)
                target = Node("op type", match[1]) if match else Node("record", record.name)
                yield Edge(target, f"{record.name} is built on {name}", direct=False)

    def _of_cpp(self, definition: Definition) -> Iterator[Edge]:
        if definition.kind in ("statement", "entry"):
            yield from self._of_statement(definition)
            return
        owner, _, _ = definition.name.rpartition("::")
        owner = owner.rpartition("::")[2]
        if owner in self.declared.op_classes:
            yield Edge(
                Node("op type", self.declared.op_classes[owner]),
                f"{owner} is op {self.declared.op_classes[owner]}",
            )
            return
        name = owner or definition.name
        slot = name.removeprefix("PyTensorObject_")
        if slot != name and slot in NUMBER_SLOTS:
            yield from self._methods(NUMBER_SLOTS[slot], name)
            return
        yield from self._users(name, definition)

    def _users(self, name: str, definition: Definition) -> Iterator[Edge]:
        if len(name) < 3:
            self.note(f"{definition.place}: users of so short a name are not looked for")
            return
        # functional::Slice is not the class Slice of a gradient file.
        own = re.compile(rf"(?<!functional :: )\b{re.escape(name)}\b")
        users = [u for u in self.cpp.users(name, definition.file) if own.search(u.code)]
        few = len({user.file for user in users}) <= FEW_USERS
        for user in users:
            yield Edge(
                self._cpp_node(user),
                f"{user.place} uses {name}",
                direct=few or user.file == definition.file,
            )

    def _of_statement(self, definition: Definition) -> Iterator[Edge]:
        """Registrations, and macro calls that make functions."""
        if definition.name.endswith("]"):
            yield from self._of_row(definition)
            return
        for op_type in self.declared.registered(definition):
            yield Edge(Node("op type", op_type), f"{definition.place} registers op {op_type}")
        for functor in self.declared.added_functors(definition):
            yield Edge(Node("functor", functor), f"{definition.place} adds functor {functor}")
        if definition.file.startswith(BINDINGS):
            yield from self._of_binding(definition)

    def _of_row(self, row: Definition) -> Iterator[Edge]:
        """A row of a list that macros walk: what those register, as far as the row names it."""
        queue = [row.name.partition("[")[0]]
        seen: set[str] = set()
        while queue:
            name = queue.pop()
            seen.add(name)
            for user in self.cpp.users(name, row.file):
                if user.kind == "macro" and user.name not in seen:
                    queue.append(user.name)
                elif user.kind == "statement":
                    yield from self._row_edges(row, user)

    def _row_edges(self, row: Definition, user: Definition) -> Iterator[Edge]:
        step = f"{user.place} walks {row.name}"
        for op_type in self.declared.registered(user):
            if op_type in row.uses or _STEM.sub("", op_type) in row.uses:
                yield Edge(Node("op type", op_type), step)
        for functor in self.declared.added_functors(user):
            if functor in row.uses:
                yield Edge(Node("functor", functor), step)

    def _of_binding(self, definition: Definition) -> Iterator[Edge]:
        """Rows of method tables, and macro calls that define the functions which the rows name."""
        row = _METHOD_ROW.match(definition.code)
        if row:
            yield from self._methods((row[1],), definition.place)
            return
        for name in sorted(
            n for n in tokenize(definition.code).names if n.startswith("PyTensorObject_")
        ):
            slot = name.removeprefix("PyTensorObject_")
            if slot in NUMBER_SLOTS:
                yield from self._methods(NUMBER_SLOTS[slot], name)
            for user in self.cpp.users(name, definition.file):
                if user != definition:
                    yield Edge(self._cpp_node(user), f"{user.place} uses {name}")

    def _methods(self, methods: Iterable[str], source: str) -> Iterator[Edge]:
        for method in methods:
            alias = f"oneflow.Tensor.{method}"
            yield Edge(Node("public", alias), f"{alias} is {source}")

    def _of_functor(self, functor: str) -> Iterator[Edge]:
        for name in self.declared.apis_of_functor.get(functor, ()):
            yield Edge(Node("api", name), f"{FUNCTIONAL_YAML}: {name} => {functor}")

    def _of_api(self, name: str) -> Iterator[Edge]:
        functors, bound = self.declared.apis.get(name, (frozenset[str](), False))
        path = f"oneflow._C.{name}"
        aliases = self.python.aliases(path)
        yield from (Edge(Node("public", alias), f"{alias} is {path}") for alias in aliases)
        bindings = list(self._bindings(name, functors))
        yield from bindings
        users = list(self.python.users(path, public=False)) if bound else []
        own = [edge for edge in users if _alike(edge.target.name.rpartition(".")[2], name)]
        own += [edge for edge in users if _alike(_class_of(edge.target), name) and edge not in own]
        if not aliases:
            own = users
        elif len(own) < len(users):
            self.note(_composites(len(users) - len(own), f"{path} in Python"))
        public = bool(aliases)
        yield from (replace(edge, direct=edge.direct and not public) for edge in own)
        if bound and not aliases and not bindings and not own:
            yield Edge(Node("public", path), f"{path} is in {FUNCTIONAL_YAML}")
        yield from self._callers(name, functors, public=bound)

    def _bindings(self, name: str, functors: frozenset[str]) -> Iterator[Edge]:
        wanted = {f"functional :: {name}", *(f"functional :: {functor}" for functor in functors)}
        pattern = re.compile(rf"(?:{'|'.join(map(re.escape, sorted(wanted)))})\b")
        for word in (name, *sorted(functors)):
            for definition in self.cpp.naming(word, self.binding_paths):
                if definition.kind != "macro" and pattern.search(definition.code):
                    yield Edge(
                        self._cpp_node(definition), f"{definition.place} calls functional {word}"
                    )

    def _callers(self, name: str, functors: frozenset[str], public: bool) -> Iterator[Edge]:
        """C++ code that calls a functional by name: gradient functions, other functors."""
        paths = self.autograd_paths + self.functor_paths
        found: list[tuple[str, Definition]] = []
        for functor in sorted(functors):
            pattern = re.compile(
                rf"(?:functional|sequence_function) ::(?: impl ::)? {functor}\b|\( {functor} \("
            )
            for definition in self.cpp.naming(functor, paths):
                registers = definition.kind == "entry" and "add_functor" in definition.uses
                if not registers and pattern.search(definition.code):
                    found.append((functor, definition))
        if public:  # a composite is not changed by an op that it calls: that op is tested itself
            own = [(f, d) for f, d in found if _plain(d.name) == _plain(name)]
            if len(own) < len(found):
                self.note(_composites(len(found) - len(own), f"functional {name} in C++"))
            found = own
        if len(found) > MAX_INTERNAL_USERS:
            self.note(_general_tool(f"functional {name}", len(found)))
            return
        for functor, definition in found:
            direct = not public and (len(found) <= FEW_USERS or _alike(definition.name, name))
            yield Edge(
                self._cpp_node(definition), f"{definition.place} calls functional {functor}", direct
            )

    def _of_op_type(self, op_type: str) -> Iterator[Edge]:
        edges = [*self._built(op_type), *self._stateful(op_type), *self._graph_gradients(op_type)]
        yield from edges
        stem = _STEM.sub("", op_type)
        if not edges and stem != op_type and stem in self.declared.op_types:
            yield Edge(Node("op type", stem), f"{op_type} is the gradient of {stem}, by name")

    def _built(self, op_type: str) -> Iterator[Edge]:
        """Functors and gradient functions that build an op of the type: its own ones, or all when none is named so."""
        builders: list[Definition] = []
        listed = False
        for definition in self.cpp.naming(op_type, self.functor_paths + self.autograd_paths):
            if op_type not in tokenize(definition.code).texts:
                continue
            if definition.kind == "macro":
                rows = list(self._listed(definition, op_type))
                listed = listed or bool(rows)
                yield from rows
            elif definition.kind in ("class", "function"):
                builders.append(definition)
        same = {d.name for d in builders if _plain(d.name) == _plain(op_type)}
        own = same or {d.name for d in builders if _alike(d.name, op_type)}
        own = own or {d.name for d in builders if len(builders) <= FEW_USERS and not listed}
        for definition in builders:
            if definition.name not in own and (own or listed):
                continue
            step = f"{definition.place} builds op {op_type}"
            yield Edge(self._cpp_node(definition), step, definition.name in own)

    def _listed(self, macro: Definition, op_type: str) -> Iterator[Edge]:
        """Rows ``("op_type", Functor)`` of a list that a macro makes functors of."""
        for functor in re.findall(rf'"{re.escape(op_type)}" , (\w+)', macro.code):
            if functor in self.declared.apis_of_functor:
                step = f"{macro.place} makes functor {functor} of op {op_type}"
                yield Edge(Node("functor", functor), step)

    def _graph_gradients(self, op_type: str) -> Iterator[Edge]:
        """``REGISTER_USER_OP_GRAD("x")`` whose body builds the type."""
        found: dict[str, Definition] = {}
        for definition in self.cpp.naming(op_type, self.user_op_paths):
            first = REGISTERED.search(definition.code)
            gradient = first is not None and "REGISTER_USER_OP_GRAD" in definition.uses
            if first and gradient and op_type in tokenize(definition.code).texts:
                found[first[1]] = definition
        found.pop(op_type, None)
        if len(found) > MAX_INTERNAL_USERS:
            self.note(_general_tool(f"op {op_type}", len(found)))
            return
        for name, definition in found.items():
            own = _plain(_STEM.sub("", op_type)) == _plain(name)
            yield Edge(Node("op type", name), f"{definition.place} is the gradient of {name}", own)

    def _stateful(self, op_type: str) -> Iterator[Edge]:
        """Python modules that make the op themselves: ``flow.stateful_op("x")``."""
        index = self.python.index
        made = re.compile(rf"stateful_op\(\s*[\"']{re.escape(op_type)}[\"']")
        for path in self.tree.containing(op_type, index.paths):
            text = self.tree.text(path) or ""
            module = index.module_of(path) or ""
            lines = [text.count("\n", 0, match.start()) + 1 for match in made.finditer(text)]
            for definition in index.file(module).definitions if lines else ():
                if definition.kind == "class" and len(index.file(module).definitions) > 1:
                    continue  # its methods stand for themselves
                if any(definition.first <= line <= definition.last for line in lines):
                    node = Node("python", f"{module}.{definition.name}", definition=definition)
                    yield Edge(node, f"{definition.place} makes op {op_type}")


def _composites(count: int, called: str) -> str:
    callers = "1 composite that calls" if count == 1 else f"{count} composites that call"
    return f"{callers} {called}: not followed, for what is called is public and tested itself"


def _general_tool(name: str, users: int) -> str:
    return f"{name} has {users} users: a general tool, which was not followed"


def _class_of(node: Node) -> str:
    """The function, or the class of the method, that a Python node names."""
    name = node.definition.name if node.definition else node.name
    return name.partition(".")[0]


def _plain(name: str) -> str:
    """A name in one spelling: ``HardTanhGradFunctor`` and ``hardtanh_grad`` are the same."""
    return re.sub(r"(Functor|BaseFunctor|Base)$", "", name).replace("_", "").lower()


def _alike(name: str, other: str) -> bool:
    """Whether one name, without its gradient's suffix, holds the other."""
    first, second = (re.sub(r"(grad)+$", "", _plain(n)) for n in (name, other))
    return bool(first and second) and (first in second or second in first)
