"""C++ sources of one tree: who uses a symbol, as far as includes let it be seen, and what macros hold."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from bot.changes.definition import Definition
from bot.changes.index.tree import Note, Tree, holds_word
from bot.changes.sources.cpp_source import includes, read_cpp, tokenize

HEADERS = frozenset({".h", ".hpp", ".cuh", ".inl"})
MAX_MACRO_DEPTH = 8
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]+")


class CppIndex:
    """Files are parsed when a symbol is first looked for in them."""

    def __init__(self, tree: Tree, paths: tuple[str, ...], note: Note) -> None:
        self.tree = tree
        self.note = note
        self.paths = paths
        self.definitions = lru_cache(maxsize=None)(self._definitions)
        self.macro = lru_cache(maxsize=None)(self._macro)
        self.closure = lru_cache(maxsize=None)(self._closure)

    def _definitions(self, path: str) -> tuple[Definition, ...]:
        text = self.tree.text(path)
        return read_cpp(path, text) if text is not None else ()

    @cached_property
    def _by_name(self) -> dict[str, tuple[str, ...]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in self.paths:
            found[PurePosixPath(path).name].append(path)
        return {name: tuple(paths) for name, paths in found.items()}

    def _included(self, path: str) -> tuple[str, ...]:
        """The tree's files that a source includes; the path as written is a suffix of the tree's."""
        found: list[str] = []
        for written in includes(self.tree.text(path) or ""):
            tail = written.removeprefix("./")
            while tail.startswith("../"):
                tail = tail[3:]
            near = str(PurePosixPath(path).parent / tail)
            options = self._by_name.get(PurePosixPath(tail).name, ())
            if near in options:
                found.append(near)
            else:
                found.extend(
                    option for option in options if option == tail or option.endswith("/" + tail)
                )
        return tuple(found)

    @cached_property
    def _includers(self) -> dict[str, tuple[str, ...]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in self.paths:
            for included in self._included(path):
                found[included].append(path)
        return {path: tuple(users) for path, users in found.items()}

    def _visible_from(self, path: str) -> tuple[str, ...]:
        """A header and every file that includes it, however far."""
        seen = {path: None}
        queue = deque([path])
        while queue:
            for user in self._includers.get(queue.popleft(), ()):
                if user not in seen:
                    seen[user] = None
                    queue.append(user)
        return tuple(seen)

    def scope(self, name: str, path: str) -> tuple[str, ...]:
        """The files in which a symbol defined in ``path`` can be meant by its name."""
        if PurePosixPath(path).suffix in HEADERS:
            return self._visible_from(path)
        files = {path: None}
        for header in self._included(path):
            if holds_word(self.tree.text(header) or "", name):
                files |= dict.fromkeys(self._visible_from(header))
        return tuple(files)

    def users(self, name: str, path: str) -> Iterator[Definition]:
        """Every definition, but those of the symbol itself, that names it and can see it."""
        for file in self.tree.containing(name, self.scope(name, path)):
            for definition in self.definitions(file):
                own = definition.name == name and definition.kind not in ("statement", "entry")
                if name in definition.uses and not own:
                    yield definition

    def naming(self, word: str, paths: tuple[str, ...]) -> Iterator[Definition]:
        """Every definition in the given files that names a word (in code or in a string)."""
        for file in self.tree.containing(word, paths):
            for definition in self.definitions(file):
                if word in definition.uses:
                    yield definition

    def _macro(self, name: str, path: str) -> Definition | None:
        """The macro that a name means in a file: its own, else one of a header that it includes."""
        seen: set[str] = set()
        queue = deque([path])
        while queue:
            file = queue.popleft()
            if file in seen:
                continue
            seen.add(file)
            text = self.tree.text(file) or ""
            if name in text and re.search(rf"#\s*define\s+{re.escape(name)}\b", text):
                for definition in self.definitions(file):
                    if definition.kind == "macro" and definition.name == name:
                        return definition
            queue.extend(self._included(file))
        return None

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
                elif macro is not None:
                    found.append(macro)
                    queue.append((macro, depth + 1))
        return tuple(found)
