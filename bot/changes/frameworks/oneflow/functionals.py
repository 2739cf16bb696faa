"""OneFlow's edges out of functionals: public names, Tensor methods, Python users and C++ callers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.oneflow.composites import (
    MAX_CALLERS,
    MAX_NEAR,
    functor_gives,
    python_gives,
)
from bot.changes.frameworks.oneflow.declared import FUNCTIONAL_YAML
from bot.changes.frameworks.oneflow.members import changed_cases
from bot.changes.frameworks.oneflow.statements import STEM
from bot.changes.frameworks.oneflow.tree import (
    MAX_COMPOSITES,
    MAX_INTERNAL_USERS,
    OneFlowTree,
    alike,
    composites,
    general_tool,
    plain,
)
from bot.changes.graph import Edge, Node
from bot.changes.op_names import canonical_op
from bot.changes.sources.cpp_source import tokenize

_METHOD_ROW: Final = re.compile(r'^\{ "(\w+)" ,.*\bPyTensorObject_')
_METHOD: Final = "PyTensorObject_"
_ROWS: Final = ("statement", "entry")
_CALLED: Final = re.compile(r"\bfunctional :: (\w+)")
_INTERNAL: Final = ("oneflow._C", "oneflow._oneflow_internal._C")
"""Two names of one module (python/oneflow/_C/__init__.py)."""

PLACING: Final = re.compile(
    r"\b(?:CastTo|CastFrom|LocalTo|GlobalTo|ConsistentTo)(?:Global|Local|Consistent)OpExpr\b"
)
"""The expressions that place a tensor, of all times (oneflow/core/framework/op_expr.h); each functor of such a cast makes one."""

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
    "getitem": ("__getitem__",), "setitem": ("__setitem__",), "subscript": ("__getitem__",), "ass_subscript": ("__setitem__",),
}  # fmt: skip
"""CPython slot -> methods (https://docs.python.org/3/c-api/typeobj.html#sub-slots)."""

COMPARISONS: Final = {
    "Py_EQ": "__eq__", "Py_NE": "__ne__", "Py_LT": "__lt__", "Py_LE": "__le__", "Py_GT": "__gt__", "Py_GE": "__ge__",
}  # fmt: skip
"""Comparison code -> method (https://docs.python.org/3/c-api/typeobj.html#c.PyTypeObject.tp_richcompare)."""


class Functionals:
    """Successors of functionals (entries of the functional yaml files), functors and Tensor bindings."""

    def __init__(self, of: OneFlowTree) -> None:
        self.of = of

    def functor(self, functor: str) -> Iterator[Edge]:
        """The functionals whose signatures lead to a functor."""
        for name in self.of.declared.apis_of_functor.get(functor, ()):
            yield Edge(Node("api", name), f"{FUNCTIONAL_YAML}: {name} => {functor}")

    def api(self, name: str) -> Iterator[Edge]:
        """A functional's public names and users; a gradient's that nothing names, as macros write it, is of the op of its name."""
        edges = list(self._used(name))
        yield from edges
        stem = STEM.sub("", name)
        if not edges and stem != name and stem in self.of.declared.apis:
            yield Edge(Node("api", stem), f"{name} is the gradient of {stem}, by name")

    def _used(self, name: str) -> Iterator[Edge]:
        """A functional's public names and users. ``oneflow._C.x`` is one of the names: a form of the op where there is one."""
        functors, bound = self.of.declared.apis.get(name, (frozenset[str](), False))
        path = f"{_INTERNAL[0]}.{name}"
        aliases = tuple(
            alias for inner in _INTERNAL for alias in self.of.python.aliases(f"{inner}.{name}")
        )
        main = _main(aliases)
        for alias in aliases:
            yield Edge(Node("public", alias, op=main), f"{alias} is {path}")
        bindings = list(self._bindings(name, functors, aliases, main))
        yield from bindings
        users = [
            edge
            for inner in _INTERNAL
            if bound
            for edge in self.of.python.users(f"{inner}.{name}", public=False)
        ]
        same = [
            edge for edge in users if _names(edge.target, name, alike if not aliases else _same)
        ]
        rest = [edge for edge in users if edge not in same]
        if bound:
            yield from self._internal_name(name, path, main, same or rest, bindings)
        yield from (replace(edge, direct=edge.direct or not aliases) for edge in same)
        yield from self._composites(rest, path, bool(aliases or same))
        yield from self._callers(name, functors, public=bound or bool(bindings))

    def _internal_name(
        self, name: str, path: str, main: str, users: list[Edge], bindings: list[Edge]
    ) -> Iterator[Edge]:
        """``oneflow._C.x`` itself: a form of its public name, else of the one op that uses it, else an op of its own."""
        step = f"{path} is in {FUNCTIONAL_YAML}"
        if main:
            yield Edge(Node("public", path, op=main), step)
            return
        if STEM.search(name) or name.startswith("_"):
            return  # gradients stand for the ops that they are gradients of
        known = canonical_op(path, "oneflow")
        if known != path:
            yield Edge(Node("public", path), step)
            return
        publics = self._publics([*bindings, *users])
        if len(users) + len(bindings) == 1 and publics:
            yield Edge(Node("public", path, op=publics[0]), step)
        else:
            same = [public for public in publics if plain(public.rpartition(".")[2]) == plain(name)]
            yield Edge(Node("public", path, op=same[0] if same else ""), step)

    def _publics(self, edges: Iterable[Edge], depth: int = 4) -> list[str]:
        """The public names a few steps behind some edges."""
        found: dict[str, None] = {}
        targets = [edge.target for edge in edges]
        for _ in range(depth):
            names = [node for node in targets if node.kind.startswith("python")]
            found |= {node.name: None for node in targets if node.kind == "public"}
            targets = [
                edge.target
                for node in names
                for edge in self.of.python.successors(node)
                if edge.direct
            ]
        return list(found)

    def _composites(self, rest: list[Edge], path: str, has_own: bool) -> Iterator[Edge]:
        """Python that calls a functional under another name: one such user is the op itself, few are told apart."""
        if not rest:
            return
        if not has_own and len(rest) == 1:
            yield from rest
            return
        near = [edge for edge in rest if python_gives(self.of, edge.target, path)]
        if len({edge.target.name for edge in near}) > (MAX_NEAR if has_own else MAX_COMPOSITES):
            near = []
        yield from (replace(edge, direct=False) for edge in near)
        if len(near) < len(rest):
            self.of.note(composites(len(rest) - len(near), f"{path} in Python"))

    # Tensor methods

    def _bindings(
        self, name: str, functors: frozenset[str], aliases: tuple[str, ...], main: str
    ) -> Iterator[Edge]:
        """Tensor methods that hand over to the functional; those that do more than that are composites of it."""
        wanted = {f"functional :: {name}", *(f"functional :: {functor}" for functor in functors)}
        pattern = re.compile(rf"(?:{'|'.join(map(re.escape, sorted(wanted)))})\b")
        names = {plain(n) for n in (name, *functors, *(a.rpartition(".")[2] for a in aliases))}
        found: dict[Definition, str] = {}
        for word in (name, *sorted(functors)):
            for definition in self.of.cpp.naming(word, self.of.bindings):
                is_method = definition.name.startswith(_METHOD) or definition.kind in _ROWS
                if is_method and pattern.search(definition.code):
                    found.setdefault(definition, word)
        others: list[Edge] = []
        same = False
        for definition, word in found.items():
            step = f"{definition.place} calls functional {word}"
            slots = self._slots(definition)
            handed = definition.kind != "function"
            for slot, slot_step in slots:
                yield Edge(Node("public", f"oneflow.Tensor.{slot}", op=main), slot_step)
            if not slots and (handed or plain(definition.name.removeprefix(_METHOD)) in names):
                same = True
                yield Edge(self.of.node(definition), step)
            elif not slots and alike(definition.name.removeprefix(_METHOD), name):
                same = True
                yield Edge(self.of.node(definition), step, direct=not aliases)
            elif not slots:
                others.append(Edge(self.of.node(definition), step, direct=not aliases))
        has_own = same or bool(aliases)
        places = has_own and bool(others) and any(self._places(functor) for functor in functors)
        if places or len(others) > (1 if has_own else MAX_COMPOSITES):
            self.of.note(composites(len(others), f"functional {name} in Tensor methods"))
        else:
            yield from (replace(edge, direct=edge.direct and not same) for edge in others)

    def _slots(self, definition: Definition) -> list[tuple[str, str]]:
        """The operators whose CPython slot a macro call fills, or a function that calls one functional."""
        if definition.kind == "function":
            called = set(_CALLED.findall(definition.code))
            names = [definition.name] if len(called) == 1 else []
        else:
            names = sorted(n for n in definition.uses if n.startswith(_METHOD))
        return [
            (method, f"oneflow.Tensor.{method} is {name}")
            for name in names
            if name != f"{_METHOD}richcompare"
            for method in NUMBER_SLOTS.get(name.removeprefix(_METHOD), ())
        ]

    def method(self, definition: Definition) -> Iterator[Edge]:
        """The operators of a function that is a slot; of a comparison those whose branch changed."""
        slots = NUMBER_SLOTS.get(definition.name.removeprefix(_METHOD), ())
        if definition.name == f"{_METHOD}richcompare":
            cases = changed_cases(definition)
            known = {COMPARISONS[case] for case in cases if case in COMPARISONS}
            slots = tuple(sorted(known)) if len(known) == len(cases) and known else slots
        yield from _methods(slots, definition.name)

    def binding(self, definition: Definition) -> Iterator[Edge]:
        """Rows of method tables, and macro calls that define the functions which the rows name."""
        row = _METHOD_ROW.match(definition.code)
        if row:
            yield from _methods((row[1],), definition.place)
            return
        for name in sorted(n for n in tokenize(definition.code).names if n.startswith(_METHOD)):
            yield from _methods(NUMBER_SLOTS.get(name.removeprefix(_METHOD), ()), name)
            for user in self.of.cpp.users(name, definition.file):
                if user != definition:
                    yield Edge(self.of.node(user), f"{user.place} uses {name}")

    # C++ callers

    def _callers(self, name: str, functors: frozenset[str], public: bool) -> Iterator[Edge]:
        """C++ code that calls a functional by name: gradient functions, other functors."""
        found: dict[Definition, str] = {}
        for functor in sorted(functors):
            pattern = re.compile(
                rf"(?:functional|sequence_function) ::(?: impl ::)? {functor}\b"
                rf"|(?:\(|return|=|bind \(|then \() {functor} [(,)]"
            )
            for definition in self.of.cpp.naming(functor, self.of.gradients + self.of.functors):
                registers = definition.kind == "entry" and "add_functor" in definition.uses
                if not registers and pattern.search(definition.code):
                    found.setdefault(definition, functor)
        own = [d for d in found if (_same if public else alike)(d.name, name)]
        others = [d for d in found if d not in own]
        # What else builds the op of a public functional's gradient is two shared steps away.
        direct = not public or STEM.search(name) is not None
        for definition in own:
            yield Edge(self.of.node(definition), _calls(definition, found[definition]), direct)
        if public or own:
            yield from self._functor_composites(name, others, found)
        elif len(others) > MAX_INTERNAL_USERS or any(map(self._places, functors)):
            self.of.note(general_tool(f"functional {name}", len(others)))
        else:
            for definition in others:
                step = _calls(definition, found[definition])
                yield Edge(self.of.node(definition), step, direct=len(others) == 1)

    def _functor_composites(
        self, name: str, others: list[Definition], calls: dict[Definition, str]
    ) -> Iterator[Edge]:
        """Functors whose result a public functional makes, while those are few ops; helpers and gradients are general users of it.

        Another functor of the same functional is no composite, and what places a tensor is a tool of whoever calls it.
        """
        near: defaultdict[frozenset[str], list[Definition]] = defaultdict(list)
        for definition in others:
            forms = self._functionals_of(definition)
            if (
                forms == frozenset({name})
                or all(map(STEM.search, forms))
                or self._places(calls[definition])
            ):
                continue
            if functor_gives(definition, calls[definition], alone=len(others) == 1):
                near[forms].append(definition)
        if len(near) > MAX_NEAR or len(others) > MAX_CALLERS:
            near.clear()
        told = [definition for definitions in near.values() for definition in definitions]
        for definition in told:
            yield Edge(self.of.node(definition), _calls(definition, calls[definition]), False)
        if len(told) < len(others):
            self.of.note(composites(len(others) - len(told), f"functional {name} in C++"))

    def _functionals_of(self, functor: Definition) -> frozenset[str]:
        """The functionals that a functor's class makes (``m.add_functor<XFunctor>("X")``); none for any other definition."""
        declared = self.of.declared
        added = [
            name
            for entry in self.of.cpp.naming(functor.name, self.of.functors)
            if functor.kind == "class" and "add_functor" in entry.uses
            for name in declared.added_functors(entry)
        ]
        return frozenset(api for name in added for api in declared.apis_of_functor.get(name, ()))

    def _places(self, functor: str) -> bool:
        """Whether a functor hands tensors between ranks: any op may call it, and it computes nothing of theirs."""
        return any(
            PLACING.search(made.code)
            for entry in self.of.cpp.naming(functor, self.of.functors)
            if entry.kind == "entry" and "add_functor" in entry.uses
            for made in self.of.cpp.definitions(entry.file)
            if made.kind == "class" and made.name in entry.uses
        )


def _calls(definition: Definition, functor: str) -> str:
    return f"{definition.place} calls functional {functor}"


def _methods(methods: Iterable[str], source: str) -> Iterator[Edge]:
    for method in methods:
        if method.startswith("_") and not method.startswith("__"):
            continue  # the framework's own, which users are not meant to call
        alias = f"oneflow.Tensor.{method}"
        yield Edge(Node("public", alias), f"{alias} is {source}")


def _main(aliases: tuple[str, ...]) -> str:
    """The one of an op's names that stands for it: the shortest that is no method."""
    return min(aliases, key=lambda name: (".Tensor." in name, len(name), name), default="")


def _same(name: str, other: str) -> bool:
    # reduce_max is what max calls: the op type's prefix, not another op.
    first, second = (plain(n).removesuffix("grad").removeprefix("reduce") for n in (name, other))
    return first == second


def _names(node: Node, name: str, compare: object) -> bool:
    """Whether a Python node's function, or the class of its method, is named as a functional is."""
    assert callable(compare)
    own = node.definition.name if node.definition else node.name
    return bool(compare(own.rpartition(".")[2], name) or compare(own.partition(".")[0], name))
