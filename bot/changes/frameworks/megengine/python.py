"""MegEngine's Python: who applies an OpDef or a binding, which modes, and which public names are one op."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.megengine.declared import facts
from bot.changes.graph import Edge, Node
from bot.changes.index.tree import Note
from bot.changes.python_walk import PythonWalk

BUILTIN: Final = "megengine.core.ops.builtin."
GRAPH_OPERATORS: Final = (
    "megengine._internal.opr."  # python_module/, before imperative/: mgb.opr.convolution(..)
)
BINDINGS: Final = ("megengine.core._imperative_rt.core2.", "megengine.core._imperative_rt.ops.")
SHARED: Final = (
    "megengine.core.tensor.utils"  # conversions of inputs, devices and shapes, for every function
)
TENSOR_MODULES: Final = ("megengine.core.", "megengine.tensor")
TENSOR_BASES: Final = (
    "ArrayMethodMixin",
    "TensorWrapper",
)  # core/tensor/{array_method,tensor_wrapper}.py
FUNCTIONAL: Final = "megengine.functional."
QUANTIZED: Final = ".quantized."
MODULE: Final = "megengine.module."
TENSOR: Final = "megengine.Tensor."
# Modules whose functions are public under functional itself, or were so in some version.
_SUBMODULE: Final = re.compile(
    r"^(megengine\.functional)\.(?:nn|vision|loss|img_proc|metric)\.(\w+)$"
)
_OPERATOR: Final = re.compile(r"^__(?:r|i)?(\w+)__$")

FEW_USERS: Final = 3
MAX_OTHER_USERS: Final = 12
MAX_KEPT: Final = 4096  # operators whose answers are remembered


class MegEnginePython:
    """Edges of Python nodes; ``walk`` knows the language, this knows MegEngine's conventions."""

    def __init__(self, walk: PythonWalk, modes: frozenset[str], note: Note) -> None:
        self.walk = walk
        self.modes = modes
        self.index = walk.index
        self.note = note
        self.carriers = lru_cache(maxsize=MAX_KEPT)(self._carriers)

    # From OpDefs, bindings and modes to definitions

    def of_opdef(self, opdef: str, bound: bool = False) -> Iterator[Edge]:
        """The definitions that apply an OpDef: those that are the op itself, or all when none is named so.

        ``bound``: a binding in C++ is the op itself.
        """
        users = [
            edge
            for path in _paths(opdef)
            for edge in self.walk.users(path, public=False)
            if edge.target.definition and _applies(edge.target.definition, path)
        ]
        yield from self._own(users, opdef, bound)

    def of_binding(self, name: str) -> Iterator[Edge]:
        """The definitions that call a function of the C++ module."""
        for module in BINDINGS:
            yield from self._own(list(self.walk.users(module + name, public=False)), name)

    def _own(self, users: list[Edge], name: str, bound: bool = False) -> Iterator[Edge]:
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
        few = not own and not bound and len(others) <= FEW_USERS
        plain = any(QUANTIZED not in edge.target.name for edge in others)
        for edge in others:
            variant = plain and QUANTIZED in edge.target.name
            yield replace(edge, direct=few and not variant)

    def of_mode(self, opdef: str, mode: str) -> Iterator[Edge]:
        """The definitions that apply an OpDef with a mode: ``_elwise(x, mode=Elemwise.Mode.ADD)``, ``_reduce("sum")``."""
        written = re.compile(
            rf"""\bmode\s*=\s*(?:[\w.]*\bMode\.|_ElwMod\.|["']){mode}\b
              |\b(?:\w*elwise|(?=\w*elemwise)\w++)\(\s*(?:[\w.]*\bMode\.|_ElwMod\.){mode}\b
              |\b(?:_reduce|_elemwise|{opdef})\(\s*["']{mode}["']
              |\breduce_\(\s*\w+,\s*["']{mode}["']
              |\[[^\[\]]*(?:_ElwMod\.|Mode\.){mode}\b""",
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
        names = (opdef, *(("ElemwiseMultiType",) if opdef == "Elemwise" else ()))
        queue = [path for name in names for path in _paths(name)]
        while queue:
            path = queue.pop()
            for place, definition in self.index.users(path):
                known = place in found or definition.kind == "class"
                if not known and _applies(definition, path):
                    found[place] = definition
                    if definition.name.startswith("_") and "." not in definition.name:
                        queue.append(place)
        return tuple(found.items())

    # What a change of a Python definition changes

    def successors(self, node: Node) -> Iterator[Edge]:
        """The language's edges, without those to composites, and with MegEngine's pairs of method and function."""
        module, source = self.index.split(node.name)
        owner = source.rpartition(".")[0]
        public = any(not self._is_hidden(a, node.name) for a in self.walk.aliases(node.name))
        left_out = 0
        for edge in self.walk.successors(node):
            target = edge.target
            if target.kind == "public":
                if not self._is_hidden(target.name, node.name):
                    op = self.op_of(self._shortest(module, source, target.name))
                    yield replace(edge, target=replace(target, op=op))
            elif public and " uses " in edge.step and not self._same(source, target):
                left_out += 1
            elif module.startswith("megengine.core.") and " inherits " in edge.step:
                yield replace(edge, direct=True)  # what Tensor is made of
            elif module.startswith(TENSOR_MODULES) and f" uses {owner} (" in edge.step:
                continue  # who makes a Tensor is not changed by its methods
            elif module == SHARED:
                yield replace(edge, direct=False)
            else:
                yield edge
        if left_out:
            self.note(
                f"{left_out} that call {node.name}: not followed, for it is public and tested itself"
            )
        yield from self._changed_modes(node.definition)
        yield from self._functions_of_method(source)
        if module.startswith("megengine.core.tensor.") and owner in TENSOR_BASES:
            name = source.removeprefix(f"{owner}.")
            yield Edge(Node("python", f"megengine.tensor.Tensor.{name}"), f"Tensor inherits {name}")

    def _shortest(self, module: str, source: str, alias: str) -> str:
        """The shortest public name of what an alias names."""
        for path in (f"{module}.{source}", f"{module}.{source.rpartition('.')[0]}"):
            names = [n for n in self.walk.aliases(path) if not self._is_hidden(n, path)]
            if alias in names:
                return min(names, key=lambda name: name.count("."))
        return alias

    def _is_hidden(self, alias: str, path: str) -> bool:
        """Whether a name is public by its path alone: private, or left out of its own module's ``__all__``."""
        module, name = self.index.split(path)
        exported = self.index.file(module).exported
        name = name.partition(".")[0]
        unlisted = alias == path and exported is not None and name not in exported
        return _is_private(alias) or (unlisted and _plain(name) not in self._modules)

    @cached_property
    def _modules(self) -> frozenset[str]:
        """The plain names of the public modules: the functions that these are forms of are public, listed or not."""
        return frozenset(
            _plain(alias.rpartition(".")[2])
            for names in self.index.aliases.values()
            for alias in names
            if alias.startswith(MODULE)
        )

    def _same(self, source: str, target: Node) -> bool:
        name = target.definition.name if target.definition else target.name
        plain = source.rpartition(".")[2]
        return any(same_op(plain, part) for part in name.split("."))

    def _changed_modes(self, definition: Definition | None) -> Iterator[Edge]:
        """The modes that a shared function treats otherwise than before (``if mode in (Elemwise.Mode.EXP, ..)``)."""
        if definition is None or not definition.before or "elwise" not in definition.name:
            return
        # Names and texts only, in one case: "log1p" and Mode.LOG1P are the same, and ast.And() is no mode.
        before, code = (
            " ".join(re.findall(r"'(\w+)'", side)).upper()
            for side in (definition.before, definition.code)
        )
        sides = replace(definition, before=before, code=code)
        for mode in sorted(changed_words(sides, self.modes)):
            step = f"{definition.place} treats mode {mode} otherwise"
            yield Edge(Node("mode", f"Elemwise.{mode}"), step)

    def _functions_of_method(self, source: str) -> Iterator[Edge]:
        """``functional.sum(inp)`` is ``inp.sum()``: a function of the same name that calls the method of its argument."""
        owner, _, method = source.rpartition(".")
        if not owner.startswith("Tensor") and owner != "ArrayMethodMixin":
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
        if alias.startswith(MODULE):
            return self._function_of(alias.removeprefix(MODULE)) or alias
        if alias.startswith(TENSOR):
            return self._of_method(alias)
        return short

    def _function_of(self, module: str) -> str:
        """The function whose form a module is: ``Conv2d`` of ``conv2d``, ``quantized.X`` of a function there."""
        folder, _, name = module.rpartition(".")
        if folder not in ("", "quantized"):
            return ""
        functions = self._functions if not folder else self._quantized
        prefix = FUNCTIONAL + (f"{folder}." if folder else "")
        return next((prefix + f for f in functions if _plain(f) == _plain(name)), "")

    @cached_property
    def _quantized(self) -> tuple[str, ...]:
        module = FUNCTIONAL + "quantized"
        return tuple(d.name for d in self.index.file(module).definitions if d.kind == "function")

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


def _paths(opdef: str) -> tuple[str, str]:
    """The full dotted paths of an OpDef, and of the graph's operator that older versions call instead."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", opdef).lower()
    return BUILTIN + opdef, GRAPH_OPERATORS + snake


def _applies(definition: Definition, path: str) -> bool:
    """Whether a user of an OpDef makes one, and does not only read an attribute of it (``Convolution.Strategy``)."""
    name = path.rpartition(".")[2]
    bare = any(used.rpartition(".")[2] == name for used in definition.uses)
    return bare or not any(name in used.split(".") for used in definition.uses)


def _last(edge: Edge) -> str:
    name = edge.target.definition.name if edge.target.definition else edge.target.name
    return name.rpartition(".")[2]


def changed_words(definition: Definition, known: frozenset[str]) -> frozenset[str]:
    """Those of the known words that a definition's two sides have not equally often."""
    old, new = (Counter(re.findall(r"\w+", code)) for code in (definition.before, definition.code))
    return frozenset(word for word in (old - new) + (new - old) if word in known)


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
