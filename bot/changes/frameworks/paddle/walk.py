"""PaddlePaddle's edges: from kernels, functors, shape functions, yaml entries and bindings to public names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.paddle.declared import API_INFO, PaddleDeclared, is_op_yaml
from bot.changes.frameworks.paddle.macros import MacroCalls, Registered, is_macro_call
from bot.changes.frameworks.paddle.python import PaddlePython
from bot.changes.frameworks.paddle.tables import paddle_tables
from bot.changes.graph import Edge, Node, cpp_node
from bot.changes.index.cpp_index import HEADERS, CppIndex
from bot.changes.index.tree import Note, Tree
from bot.changes.roles import is_cpp

OP_SOURCES: Final = (
    "paddle/phi/", "paddle/pten/", "paddle/fluid/operators/", "paddle/fluid/prim/", "paddle/fluid/primitive/",
    "paddle/fluid/eager/", "paddle/fluid/pybind/", "paddle/fluid/platform/",
)  # fmt: skip
INFERMETA: Final = ("paddle/phi/infermeta/", "paddle/pten/infermeta/")
SHARED: Final = ("paddle/fluid/prim/utils/", "paddle/phi/kernels/funcs/blas/", "paddle/phi/kernels/primitive/", "paddle/phi/core/", "paddle/phi/common/", "paddle/phi/backends/", "paddle/phi/api/include/",
                 "paddle/fluid/platform/", "paddle/pten/core/", "paddle/pten/common/", "paddle/pten/backends/")  # fmt: skip
"""What every op stands on: a change there is never an op's own."""
BINDINGS: Final = "paddle/fluid/pybind/"
FEW_USERS: Final = 3
MAX_RUNNERS: Final = (
    12  # functions that run an op besides those named after it: beyond this it is a general tool
)

_METHOD_ROW: Final = re.compile(r'\{ "(\w+)" , \( PyCFunction \)[^{}]*?\btensor_\w+ ,')
_KEYWORDS: Final = frozenset(
    {"operator", "struct", "class", "template", "auto", "void", "using", "namespace"}
)
_VARIANT: Final = re.compile(
    r"(_raw|_sr|_coo\w{0,99}|_csr\w{0,99}|_p|_v2|_with_kernel|_with_xshape|2)$"
)


