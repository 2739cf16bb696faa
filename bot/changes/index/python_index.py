"""Python modules of one tree: what a name stands for, who uses it, and which public names lead to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from bot.changes.definition import Definition
from bot.changes.index.tree import Note, Tree
from bot.changes.sources.python_source import PythonFile, read_python

MAX_RESOLVE_DEPTH = 12


@dataclass(frozen=True)
class PythonLayout:
    """Where a framework's Python lies and what of it users see.

    ``roots`` are prefixes of paths in front of the package (``python/``, or ``""`` in an installed release);
    ``public`` modules are those whose names users call, the shortest path being the one to prefer.
    """

    package: str
    roots: tuple[str, ...]
    public: tuple[str, ...]
    ignored: tuple[str, ...] = ()  # path parts of tests and documentation strings
    searched: tuple[
        str, ...
    ] = ()  # prefixes of the modules in which users of a name count; all when empty


class PythonIndex:
    """Read on demand: a module is parsed when a name is first looked up in it."""

    def __init__(self, tree: Tree, layout: PythonLayout, note: Note) -> None:
        self.tree = tree
        self.note = note
        self.layout = layout
        self._files: dict[str, PythonFile] = {}

    @cached_property
    def modules(self) -> dict[str, str]:
        """Dotted module name -> path."""
        found: dict[str, str] = {}
        for path in self.tree.paths:
            name = self.module_of(path)
            if name is not None:
                found[name] = path
        return found

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths that are searched for users."""
        prefixes = self.layout.searched or (self.layout.package,)
        return tuple(path for name, path in self.modules.items() if _within(name, prefixes))

    def module_of(self, path: str) -> str | None:
        """The dotted name of a module by its path; None for what is not the package's own code."""
        if not path.endswith(".py") or any(part in path for part in self.layout.ignored):
            return None
        for root in self.layout.roots:
            inner = path.removeprefix(root)
            if path.startswith(root) and inner.startswith(self.layout.package + "/"):
                parts = inner.rsplit(".", 1)[0].split("/")
                return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        return None

    def file(self, module: str) -> PythonFile:
        """What a module defines and imports; empty, with a note, when it cannot be read."""
        if module not in self._files:
            self._files[module] = self._read(module, self.modules.get(module, ""))
        return self._files[module]

    def _read(self, module: str, path: str) -> PythonFile:
        text = self.tree.text(path) if path else None
        inner = module + ".__init__" if path.endswith("__init__.py") else module
        file = read_python(path, text, inner, compared=False) if text is not None else None
        if path and file is None:
            self.note(f"{path} cannot be read as Python: what it uses and offers is not known")
        return file or PythonFile()

    def resolve(self, module: str, name: str, depth: int = 0) -> str:
        """The full dotted path of what ``name`` (dotted) means inside a module.

        The path leads to the defining module where that can be found, else to the last place that is known
        (``oneflow._C.relu``, whose definition is not Python).
        """
        head, _, rest = name.partition(".")
        suffix = f".{rest}" if rest else ""
        file = self.file(module)
        table = self._names(module)
        target = table.get(head)
        if target is None or depth > MAX_RESOLVE_DEPTH:
            for star in file.stars:
                if (
                    star in self.modules
                    and depth <= MAX_RESOLVE_DEPTH
                    and head in self._exported(star)
                ):
                    return self.resolve(star, name, depth + 1)
            return f"{module}.{name}"
        if target == "":
            return f"{module}.{name}"
        return self.follow(target + suffix, depth + 1)

    def follow(self, path: str, depth: int = 0) -> str:
        """The defining place of a full dotted path, through re-exports."""
        parts = path.split(".")
        for cut in range(len(parts), 0, -1):
            module = ".".join(parts[:cut])
            if module in self.modules:
                rest = ".".join(parts[cut:])
                return (
                    self.resolve(module, rest, depth)
                    if rest and depth <= MAX_RESOLVE_DEPTH
                    else path
                )
        return path

    def _names(self, module: str) -> dict[str, str]:
        """Local name -> import target, or "" for what the module defines itself."""
        if module not in self._tables:
            file = self.file(module)
            table = dict(file.imports)
            table |= {
                d.name: ""
                for d in file.definitions
                if d.kind in ("function", "class", "assignment")
            }
            self._tables[module] = table
        return self._tables[module]

    @cached_property
    def _tables(self) -> dict[str, dict[str, str]]:
        return {}

    def _exported(self, module: str, depth: int = 0) -> frozenset[str]:
        """The names that a module offers: ``__all__``, or all that do not begin with an underscore."""
        file = self.file(module)
        names = {name for name in self._names(module) if not name.startswith("_")}
        for star in file.stars:
            if star in self.modules and depth < MAX_RESOLVE_DEPTH:
                names |= self._exported(star, depth + 1)
        return frozenset(names if file.exported is None else {*file.exported})

    @cached_property
    def aliases(self) -> dict[str, tuple[str, ...]]:
        """Full dotted path -> the public names that lead to it."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for module in self.layout.public:
            if module not in self.modules:
                continue
            is_package = self.modules[module].endswith("__init__.py")
            own = self._names(module)
            for name in sorted(self._exported(module) | set(own)):
                if name.startswith("_") or (not is_package and own.get(name)):
                    continue
                path = self.resolve(module, name)
                if path.startswith(self.layout.package + ".") and path not in self.modules:
                    found[path].append(f"{module}.{name}")
        return {path: tuple(names) for path, names in found.items()}

    def definitions(self, path: str) -> tuple[Definition, ...]:
        """The definitions of a full dotted path (several when a name is defined in branches)."""
        module, name = self.split(path)
        return tuple(d for d in self.file(module).definitions if d.name == name)

    def split(self, path: str) -> tuple[str, str]:
        """A full dotted path as its module and the name within; the module is "" for what is not of this tree."""
        parts = path.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module = ".".join(parts[:cut])
            if module in self.modules:
                return module, ".".join(parts[cut:])
        return "", path

    def users(self, path: str) -> Iterator[tuple[str, Definition]]:
        """Every definition, with its full dotted path, that reads the name which the path defines."""
        name = path.rpartition(".")[2]
        for file_path in self.tree.containing(name, self.paths):
            module = self.module_of(file_path)
            if module is None or self.modules.get(module) != file_path:
                continue
            for definition in self.file(module).definitions:
                if definition.kind == "import":
                    continue
                place = f"{module}.{definition.name}"
                if place != path and self._reads(module, definition, name, path):
                    yield place, definition

    def _reads(self, module: str, definition: Definition, name: str, path: str) -> bool:
        for used in definition.uses:
            parts = used.split(".")
            if name not in parts and not self._is_import_of(module, parts[0], name):
                continue
            resolved = self.resolve(module, used)
            if resolved == path or resolved.startswith(path + "."):
                return True
        return False

    def _is_import_of(self, module: str, local: str, name: str) -> bool:
        target = self._names(module).get(local)
        return bool(target) and str(target).rpartition(".")[2] == name

    def subclasses(self, path: str) -> Iterator[tuple[str, Definition]]:
        """The classes that name the path among their bases."""
        for place, definition in self.users(path):
            module, name = self.split(place)
            if definition.kind != "class":
                continue
            for class_name, bases in self.file(module).bases:
                if class_name == name and any(self.resolve(module, base) == path for base in bases):
                    yield place, definition


def _within(module: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a module is one of the prefixes or lies under one that does not end in a mark."""
    return any(
        module == prefix.rstrip("!")
        or (not prefix.endswith("!") and module.startswith(prefix + "."))
        for prefix in prefixes
    )
