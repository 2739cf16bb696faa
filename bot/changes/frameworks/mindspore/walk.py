"""MindSpore's edges: from kernels, op yamls, gradients and Python to public names, by way of primitives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.mindspore.cpp import SOURCES, MindSporeCpp, gradient_stem
from bot.changes.frameworks.mindspore.declared import (
    OVERLOADS,
    MindSporeDeclared,
    is_api_yaml,
    is_op_yaml,
    plain,
)
from bot.changes.frameworks.mindspore.names import operator_methods
from bot.changes.frameworks.mindspore.rows import METHOD_ROW
from bot.changes.graph import Edge, Node
from bot.changes.index.tree import Note, Tree
from bot.changes.python_walk import PythonWalk

FORMS: Final = (
    "mindspore.nn.", "mindspore.mint.", "mindspore.ops.composite.", "mindspore.ops.functional.", "mindspore.ops.",
)  # fmt: skip
"""Modules whose names an op's other forms are told by, the best last."""
FEW_USERS: Final = 3
MAX_INTERNAL_USERS: Final = 12  # Python users of a primitive that users do not call

_REGISTERS: Final = re.compile(
    r"(bprop_getters|bprop_fusion_getters|vmap_rules_getters|taylor_fprop_getters)\.register$"
)
_OP_INFO: Final = re.compile(
    r"\b(?:TBE|AiCPU|AkgGpu|AkgAscend|AkgCpu|Akg|Cpu|Custom)RegOp\(\s*[\"'](\w+)[\"']"
)
_TENSOR: Final = "mindspore.common.tensor.Tensor."
_OP_IMPL: Final = "mindspore.ops._op_impl."
_OPERATOR: Final = re.compile(r"^mindspore\.ops\.composite\.multitype_ops\.(\w+)_impl\.")
_STANDARD_METHOD: Final = "mindspore._extends.parse.standard_method."
_CALLBACKS: Final = re.compile(r"\.(tensor_method|deprecated_tensor_method)\.(\w+)$")
_RULES: Final = re.compile(r"^mindspore\.ops\.(_grad\w*|_vmap|_op_impl|_utils|bprop_mindir)\b")
"""Modules of gradients, vmap rules and device tables: they are no composites."""