class PaddleReader:
    """One tree through Paddle's rules; ``note`` is told what the walk leaves out."""

    def __init__(self, tree: Tree, python: PaddlePython, note: Note) -> None:
        self.tree = tree
        self.python = python
        self.note = note
        sources = tuple(
            path
            for path in tree.paths
            if path.startswith(OP_SOURCES)
            and is_cpp(path)
            and "/tests/" not in path
            and not re.search(r"(^|/)test_[^/]*$|_test\.\w+$", path)
        )
        self.cpp = CppIndex(tree, sources, note)
        self.calls = MacroCalls(self.cpp.macro, note)
        self.declared = PaddleDeclared(tree)

    # Where a walk begins

    def start(self, definition: Definition, added: bool) -> Node | str:
        """Where the walk from a changed definition begins, or why none is possible."""
        path = definition.file
        if is_op_yaml(path):
            if PurePosixPath(path).name == API_INFO:
                return Node("binding", definition.name)
            return Node("op", definition.name)
        if path.endswith((".py", ".pyi")):
            return self.python.start(definition, added)
        if not path.startswith(OP_SOURCES):
            return "C++ outside the ops (framework, compiler, inference, distributed training)"
        return self._cpp_node(definition)

    def _cpp_node(self, definition: Definition) -> Node:
        return cpp_node(definition, by_line=is_macro_call(definition))

    # What a change changes next

    def successors(self, node: Node) -> Iterable[Edge]:
        """What a change of the node changes next."""
        if node.kind == "python":
            return (*self._decorated(node.name), *self.python.successors(node))
        if node.kind == "op":
            return self._of_op(node.name)
        if node.kind == "kernel":
            return self._of_kernel(node.name)
        if node.kind == "binding":
            return self._bound(node.name)
        if node.kind == "cpp" and node.definition is not None:
            return self._of_cpp(node.definition)
        return self.python.successors(node)

    def _decorated(self, path: str) -> Iterator[Edge]:
        for op in self.python.decorated_ops(path):
            yield Edge(Node("op", op), f"{path} is registered for op {op}")

    # C++

    def _of_cpp(self, definition: Definition) -> Iterator[Edge]:
        if definition.kind == "entry" and definition.name.startswith(("xpu op ", "list ")):
            yield from self._of_row(definition)
            return
        if is_macro_call(definition):
            yield from self._of_call(definition)
            return
        row = _METHOD_ROW.search(definition.code) if definition.file.startswith(BINDINGS) else None
        if row and definition.kind in ("entry", "statement"):
            alias = f"paddle.Tensor.{row[1]}"
            yield Edge(Node("public", alias), f"{alias} is bound in {definition.place}")
            return
        name = _plain_name(definition)
        op = paddle_tables().op_of_function(definition.file, name)
        if op and (op in self.declared.names or self.declared.forwards(op)):
            yield Edge(Node("op", op), f"{definition.place} computes op {op}")
            return
        metas = self.declared.ops_of_meta(name) if definition.kind == "function" else ()
        for meta_op in metas:
            step = f"{definition.place} infers the shape of {meta_op}"
            yield Edge(Node("op", meta_op), step, direct=len(metas) <= FEW_USERS)
        yield from self._users(name, definition, public=bool(metas))

    def _users(self, name: str, definition: Definition, public: bool = False) -> Iterator[Edge]:
        """Who names a symbol. Of a public op's kernel only its registrations: what else calls it is a composite."""
        if len(name) < 3 or name in _KEYWORDS:
            self.note(
                f"{definition.place}: users of {name or 'a nameless definition'} are not looked for"
            )
            return
        users = [
            u
            for u in self.cpp.users(name, definition.file, definition)
            if _plain_name(u) != name or is_macro_call(u)
        ]
        registrations = [
            (user, registered)
            for user, registered in self._registrations(name, users)
            if user.file == definition.file or not self._defines(user.file, name)
        ]
        public = public or any(self._is_public(registered) for _, registered in registrations)
        others = [user for user in users if not self._registered(user)]
        few = len({user.file for user in others}) <= FEW_USERS
        if public:
            near = [u for u in others if u.file == definition.file or u.file.startswith(INFERMETA)]
            if len(near) < len(others):
                self.note(
                    f"composites that call {name} in C++ are not followed: it is tested itself"
                )
            others = near
        shared = definition.file.startswith(SHARED)
        for user, registered in registrations:
            step = f"{user.place} registers {registered.names} {registered.name} with {name}"
            for node in self._registered_nodes(registered):
                yield Edge(node, step, direct=not shared)
        own = "." + definition.file.rpartition(".")[2] not in HEADERS
        for user in others:
            direct = not shared and (few or (own and user.file == definition.file))
            yield Edge(self._cpp_node(user), f"{user.place} uses {name}", direct)

    def _registrations(
        self, name: str, users: list[Definition]
    ) -> Iterator[tuple[Definition, Registered]]:
        """What the users register with the symbol; not those that only list it among their dtypes."""
        for user in users:
            for registered in self._registered(user):
                if name in registered.subjects:
                    yield user, registered

    def _registered(self, definition: Definition) -> tuple[Registered, ...]:
        if not is_macro_call(definition):
            return ()
        return self.calls.written_out(definition.code, definition.file).registered

    def _registered_nodes(self, registered: Registered) -> Iterator[Node]:
        """What a registration is of; those of ops are written with the old operator's name."""
        if registered.names == "kernel":
            yield Node("kernel", registered.name)
            return
        yield from (Node("op", name) for name in self.declared.modern(registered.name))

    def _defines(self, path: str, name: str) -> bool:
        """Whether a file has a function or class of the name itself, and means that one."""
        return any(
            d.kind in ("function", "class") and _plain_name(d) == name and not is_macro_call(d)
            for d in self.cpp.definitions(path)
        )

    def _is_public(self, registered: Registered) -> bool:
        return registered.names == "op" or bool(self.declared.ops_of_kernel(registered.name))

    def _of_call(self, definition: Definition) -> Iterator[Edge]:
        """Registrations, and macro calls that define functions or classes."""
        done = self.calls.written_out(definition.code, definition.file)
        for registered in done.registered:
            step = f"{definition.place} registers {registered.names} {registered.name}"
            yield from (Edge(node, step) for node in self._registered_nodes(registered))
        for name in done.defined:
            op = paddle_tables().op_of_function(definition.file, name)
            if op and op in self.declared.names:
                yield Edge(Node("op", op), f"{definition.place} computes op {op}")
            else:
                yield from self._users(name, definition)

    def _of_row(self, row: Definition) -> Iterator[Edge]:
        kind, _, name = row.name.partition(" ")
        if kind == "xpu":
            op = name.removeprefix("op ")
            yield Edge(Node("op", op), f"{row.place} lists dtypes of {op}")
            return
        macro = name.partition(" ")[0]
        for user in self.cpp.users(macro, row.file):
            called = re.search(rf"\b{macro} \( (\w+)", user.code)
            if called and user.kind != "macro":
                done = self.calls.written_out(f"{called[1]} {row.code}", user.file)
                for registered in done.registered:
                    step = f"{user.place} registers {registered.names} {registered.name} for {row.code}"
                    yield from (Edge(node, step) for node in self._registered_nodes(registered))

    # Kernels and ops

    def _of_kernel(self, kernel: str) -> Iterator[Edge]:
        ops = self.declared.ops_of_kernel(kernel)
        for op in ops:
            yield Edge(
                Node("op", op),
                f"op {op} runs kernel {kernel}",
                direct=len(ops) <= FEW_USERS or op == kernel,
            )
        if not ops:
            yield Edge(Node("op", kernel), f"kernel {kernel} is that of an op of its name")

    def _bound(self, op: str) -> Iterator[Edge]:
        for alias in self.declared.bound.get(op, ()):
            if self.python.rules.is_op(alias):
                yield Edge(Node("public", alias), f"{alias} is bound to op {op} ({API_INFO})")

    def _of_op(self, name: str) -> Iterator[Edge]:
        spelled = self.declared.spellings(name)
        edges = [*self._public_names(spelled), *self._runners(name, spelled)]
        yield from edges
        for forward in self.declared.forwards(name):
            if forward not in spelled:
                yield Edge(Node("op", forward), f"{name} is the gradient of {forward}")
        if edges:
            return
        for caller in self.declared.callers(name):
            yield Edge(Node("op", caller), f"op {caller} is computed by {name}")
        base = _VARIANT.sub("", name)
        if base != name and name not in self.declared.names and base in self.declared.names:
            yield Edge(Node("op", base), f"{name} is a form of {base}, by name")

    def _public_names(self, spelled: frozenset[str]) -> Iterator[Edge]:
        """Names that no Python function stands between: bound ones, operators, generated functions."""
        for name in sorted(spelled):
            yield from self._bound(name)
            for method in paddle_tables().operators.methods.get(name, ()):
                alias = f"paddle.Tensor.{method}"
                yield Edge(Node("public", alias), f"{alias} runs op {name}")
            for alias in self.python.aliases(f"paddle.tensor.ops.{name}"):
                yield Edge(
                    Node("public", alias), f"{alias} is made for op {name} in paddle.tensor.ops"
                )

    def _runners(self, name: str, spelled: frozenset[str]) -> Iterator[Edge]:
        """Python functions that run the op: those named after it, else all."""
        old = frozenset(o for s in spelled for o in self.declared.old_names(s))
        users = [
            (place, d)
            for place, d in self.python.op_users(spelled, old or spelled)
            if not _is_quiet(d)
        ]
        plain = {s.removeprefix("sparse_").replace("_", "") for s in spelled}
        own = [
            (place, d)
            for place, d in users
            if any(_plain(part) in plain for part in d.name.split("."))
        ]
        others = [user for user in users if user not in own]
        if own and len(others) > MAX_RUNNERS:
            self.note(
                f"{len(others)} functions besides its own run op {name}: not followed, for it is tested itself"
            )
            others = []
        for place, definition in (*own, *others):
            step = f"{place} runs op {name} ({definition.file}:{definition.first})"
            direct = (place, definition) in own or (not own and len(others) <= MAX_RUNNERS)
            yield Edge(Node("python", place, definition=definition), step, direct)


def _plain_name(definition: Definition) -> str:
    """A function's own name, or the class that a member belongs to."""
    owner, _, name = definition.name.rpartition("::")
    owner = owner.rpartition("::")[2]
    return owner if owner[:1].isupper() else name


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _is_quiet(definition: Definition) -> bool:
    return definition.name.startswith("monkey_patch")
