"""The source's side of the tracer's protocol, with a worker that is played."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bot.programs.builder import ProgramBuilder
from bot.programs.opinfo_source import OpInfoSource, grouped, program_group
from bot.programs.program import canonical_json, decode, split
from bot.programs.source import SourceCounts, SourceEntry, SourceRequest
from bot.programs.source_cache import SourceCache
from bot.targets.worker_process import WorkerDeath

ADD = SourceEntry("opinfo", "add", group="add", names=("add",))
ROW = {
    "source": "opinfo",
    "name": "add",
    "variant": "",
    "names": ["add"],
    "dtypes": ["float32"],
    "calls": [],
}


def traced_blob(value: float, fn: str = "add") -> bytes:
    builder = ProgramBuilder("")
    builder.output(builder.call(fn, builder.tensor("x", np.array([value], np.float32)), 1))
    return builder.blob()


class Played:
    """A worker that answers from a script and remembers what it was asked."""

    def __init__(self, *blobs: bytes, dies: bool = False, rows: Any = None) -> None:
        self.blobs = blobs
        self.dies = dies
        self.rows = [ROW] if rows is None else rows
        self.asked: list[dict[str, Any]] = []
        self.starts = 0

    @contextmanager
    def open(self) -> Iterator["Played"]:
        self.starts += 1
        yield self

    def ask(
        self, header: dict[str, Any], *payload: bytes, until: str, seconds: float
    ) -> Iterator[Any]:
        self.asked.append(header)
        if header["type"] == "list":
            yield {"type": "listed", "entries": self.rows}, b""
            return
        for blob in self.blobs:
            yield {"type": "program", "digest": "", "op": ""}, blob
        if self.dies:
            raise WorkerDeath("crash", "SIGSEGV", "")
        counts = {"cases": len(self.blobs) + 1, "expressed": len(self.blobs)}
        yield {"type": "traced", "counts": counts, "skipped": {"sparse tensor": 1}}, b""


def test_programs_get_their_op_and_are_given_once() -> None:
    worker = Played(traced_blob(1), traced_blob(2), traced_blob(1))
    counts = SourceCounts()
    with OpInfoSource(worker.open, "e") as source:
        programs = list(source.programs([SourceRequest(ADD), SourceRequest(ADD)], counts))
    assert [decode(program.blob)[0].op for program in programs] == ["add", "add"]
    assert counts == SourceCounts(8, 2, 6, {"sparse tensor": 2})
    assert worker.starts == 1


def test_the_cache_answers_without_a_worker(tmp_path: Path) -> None:
    worker = Played(traced_blob(1))
    for _ in range(2):
        counts = SourceCounts()
        with OpInfoSource(worker.open, "e", SourceCache(tmp_path)) as source:
            assert [entry.name for entry in source.entries()] == ["add"]
            assert len(list(source.programs([SourceRequest(ADD)], counts))) == 1
        assert counts == SourceCounts(2, 1, 1, {"sparse tensor": 1})
    assert worker.starts == 1


def test_another_seed_or_environment_is_another_request(tmp_path: Path) -> None:
    worker = Played(traced_blob(1))
    for environment, seed in (("e", 0), ("e", 1), ("f", 0)):
        with OpInfoSource(worker.open, environment, SourceCache(tmp_path)) as source:
            list(source.programs([SourceRequest(ADD, seed=seed)], SourceCounts()))
    assert len(worker.asked) == 3


def test_a_death_is_counted_and_the_next_entry_goes_on(tmp_path: Path) -> None:
    worker = Played(traced_blob(1), dies=True)
    counts = SourceCounts()
    with OpInfoSource(worker.open, "e", SourceCache(tmp_path)) as source:
        programs = list(source.programs([SourceRequest(ADD), SourceRequest(ADD)], counts))
    assert len(programs) == 1
    assert counts.skipped == {"the tracer failed: SIGSEGV": 2}
    assert worker.starts == 4  # each entry is given a second try
    assert list(tmp_path.iterdir()) == []


def test_a_tracer_killed_from_outside_loses_nothing(tmp_path: Path) -> None:
    class KilledOnce(Played):
        def ask(self, header: dict[str, Any], *payload: bytes, **options: Any) -> Iterator[Any]:
            self.dies = self.starts == 1
            return super().ask(header, *payload, **options)

    worker = KilledOnce(traced_blob(1), traced_blob(2))
    counts = SourceCounts()
    with OpInfoSource(worker.open, "e", SourceCache(tmp_path)) as source:
        programs = list(source.programs([SourceRequest(ADD)], counts))
    assert len(programs) == len({program.digest for program in programs}) == 2
    assert counts == SourceCounts(3, 2, 2, {"sparse tensor": 1})


def test_a_stream_that_is_left_early_ends_the_worker() -> None:
    worker = Played(traced_blob(1), traced_blob(2))
    with OpInfoSource(worker.open, "e") as source:
        stream = source.programs([SourceRequest(ADD)], SourceCounts())
        next(stream)
        stream.close()
        assert len(list(source.programs([SourceRequest(ADD)], SourceCounts()))) == 2
    assert worker.starts == 2


def test_a_program_that_is_none_is_counted() -> None:
    counts = SourceCounts()
    with OpInfoSource(Played(b"\xff\xff", traced_blob(1)).open, "e") as source:
        assert len(list(source.programs([SourceRequest(ADD)], counts))) == 1
    assert sum(count for reason, count in counts.skipped.items() if "not a program" in reason) == 1


def test_grouped_is_canonical() -> None:
    program = grouped(traced_blob(1, "Tensor.add_"), ADD)
    text, _ = split(program.blob)
    assert program.op == "add"
    assert canonical_json(json.loads(text)) == text


def test_which_op_several_calls_count_under() -> None:
    svd = SourceEntry("opinfo", "svd", group="svd", names=("svd",))
    assert program_group(["svd", "abs", "sum"], svd) == "svd"
    assert program_group(["clone", "Tensor.exponential_"], svd) == "Tensor.exponential_"
    assert (
        program_group(["nn.Conv2d", "nn.Module.eval", "nn.Module.__call__"], svd)
        == "nn.functional.conv2d"
    )
    assert program_group(["randn_like"], svd) == "randn_like"
