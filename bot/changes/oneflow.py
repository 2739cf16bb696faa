"""OneFlow's rules: how its kernels, ops, functors, yaml entries and Python hang together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from bot.changes.cpp_index import CppIndex
from bot.changes.cpp_source import read_cpp, tokenize
from bot.changes.definition import Definition
from bot.changes.graph import Edge, Node
from bot.changes.python_index import PythonIndex, PythonLayout
from bot.changes.python_source import read_python
from bot.changes.python_walk import PythonRules, PythonWalk
from bot.changes.roles import CPP_SUFFIXES, shared_role
from bot.changes.rules import Reader, Role
from bot.changes.tablegen import MNEMONIC, read_tablegen
from bot.changes.tree import Tree
from bot.changes.yaml_entries import entry_definitions, read_entries

LAYOUT: Final = PythonLayout(
    package="oneflow",
    roots=("python/", ""),
    public=(
        "oneflow", "oneflow.nn.functional", "oneflow.nn", "oneflow.linalg", "oneflow.fft", "oneflow.special",
        "oneflow.nn.init", "oneflow.one_embedding", "oneflow.sparse", "oneflow.nn.utils",
    ),
    ignored=("/test/", "/docstr/", "/test_utils/", "/unittest/", "/mock_torch/", "/onnx/", "/compatible/"),
)  # fmt: skip

PYTHON_RULES: Final = PythonRules(
    tensor_class="oneflow.Tensor",
    method_decorators=("register_tensor_op",),
    tables=("RegisterMethods", "register_tensor_op", "__getattr__"),
    quiet_methods=(
        "extra_repr", "__repr__", "__str__", "_repr", "_str", "_meta_repr", "state_dict", "load_state_dict",
        "_save_to_state_dict", "_load_from_state_dict",
    ),
    not_ops=(
        "oneflow.Tensor", "oneflow.nn.Module", "oneflow.nn.Graph", "oneflow.nn.Parameter", "oneflow.nn.Sequential",
        "oneflow.nn.ModuleList", "oneflow.nn.ModuleDict", "oneflow.nn.ParameterList", "oneflow.nn.ParameterDict",
        "oneflow.save", "oneflow.load", "oneflow.env", "oneflow.Size", "oneflow.device", "oneflow.placement",
        "oneflow.Generator", "oneflow.manual_seed", "oneflow.set_printoptions",
    ),
)  # fmt: skip
"""``not_ops``: containers, state and set-up (python/oneflow/nn/modules/{module,container}.py, oneflow/__init__.py)."""

FUNCTIONAL_YAML: Final = "oneflow/core/functional/functional_api.yaml"
OPS_FOLDER: Final = "oneflow/ir/include/OneFlow/"
FUNCTORS: Final = "oneflow/core/functional/"
AUTOGRAD: Final = "oneflow/core/autograd/"
BINDINGS: Final = "oneflow/api/python/"
USER_OPS: Final = "oneflow/user/ops/"

REGISTRARS: Final = frozenset(
    {
        "REGISTER_USER_KERNEL", "REGISTER_USER_OP", "REGISTER_CPU_ONLY_USER_OP", "REGISTER_NO_GRAD_USER_OP",
        "REGISTER_NO_GRAD_CPU_ONLY_USER_OP", "REGISTER_USER_OP_GRAD", "REGISTER_OP_EXPR_GRAD_FUNCTION",
        "REGISTER_USER_KERNEL_UNIFIED_NCCL_COMM_INIT",
    }
)  # fmt: skip
"""Macros whose first argument is an op type (oneflow/core/framework/user_op_*registry*.h, op_expr_grad_function.h)."""

_REGISTERED: Final = re.compile(rf'\b(?:{"|".join(sorted(REGISTRARS))}) \( "([^"]+)"')
_REGISTRAR_ARGUMENT: Final = re.compile(rf"\b(?:{'|'.join(sorted(REGISTRARS))}) \( ([^,)]+)")
_SIGNATURE: Final = re.compile(r"=>\s*(\w+)")
_ADD_FUNCTOR: Final = re.compile(r"\badd_functor\b")

_LIST_MACRO: Final = re.compile(r"# define (\w+) ((?:OF_PP_MAKE_TUPLE_SEQ \( [^()]* \) ?)+)")
_LIST_ROW: Final = re.compile(r"OF_PP_MAKE_TUPLE_SEQ \( [^()]* \)")
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


@dataclass(frozen=True)
class OneFlowRules:
    """OneFlow's repository (``oneflow/``, ``python/oneflow/``) or its installed release (``oneflow/``)."""

    name: str = "oneflow"

    def matches(self, tree: Tree) -> bool:
        """Whether the tree is OneFlow's."""
        known = ("python/oneflow/__init__.py", FUNCTIONAL_YAML, "oneflow/framework/tensor.py")
        return any(path in tree.path_set for path in known)

    def role(self, path: str, text: str | None) -> Role:
        """What a file is for."""
        if path.endswith(".py") and re.search(r"(^|/)test/", path) and text and "autotest" in text:
            return "autotest"
        if "/docstr/" in path:
            return "documentation"
        if path == FUNCTIONAL_YAML or (path.startswith(OPS_FOLDER) and path.endswith(".td")):
            return "source"
        return shared_role(path)

    def definitions(self, path: str, text: str) -> tuple[Definition, ...] | None:
        """The definitions of a source file; None when it cannot be parsed."""
        if path.endswith((".py", ".pyi")):
            file = read_python(path, text, _module(path), tables=PYTHON_RULES.tables)
            return None if file is None else file.definitions
        if path.endswith(".td"):
            return read_tablegen(path, text)
        if path.endswith(".yaml"):
            return entry_definitions(path, text, "name")
        return tuple(row for found in read_cpp(path, text) for row in _rows(found))

    def reader(self, tree: Tree) -> Reader:
        """The tree, ready to be walked."""
        return _OneFlowReader(tree)


