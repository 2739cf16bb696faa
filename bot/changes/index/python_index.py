"""Python modules of one tree: what a name stands for, who uses it, and which public names lead to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Final

from pydantic import TypeAdapter

from bot.changes.definition import Definition
from bot.changes.index.bounded import Bounded
from bot.changes.index.parsed import Parser
from bot.changes.index.tree import Note, Tree
from bot.changes.sources.python_source import PythonFile, read_python

MAX_RESOLVE_DEPTH = 12
KEPT_DEFINITIONS: Final = 100_000  # of the modules in memory
MAX_FILES_OF_A_WORD: Final = 2000  # of the modules that name a symbol, so many are read
MAX_KEPT: Final = 1 << 16  # names, exports and users that are remembered
_ADAPTER: Final[TypeAdapter[PythonFile | None]] = TypeAdapter(PythonFile | None)


@cache
def _parser(module: str) -> Parser[PythonFile | None]:
    """How a module of a name is read for what it uses and offers."""

    def read(path: str, text: str) -> PythonFile | None:
        return read_python(path, text, module, compared=False)

    return Parser("python", read, _ADAPTER, module)


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


class PythonModule:
    """One module's file, by name."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file

    @cached_property
    def names(self) -> dict[str, str]:
        """Local name -> import target, or "" for what the module defines itself."""
        defined = (
            d.name for d in self.file.definitions if d.kind in ("function", "class", "assignment")
        )
        return dict(self.file.imports) | dict.fromkeys(defined, "")

    @cached_property
    def by_name(self) -> dict[str, tuple[Definition, ...]]:
        """Name -> its definitions (several when it is defined in branches)."""
        found: defaultdict[str, list[Definition]] = defaultdict(list)
        for definition in self.file.definitions:
            found[definition.name].append(definition)
        return {name: tuple(definitions) for name, definitions in found.items()}

    @cached_property
    def decorators(self) -> dict[str, tuple[tuple[str, tuple[str, ...]], ...]]:
        """Definition -> its decorators, each with its string arguments."""
        found: defaultdict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
        for name, decorator, arguments in self.file.decorators:
            found[name].append((decorator, arguments))
        return {name: tuple(each) for name, each in found.items()}

    @cached_property
    def mentions(self) -> dict[str, tuple[tuple[Definition, tuple[str, ...]], ...]]:
        """A word -> the definitions that read a dotted name with it, or an import of it, and those dotted names."""
        found: defaultdict[str, list[tuple[Definition, tuple[str, ...]]]] = defaultdict(list)
        for definition in self.file.definitions:
            if definition.kind == "import":
                continue
            words: defaultdict[str, list[str]] = defaultdict(list)
            for used in sorted(definition.uses):
                parts = used.split(".")
                imported = self.names.get(parts[0], "").rpartition(".")[2]
                for word in {*parts, imported} - {""}:
                    words[word].append(used)
            for word, names in words.items():
                found[word].append((definition, tuple(names)))
        return {word: tuple(each) for word, each in found.items()}


class PythonIndex:
    """Read on demand: a module is parsed when a name is first looked up in it."""

    def __init__(self, tree: Tree, layout: PythonLayout, note: Note) -> None:
        self.tree = tree
        self.note = note
        self.layout = layout
        self._kept: Bounded[str, PythonModule] = Bounded(KEPT_DEFINITIONS)
        self._resolved = lru_cache(maxsize=MAX_KEPT)(self._resolve)
        self._module_of = lru_cache(maxsize=MAX_KEPT)(self._find_module_of)
        self._offered = lru_cache(maxsize=MAX_KEPT)(self._find_exported)
        self._users = lru_cache(maxsize=MAX_KEPT)(self._find_users)

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
        return self._module_of(path)

    def _find_module_of(self, path: str) -> str | None:
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
        return self.module(module).file

    def module(self, module: str) -> PythonModule:
        """A module with what is looked up in it."""
        if module in self._kept:
            return self._kept.get(module)
        file = self._read(module, self.modules.get(module, ""))
        return self._kept.put(module, PythonModule(file), 1 + len(file.definitions))

    def _read(self, module: str, path: str) -> PythonFile:
        if not path:
            return PythonFile()
        inner = module + ".__init__" if path.endswith("__init__.py") else module
        file = self.tree.parsed(path, _parser(inner))
        if file is None:
            self.note(f"{path} cannot be read as Python: what it uses and offers is not known")
        return file or PythonFile()

    def resolve(self, module: str, name: str, depth: int = 0) -> str:
        """The full dotted path of what ``name`` (dotted) means inside a module.

        The path leads to the defining module where that can be found, else to the last place that is known
        (``oneflow._C.relu``, whose definition is not Python).
        """
        return self._resolved(module, name, depth)

    def _resolve(self, module: str, name: str, depth: int) -> str:
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
        return self.module(module).names

    def _exported(self, module: str, depth: int = 0) -> frozenset[str]:
        """The names that a module offers: ``__all__``, or all that do not begin with an underscore."""
        return self._offered(module, depth)

    def _find_exported(self, module: str, depth: int) -> frozenset[str]:
        file = self.file(module)
        if file.exported is not None:
            return frozenset(file.exported)
        names = {name for name in self._names(module) if not name.startswith("_")}
        for star in file.stars:
            if star in self.modules and depth < MAX_RESOLVE_DEPTH:
                names |= self._exported(star, depth + 1)
        return frozenset(names)

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
                renamed = own.get(name, "").rpartition(".")[2] not in ("", name)
                passed_on = is_package or renamed or name in (self.file(module).exported or ())
                if name.startswith("_") or (own.get(name) and not passed_on):
                    continue
                path = self.resolve(module, name)
                if path.startswith(self.layout.package + ".") and path not in self.modules:
                    found[path].append(f"{module}.{name}")
        return {path: tuple(names) for path, names in found.items()}

    def definitions(self, path: str) -> tuple[Definition, ...]:
        """The definitions of a full dotted path (several when a name is defined in branches)."""
        module, name = self.split(path)
        return self.module(module).by_name.get(name, ())

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
        yield from self._users(path)

    def _find_users(self, path: str) -> tuple[tuple[str, Definition], ...]:
        found: dict[tuple[str, Definition], None] = {}
        for name in dict.fromkeys(
            p.rpartition(".")[2] for p in (path, *self.aliases.get(path, ()))
        ):
            found |= dict.fromkeys(self._naming(path, name))
        return tuple(found)

    def _naming(self, path: str, name: str) -> Iterator[tuple[str, Definition]]:
        """The definitions that mean the path by a name: its own, or one that it is exported under."""
        files = self.tree.candidates(name, self.paths)
        if len(files) > MAX_FILES_OF_A_WORD:
            self.note(
                f"{name} is named in {len(files)} modules; the first {MAX_FILES_OF_A_WORD} were read"
            )
        for file_path in files[:MAX_FILES_OF_A_WORD]:
            module = self.module_of(file_path)
            if module is None or self.modules.get(module) != file_path:
                continue
            for definition, used in self.module(module).mentions.get(name, ()):
                place = f"{module}.{definition.name}"
                if place != path and self._reads(module, used, path):
                    yield place, definition

    def _reads(self, module: str, names: tuple[str, ...], path: str) -> bool:
        resolved = (self.resolve(module, name) for name in names)
        return any(found == path or found.startswith(path + ".") for found in resolved)

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
