"""MegEngine's Python: who applies an OpDef or a binding, which modes, and which public names are one op."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.megengine_declared import facts
from bot.changes.graph import Edge, Node
from bot.changes.index.tree import Note
from bot.changes.python_walk import PythonWalk

BUILTIN: Final = "megengine.core.ops.builtin."
BINDINGS: Final = ("megengine.core._imperative_rt.core2.", "megengine.core._imperative_rt.ops.")
FUNCTIONAL: Final = "megengine.functional."
MODULE: Final = "megengine.module."
TENSOR: Final = "megengine.Tensor."
# Modules whose functions are public under functional itself, or were so in some version.
_SUBMODULE: Final = re.compile(
    r"^(megengine\.functional)\.(?:nn|vision|loss|img_proc|metric)\.(\w+)$"
)
_OPERATOR: Final = re.compile(r"__(?:r|i)?(\w+)__$")

FEW_USERS: Final = 3
MAX_OTHER_USERS: Final = 12


class MegEnginePython:
    """Edges of Python nodes; ``walk`` knows the language, this knows MegEngine's conventions."""

    def __init__(self, walk: PythonWalk, note: Note) -> None:
        self.walk = walk
        self.index = walk.index
        self.note = note
        self.carriers = lru_cache(maxsize=None)(self._carriers)

    # From OpDefs, bindings and modes to definitions

    def of_opdef(self, opdef: str) -> Iterator[Edge]:
        """The definitions that apply an OpDef: those that are the op itself, or all when none is named so."""
        yield from self._own(list(self.walk.users(BUILTIN + opdef, public=False)), opdef)

    def of_binding(self, name: str) -> Iterator[Edge]:
        """The definitions that call a function of the C++ module."""
        for module in BINDINGS:
            yield from self._own(list(self.walk.users(module + name, public=False)), name)

    def _own(self, users: list[Edge], name: str) -> Iterator[Edge]:
        known = facts().names_of(name)
        own = [
            e for e in users if _last(e) in known or same_op(_last(e), name.removesuffix("_cpp"))
        ]
        others = [e for e in users if e not in own]
        yield from (replace(edge, direct=True) for edge in own)
        if own and len(others) > MAX_OTHER_USERS:
            self.note(
                f"{name} has {len(others)} more users in Python, which call it as a tool: not followed"
            )
            return
        few = not own and len(others) <= FEW_USERS
        yield from (replace(edge, direct=few) for edge in others)

    def of_mode(self, opdef: str, mode: str) -> Iterator[Edge]:
        """The definitions that apply an OpDef with a mode: ``_elwise(x, mode=Elemwise.Mode.ADD)``, ``_reduce("sum")``."""
        written = re.compile(
            rf"""\bmode\s*=\s*(?:[\w.]*\bMode\.|_ElwMod\.|["']){mode}\b
              |\w*(?:elwise|elemwise\w*|Elemwise\w*)\(\s*(?:[\w.]*\bMode\.|_ElwMod\.){mode}\b
              |\b(?:_reduce|{opdef})\(\s*["']{mode}["']
              |\[[^\]]*(?:_ElwMod\.|Mode\.){mode}\b""",
            re.VERBOSE | re.IGNORECASE,
        )
        for place, definition in self.carriers(opdef):
            text = self.index.tree.text(definition.file) or ""
            lines = text.split("\n")[definition.first - 1 : definition.last]
            if written.search("\n".join(lines)):
                yield Edge(
                    Node("python", place, definition=definition),
                    f"{place} applies {opdef} with mode {mode} ({definition.file}:{definition.first})",
                )

    def _carriers(self, opdef: str) -> tuple[tuple[str, Definition], ...]:
        """Every definition that applies an OpDef, itself or through private helpers."""
        found: dict[str, Definition] = {}
        names = {opdef, *({"ElemwiseMultiType"} if opdef == "Elemwise" else ())}
        queue = [BUILTIN + name for name in sorted(names)]
        while queue:
            for place, definition in self.index.users(queue.pop()):
                if place not in found and definition.kind != "class":
                    found[place] = definition
                    if definition.name.startswith("_") and "." not in definition.name:
                        queue.append(place)
        return tuple(found.items())

    # What a change of a Python definition changes

    def successors(self, node: Node) -> Iterator[Edge]:
        """The language's edges, without those to composites, and with MegEngine's pairs of method and function."""
        source = node.definition.name if node.definition else node.name.rpartition(".")[2]
        public = node.kind == "python" and bool(self.walk.aliases(node.name))
        left_out = 0
        for edge in self.walk.successors(node):
            target = edge.target
            if target.kind == "public" and _is_private(target.name):
                continue
            if target.kind == "public":
                yield replace(edge, target=replace(target, op=self.op_of(target.name)))
            elif public and " uses " in edge.step and not self._same(source, target):
                left_out += 1
            elif source.startswith("ArrayMethodMixin."):
                yield replace(edge, direct=True)  # the methods of Tensor
            else:
                yield edge
        if left_out:
            self.note(
                f"{left_out} that call {node.name}: not followed, for it is public and tested itself"
            )
        yield from self._functions_of_method(source)

    def _same(self, source: str, target: Node) -> bool:
        name = target.definition.name if target.definition else target.name
        plain = source.rpartition(".")[2]
        return any(same_op(plain, part) for part in name.split("."))

    def _functions_of_method(self, source: str) -> Iterator[Edge]:
        """``functional.sum(inp)`` is ``inp.sum()``: a function of the same name that calls the method of its argument."""
        owner, _, method = source.rpartition(".")
        if owner not in ("Tensor", "ArrayMethodMixin"):
            return
        for place, definition in self._functions.get(method, ()):
            if any(used.partition(".")[2] == method for used in definition.uses):
                node = Node("python", place, definition=definition)
                yield Edge(node, f"{place} calls the method {method}")

    @cached_property
    def _functions(self) -> dict[str, tuple[tuple[str, Definition], ...]]:
        """Name -> the functions of ``megengine.functional`` that are called so."""
        found: dict[str, list[tuple[str, Definition]]] = {}
        for module in self.index.modules:
            if module.startswith(FUNCTIONAL) and "quantized" not in module:
                for definition in self.index.file(module).definitions:
                    if definition.kind == "function":
                        place = f"{module}.{definition.name}"
                        found.setdefault(definition.name, []).append((place, definition))
        return {name: tuple(places) for name, places in found.items()}

    # Public names of one op

    def op_of(self, alias: str) -> str:
        """The public name under which an alias's op is reported: the function's, for its module, method or longer path."""
        short = _SUBMODULE.sub(r"\1.\2", alias)
        if alias.startswith(MODULE) and alias.count(".") == 2:
            return self._function_of(alias.removeprefix(MODULE)) or alias
        if alias.startswith(TENSOR):
            return self._of_method(alias)
        return short

    def _function_of(self, module: str) -> str:
        key = _plain(module)
        return next((FUNCTIONAL + name for name in self._functions if _plain(name) == key), "")

    def _of_method(self, alias: str) -> str:
        name = alias.removeprefix(TENSOR)
        if name in self._functions:
            return FUNCTIONAL + name
        operator = _OPERATOR.match(name)
        if operator is None:
            return alias
        plain = self._operators.get(name, operator[1])
        return FUNCTIONAL + plain if plain in self._functions else alias

    @cached_property
    def _operators(self) -> dict[str, str]:
        """Operator method -> the function that applies the same mode of the elementwise OpDef."""
        modes: dict[str, str] = {}
        methods: list[tuple[str, str]] = []
        for place, definition in self.carriers("Elemwise"):
            text = self.index.tree.text(definition.file) or ""
            lines = "\n".join(text.split("\n")[definition.first - 1 : definition.last])
            written = re.findall(
                r"""(?:\bMode\.|_ElwMod\.|\bmode\s*=\s*["'])(\w+)""", lines, re.IGNORECASE
            )
            if len(set(written)) != 1:
                continue
            mode, name = written[0].upper(), definition.name.rpartition(".")[2]
            if place.startswith(FUNCTIONAL):
                modes.setdefault(mode, name)
            elif name.startswith("__"):
                methods.append((name, mode))
        return {name: modes[mode] for name, mode in methods if mode in modes}


def _last(edge: Edge) -> str:
    name = edge.target.definition.name if edge.target.definition else edge.target.name
    return name.rpartition(".")[2]


def _is_private(alias: str) -> bool:
    name = alias.rpartition(".")[2]
    return name.startswith("_") and not name.endswith("__")


def _plain(name: str) -> str:
    """A name in one spelling: ``BatchNorm`` and ``batch_norm`` are the same."""
    return name.replace("_", "").lower()


def same_op(name: str, other: str) -> bool:
    """Whether two names are forms of one op: ``Conv2d`` and ``conv2d``, ``_BatchNorm`` and ``batch_norm``."""
    first, second = _plain(name), _plain(other)
    shorter = (re.sub(r"[123]d$", "", first), re.sub(r"[123]d$", "", second))
    return bool(first) and (first == second or first == shorter[1] or second == shorter[0])
