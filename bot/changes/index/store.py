"""The index on disk: what was read of a blob once is not read again by the next run.

One SQLite file under the user's cache, shared by all repositories and by runs at the same time. A run that is killed
loses what it had not written yet. Whatever is wrong with the file or the disk costs time, never an answer: a broken
entry is read anew, a broken file is made anew, and where that cannot be done the run goes on without, and says so.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE_NAME: Final = "index-1.sqlite"  # the number is that of the tables below
LIMIT_BYTES: Final = 1 << 30
"""What the file may hold; beyond it the entries that were not used for longest are dropped, to three quarters of it."""

_MAX_PENDING_BYTES: Final = 16 << 20
_CHUNK: Final = 500  # keys of one query; SQLite takes 999 variables at least
_BUSY_SECONDS: Final = 5.0
_CHECKSUM: Final = 8  # bytes
_TABLES: Final = {
    "entries": "CREATE TABLE entries (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL)",
    "used": "CREATE TABLE used (id INTEGER PRIMARY KEY, day INTEGER NOT NULL)",
}


@dataclass(frozen=True)
class Section:
    """One kind of entry. ``version`` names the code that made it: see ``version_of``."""

    name: str
    version: str

    def key(self, *parts: str) -> bytes:
        """The key of an entry; parts are hashes, paths and options."""
        text = "\0".join((self.name, self.version, *parts))
        return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).digest()


def _today() -> int:
    return int(time.time() // 86400)


class IndexStore:
    """Entries by key. ``folder`` is made when needed; None is a store that holds nothing.

    ``problem`` says in one line why the store cannot be used (any more), or is "".
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        limit_bytes: int = LIMIT_BYTES,
        today: Callable[[], int] = _today,
    ) -> None:
        self.problem = ""
        self.file = folder / FILE_NAME if folder is not None else None
        self._limit = limit_bytes
        self._today = today
        self._pending: dict[bytes, bytes] = {}
        self._pending_bytes = 0
        self._used: set[int] = set()
        self._connection: sqlite3.Connection | None = None
        if self.file is not None:
            self._guarded(self._open)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The entries that are there and whole."""
        found = {key: self._pending[key] for key in keys if key in self._pending}
        wanted = [key for key in keys if key not in found]
        if self._connection is not None:
            self._guarded(lambda: self._select(wanted, found))
        return found

    def get(self, key: bytes) -> bytes | None:
        """One entry, or None."""
        return self.get_many((key,)).get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Keep an entry; it is written with others, at the latest by ``flush``."""
        if self._connection is None:
            return
        self._pending_bytes += len(value) - len(self._pending.get(key, b""))
        self._pending[key] = value
        if self._pending_bytes > _MAX_PENDING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is not written yet, in one transaction, and keep the file within its limit."""
        if self._connection is not None and (self._pending or self._used):
            self._guarded(self._write)
        self._pending.clear()
        self._used.clear()
        self._pending_bytes = 0

    def close(self) -> None:
        """Write what is left and close the file."""
        self.flush()
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do it; after an error make a broken file anew once, and give the store up where that does not help."""
        try:
            action()
        except (sqlite3.OperationalError, sqlite3.NotSupportedError, OSError) as error:
            self._give_up(error)
        except sqlite3.Error as error:
            try:
                self._start_anew()
            except (sqlite3.Error, OSError):
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self.problem = f"the index cache {self.file} cannot be used ({said}): read without it"
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _start_anew(self) -> None:
        assert self.file is not None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.file.unlink(missing_ok=True)
        Path(f"{self.file}-journal").unlink(missing_ok=True)
        self._open()

    def _open(self) -> None:
        assert self.file is not None
        with suppress(
            OSError
        ):  # a folder that is there already may lie on a disk that cannot be written
            self.file.parent.mkdir(parents=True, exist_ok=True)
        if self.file.exists() and not self.file.is_file():
            raise OSError(0, "not a plain file")
        connection = sqlite3.connect(self.file, timeout=_BUSY_SECONDS, isolation_level=None)
        self._connection = connection
        for pragma in (
            "trusted_schema=OFF",
            "cell_size_check=ON",
            "synchronous=OFF",  # a run that is killed breaks nothing; a machine that is, costs the cache
            "auto_vacuum=INCREMENTAL",
        ):
            connection.execute(f"PRAGMA {pragma}")
        if self._schema() != _TABLES:
            self._create(connection)

    def _schema(self) -> dict[str, str]:
        assert self._connection is not None
        rows = self._connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {str(name): str(sql) for name, sql in rows}

    def _create(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        found = self._schema()
        if found and found != _TABLES:
            connection.execute("ROLLBACK")
            raise sqlite3.DatabaseError("tables of another kind")
        if not found:
            for sql in _TABLES.values():
                connection.execute(sql)
        connection.execute("COMMIT")

    def _select(self, keys: Sequence[bytes], found: dict[bytes, bytes]) -> None:
        assert self._connection is not None
        today = self._today()
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            marks = ",".join("?" * len(chunk))
            rows = self._connection.execute(
                "SELECT entries.id, key, value, day FROM entries LEFT JOIN used USING (id) "
                f"WHERE key IN ({marks})",
                chunk,
            )
            for number, key, value, day in rows:
                if not isinstance(key, bytes) or not isinstance(value, bytes):
                    continue
                if value[:_CHECKSUM] != _checksum(key, value):
                    continue
                found[key] = value[_CHECKSUM:]
                if day != today:
                    self._used.add(number)

    def _write(self) -> None:
        assert self._connection is not None
        today = self._today()
        write = self._connection.execute
        write("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(
                "INSERT OR REPLACE INTO entries (key, value) VALUES (?, ?)",
                ((key, _checksum(key, value, 0) + value) for key, value in self._pending.items()),
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO used SELECT id, ? FROM entries WHERE key = ?",
                ((today, key) for key in self._pending),
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO used VALUES (?, ?)", ((n, today) for n in self._used)
            )
            shrunk = self._shrink()
            write("COMMIT")
        except sqlite3.Error:
            with suppress(sqlite3.Error):
                write("ROLLBACK")
            raise
        if shrunk:
            # Of a pragma that ``execute`` runs, one step is taken alone: one page.
            self._connection.executescript("PRAGMA incremental_vacuum;")

    def _shrink(self) -> bool:
        """Drop the entries that were not used for longest when there are too many; whether any were."""
        assert self._connection is not None

        def number(sql: str) -> int:
            assert self._connection is not None
            return int(self._connection.execute(sql).fetchone()[0])

        pages = number("PRAGMA page_count") - number("PRAGMA freelist_count")
        over = pages * number("PRAGMA page_size") - self._limit
        if over <= 0:
            return False
        over += self._limit // 4
        dropped: list[tuple[int]] = []
        for entry, size in self._connection.execute(
            "SELECT entries.id, length(value) FROM entries LEFT JOIN used USING (id) "
            "ORDER BY day, entries.id"
        ):
            if over <= 0:
                break
            dropped.append((entry,))
            over -= size
        self._connection.executemany("DELETE FROM entries WHERE id = ?", dropped)
        self._connection.executemany("DELETE FROM used WHERE id = ?", dropped)
        return True


def _checksum(key: bytes, value: bytes, skip: int = _CHECKSUM) -> bytes:
    digest = hashlib.blake2b(key, digest_size=_CHECKSUM)
    digest.update(memoryview(value)[skip:])
    return digest.digest()
