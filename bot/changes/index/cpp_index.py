"""C++ sources of one tree: who uses a symbol, as far as includes let it be seen, and what macros hold."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import Final

from pydantic import TypeAdapter

from bot.changes.definition import Definition
from bot.changes.index.blob_facts import BlobFacts, read_facts, word_hash
from bot.changes.index.include_graph import IncludeGraph
from bot.changes.index.parsed import Parser
from bot.changes.index.tree import Note, Tree
from bot.changes.sources.cpp_calls import users_of_overload
from bot.changes.sources.cpp_source import includes, read_cpp, tokenize

HEADERS = frozenset({".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".inc", ".ipp", ".tpp"})
MAX_MACRO_DEPTH = 8
MAX_MACROS: Final = 500  # that one definition uses, directly or through other macros
MAX_FILES_OF_A_WORD: Final = 2000  # of the files that name a symbol, so many are parsed
MAX_NAMING: Final = 5000  # of the definitions that name a symbol, so many are looked at
MAX_NAMING_IN_ALL: Final = 2_000_000  # definitions looked at for all symbols of one tree together
MANY_DEFINITIONS: Final = 500  # in one file, beyond which its words are kept in a table
MAX_KEPT: Final = 8192  # macros, and definitions with their macros, that are remembered
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]+")


_PARSER: Final = Parser("c++", read_cpp, TypeAdapter(tuple[Definition, ...]))


class CppIndex:
    """Files are parsed when a symbol is first looked for in them."""

    def __init__(self, tree: Tree, paths: tuple[str, ...], note: Note) -> None:
        self.tree = tree
        self.note = note
        self.paths = paths
        self.macro = lru_cache(maxsize=MAX_KEPT)(self._macro)
        self._mentions = lru_cache(maxsize=64)(self._read_mentions)
        self.closure = lru_cache(maxsize=MAX_KEPT)(self._closure)
        self.functions_of = lru_cache(maxsize=MAX_KEPT)(self._functions_of)
        self._macros_of = lru_cache(maxsize=256)(self._read_macros)
        self._looked_at = 0

    def definitions(self, path: str) -> tuple[Definition, ...]:
        """The definitions of a file; none when it has no text."""
        return self.tree.parsed(path, _PARSER)

    @cached_property
    def _facts(self) -> dict[str, BlobFacts]:
        known = dict(zip(self.tree.indexed, self.tree.facts, strict=True))
        return {
            path: known[path] if path in known else read_facts(self.tree.text(path) or "")
            for path in self.paths
        }

    @cached_property
    def _graph(self) -> IncludeGraph:
        return IncludeGraph(self.paths, (facts.includes for facts in self._facts.values()))

    @cached_property
    def _macro_files(self) -> dict[int, tuple[str, ...]]:
        """Hash of a macro's name -> the files that define one of such a hash."""
        found: defaultdict[int, list[str]] = defaultdict(list)
        for path in self.paths:
            for value in self._facts[path].macros.tolist():
                found[value].append(path)
        return {value: tuple(paths) for value, paths in found.items()}

    def _included(self, path: str) -> tuple[str, ...]:
        """The tree's files that a source includes."""
        if path in self._facts:
            return self._graph.included(path)
        return self._graph.resolve(path, includes(self.tree.text(path) or ""))

    def scope(self, name: str, path: str) -> tuple[str, ...]:
        """The files in which a symbol defined in ``path`` can be meant by its name."""
        if PurePosixPath(path).suffix in HEADERS:
            return self._graph.seen_by(path)
        files = {path: None}
        for header in self._headers_of(name, path):
            files |= dict.fromkeys(self._graph.seen_by(header))
        return tuple(files)

    def _headers_of(self, name: str, path: str) -> tuple[str, ...]:
        """The headers that a source includes itself and that name the symbol: where it may be declared."""
        return self.tree.containing(name, self._included(path))

    def _in_scope(self, name: str, path: str) -> tuple[str, ...]:
        """The files of the symbol's scope that may hold its name: those of ``scope``, in its order."""
        holding = self.tree.candidates(name, self.paths)
        if PurePosixPath(path).suffix in HEADERS:
            return self._graph.that_see(path, holding)
        files = dict.fromkeys(self.tree.candidates(name, (path,)))
        for header in self._headers_of(name, path):
            files |= dict.fromkeys(self._graph.that_see(header, holding))
        return tuple(files)

    def users(
        self, name: str, path: str, changed: Definition | None = None
    ) -> Iterator[Definition]:
        """Every definition, but those of the symbol itself, that names it and can see it.

        With the ``changed`` definition, one of several overloads, only those that may call just that overload.
        """
        named = list(self._naming(name, self._in_scope(name, path)))
        if changed is not None:
            named = users_of_overload(changed, name, named)
        for definition in named:
            own = definition.name == name and definition.kind not in ("statement", "entry")
            if not own:
                yield definition

    def naming(self, word: str, paths: tuple[str, ...]) -> Iterator[Definition]:
        """Every definition in the given files that names a word (in code or in a string)."""
        yield from self._naming(word, self.tree.candidates(word, paths))

    def _naming(self, word: str, files: tuple[str, ...]) -> Iterator[Definition]:
        """The definitions of some files that name a word: the first ones, with a note, when there are too many."""
        count = 0
        for file in self._few(word, files):
            for definition in self._using(file, word):
                if count == MAX_NAMING:
                    self.note(
                        f"{word} is named in more than {MAX_NAMING} C++ definitions; the first were looked at"
                    )
                    return
                if self._looked_at >= MAX_NAMING_IN_ALL:
                    self.note(
                        f"more than {MAX_NAMING_IN_ALL} uses of names in C++: {word} and what comes after is not followed"
                    )
                    return
                count += 1
                self._looked_at += 1
                yield definition

    def _functions_of(self, path: str) -> frozenset[str]:
        """The names of the functions that a file defines."""
        return frozenset(d.name for d in self.definitions(path) if d.kind == "function")

    def _using(self, file: str, word: str) -> tuple[Definition, ...]:
        """The definitions of a file that name a word. A table of the words, where so many would be walked so often."""
        definitions = self.definitions(file)
        if len(definitions) <= MANY_DEFINITIONS:
            return tuple(found for found in definitions if word in found.uses)
        return self._mentions(file).get(word, ())

    def _read_mentions(self, file: str) -> dict[str, tuple[Definition, ...]]:
        found: defaultdict[str, list[Definition]] = defaultdict(list)
        for definition in self.definitions(file):
            for word in definition.uses:
                found[word].append(definition)
        return {word: tuple(definitions) for word, definitions in found.items()}

    def _few(self, word: str, files: tuple[str, ...]) -> tuple[str, ...]:
        """The files to read for a word: the first ones, with a note, when there are too many."""
        if len(files) > MAX_FILES_OF_A_WORD:
            self.note(
                f"{word} is named in {len(files)} C++ files; the first {MAX_FILES_OF_A_WORD} were read"
            )
        return files[:MAX_FILES_OF_A_WORD]

    def _macro(self, name: str, path: str) -> Definition | None:
        """The macro that a name means in a file: its own, else one of a header that it includes."""
        for file in self._defining(name, path):
            found = self._macros_of(file).get(name)
            if found is not None:
                return found
        return None

    def _read_macros(self, path: str) -> dict[str, Definition]:
        """The macros of a file by name, of several the first."""
        found: dict[str, Definition] = {}
        for definition in self.definitions(path):
            if definition.kind == "macro":
                found.setdefault(definition.name, definition)
        return found

    def _defining(self, name: str, path: str) -> tuple[str, ...]:
        """The files that may define a macro which a file sees, nearest first."""
        files = self._macro_files.get(word_hash(name), ())
        if path in self._facts:
            return self._graph.that_are_seen(path, files)
        found = {path: None}
        for included in self._included(path):
            found |= dict.fromkeys(self._graph.that_are_seen(included, files))
        return tuple(found)

    def _closure(self, definition: Definition) -> tuple[Definition, ...]:
        """A definition and every macro that it uses, directly or through other macros."""
        found: list[Definition] = [definition]
        seen: set[str] = set()
        queue = deque([(definition, 0)])
        while queue:
            piece, depth = queue.popleft()
            for name in sorted(tokenize(piece.code).names - seen):
                seen.add(name)
                # Macros are written in capitals in every framework read here.
                if not _CAPITALS.fullmatch(name):
                    continue
                macro = self.macro(name, piece.file)
                if macro is not None and depth >= MAX_MACRO_DEPTH:
                    self.note(f"{macro.place}: a macro nested so deep is not followed")
                elif macro is not None and len(found) > MAX_MACROS:
                    self.note(
                        f"{definition.place}: more than {MAX_MACROS} macros stand behind it; the first were read"
                    )
                    return tuple(found)
                elif macro is not None:
                    found.append(macro)
                    queue.append((macro, depth + 1))
        return tuple(found)