class MindSporeReader:
    """One tree through MindSpore's rules; ``note`` is told what the walk leaves out."""

    def __init__(self, tree: Tree, python: PythonWalk, note: Note) -> None:
        self.tree = tree
        self.python = python
        self.note = note
        self.declared = MindSporeDeclared(tree, python.index)
        self.cpp = MindSporeCpp(tree, self.declared, note)
        self._users_of = lru_cache(maxsize=4096)(self._find_users)

    def start(self, definition: Definition, added: bool) -> Node | str:
        """Where the walk from a changed definition begins, or why none is possible."""
        path = definition.file
        if path.endswith((".py", ".pyi")):
            return self._start_python(definition, added)
        if is_op_yaml(path):
            return Node("op yaml", definition.name, path, definition)
        if is_api_yaml(path):
            return Node("api", definition.name)
        if row := METHOD_ROW.fullmatch(definition.name):
            return self._start_method(row[1])
        if not SOURCES.match(path):
            return "C++ outside the op sources (compiler, runtime, data, Lite)"
        return self.cpp.node(definition)

    def _start_method(self, method: str) -> Node | str:
        if method in self.declared.tensor_methods:
            return Node("public", f"mindspore.Tensor.{method}")
        return f"{method} is no method of Tensor"

    def _start_python(self, definition: Definition, added: bool) -> Node | str:
        module = self.python.index.module_of(definition.file) or ""
        if module.startswith(_OP_IMPL):
            return self._start_op_impl(module, definition)
        node = self.python.start(definition, added)
        if isinstance(node, str) and definition.kind == "statement":
            return self._start_statement(module, definition) or node
        return node

    def _start_op_impl(self, module: str, definition: Definition) -> Node | str:
        """A file of ``_op_impl`` tells the device of one primitive; an import there brings in such a file."""
        if definition.kind == "import":
            target = next(iter(definition.uses), "").rpartition(".")[0]
            if not target.startswith(_OP_IMPL):
                return ""
            module = target
        names = _OP_INFO.findall(self.tree.text(self.python.index.modules.get(module, "")) or "")
        if len(set(names)) == 1:
            return Node("primitive", names[0])
        return "" if definition.kind == "import" else f"{module} is of no one primitive"

    def _start_statement(self, module: str, definition: Definition) -> Node | None:
        """``setattr(tensor_operator_registry, "x", f)`` is the Tensor method that gets it."""
        if "tensor_operator_registry" not in definition.uses:
            return None
        keys = re.findall(r"Constant\(value='(\w+)'", definition.code)
        methods = self.declared.methods_by_key.get(keys[0], ()) if keys else ()
        return Node("public", f"mindspore.Tensor.{methods[0]}") if len(methods) == 1 else None

    def successors(self, node: Node) -> Iterable[Edge]:
        """What a change of the node changes next."""
        if node.kind == "primitive":
            return self._of_primitive(node.name)
        if node.kind == "op yaml":
            return self._of_op_yaml(node)
        if node.kind == "api":
            return self._of_api(node.name)
        if node.kind == "cpp" and node.definition is not None:
            return self.cpp.edges(node.definition)
        if node.kind == "python":
            return self._of_python(node)
        return self.python.successors(node)

    # Yaml

    def _of_op_yaml(self, node: Node) -> Iterator[Edge]:
        for op in self.declared.ops:
            if op.name == node.name and op.file == node.file and op.primitive:
                yield Edge(
                    Node("primitive", op.primitive), f"{op.file} declares primitive {op.primitive}"
                )
        for api in self.declared.apis_of(node.file):
            yield Edge(Node("api", api), f"api {api} chooses {node.file}")

    def _of_api(self, name: str) -> Iterator[Edge]:
        api = self.declared.apis.get(name)
        if api is None:
            return
        if api.alias_of:
            yield self._method(name, f"{name} is an alias of {api.alias_of}", api.alias_of)
        for other in self.declared.apis.values():
            if other.alias_of == name:
                yield self._method(other.name, f"{other.name} is an alias of {name}", name)
        if api.is_method:
            yield self._method(name, f"Tensor.{name} is made of its api yaml")
        if api.is_function:
            path = f"{OVERLOADS}.{name}"
            for alias in self.python.aliases(path):
                yield self._public(alias, f"{alias} is {path}")
            yield from self._own_users((path,), plain(name))

    def _method(self, method: str, step: str, op: str = "") -> Edge:
        same = self._op_of(plain(op or method))
        return Edge(Node("public", f"mindspore.Tensor.{method}", op=same), step)

    def _public(self, alias: str, step: str) -> Edge:
        """A public name; a primitive's class is a form of the function of its name."""
        last = alias.rpartition(".")[2]
        inner = alias.startswith("mindspore.ops.")
        op = self._op_of(plain(last)) if inner and last[:1].isupper() else ""
        if not op and inner:  # before release 0.7 it lay one module deeper
            op = f"mindspore.ops.{last}"
        return Edge(Node("public", alias, op=op), step)

    @cached_property
    def _functions(self) -> dict[str, str]:
        """Plain name -> the public function, or else the cell, of that name."""
        found: dict[str, str] = {}
        aliases = [alias for names in self.python.index.aliases.values() for alias in names]
        for prefix in FORMS:
            for alias in aliases:
                last = alias.removeprefix(prefix)
                is_function = last[:1].islower() or prefix == "mindspore.nn."
                if alias.startswith(prefix) and "." not in last and is_function:
                    found[plain(last)] = alias
        return found

    def _op_of(self, name: str) -> str:
        found = self._functions.get(name, "")
        inner = found.startswith("mindspore.ops.")
        return f"mindspore.ops.{found.rpartition('.')[2]}" if inner else found

    # Primitives

    def _aliases(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(alias for path in paths for alias in self.python.aliases(path)))

    def _of_primitive(self, primitive: str) -> Iterator[Edge]:
        paths = self.declared.paths(primitive)
        aliases = self._aliases(paths)
        yield from (
            self._public(alias, f"{alias} makes primitive {primitive}") for alias in aliases
        )
        for path in paths:
            yield from self._registry(path)
        apis = [
            (api, op.file)
            for op in self.declared.by_primitive.get(primitive, ())
            for api in self.declared.apis_of(op.file)
        ]
        for api, file in apis:
            yield Edge(Node("api", api), f"api {api} chooses {file}")
        public = bool(aliases or apis)
        if public:
            yield from self._own_users(paths, plain(primitive))
            return
        yield from self._gradients(primitive, paths)
        yield from self.cpp.emitters(primitive)

    def _gradients(self, primitive: str, paths: tuple[str, ...]) -> Iterator[Edge]:
        """The users of a primitive that is not public: gradients, and functions that are."""
        users = self._users_of(paths)
        stem = gradient_stem(primitive)
        own = [edge for edge in users if self._belongs(edge.target, stem)]
        chosen = own or list(users)
        if len(chosen) > MAX_INTERNAL_USERS:
            self.note(
                f"{primitive} has {len(chosen)} users in Python: a general tool, which was not followed"
            )
            return
        direct = bool(own) or len(chosen) <= FEW_USERS
        yield from (Edge(edge.target, edge.step, direct) for edge in chosen)
        others = [edge for edge in users if own and edge not in own]
        if len(others) <= FEW_USERS:
            yield from (Edge(edge.target, edge.step) for edge in others)

    def _belongs(self, node: Node, stem: str) -> bool:
        names = [plain(name) for name in self._decorated(node)]
        return stem in names or plain(_owner(node)) == stem

    def _own_users(self, paths: tuple[str, ...], name: str) -> Iterator[Edge]:
        """Of a public op's users those that are named like it, that are nothing but it, or are all that there are."""
        users = [e for e in self._users_of(paths) if not _RULES.match(e.target.name)]
        own = [e for e in users if plain(_owner(e.target)) == name or _is_bound(e.target)]
        yield from own
        others = [edge for edge in users if edge not in own]
        has_own = bool(own) or any(map(_is_function, self._aliases(paths)))
        if not has_own and len({_owner(edge.target) for edge in others}) <= FEW_USERS:
            yield from others
        elif others:
            self.note(
                f"{len(others)} composites that call {paths[0]}: not followed, for what is called is public and tested itself"
            )

    def _find_users(self, paths: tuple[str, ...]) -> tuple[Edge, ...]:
        """The Python definitions that read one of the paths."""
        found: dict[str, Edge] = {}
        for path in paths:
            for edge in self.python.users(path, public=False):
                if edge.target.name not in self.declared.by_class:
                    found.setdefault(edge.target.name, edge)
        return tuple(found.values())

    # Python

    def _of_python(self, node: Node) -> Iterator[Edge]:
        owner = node.name if node.name in self.declared.by_class else node.name.rpartition(".")[0]
        if owner in self.declared.by_class:
            for name in self.declared.by_class[owner]:
                yield Edge(Node("primitive", name), f"{node.name} is primitive {name}")
            yield from self._bases(owner, node.name.removeprefix(owner + "."))
            return
        if node.name.startswith(_TENSOR):
            method = node.name.removeprefix(_TENSOR)
            yield Edge(
                Node("public", f"mindspore.Tensor.{method}"), f"Tensor.{method} is {node.name}"
            )
            return
        rules = self._decorated(node)
        for name in rules:
            yield Edge(Node("primitive", name), f"{node.name} is registered for primitive {name}")
        if rules:
            return
        if operator := _OPERATOR.match(node.name):
            for method in operator_methods().get(operator[1], ()):
                yield self._method(method, f"{node.name} is in operator {method}", operator[1])
        if callback := _CALLBACKS.search(node.name):
            for api in self.declared.by_callback.get(callback[2], ()):
                yield Edge(Node("api", api), f"api {api} calls {callback[2]}")
        if node.name.startswith(_STANDARD_METHOD):
            function = node.name.removeprefix(_STANDARD_METHOD)
            for method in self.declared.graph_methods.get(function, ()):
                yield self._method(method, f"{function} is Tensor.{method} in graph mode")
        yield from self._registry(node.name)
        if node.name.endswith(".__init__"):
            yield from self._inits(node.name.removesuffix(".__init__"))
        for edge in self.python.successors(node):
            if edge.target.kind == "public":
                yield self._public(edge.target.name, edge.step)
            else:
                yield edge

    def _bases(self, path: str, method: str) -> Iterator[Edge]:
        """The primitives that inherit from a class, but those that override what is changed."""
        index = self.python.index
        found = [
            (place, definition)
            for place, definition in index.subclasses(path)
            if method == path or not index.definitions(f"{place}.{method}")
        ]
        for place, definition in found:
            node = Node("python", place, definition=definition)
            step = f"{place} inherits from {path.rpartition('.')[2]}"
            yield Edge(node, step, direct=len(found) <= FEW_USERS)

    def _inits(self, path: str) -> Iterator[Edge]:
        """The subclasses of a class that is not public: their own ``__init__`` calls its."""
        if not self.python.aliases(path):
            for place, definition in self.python.index.subclasses(path):
                yield Edge(
                    Node("python", place, definition=definition), f"{place} inherits from {path}"
                )

    def _registry(self, path: str) -> Iterator[Edge]:
        for method in self.declared.registry.get(path, ()):
            yield self._method(method, f"Tensor.{method} gets {path} from the registry")

    def _decorated(self, node: Node) -> tuple[str, ...]:
        """The primitives that a gradient or vmap rule is registered for."""
        module, name = self.python.index.split(node.name)
        found: dict[str, None] = {}
        for decorated, decorator, arguments in (
            self.python.index.file(module).decorators if module else ()
        ):
            if decorated == name and _REGISTERS.search(decorator):
                for argument in arguments:
                    path = self.python.index.resolve(module, argument)
                    names = self.declared.by_class.get(path, ())
                    found |= dict.fromkeys(names or (argument.rpartition(".")[2],))
        return tuple(found)


def _owner(node: Node) -> str:
    """The function, or the class of the method, that a Python node names."""
    name = node.definition.name if node.definition else node.name.rpartition(".")[2]
    return name.partition(".")[0]


def _is_function(alias: str) -> bool:
    return alias.rpartition(".")[2][:1].islower()


def _is_bound(node: Node) -> bool:
    """Whether a name is nothing but what it is assigned (``sqrt = P.Sqrt()``)."""
    definition = node.definition
    return definition is not None and definition.kind == "assignment" and len(definition.uses) <= 2