def _rows(definition: Definition) -> Iterator[Definition]:
    """A macro that is a list (``#define SEQ ROW("abs", Abs) ROW("acos", Acos)``) as one definition per row."""
    match = _LIST_MACRO.fullmatch(definition.code) if definition.kind == "macro" else None
    if match is None:
        yield definition
        return
    for row in _LIST_ROW.findall(match[2]):
        tokens = tokenize(row)
        uses = tokens.names | set(tokens.texts)
        yield replace(definition, name=f"{match[1]}[{row}]", kind="entry", code=row, uses=uses)


def _module(path: str) -> str:
    inner = path.removeprefix("python/").rsplit(".", 1)[0]
    return inner.replace("/", ".")


class _OneFlowReader:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.python = PythonWalk(PythonIndex(tree, LAYOUT), PYTHON_RULES)
        sources = tuple(
            path
            for path in tree.paths
            if path.startswith("oneflow/")
            and "." + path.rpartition(".")[2] in CPP_SUFFIXES
            and not path.startswith("oneflow/ir/")
            and "/test/" not in path
            and not re.search(r"_test\.\w+$", path)
        )
        self.cpp = CppIndex(tree, sources)
        self.functor_paths = tuple(p for p in sources if p.startswith(FUNCTORS))
        self.autograd_paths = tuple(p for p in sources if p.startswith(AUTOGRAD))
        self.binding_paths = tuple(p for p in sources if p.startswith(BINDINGS))
        self.user_op_paths = tuple(p for p in sources if p.startswith(USER_OPS))

    # What the repository declares

    @cached_property
    def apis(self) -> dict[str, tuple[frozenset[str], bool]]:
        """Functional name -> (functor names of its signatures, bound to Python)."""
        entries = read_entries(self.tree.text(FUNCTIONAL_YAML) or "") or ()
        return {
            str(entry.values.get("name", "")): (
                frozenset(_SIGNATURE.findall(str(entry.values.get("signature", "")))),
                str(entry.values.get("bind_python", "")).lower() == "true",
            )
            for entry in entries
        }

    @cached_property
    def apis_of_functor(self) -> dict[str, tuple[str, ...]]:
        """Functor name -> functional names."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name, (functors, _) in self.apis.items():
            for functor in functors:
                found[functor].append(name)
        return {functor: tuple(names) for functor, names in found.items()}

    @cached_property
    def records(self) -> tuple[Definition, ...]:
        """Every TableGen record of the user ops."""
        return tuple(
            record
            for path in self.tree.paths
            if path.startswith(OPS_FOLDER) and path.endswith(".td")
            for record in read_tablegen(path, self.tree.text(path) or "")
        )

    @cached_property
    def op_types(self) -> frozenset[str]:
        """Every op type: TableGen mnemonics and literal ``REGISTER_USER_OP`` names."""
        names = {match[1] for record in self.records if (match := MNEMONIC.search(record.code))}
        for path in self.user_op_paths:
            text = self.tree.text(path) or ""
            names |= set(re.findall(r'REGISTER_\w*USER_OP\(\s*"([^"]+)"', text))
        return frozenset(names)

    @cached_property
    def op_classes(self) -> dict[str, str]:
        """C++ op class -> op type (``OneFlow_XOp : OneFlow_BaseOp<"x">`` makes ``XOp``)."""
        return {
            record.name.removeprefix("OneFlow_"): match[1]
            for record in self.records
            if record.kind == "entry" and (match := MNEMONIC.search(record.code))
        }

    # Where a walk begins

    def start(self, definition: Definition, added: bool) -> Node | str:
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
        for record in self.records:
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
        if owner in self.op_classes:
            yield Edge(
                Node("op type", self.op_classes[owner]), f"{owner} is op {self.op_classes[owner]}"
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
        for op_type in self._registered(definition):
            yield Edge(Node("op type", op_type), f"{definition.place} registers op {op_type}")
        for functor in self._added_functors(definition):
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
        for op_type in self._registered(user):
            if op_type in row.uses or _STEM.sub("", op_type) in row.uses:
                yield Edge(Node("op type", op_type), step)
        for functor in self._added_functors(user):
            if functor in row.uses:
                yield Edge(Node("functor", functor), step)

    def _registered(self, definition: Definition) -> tuple[str, ...]:
        """The op types that a registration names, written out or through macros."""
        written = _REGISTERED.findall(definition.code)
        if written:
            return tuple(dict.fromkeys(written))
        pieces = self.cpp.closure(definition)
        arguments = [a for piece in pieces for a in _REGISTRAR_ARGUMENT.findall(piece.code)]
        if not arguments:
            return ()
        # A registering macro's own strings name attributes; an op's name comes from who calls the macro.
        callers = [p for p in pieces if not _REGISTRAR_ARGUMENT.search(p.code)]
        tokens = [tokenize(piece.code) for piece in callers]
        words = {word for token in tokens for word in (*token.names, *token.texts)}
        found: set[str] = set()
        for argument in arguments:
            literals = tokenize(argument).texts
            if tokenize(argument).names:
                found |= words
                found |= {word + suffix for word in words for suffix in literals}
                found |= {prefix + word for word in words for prefix in literals}
            else:
                found |= set(literals)
        return tuple(sorted(found & self.op_types))

    def _added_functors(self, definition: Definition) -> tuple[str, ...]:
        pieces = self.cpp.closure(definition)
        if not any(_ADD_FUNCTOR.search(piece.code) for piece in pieces):
            return ()
        texts = tokenize(definition.code).texts
        if texts:
            return texts[-1:]
        tokens = [tokenize(piece.code) for piece in pieces]
        words = {word for token in tokens for word in (*token.names, *token.texts)}
        return tuple(sorted(words & set(self.apis_of_functor)))

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
        for name in self.apis_of_functor.get(functor, ()):
            yield Edge(Node("api", name), f"{FUNCTIONAL_YAML}: {name} => {functor}")

    def _of_api(self, name: str) -> Iterator[Edge]:
        functors, bound = self.apis.get(name, (frozenset[str](), False))
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
            found = [(f, d) for f, d in found if _plain(d.name) == _plain(name)]
        if len(found) > MAX_INTERNAL_USERS:
            return
        for functor, definition in found:
            own = not public and (len(found) <= FEW_USERS or _alike(definition.name, name))
            yield Edge(
                self._cpp_node(definition), f"{definition.place} calls functional {functor}", own
            )

    def _of_op_type(self, op_type: str) -> Iterator[Edge]:
        edges = [*self._built(op_type), *self._stateful(op_type), *self._graph_gradients(op_type)]
        yield from edges
        stem = _STEM.sub("", op_type)
        if not edges and stem != op_type and stem in self.op_types:
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
            if functor in self.apis_of_functor:
                step = f"{macro.place} makes functor {functor} of op {op_type}"
                yield Edge(Node("functor", functor), step)

    def _graph_gradients(self, op_type: str) -> Iterator[Edge]:
        """``REGISTER_USER_OP_GRAD("x")`` whose body builds the type."""
        found: dict[str, Definition] = {}
        for definition in self.cpp.naming(op_type, self.user_op_paths):
            first = _REGISTERED.search(definition.code)
            gradient = first is not None and "REGISTER_USER_OP_GRAD" in definition.uses
            if first and gradient and op_type in tokenize(definition.code).texts:
                found[first[1]] = definition
        found.pop(op_type, None)
        if len(found) <= MAX_INTERNAL_USERS:
            for name, definition in found.items():
                own = _plain(_STEM.sub("", op_type)) == _plain(name)
                yield Edge(
                    Node("op type", name), f"{definition.place} is the gradient of {name}", own
                )

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
