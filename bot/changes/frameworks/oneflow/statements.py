"""OneFlow's edges out of C++ statements: registrations, list macros and their rows, instantiations, primitives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.oneflow.declared import USER_OPS
from bot.changes.frameworks.oneflow.tree import (
    MAX_INTERNAL_USERS,
    OneFlowTree,
    alike,
    file_stem,
    general_tool,
)
from bot.changes.graph import Edge, Node
from bot.changes.sources.cpp_source import tokenize

STEM: Final = re.compile(r"(_grad_grad|_grad|_backward)$")
_LIST_ROW: Final = re.compile(r"OF_PP_MAKE_TUPLE_SEQ \( [^()]* \)")
_TYPE_ROW: Final = re.compile(
    r"\bDataType :: k\w+|\bk(?:Float|Double|Int|UInt|Bool|BFloat|Char|Complex)\w*"
)
_INSTANCE: Final = re.compile(
    r"\btemplate (?:struct|class) (\w+) <|\btemplate (?!<|struct|class)(?:(?!\btemplate\b)[^;{(])*?\b(\w+) (?:< [^;()]{0,400}? >)? ?(?::: \w+ )?\("
)
_MACRO_CALL: Final = re.compile(r"\b[A-Z][A-Z0-9_]+ \( (\w+) (?:, [\w,: ]*)?\) ?;?$")
_PRIMITIVE: Final = re.compile(r"\bREGISTER_PRIMITIVE_FACTORY \( [^,]{1,400}, (\w+) ,")
_SYSTEM: Final = re.compile(r"\bOperatorConf :: k(\w+)Conf\b")
_ENUMERATOR: Final = re.compile(r"k[A-Z]\w+")


class Statements:
    """Successors of statements, macros' rows, primitives and system ops."""

    def __init__(self, of: OneFlowTree) -> None:
        self.of = of

    def registrations(self, definition: Definition) -> Iterator[Edge]:
        """What a statement registers or instantiates, written out or through macros."""
        of = self.of
        for op_type in of.declared.registered(definition):
            yield Edge(Node("op type", op_type), f"{definition.place} registers op {op_type}")
        for functor in of.declared.added_functors(definition):
            yield Edge(Node("functor", functor), f"{definition.place} adds functor {functor}")
        yield from self._op_classes(definition)
        pieces = of.cpp.closure(definition)
        for piece in pieces:
            for factory in _PRIMITIVE.findall(piece.code):
                yield Edge(Node("primitive", factory), f"{definition.place} registers {factory}")
        for name in _SYSTEM.findall(definition.code):
            if definition.file.startswith(("oneflow/core/kernel/", "oneflow/core/operator/")):
                yield Edge(Node("system op", name), f"{definition.place} registers op {name}")

    def _op_classes(self, definition: Definition) -> Iterator[Edge]:
        """The ops whose members a macro writes: ``IMPLEMENT_FUNCS(ReduceSum)`` in the ops' folder."""
        call = _MACRO_CALL.match(definition.code)
        if call is None or not definition.file.startswith(USER_OPS):
            return
        classes = self.of.declared.op_classes
        op_type = classes.get(call[1]) or classes.get(f"{call[1]}Op")
        if op_type is not None:
            yield Edge(Node("op type", op_type), f"{definition.place} makes op {op_type}")

    def instantiated(self, definition: Definition) -> tuple[str, ...]:
        """The templates that a statement instantiates, itself or through the macros that it calls."""
        if "op_type" in definition.uses:
            return ()
        found: dict[str, None] = {}
        for piece in self.of.cpp.closure(definition):
            for match in _INSTANCE.finditer(piece.code):
                found[match[1] or match[2]] = None
        return tuple(found)

    # Lists that macros walk

    def row(self, row: Definition) -> Iterator[Edge]:
        """A row of a list that macros walk: what those register, as far as the row names it; a type's row changes all."""
        users = self._walkers(row)
        named = [edge for user in users for edge in self._row_edges(row, user)]
        yield from named
        if named or not _TYPE_ROW.search(row.code):
            return
        if len({user.file for user in users}) > MAX_INTERNAL_USERS:
            self.of.note(general_tool(row.name.partition("[")[0], len(users)))
            return
        for user in users:
            yield Edge(self.of.node(user), f"{user.place} walks {row.name}")

    def _walkers(self, row: Definition) -> list[Definition]:
        """What uses a list, itself or through lists that hold it."""
        queue = [row.name.partition("[")[0]]
        seen: set[str] = set()
        found: dict[Definition, None] = {}
        while queue:
            name = queue.pop()
            seen.add(name)
            for user in self.of.cpp.users(name, row.file):
                if user.kind == "macro" and user.name not in seen:
                    queue.append(user.name)
                elif user.kind != "macro":
                    found[user] = None
        return list(found)

    def _row_edges(self, row: Definition, user: Definition) -> Iterator[Edge]:
        if user.kind != "statement":
            return
        step = f"{user.place} walks {row.name}"
        for op_type in self.of.declared.registered(user):
            if op_type in row.uses or STEM.sub("", op_type) in row.uses:
                yield Edge(Node("op type", op_type), step)
        for functor in self.of.declared.added_functors(user):
            if functor in row.uses:
                yield Edge(Node("functor", functor), step)

    # Primitives

    def primitive(self, factory: str) -> Iterator[Edge]:
        """The kernels that make a primitive (``NewPrimitive<CastFactory>``): the one of its name, the others while they are few."""
        name = factory.removesuffix("Factory")
        users = [d for d in self.of.cpp.naming(factory, self.of.kernels) if d.kind != "macro"]
        own = [d for d in users if alike(file_stem(d.file), name) or alike(d.name, name)]
        others = [d for d in users if d not in own]
        stems = {file_stem(d.file) for d in others}
        for user in own:
            yield Edge(self.of.node(user), f"{user.place} makes primitive {name}")
        if len(stems) > MAX_INTERNAL_USERS:
            self.of.note(general_tool(f"primitive {name}", len(users)))
            return
        for user in others:
            direct = not own and len(stems) == 1
            yield Edge(self.of.node(user), f"{user.place} makes primitive {name}", direct)

    def enumerator(self, name: str) -> Iterator[Edge]:
        """The kernels that ask a primitive for a mode (``UnaryOp::kRelu``), row by row where a list names it."""
        if not _ENUMERATOR.fullmatch(name):
            return
        word = re.compile(rf"(?:Unary|Binary)Op :: {name}\b")
        for user in self.of.cpp.naming(name, self.of.kernels):
            if not word.search(user.code):
                continue
            rows = [row for row in _LIST_ROW.findall(user.code) if word.search(row)]
            for row in rows:
                for op_type in sorted(set(tokenize(row).texts) & self.of.declared.op_types):
                    step = f"{user.place} makes op {op_type} of {name}"
                    yield Edge(Node("op type", op_type), step)
            if not rows:
                yield Edge(self.of.node(user), f"{user.place} asks for {name}")

    def changed_enumerators(self, definition: Definition) -> tuple[str, ...]:
        """The enumerators that an enumeration gained or lost; none when anything else is changed."""
        if not definition.before or not definition.code.startswith("enum"):
            return ()
        old, new = tokenize(definition.before).names, tokenize(definition.code).names
        return tuple(sorted(name for name in old ^ new if _ENUMERATOR.fullmatch(name)))

    def system_op(self, name: str) -> Iterator[Edge]:
        """The functionals of an op that is no user op (``OperatorConf::kXConf``)."""
        for functor in (name, f"Dispatch{name}"):
            if functor in self.of.declared.apis_of_functor:
                yield Edge(Node("functor", functor), f"functor {functor} makes op {name}")
