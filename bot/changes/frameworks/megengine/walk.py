"""MegEngine's edges in C++: from kernels, operators, OpDefs and bindings to the Python that applies them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.megengine.declared import (
    OPS_TD,
    MegEngineDeclared,
    base_name,
    facts,
    forward_of,
)
from bot.changes.frameworks.megengine.imperative import MegEngineImperative
from bot.changes.frameworks.megengine.python import MegEnginePython, changed_words
from bot.changes.frameworks.megengine.sources import PARAMS
from bot.changes.graph import Edge, Node, cpp_node
from bot.changes.index.cpp_index import HEADERS, CppIndex
from bot.changes.index.tree import Note, Tree
from bot.changes.python_walk import PythonWalk
from bot.changes.roles import is_cpp

SOURCE_ROOTS: Final = (
    "dnn/src/", "dnn/include/", "src/opr/", "src/opr-mm/", "imperative/src/", "imperative/python/src/",
)  # fmt: skip
FEW_USERS: Final = 3
MAX_USERS: Final = 12  # users of a symbol beyond this are not followed: it is a general tool
GENERAL_CLASSES: Final = frozenset({"HandleImpl", "TensorWrapper", "PyTensor"})
"""Classes that every op goes through (dnn/src/<backend>/handle.h, imperative/python/src/tensor.h)."""
MAX_LOCAL_STEPS: Final = 400

_KERNEL_ROW: Final = re.compile(
    r"\bDEF_KERN\w* \( (?:dt_\w+ , )?(\w+) ,|\bMEGDNN_ELEMWISE_MODE_ENABLE \( (\w+)"
)
_MODE: Final = re.compile(r"\bMode :: (\w+)")
_CREATED: Final = re.compile(r"\bMEGDNN_(?:SPECIALIZE|INST)_CREATE_OPERATOR \( (\w+)")
_GRAPH_MACRO: Final = re.compile(
    r"\bMGB_(?:IMPL_OPR_GRAD|DYN_TYPE_OBJ_FINAL_IMPL|SEREG_OPR\w*) \( (\w+)"
)
_OPR: Final = re.compile(r"\bopr :: (\w+)")
_ENTRY: Final = re.compile(r"\[(\w+)\]$")
_WRAPPER_LINE: Final = re.compile(r"\bMGB_DEFINE_OPR_CLASS\w*\(\s*(\w+)")


class MegEngineReader:
    """One tree through MegEngine's rules; ``note`` is told what the walk leaves out."""

    def __init__(self, tree: Tree, python: PythonWalk, note: Note) -> None:
        self.tree = tree
        self.note = note
        self.language = python
        sources = tuple(
            path
            for path in tree.paths
            if path.startswith(SOURCE_ROOTS) and is_cpp(path) and "/test/" not in path
        )
        self.cpp = CppIndex(tree, sources, note)
        self.declared = MegEngineDeclared(tree, sources)
        self.python = MegEnginePython(python, self.declared.elemwise_modes, note)
        self.imperative = MegEngineImperative(tree, self.cpp, self.declared)

    # Where a walk begins

    def start(self, definition: Definition, added: bool) -> Node | str:
        """Where the walk from a changed definition begins, or why none is possible."""
        path = definition.file
        if path == PARAMS:
            return Node("param", definition.name)
        if path.startswith("dnn/scripts/"):
            return "a generator of sources: what it writes differently cannot be read"
        if path.endswith((".py", ".pyi")):
            return self.language.start(definition, added)
        if path == OPS_TD:
            return Node("opdef", definition.name)
        if not path.startswith(SOURCE_ROOTS):
            return "C++ outside the operators (graph compiler, runtime, tools)"
        return cpp_node(definition, by_line=True)

    # What a change changes next

    def successors(self, node: Node) -> Iterable[Edge]:
        """What a change of the node changes next."""
        if node.kind.startswith("python"):
            return self.python.successors(node)
        if node.kind == "param":
            return self._of_param(node.name)
        if node.kind == "opdef":
            return self._of_opdef(node.name)
        if node.kind == "mode":
            return self._of_mode(node.name)
        if node.kind == "operator":
            return self._of_operator(node.name)
        if node.kind == "binding":
            return self.python.of_binding(node.name)
        if node.kind == "cpp" and node.definition is not None:
            return self._of_cpp(node.definition)
        return ()

    def _of_param(self, name: str) -> Iterator[Edge]:
        struct, _, mode = name.partition(".")
        for opdef in self.declared.opdefs_of_param.get(struct, ()):
            node = Node("mode", f"{opdef}.{mode}") if mode else Node("opdef", opdef)
            yield Edge(node, f"{OPS_TD}: {opdef} takes the parameters {struct}")

    def _of_mode(self, name: str) -> Iterator[Edge]:
        opdef, _, mode = name.partition(".")
        yield from self.python.of_mode(opdef, mode)
        forward = forward_of(mode)
        if forward:
            yield Edge(Node("mode", f"{opdef}.{forward}"), f"{mode} is the gradient of {forward}")

    def _of_opdef(self, name: str) -> Iterator[Edge]:
        for record in self.declared.records:
            if record.kind == "class" and record.name == name:
                for user in self.declared.records:
                    if name in user.uses and user.name != name:
                        node = Node("opdef", user.name)
                        yield Edge(node, f"{user.name} is built on {name}", direct=False)
        bindings = list(self.imperative.bindings_of(name))
        yield from bindings
        yield from self.python.of_opdef(name, bool(bindings))
        forward = forward_of(name)
        if forward in self.declared.opdefs:
            yield Edge(Node("opdef", forward), f"{name} is the gradient of {forward}")

    def _of_operator(self, name: str) -> Iterator[Edge]:
        # Before src/core/include/megbrain/ir/ops.td there was, OpDefs were named after operators.
        opdefs = {name} & self.declared.opdefs if self.declared.opdefs else {name}
        opdefs |= set(self.declared.opdefs_of_operator.get(name, ()))
        for opdef in sorted(opdefs):
            yield Edge(Node("opdef", opdef), f"OpDef {opdef} runs the operator {name}")
        wrappers = self.declared.wrapped_by.get(name, ())
        for other in (*wrappers, *facts().served_by(name)):
            yield Edge(Node("operator", other), f"the operator {other} runs on {name}")
        forward = forward_of(name)
        if forward:
            yield Edge(Node("operator", forward), f"{name} is the gradient of {forward}")
        if not opdefs and not wrappers and not forward:
            yield from self.imperative.appliers_of(name)

    def _of_cpp(self, definition: Definition) -> Iterator[Edge]:
        path = definition.file
        if path.startswith("imperative/"):
            edges = list(self.imperative.of_cpp(definition))
        elif path.startswith("src/"):
            edges = list(self._of_graph(definition))
        else:
            edges = list(self._of_dnn(definition))
        yield from edges
        if not edges:
            yield from self._users(definition)

    # The graph's operators: src/opr

    def _of_graph(self, definition: Definition) -> Iterator[Edge]:
        named = _GRAPH_MACRO.findall(definition.code)
        entry = _ENTRY.search(definition.name)
        operators = self._operators_of(definition)
        if entry and definition.kind == "entry" and not named:
            named = self._macro_before(definition)
        names = [base_name(n) for n in named if base_name(n) in self.declared.operators]
        names += [n for n in operators if n not in names]
        if entry and definition.kind == "entry":
            for name in names:
                yield self._mode_edge(name, entry[1], definition)
            return
        if not names and definition.kind != "macro":
            inside = self._class_around(definition)
            spoken = [base_name(n) for n in _OPR.findall(definition.code)]
            names = [inside] if inside else [n for n in spoken if n in self.declared.operators][:1]
        for name in dict.fromkeys(names):
            yield Edge(Node("operator", name), f"{definition.place} is part of the operator {name}")

    def _macro_before(self, definition: Definition) -> list[str]:
        """The operator whose gradient's switch a row is part of."""
        for whole in self.cpp.definitions(definition.file):
            if whole.first <= definition.first <= whole.last and whole.kind == "function":
                return _GRAPH_MACRO.findall(whole.code)
        return []

    def _class_around(self, definition: Definition) -> str:
        """The operator whose class body, behind ``MGB_DEFINE_OPR_CLASS(X, ..) // {``, a definition stands in."""
        if PurePosixPath(definition.file).suffix not in HEADERS:
            return ""
        text = self.tree.text(definition.file) or ""
        before = "\n".join(text.split("\n")[: definition.first])
        found = _WRAPPER_LINE.findall(before)
        return base_name(found[-1]) if found else ""

    def _operators_of(self, definition: Definition) -> list[str]:
        """The operators that a definition's name says: ``ConvBiasForwardImpl::AlgoNaive::exec``, ``Reduce::Kern::init``."""
        found: list[str] = []
        for part in definition.name.split("::"):
            name = base_name(part.partition("[")[0])
            if name in self.declared.operators and name not in found:
                found.append(name)
        return found[:1]

    def _mode_edge(self, operator: str, mode: str, definition: Definition) -> Edge:
        known = self.declared.modes.get(operator, frozenset())
        if mode in known or forward_of(mode) in known:
            node = Node("mode", f"{operator}.{mode}")
            return Edge(node, f"{definition.place} is mode {mode} of {operator}")
        return Edge(Node("operator", operator), f"{definition.place} is part of {operator}")

    # The kernels of dnn

    def _of_dnn(self, definition: Definition) -> Iterator[Edge]:
        modes = sorted(self._modes_of(definition))
        if modes:
            for mode in modes:
                step = f"{definition.place} is elementwise mode {mode}"
                yield Edge(Node("mode", f"Elemwise.{mode}"), step)
            return
        entry = _ENTRY.search(definition.name) if definition.kind == "entry" else None
        names = self._operators_of(definition)
        if not names and "elemwise" in definition.file:
            yield from (
                users := list(self._users(definition))
            )  # modes, as far as they are told apart
            if users:
                return
        names += [base_name(n) for n in _CREATED.findall(definition.code)]
        if not names:
            names = sorted(self._of_folder(definition))
        for name in names:
            if entry:
                yield self._mode_edge(name, entry[1], definition)
            else:
                step = f"{definition.place} is part of the operator {name}"
                yield Edge(Node("operator", name), step)
        if names and not self._operators_of(definition):
            yield from self._users_elsewhere(definition)

    def _modes_of(self, definition: Definition) -> set[str]:
        """The elementwise modes that a definition, or the file that it stands in, is for."""
        known = self.declared.elemwise_modes
        if "elemwise" not in definition.file:
            return set()
        if definition.kind == "function" and definition.before:
            changed = changed_words(definition, known)
            if changed:
                return set(changed)  # rows of a dispatch over modes
        rows = {a or b for a, b in _KERNEL_ROW.findall(definition.code)}
        stem = PurePosixPath(definition.file).stem
        if "kimpl/" in definition.file:
            of_file = stem.partition("_dt_")[0].upper()
            stated = (row.mode for row in facts().modes if row.file == stem)
            rows.add(next(stated, of_file))
        if definition.kind in ("class", "statement") and not rows & known:
            spoken = set(_MODE.findall(definition.code))
            rows |= spoken if len(spoken) == 1 else set()
        return rows & known

    def _of_folder(self, definition: Definition) -> frozenset[str]:
        """The operators of the folder that a file of dnn lies in, narrowed to those that use the definition."""
        parts = definition.file.split("/")
        if not definition.file.startswith("dnn/src/") or len(parts) < 4:
            return frozenset()
        folder = (
            parts[3] if len(parts) > 4 else re.sub(r"_helper$", "", PurePosixPath(parts[3]).stem)
        )
        if len(parts) == 4 and parts[2] != "common":
            return frozenset()
        operators = self.declared.folder_operators(parts[2], folder)
        if len(operators) < 2:
            return operators
        for part in reversed(parts[4:]):
            plain = PurePosixPath(part).stem.replace("_", "").lower()
            named = {o for o in operators if plain and o.lower().endswith(plain)}
            if named:
                return frozenset(named)
        prefix = "/".join(parts[:4]) + "/" if len(parts) > 4 else definition.file
        return self._local(definition, prefix, operators) or operators

    def _local(
        self, definition: Definition, prefix: str, operators: frozenset[str]
    ) -> frozenset[str]:
        """The folder's operators that use a definition, directly or through others of the folder."""
        paths = tuple(p for p in self.cpp.paths if p.startswith(prefix))
        found: set[str] = set()
        seen: set[str] = set()
        queue = [definition]
        while queue and len(seen) < MAX_LOCAL_STEPS:
            name = _own_name(queue.pop())
            if len(name) < 3 or name in seen:
                continue
            seen.add(name)
            for user in self.cpp.naming(name, paths):
                own = set(self._operators_of(user)) & operators
                found |= own
                if not own:
                    queue.append(user)
        return frozenset(found)

    def _users_elsewhere(self, definition: Definition) -> Iterator[Edge]:
        """Users of a header's definition in other folders: kernels that one operator lends to another."""
        if PurePosixPath(definition.file).suffix not in HEADERS:
            return
        folder = "/".join(definition.file.split("/")[:4]) + "/"
        for edge in self._users(definition):
            if not (edge.target.file.startswith(folder)):
                yield Edge(edge.target, edge.step, direct=False)

    def _users(self, definition: Definition) -> Iterator[Edge]:
        """Definitions that name a symbol and can see it."""
        name = _own_name(definition)
        # A macro's call without a semicolon looks like an assignment: its name says nothing.
        called = definition.kind == "assignment" and name.isupper()
        if definition.kind in ("statement", "entry") or not name or called:
            return
        if name in GENERAL_CLASSES:
            self.note(f"{definition.place}: every op goes through it: members are followed by name")
            return
        if len(name) < 3:
            self.note(f"{definition.place}: users of so short a name are not looked for")
            return
        users = self._users_of(name, definition)
        method = definition.name.rpartition("::")[2]
        if len(users) > MAX_USERS and name != method:
            users = self._users_of(method, definition)
        if len(users) > MAX_USERS:
            self.note(f"{definition.place} has {len(users)} users: a general tool, not followed")
            return
        few = len({user.name for user in users}) <= FEW_USERS
        for user in users:
            yield Edge(cpp_node(user, by_line=True), f"{user.place} uses {name}", few)

    def _users_of(self, name: str, definition: Definition) -> list[Definition]:
        """Who names a symbol; what calls a binding that is public itself is not changed by it."""
        users = [u for u in self.cpp.users(name, definition.file, definition) if u != definition]
        if definition.kind == "macro" and PurePosixPath(definition.file).suffix not in HEADERS:
            users = [u for u in users if u.file == definition.file]
        if self.imperative.is_binding(name):
            own = [u for u in users if u.name.lstrip("_") == name.lstrip("_")]
            if len(own) < len(users):
                self.note(
                    f"{len(users) - len(own)} bindings that call {name}: not followed, for it is tested itself"
                )
            users = own
        return users


def _own_name(definition: Definition) -> str:
    """The class of a method, else the plain name: what users name."""
    owner, _, name = definition.name.partition("[")[0].rpartition("::")
    owner = owner.rpartition("::")[2]
    return name if owner in GENERAL_CLASSES else owner or name
