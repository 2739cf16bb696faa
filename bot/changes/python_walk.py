"""From Python definitions to public names: re-exports, base classes, private helpers, Tensor methods."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from bot.changes.definition import Definition
from bot.changes.graph import Edge, Node
from bot.changes.index.python_index import PythonIndex
from bot.changes.index.tree import Note

_METHOD_ASSIGNED = re.compile(r"\bTensor\.\w+ *= *[^=]|\bsetattr\(\s*Tensor\b")
MAX_PUBLIC_USERS = 12  # users of a public op beyond this say nothing about the change
FEW_USERS = 3  # a private helper with so few users is part of them


@dataclass(frozen=True)
class PythonRules:
    """A framework's Python conventions.

    ``tensor_class``: the public name whose attributes are methods. ``method_decorators``: decorators whose text
    argument names a Tensor method. ``tables``: functions that only register others, row by row. ``quiet_methods``: methods
    that compute nothing (printing, saving). ``not_ops``: public names, or prefixes ending in a dot, that are no op.
    """

    tensor_class: str
    method_decorators: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    quiet_methods: tuple[str, ...] = ("extra_repr", "__repr__", "__str__", "__dir__")
    not_ops: tuple[str, ...] = ()

    def is_op(self, alias: str) -> bool:
        """Whether a public name can be an op."""
        return not any(
            alias.startswith(entry) if entry.endswith(".") else alias == entry
            for entry in self.not_ops
        )


class PythonWalk:
    """Successors of ``python`` nodes (full dotted paths)."""

    def __init__(self, index: PythonIndex, rules: PythonRules, note: Note) -> None:
        self.index = index
        self.rules = rules
        self.note = note

    def start(self, definition: Definition, added: bool) -> Node | str:
        """Where the walk from a changed Python definition begins, or why there is none."""
        module = self.index.module_of(definition.file)
        if module is None:
            return "not part of the package's own code"
        if definition.kind == "import":
            public = self._published(module, definition)
            if public is not None:
                return public
            node = Node("python import", f"{module}.{definition.name}", definition=definition)
            unused = next(self._import_users(node.name), None) is None
            return "" if added and unused else node
        if definition.kind == "export":
            exported = self.index.resolve(module, definition.name)
            offered = self._is_starred(module) and self.aliases(exported)
            return Node("python", exported, definition=definition) if offered else ""
        if definition.kind == "statement":
            return "a statement at module level: it may change any op of the module"
        owner, _, attribute = definition.name.rpartition(".")
        if attribute in self.rules.quiet_methods:
            return ""
        if definition.kind == "assignment" and owner == "Tensor":
            return Node("public", f"{self.rules.tensor_class}.{attribute}")
        path = f"{module}.{definition.name}"
        if (
            definition.kind == "assignment" and owner
        ):  # ``torch.nn.functional.relu = f``, in any module
            path = self.index.resolve(module, definition.name)
        if self._is_no_op(path):
            return "public, but no op"
        return Node("python", path, definition=definition)

    def _is_starred(self, module: str) -> bool:
        """Whether a public module takes all that a module exports, itself or through others."""
        waiting, seen = list(self.index.layout.public), set[str]()
        while waiting:
            public = waiting.pop()
            if public in seen or public not in self.index.modules:
                continue
            seen.add(public)
            stars = self.index.file(public).stars
            if module in stars:
                return True
            waiting += stars
        return False

    def _is_no_op(self, path: str) -> bool:
        """Whether the path's function or class is public and listed as no op (``nn.Module``)."""
        module, name = self.index.split(path)
        public = self._raw_aliases(f"{module}.{name.partition('.')[0]}")
        is_op = any(map(self.rules.is_op, public))
        return bool(public) and not is_op and self.rules.tensor_class not in public

    def _raw_aliases(self, path: str) -> tuple[str, ...]:
        return (*self.index.aliases.get(path, ()), *self.tensor_methods.get(path, ()))

    def _published(self, module: str, definition: Definition) -> Node | None:
        if module not in self.index.layout.public or definition.name.startswith("_"):
            return None
        target = next(iter(definition.uses), "")
        alias = f"{module}.{definition.name}"
        inside = target.startswith(self.index.layout.package + ".")
        known = alias in self.index.aliases.get(self.index.follow(target), ())
        return Node("public", alias) if inside and known and self.rules.is_op(alias) else None

    def aliases(self, path: str) -> tuple[str, ...]:
        """The public names of a full dotted path, Tensor methods included."""
        names = list(self._raw_aliases(path))
        owner, _, method = path.rpartition(".")
        if self.rules.tensor_class in self.index.aliases.get(owner, ()):
            names.append(f"{self.rules.tensor_class}.{method}")
        return tuple(n for n in dict.fromkeys(names) if self.rules.is_op(n))

    @cached_property
    def tensor_methods(self) -> dict[str, tuple[str, ...]]:
        """Full dotted path -> the Tensor methods that it implements (``Tensor.m = f``, ``@register("m")``)."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in self.index.tree.containing("Tensor", self.index.paths):
            module = self.index.module_of(path)
            if module is None or not _METHOD_ASSIGNED.search(self.index.tree.text(path) or ""):
                continue
            for owner, attribute, name, _ in self.index.file(module).attributes:
                if owner == "Tensor":
                    target = self.index.resolve(module, name)
                    found[target].append(f"{self.rules.tensor_class}.{attribute}")
        for word in self.rules.method_decorators:
            for path in self.index.tree.containing(word, self.index.paths):
                module = self.index.module_of(path) or ""
                for name, decorator, arguments in self.index.file(module).decorators:
                    if decorator.rpartition(".")[2] == word and arguments:
                        method = f"{self.rules.tensor_class}.{arguments[0]}"
                        found[f"{module}.{name}"].append(method)
        return {path: tuple(names) for path, names in found.items()}

    def successors(self, node: Node) -> Iterator[Edge]:
        """What a changed Python definition changes."""
        if node.kind == "python import":
            yield from self._import_users(node.name)
            return
        path = node.name
        if self._is_no_op(path):
            return
        module, name = self.index.split(path)
        owner, _, method = name.rpartition(".")
        names = self.aliases(path)
        yield from (Edge(Node("public", alias), f"{alias} is {path}") for alias in names)
        if owner and method not in self.rules.quiet_methods:
            yield from self._of_class(f"{module}.{owner}", method)
        elif not owner:
            for place, definition in self.index.subclasses(path):
                yield Edge(
                    Node("python", place, definition=definition),
                    f"{place} inherits from {name}",
                    direct=name.startswith("_"),
                )
        yield from self.users(path, public=bool(names))

    def _of_class(self, path: str, method: str) -> Iterator[Edge]:
        """A method belongs to its class, and to the subclasses that do not override it."""
        if not self.aliases(path) and not list(self.index.definitions(path)):
            return
        for alias in self.aliases(path):
            if alias != self.rules.tensor_class:
                yield Edge(Node("public", alias), f"{method} is a method of {alias}")
        if not self.aliases(path):  # what users call is whatever makes one
            makers = self.users(path, public=False)
            yield from (
                e for e in makers if e.target.definition and e.target.definition.kind != "class"
            )
        private = path.rpartition(".")[2].startswith("_")
        for place, definition in self.index.subclasses(path):
            if not self.index.definitions(f"{place}.{method}"):
                yield Edge(
                    Node("python", f"{place}.{method}", definition=definition),
                    f"{place} inherits {method}",
                    direct=private,
                )

    def users(self, path: str, public: bool) -> Iterator[Edge]:
        """Definitions that call the path. A public op's users are followed only while they are few."""
        found = [
            (place, definition)
            for place, definition in self.index.users(path)
            if definition.name not in self.rules.tables
            and definition.name.rpartition(".")[2] not in self.rules.quiet_methods
            and not place.startswith(path + ".")
        ]
        if public and len(found) > MAX_PUBLIC_USERS:
            self.note(
                f"{path} has {len(found)} users in Python: not followed, for it is public and tested itself"
            )
            return
        name = path.rpartition(".")[2]
        for place, definition in found:
            yield Edge(
                Node("python", place, definition=definition),
                f"{place} uses {name} ({definition.file}:{definition.first})",
                direct=not public and len(found) <= FEW_USERS,
            )

    def _import_users(self, path: str) -> Iterator[Edge]:
        module, local = self.index.split(path)
        for definition in self.index.file(module).definitions:
            if definition.kind != "import" and any(
                used.split(".")[0] == local for used in definition.uses
            ):
                place = f"{module}.{definition.name}"
                yield Edge(Node("python", place, definition=definition), f"{place} uses {local}")
