"""The cache on disk: what is wrong with it costs time, never an answer."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bot.changes.index.store import FILE_NAME, IndexStore, Section

SECTION = Section("test", "1")
KEY = SECTION.key("a")


def filled(folder: Path, value: bytes = b"value") -> Path:
    store = IndexStore(folder)
    store.put(KEY, value)
    store.close()
    return folder / FILE_NAME


def test_an_entry_is_there_for_the_next_run(tmp_path: Path) -> None:
    filled(tmp_path / "not" / "there yet")
    store = IndexStore(tmp_path / "not" / "there yet")
    assert store.get(KEY) == b"value"
    assert store.get(SECTION.key("b")) is None
    assert store.problem == ""


def test_keys_differ_by_section_version_and_parts() -> None:
    keys = {
        SECTION.key("a"), SECTION.key("a", ""), SECTION.key("a", "b"), SECTION.key("ab"),
        Section("test", "2").key("a"), Section("other", "1").key("a"), SECTION.key("caf\udce9"),
    }  # fmt: skip
    assert len(keys) == 7


KILLED = """
import os, signal, sys
from pathlib import Path
from bot.changes.index.store import IndexStore, Section
store = IndexStore(Path(sys.argv[1]))
section = Section("test", "1")
for number in range(20):
    store.put(section.key(str(number)), bytes([number]) * 100_000)
    if number == 9:
        store.flush()
    if number == 15:
        connection = store._connection
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE entries SET value = x'00'")
        connection.execute("PRAGMA cache_spill")
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_is_killed_between_writes_loses_only_what_it_had_not_written(
    tmp_path: Path,
) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    store = IndexStore(tmp_path)
    keys = {SECTION.key(str(number)): bytes([number]) * 100_000 for number in range(10)}
    assert store.get_many(tuple(keys)) == keys
    assert store.get(SECTION.key("12")) is None
    assert store.problem == ""


@pytest.mark.parametrize(
    "content",
    [b"", b"not a database at all, but long enough to look at" * 100, b"SQLite format 3\0"],
)
def test_a_broken_file_is_made_anew(tmp_path: Path, content: bytes) -> None:
    file = filled(tmp_path)
    file.write_bytes(content)
    store = IndexStore(tmp_path)
    assert store.get(KEY) is None
    store.put(KEY, b"anew")
    store.close()
    assert IndexStore(tmp_path).get(KEY) == b"anew"
    assert store.problem == ""


@pytest.mark.parametrize("place", [100, 3000, 4096, 5000, 8192, 9000, 12288])
def test_a_file_with_a_broken_page_gives_no_wrong_entry(tmp_path: Path, place: int) -> None:
    file = filled(tmp_path, b"value" * 1000)
    data = bytearray(file.read_bytes())
    data[place : place + 64] = b"\xff" * len(data[place : place + 64])
    file.write_bytes(data)
    store = IndexStore(tmp_path)
    assert store.get(KEY) in (None, b"value" * 1000)
    store.put(KEY, b"anew")
    store.close()
    again = IndexStore(tmp_path)
    assert again.get(KEY) in (None, b"anew")


def test_an_entry_that_was_changed_is_none(tmp_path: Path) -> None:
    file = filled(tmp_path)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE entries SET value = substr(value, 1, 8) || x'00'")
    connection.close()
    assert IndexStore(tmp_path).get(KEY) is None


@pytest.mark.parametrize(
    "script",
    [
        "DROP TABLE used; CREATE VIEW used AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id FROM n) "
        "SELECT id, 1 AS day FROM n",
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "UPDATE entries SET value = 'text'",
        "UPDATE entries SET value = 17",
    ],
)
def test_a_hostile_file_does_nothing(tmp_path: Path, script: str) -> None:
    with sqlite3.connect(filled(tmp_path)) as connection:
        connection.executescript(script)
    connection.close()
    store = IndexStore(tmp_path)
    assert store.get(KEY) is None
    store.put(KEY, b"anew")
    store.close()
    assert IndexStore(tmp_path).get(KEY) == b"anew"


def test_where_nothing_can_be_written_it_says_so_and_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = IndexStore(tmp_path / "file")
    store.put(KEY, b"value")
    store.flush()
    assert store.get(KEY) is None
    assert store.problem.startswith(
        f"the index cache {tmp_path / 'file' / FILE_NAME} cannot be used"
    )
    assert store.problem.endswith("read without it")


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    assert "not a plain file" in IndexStore(tmp_path).problem


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_cache_that_cannot_be_written_is_still_read(tmp_path: Path) -> None:
    filled(tmp_path).chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        store = IndexStore(tmp_path)
        assert store.get(KEY) == b"value"
        store.put(SECTION.key("b"), b"x")
        store.flush()
        assert "readonly" in store.problem
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk(tmp_path: Path) -> None:
    filled(tmp_path)
    store = IndexStore(tmp_path)
    connection = store._connection  # pyright: ignore[reportPrivateUsage]
    assert connection is not None
    connection.execute("PRAGMA max_page_count = 8")
    store.put(SECTION.key("b"), b"x" * 100_000)
    store.flush()
    assert "full" in store.problem
    assert IndexStore(tmp_path).get(KEY) == b"value"


def test_two_runs_at_once(tmp_path: Path) -> None:
    first, second = IndexStore(tmp_path), IndexStore(tmp_path)
    first.put(KEY, b"value")
    second.put(KEY, b"value")
    second.put(SECTION.key("b"), b"other")
    first.close()
    second.close()
    third = IndexStore(tmp_path)
    assert (third.get(KEY), third.get(SECTION.key("b"))) == (b"value", b"other")
    assert first.problem == second.problem == ""


def test_what_was_not_used_for_longest_is_dropped_beyond_the_limit(tmp_path: Path) -> None:
    limit = 1 << 20
    for day in range(30):
        store = IndexStore(tmp_path, limit_bytes=limit, today=lambda day=day: day)
        assert store.get(KEY) == (None if day == 0 else b"used each day")
        store.put(KEY, b"used each day") if day == 0 else None
        store.put(SECTION.key(str(day)), os.urandom(100_000))
        store.close()
    store = IndexStore(tmp_path, limit_bytes=limit)
    kept = [day for day in range(30) if store.get(SECTION.key(str(day)))]
    assert kept == list(range(kept[0], 30))
    assert 5 <= len(kept) <= 10
    assert (tmp_path / FILE_NAME).stat().st_size <= limit
