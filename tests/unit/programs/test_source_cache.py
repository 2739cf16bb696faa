"""The cache on disk keeps what it was given, and takes nothing that does not add up."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.programs.builder import ProgramBuilder
from bot.programs.program import digest
from bot.programs.source import SourcedProgram
from bot.programs.source_cache import MAX_KEPT_BYTES, SourceCache, Traced, parse_stream, skipped_of
from bot.worker.protocol import encode_header, write_frame

KEY = {"request": "add"}


def sourced(value: float, size: int = 1) -> SourcedProgram:
    builder = ProgramBuilder("add")
    builder.output(builder.call("add", builder.tensor("x", np.full(size, value, np.float32)), 1))
    blob = builder.blob()
    return SourcedProgram(blob, digest(blob), "add")


TRACED = Traced((sourced(1.0), sourced(2.0)), cases=3, expressed=2, skipped={"sparse": 1})


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_round_trip(tmp_path: Path) -> None:
    cache = SourceCache(tmp_path)
    assert cache.read(KEY) is None
    cache.write(KEY, TRACED)
    assert cache.read(KEY) == TRACED
    assert cache.read({"request": "sub"}) is None


def test_nothing_half_written_stays(tmp_path: Path) -> None:
    SourceCache(tmp_path).write(KEY, TRACED)
    assert [path.suffix for path in tmp_path.iterdir()] == [".frames"]


def test_large_answers_are_not_kept(tmp_path: Path) -> None:
    cache = SourceCache(tmp_path)
    cache.write(KEY, Traced((sourced(1.0, MAX_KEPT_BYTES // 4 + 1),), 1, 1))
    assert cache.read(KEY) is None


@given(cut=st.integers(min_value=0), flip=st.integers(min_value=0), bit=st.integers(0, 7))
def test_damaged_files_are_misses(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    cache = SourceCache(folder)
    cache.write(KEY, TRACED)
    path = only_file(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[: cut % len(whole)])
    assert cache.read(KEY) is None
    damaged = bytearray(whole)
    damaged[flip % len(whole)] ^= 1 << bit
    path.write_bytes(damaged)
    found = cache.read(
        KEY
    )  # must not raise; a flipped bit within the data is another valid program
    assert found is None or all(digest(p.blob) == p.digest for p in found.programs)


def test_a_wrong_digest_in_the_file_is_not_believed(tmp_path: Path) -> None:
    program = sourced(1.0)
    with (tmp_path / "file").open("w+b") as file:
        write_frame(
            file,
            encode_header({"type": "program", "digest": "0" * 32, "op": "os.system"}),
            program.blob,
        )
        end = {"type": "traced", "counts": {"cases": 1, "expressed": 1}, "skipped": {}}
        write_frame(file, encode_header(end))
        file.seek(0)
        (found,) = parse_stream(file).programs
    assert (found.digest, found.op) == (program.digest, "add")


def test_counts_that_are_no_numbers_are_a_miss(tmp_path: Path) -> None:
    cache = SourceCache(tmp_path)
    cache.write(KEY, TRACED)
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"cases":3', b'"cases":-'))
    assert cache.read(KEY) is None
    assert not path.exists()


def test_prune_removes_the_oldest(tmp_path: Path) -> None:
    cache = SourceCache(tmp_path)
    for name in ("a", "b", "c"):
        cache.write({"request": name}, TRACED)
    size = max(path.stat().st_size for path in tmp_path.iterdir())
    assert cache.prune(size * 2) == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = SourceCache(tmp_path / "file")
    cache.write(KEY, TRACED)
    assert cache.read(KEY) is None


def test_long_reasons_that_begin_alike_are_counted_together() -> None:
    skipped = {"x" * 200 + "a": 1, "x" * 200 + "b": 2, "short": 4}
    assert skipped_of({"skipped": skipped}) == {"x" * 200: 3, "short": 4}


def test_a_pipe_in_the_cache_is_a_miss_and_is_not_waited_for(tmp_path: Path) -> None:
    cache = SourceCache(tmp_path)
    cache.write(KEY, TRACED)
    file = only_file(tmp_path)
    file.unlink()
    os.mkfifo(file)
    assert cache.read(KEY) is None
    assert cache.read_json(KEY) is None


def test_what_a_prepared_folder_holds_is_found_and_never_written_to(tmp_path: Path) -> None:
    own, prepared = tmp_path / "own", tmp_path / "prepared"
    SourceCache(prepared).write(KEY, TRACED)
    SourceCache(prepared).write_json({"request": "list"}, b"[]")
    before = {path: path.read_bytes() for path in prepared.iterdir()}
    cache = SourceCache(own, prepared)
    assert cache.read(KEY) == TRACED
    assert cache.read_json({"request": "list"}) == b"[]"
    assert cache.read({"request": "sub"}) is None
    cache.write({"request": "sub"}, TRACED)
    cache.prune(0)
    assert {path: path.read_bytes() for path in prepared.iterdir()} == before
    SourceCache(own).write(KEY, Traced((sourced(5.0),), 1, 1))
    assert cache.read(KEY) == Traced((sourced(5.0),), 1, 1)  # the user's own first
