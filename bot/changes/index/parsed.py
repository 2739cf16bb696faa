"""Parsed files: kept in memory while there is room, and in the cache for the next run."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from bot.changes.index.bounded import Bounded
from bot.changes.index.reader_version import version_of
from bot.changes.index.store import IndexStore, Section

Result = TypeVar("Result")

KEPT_CHARACTERS: Final = 32 << 20
"""The text of the parsed files that are kept in memory; what is parsed takes some six times as much."""

MAX_ENTRY_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Parser(Generic[Result]):
    """How a text is read: ``read(path, text)``; ``options`` are all else that the result depends on."""

    kind: str
    read: Callable[[str, str], Result]
    adapter: TypeAdapter[Result]
    options: str = ""


class ParsedFiles:
    """What parsers made of files, by blob, path and options."""

    def __init__(self, store: IndexStore) -> None:
        self._store = store
        self._section = Section("parsed", version_of("bot.changes.sources"))
        self._kept: Bounded[tuple[str, str, str, str], Any] = Bounded(KEPT_CHARACTERS)
        self.parsed = 0

    def get(
        self, path: str, blob: str, parser: Parser[Result], text: Callable[[], str | None]
    ) -> Result:
        """What the parser makes of a file, or of "" where it has no text. ``blob`` is "" for a file that is not kept."""
        name = (parser.kind, parser.options, path, blob)
        if blob and name in self._kept:
            return self._kept.get(name)
        key = self._section.key(*name)
        data = self._store.get(key) if blob else None
        if data is not None:
            loaded = _load(data, parser)
            if loaded is not None:
                return self._kept.put(name, *loaded)
        written = text()
        self.parsed += 1
        result = parser.read(path, written or "")
        if not blob:
            return result
        if written is None:  # it may be there the next time
            return self._kept.put(name, result, 0)
        with suppress(PydanticSerializationError, ValueError):  # a path that is not UTF-8
            self._store.put(key, _dump(result, len(written), parser))
        return self._kept.put(name, result, len(written))


def _dump(result: Result, size: int, parser: Parser[Result]) -> bytes:
    """The size of the text in eight bytes, then JSON, compressed."""
    return size.to_bytes(8, "little") + zlib.compress(parser.adapter.dump_json(result), 1)


def _load(data: bytes, parser: Parser[Result]) -> tuple[Result, int] | None:
    try:
        unpacker = zlib.decompressobj()
        written = unpacker.decompress(data[8:], MAX_ENTRY_BYTES)
        if unpacker.unconsumed_tail or not unpacker.eof:
            return None
        return parser.adapter.validate_json(written), int.from_bytes(data[:8], "little")
    except (zlib.error, ValidationError):
        return None
