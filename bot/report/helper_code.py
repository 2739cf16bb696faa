"""The worker's own definitions that a call form names, as source that a script can hold.

Where a framework has no single function for an op, a form calls a definition of a few lines that stands beside the
worker (``bot/worker/numpy_ops.py``). A script is standalone, so it holds these definitions and what they use.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from bot.report.adapted_call import NotAdaptedError

_UNSUPPORTED = (
    'class UnsupportedError(Exception):\n    """The framework has no such op, argument or dtype."""'
)


@dataclass(frozen=True)
class _Module:
    """A module of the worker's, read: top-level names to the source of their statement, and what that names."""

    definitions: Mapping[str, str]
    names: Mapping[str, frozenset[str]]
    imports: Mapping[str, str]


@dataclass
class Helpers:
    """Collects definitions. ``modules``: root of a form's names -> module beside the worker."""

    modules: Mapping[str, str]
    imports: set[str] = field(default_factory=set[str])
    _sources: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def sources(self) -> list[str]:
        """Definitions, each before those that use it at once."""
        return list(self._sources.values())

    @property
    def defined(self) -> frozenset[str]:
        """The names that the definitions take in a script."""
        return frozenset(self._sources)

    def name(self, path: str) -> str:
        """The bare name that stands for ``ops.NAME`` in a script. Raises NotAdaptedError where there is no such one."""
        root, _, name = path.partition(".")
        module = _read(self.modules[root])
        self._collect(module, name, path)
        return name

    def _collect(self, module: _Module, name: str, wanted: str) -> None:
        if name in module.imports:
            line = module.imports[name]
            if line.startswith("from framework import UnsupportedError"):
                self._sources.setdefault(name, _UNSUPPORTED)
            elif line.startswith("from framework"):
                raise NotAdaptedError(f"{wanted}: the worker's own")
            else:
                self.imports.add(line)
            return
        if name not in module.definitions:
            raise NotAdaptedError(f"{wanted}: the worker's own")
        source = module.definitions[name]
        if self._sources.get(name, source) != source:
            raise NotAdaptedError(f"{wanted}: two definitions of one name")
        if name in self._sources:
            return
        self._sources[name] = source
        for used in sorted(module.names[name]):
            self._collect(module, used, wanted)
        # What it uses comes first, as an assignment needs it.
        self._sources[name] = self._sources.pop(name)


@cache
def _read(name: str) -> _Module:
    text = resources.files("bot.worker").joinpath(f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    imports = {
        alias.asname or alias.name.partition(".")[0]: line
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias, line in _import_lines(node)
    }
    lines = text.splitlines()
    definitions: dict[str, str] = {}
    nodes: dict[str, ast.stmt] = {}
    for node in tree.body:
        for defined in _defined(node):
            first = min(
                (d.lineno for d in getattr(node, "decorator_list", ())), default=node.lineno
            )
            definitions[defined] = "\n".join(lines[first - 1 : node.end_lineno])
            nodes[defined] = node
    known = set(definitions) | set(imports)
    names = {
        defined: frozenset(_loaded(node) & known - {defined}) for defined, node in nodes.items()
    }
    return _Module(definitions, names, imports)


def _import_lines(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[ast.alias, str]]:
    for alias in node.names:
        renamed = f" as {alias.asname}" if alias.asname else ""
        where = f"from {node.module} " if isinstance(node, ast.ImportFrom) else ""
        yield alias, f"{where}import {alias.name}{renamed}"


def _defined(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def _loaded(node: ast.AST) -> set[str]:
    """Names that a definition uses when it runs or is made, annotations included."""
    return {
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)
    }
