"""MegEngine's edges in ``imperative/``: which OpDefs a piece of C++ is for, and which bindings apply them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.megengine.declared import MegEngineDeclared
from bot.changes.graph import Edge, Node, cpp_node
from bot.changes.index.cpp_index import CppIndex
from bot.changes.index.tree import Tree
from bot.changes.sources.cpp_blocks import blocks

OPS: Final = "imperative/src/impl/ops/"
BINDINGS: Final = "imperative/python/src/"
MAX_KEPT: Final = 4096  # files whose answers are remembered
MAX_LOCAL_STEPS: Final = 60
MAX_CASTS: Final = 3
"""A definition that tells more OpDefs than this apart is a stage that every op goes through."""
MAX_REGISTRATIONS: Final = 1
"""A block that registers more OpDefs tells nothing about a definition that none of them names."""

_CAST: Final = re.compile(
    r"\b(?:cast_final_safe|cast_final|try_cast_final|as|same_type) < (\w+) >|\bstatic_cast < const (\w+) &"
)
_SPECIALISED: Final = re.compile(r"< (\w+) >")
_RULE_BY_TYPE: Final = re.compile(r"\b(\w+)::typeinfo\(\)\s*,\s*&?(\w+)")
_RULE_BY_ARGUMENT: Final = re.compile(r"\bregister_\w+\s*<\s*(\w+)\s*>\s*\(\s*&?(\w+)")
_METHOD: Final = re.compile(
    r"MGE_PY_INTERFACE\(\s*(\w+)\s*,\s*(\w+)\s*\)|\{\s*\"(\w+)\"\s*,\s*\(PyCFunction\)\s*(\w+)"
)
_TENSOR_METHOD: Final = re.compile(
    r"\.def(?:_getset)?<\s*&(TensorWrapper::\w++)[^>.;{]*+>\(\s*\"(\w+)\""
)
_OPENING: Final = re.compile(r"\bnamespace\b(?:(?!\bnamespace\b)[^;{}])*+\{")


class MegEngineImperative:
    """The OpDefs behind the C++ of ``imperative/``."""

    def __init__(self, tree: Tree, cpp: CppIndex, declared: MegEngineDeclared) -> None:
        self._tree = tree
        self._cpp = cpp
        self._declared = declared
        self._binding_paths = tuple(p for p in cpp.paths if p.startswith(BINDINGS))
        self._op_paths = tuple(p for p in cpp.paths if p.startswith(OPS))
        self._blocks = lru_cache(maxsize=MAX_KEPT)(self._read_blocks)
        self._methods = cache(self._read_methods)
        self._tensor_methods = cache(self._read_tensor_methods)

    def of_cpp(self, definition: Definition) -> Iterator[Edge]:
        """What a change of a definition changes: OpDefs, or a binding. Nothing when it is for no one of them."""
        if definition.file.startswith(BINDINGS):
            name = definition.name.rpartition("::")[2]
            for method in self._methods().get(name, ()):
                yield Edge(Node("binding", method), f"{definition.place} is the binding {method}")
            for method in self._tensor_methods().get(definition.name, ()):
                alias = f"megengine.Tensor.{method}"
                yield Edge(Node("public", alias), f"{alias} is {definition.name}")
        for opdef in self._opdefs_of(definition):
            yield Edge(Node("opdef", opdef), f"{definition.place} is part of OpDef {opdef}")

    def is_binding(self, name: str) -> bool:
        """Whether a C++ function is in a method table, or is what one there is made of (``_split_cpp``)."""
        return name in self._methods() or name.lstrip("_") in self._methods()

    def bindings_of(self, opdef: str) -> Iterator[Edge]:
        """The functions of the C++ module that make an OpDef and apply it."""
        made = re.compile(rf"\b{re.escape(opdef)} :: make\b")
        for definition in self._cpp.naming(opdef, self._binding_paths):
            # Gradient rules make OpDefs too: they are part of what they are registered for.
            if made.search(definition.code) and "/grad" not in definition.file:
                node = cpp_node(definition, by_line=True)
                yield Edge(node, f"{definition.place} makes OpDef {opdef}")

    def appliers_of(self, operator: str) -> Iterator[Edge]:
        """The OpDefs whose code makes an operator that none is named after."""
        made = re.compile(rf"\b(?:opr|megdnn) :: {re.escape(operator)}(?:Forward)?\b")
        found: dict[str, Definition] = {}
        for word in (operator, f"{operator}Forward"):
            for definition in self._cpp.naming(word, self._op_paths):
                if made.search(definition.code):
                    for opdef in self._opdefs_of(definition):
                        found.setdefault(opdef, definition)
        for opdef, definition in found.items():
            yield Edge(Node("opdef", opdef), f"{definition.place} makes the operator {operator}")

    def _opdefs_of(self, definition: Definition) -> tuple[str, ...]:
        """The OpDefs that a definition is for: by its registration, its casts, its rule, or those that use it."""
        own = self._named(definition)
        if own or not definition.file.startswith("imperative/src/"):
            return own
        found: dict[str, None] = {}
        seen: set[str] = set()
        around = self._around(definition)
        queue = [definition]
        while queue and len(seen) < MAX_LOCAL_STEPS:
            name = queue.pop().name.rpartition("::")[2]
            if len(name) < 3 or name in seen:
                continue
            seen.add(name)
            for user in around:
                if name in user.uses and user.name.rpartition("::")[2] != name:
                    of_user = self._named(user)
                    found |= dict.fromkeys(of_user)
                    if not of_user:
                        queue.append(user)
        if found:
            return tuple(found)
        registered = tuple(n for n, _ in self._registered_near(definition))
        return registered if len(registered) <= MAX_REGISTRATIONS else ()

    def _named(self, definition: Definition) -> tuple[str, ...]:
        """The OpDefs that a definition itself says."""
        code = definition.code
        opdefs = self._declared.opdefs
        if "OP_TRAIT_REG" in definition.uses:
            match = re.search(r"OP_TRAIT_REG \( (\w+)", code)
            return (match[1],) if match and match[1] in opdefs else ()
        names: list[str] = []
        if not definition.file.startswith(BINDINGS) or "/grad" in definition.file:
            cast = {a or b for a, b in _CAST.findall(code)} & opdefs
            names += sorted(cast) if len(cast) <= MAX_CASTS else ()
        names += _SPECIALISED.findall(code.partition("{")[0])
        if definition.kind == "statement" and definition.file.startswith(OPS):
            names += re.findall(r"\w+", code) if re.match(r"[A-Z][A-Z0-9_]+ \(", code) else []
        rules = self._rules(definition.file)
        names += rules.get(definition.name.rpartition("::")[2], [])
        return tuple(name for name in dict.fromkeys(names) if name in opdefs)

    def _rules(self, path: str) -> dict[str, list[str]]:
        """Function -> the OpDefs that a file registers it for (``register_grad_rule(Reduce::typeinfo(), f)``)."""
        text = self._tree.text(path) or ""
        if "typeinfo" not in text and "register_" not in text:
            return {}
        found: dict[str, list[str]] = {}
        for pattern in (_RULE_BY_TYPE, _RULE_BY_ARGUMENT):
            for opdef, function in pattern.findall(text):
                found.setdefault(function, []).append(opdef)
        return found

    def _around(self, definition: Definition) -> tuple[Definition, ...]:
        """The definitions of the innermost namespace block with a registration, else those of the file."""
        first, last = self._block_of(definition)
        return tuple(
            d for d in self._cpp.definitions(definition.file) if first <= d.first and d.last <= last
        )

    def _registered_near(self, definition: Definition) -> list[tuple[str, int]]:
        first, last = self._block_of(definition)
        return [
            (opdef, line)
            for line, opdef, _ in self._declared.registrations(definition.file)
            if first <= line <= last
        ]

    def _block_of(self, definition: Definition) -> tuple[int, int]:
        lines = [line for line, _, _ in self._declared.registrations(definition.file)]
        for first, last in self._blocks(definition.file):
            inside = first <= definition.first and definition.last <= last
            if inside and any(first <= line <= last for line in lines):
                return first, last
        return 1, 1 << 30

    def _read_blocks(self, path: str) -> tuple[tuple[int, int], ...]:
        """First and last line of every namespace block of a file, the innermost first."""
        return blocks(self._tree.text(path) or "", _OPENING)

    def _read_tensor_methods(self) -> dict[str, tuple[str, ...]]:
        """C++ method -> the public attributes of Tensor that it is (``.def<&TensorWrapper::numpy>("numpy")``)."""
        found: dict[str, list[str]] = {}
        for path in self._binding_paths:
            for method, name in _TENSOR_METHOD.findall(self._tree.text(path) or ""):
                if not name.startswith("_"):
                    found.setdefault(method, []).append(name)
        return {method: tuple(names) for method, names in found.items()}

    def _read_methods(self) -> dict[str, tuple[str, ...]]:
        """C++ function -> its names in the Python module, by the method tables that can see it."""
        found: dict[str, list[str]] = {}
        for table in self._binding_paths:
            for name, function, other, written in _METHOD.findall(self._tree.text(table) or ""):
                found.setdefault(function or written, []).append(name or other)
        return {function: tuple(names) for function, names in found.items()}
