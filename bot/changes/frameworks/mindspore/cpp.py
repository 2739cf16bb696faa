"""MindSpore's C++: which primitives a registration, kernel, inference or gradient belongs to, and what uses a symbol."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.mindspore.declared import MindSporeDeclared, plain
from bot.changes.frameworks.mindspore.rows import around
from bot.changes.graph import Edge, Node, cpp_node
from bot.changes.index.cpp_index import HEADERS, CppIndex
from bot.changes.index.tree import Note, Tree
from bot.changes.roles import is_cpp
from bot.changes.sources.cpp_blocks import blocks

SOURCES: Final = re.compile(
    r"^mindspore/(ops/|core/ops/|core/abstract/|core/base/core_ops\.h|core/include/ops/"
    r"|pyboost/|ccsrc/(backend/(kernel_compiler|common/expander|common/graph_kernel/expander)|kernel|plugin/device/\w+/kernel"
    r"|frontend/(expander|operator)|transform/(graph_ir|acl_ir)|pyboost|pynative|runtime/pynative"
    r"|pipeline/pynative|common/(expander|graph_kernel/expanders)|backend/common/expander|include/backend)/)"
)
"""Folders of C++ that ops are made of (kernels, inference, gradients, adapters), in the layouts of 2020 to 2025."""
GRADIENTS: Final = re.compile(
    r"^mindspore/(ops/grad|ccsrc/(frontend|pipeline)/(\w+/)*(bprop|expander|grad)\w*)/"
)

FEW_FILES: Final = 3
FEW_PRIMITIVES: Final = 3  # a symbol that more primitives share is shared code
MANY_USERS: Final = 12  # definitions that name a symbol and are of no one primitive
MAX_EMITTERS: Final = (
    12  # gradients that use an internal primitive: beyond this it is a general tool
)

_CALL: Final = re.compile(r"^(?:template <[^>]*> )?(?:static (?:const )?)?([A-Z][A-Z0-9_]{2,}) \( ")
_WORD: Final = re.compile(r'"(\w+)"|(?<!\. )(?<!-> )\b([A-Za-z_]\w*)')
_REGISTERS: Final = re.compile(
    r"\b(?=[A-Z][A-Z0-9_]*(?:REG|CREATOR|IMPL|BUILDER))([A-Z][A-Z0-9_]*+) \( ([^\[{]*)"
)
_CUSTOMIZE: Final = re.compile(r"^(\w+?)Customize(?:Call)?$")
_DEVICE: Final = re.compile(r"(Ascend|CPU|GPU)$")
_INFERENCE: Final = re.compile(r"^(\w+?)(?:Frontend)?FuncImpl$")
_ANONYMOUS: Final = re.compile(r"\bnamespace\s*\{")
_ARGUMENTS: Final = 3  # of a registration; a primitive stands among the first


class MindSporeCpp:
    """Successors of C++ definitions."""

    def __init__(self, tree: Tree, declared: MindSporeDeclared, note: Note) -> None:
        sources = tuple(path for path in tree.paths if SOURCES.match(path) and is_cpp(path))
        self.tree = tree
        self.note = note
        self.declared = declared
        self.index = CppIndex(tree, sources, note)
        self.gradient_paths = tuple(path for path in sources if GRADIENTS.match(path))
        self._anonymous = lru_cache(maxsize=256)(self._find_anonymous)

    def node(self, definition: Definition) -> Node:
        """The node of a definition; declarations of one name are told apart too."""
        return cpp_node(definition, by_line=definition.kind == "declaration")

    def edges(self, definition: Definition) -> Iterator[Edge]:
        """What a change of a C++ definition changes next."""
        registered = self.registered(definition)
        if registered:
            for name in registered:
                yield Edge(Node("primitive", name), f"{definition.place} is for primitive {name}")
            return
        if definition.kind == "entry":
            yield from self._of_row(definition)
            return
        if definition.kind == "statement" and _CALL.match(definition.code):
            return
        name = definition.name
        owner = name.rpartition("::")[0].rpartition("::")[2] if "::" in name else ""
        symbol = owner or name
        primitive = self._by_name(symbol, definition)
        if primitive:
            yield Edge(Node("primitive", primitive), f"{symbol} is {primitive}'s, by its name")
            return
        yield from self._users(symbol, definition)

    # What a piece of C++ belongs to

    def registered(self, definition: Definition) -> tuple[str, ...]:
        """The primitives that a registration, a table's row or a constant is for."""
        if definition.kind in ("entry", "assignment"):
            return self._first(definition.code.split(" , ")[0].split(" ; ")[0])
        if definition.kind not in ("statement", "function"):
            return ()
        match = _CALL.match(definition.code)
        if match is None:
            return ()
        if match[1].startswith("REG_BPROP_BUILDER") and (
            text := re.search(r'\( "(\w+)"', definition.code)
        ):
            return (text[1],)
        rest = re.split(r"[\[{]|KernelAttr", definition.code[match.end() :], maxsplit=1)[0]
        own = self._first(" , ".join(rest.split(" , ")[:_ARGUMENTS]))
        return own or self._of_macros(definition)

    def _first(self, code: str) -> tuple[str, ...]:
        """The first word that means a primitive."""
        for text, word in _WORD.findall(code):
            found = self.declared.primitive(text or word)
            if found:
                return (found,)
        return ()

    def _of_macros(self, definition: Definition) -> tuple[str, ...]:
        """The primitives that the macros behind a registration name themselves."""
        found: dict[str, None] = {}
        for piece in self.index.closure(definition)[1:]:
            body = piece.code.partition(")")[2] if "(" in piece.code[:60] else piece.code
            for _, arguments in _REGISTERS.findall(body):
                found |= dict.fromkeys(self._first(" , ".join(arguments.split(" , ")[:_ARGUMENTS])))
        return tuple(found) if len(found) <= FEW_PRIMITIVES else ()

    def _by_name(self, symbol: str, definition: Definition) -> str:
        """The primitive whose name a class or function carries by a rule of the build or of the folder."""
        if match := _INFERENCE.match(symbol):
            return match[1] if match[1] in self.declared.primitives else ""
        if match := _CUSTOMIZE.match(symbol):
            stem = _DEVICE.sub("", match[1])
            return self.declared.by_kernel.get(
                match[1], stem if stem in self.declared.primitives else ""
            )
        in_core = "/core/ops/" in definition.file
        return symbol if in_core and symbol in self.declared.primitives else ""

    # Users

    def _of_row(self, row: Definition) -> Iterator[Edge]:
        """A row that names no primitive changes the table that it stands in."""
        table: Definition | None = None
        for definition in self.index.definitions(row.file):
            if definition.first > row.first:
                break
            if definition.kind in ("statement", "assignment", "function") and definition.name:
                table = definition
        if table is None:
            return
        if primitives := self.registered(table):
            for name in primitives:
                yield Edge(Node("primitive", name), f"{table.place} is for primitive {name}")
            return
        owner, _, variable = table.name.rpartition("::")
        yield from self._users(owner.rpartition("::")[2] or variable, table)

    def _users(self, symbol: str, definition: Definition) -> Iterator[Edge]:
        if len(symbol) < 3:
            self.note(f"{definition.place}: users of so short a name are not looked for")
            return
        users = [
            user
            for user in self._seeing(symbol, definition)
            if not user.name.startswith(f"{symbol}::") and user.kind != "declaration"
        ]
        registered = [self._around(user, symbol) for user in users]
        named = {name for names in registered for name in names}
        # A type that many functions take is shared code, though each of them is one primitive's.
        unnamed = sum(
            not names and user.kind in ("function", "class")
            for user, names in zip(users, registered, strict=True)
        )
        shared = len(named) > FEW_PRIMITIVES or unnamed > MANY_USERS
        few = len({user.file for user in users}) <= FEW_FILES
        for user in users:
            direct = (few or user.file == definition.file) and not shared
            rows = self._rows(user, symbol)
            for name in rows:
                step = f"{user.place} has {symbol} in the row of primitive {name}"
                yield Edge(Node("primitive", name), step, direct)
            if not rows:
                yield Edge(self.node(user), f"{user.place} uses {symbol}", direct)

    def _rows(self, user: Definition, symbol: str) -> tuple[str, ...]:
        """The primitives of the rows, of a table within a function, that name a symbol."""
        code = around(user.code, symbol)
        if code == user.code:
            return ()
        return tuple(
            dict.fromkeys(n for row in code.split(" } ") for n in self._first(row.split(" , ")[0]))
        )

    def _around(self, user: Definition, symbol: str) -> tuple[str, ...]:
        return self._rows(user, symbol) or self.registered(user)

    def _seeing(self, symbol: str, definition: Definition) -> Iterator[Definition]:
        """The definitions that name a symbol and can mean it: what is local to its file is used there alone."""
        if self._is_local(definition):
            for user in self.index.naming(symbol, (definition.file,)):
                if user.name != symbol or user.kind in ("statement", "entry"):
                    yield user
        else:
            yield from self.index.users(symbol, definition.file)

    def _is_local(self, definition: Definition) -> bool:
        if "." + definition.file.rpartition(".")[2] in HEADERS:
            return False
        if re.match(r"^(?:template <.*?> )?(?:inline )?static ", definition.code):
            return True
        return any(
            first <= definition.first <= last for first, last in self._anonymous(definition.file)
        )

    def _find_anonymous(self, path: str) -> tuple[tuple[int, int], ...]:
        """The lines of a source's anonymous namespaces."""
        return blocks(self.tree.text(path) or "", _ANONYMOUS)

    # Gradients

    def emitters(self, primitive: str) -> Iterator[Edge]:
        """The gradients in C++ that use a primitive which users do not call: its own ones, or all while they are few."""
        found: list[tuple[Definition, tuple[str, ...]]] = []
        used = re.compile(rf'(?:"|-> ){primitive}(?:"| \()')
        for definition in self.index.naming(primitive, self.gradient_paths):
            names = self.registered(definition)
            if primitive not in names and used.search(definition.code):
                found.append((definition, names))
        stem = gradient_stem(primitive)
        own = [entry for entry in found if any(plain(name) == stem for name in entry[1])]
        chosen = own or found
        if len(chosen) > MAX_EMITTERS:
            self.note(
                f"{primitive} is in {len(chosen)} gradients: a general tool, which was not followed"
            )
            return
        direct = bool(own) or len(found) <= FEW_PRIMITIVES
        for definition, _ in chosen:
            yield Edge(self.node(definition), f"{definition.place} uses {primitive}", direct)


def gradient_stem(primitive: str) -> str:
    """The forward primitive's plain name within a gradient's: ``SoftplusGradExt`` -> ``softplus``."""
    stem = re.sub(
        r"(GradGrad|Grad|BackpropInput|BackpropFilter|Backward)(?=[A-Z]|$)", "", primitive
    )
    return plain(stem)
