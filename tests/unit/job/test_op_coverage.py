"""Measured coverage of ops: what counts as supported and as agreeing, and the page of several frameworks."""

from __future__ import annotations

import io
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bot.cli import app
from bot.coverage_page import coverage_page, read_answers
from bot.errors import OpDiffError
from bot.op_coverage import measure_ops, sample_dtype, spaced
from bot.programs.builder import ProgramBuilder
from bot.programs.op_index import OpIndex
from bot.programs.program import digest
from bot.programs.source import SourceCounts, SourcedProgram, SourceEntry, SourceRequest
from bot.targets.environment import Environment
from bot.targets.job import Job, JobResult, PoolTarget
from bot.targets.outcome import Death, RawOutcome, dead
from bot.worker.protocol import encode_header

RIGHT = np.array([1.0, 2.0])
WRONG = np.array([1.0, 2.5])
ABORT = "F20261201 04:11:12.173220  6896 shape.cpp:30] Check failed: index < 4"


def outcome(
    *tensors: tuple[str, str, Any], status: str = "ok", says: str = "", phase: str = "backward"
) -> RawOutcome:
    rows = [[role, name, [], "float64", [2]] for role, name, _ in tensors]
    error = {"type": "Error", "message": says} if says else None
    header = {
        "type": "outcome",
        "id": 1,
        "status": status,
        "phase": phase,
        "call": 0,
        "error": error,
    }
    payload = b"".join(np.asarray(array, np.float64).tobytes() for _, _, array in tensors)
    return RawOutcome(
        encode_header({**header, "tensors": rows, "values": [], "absent": []}), payload
    )


def result(output: Any, gradient: Any = RIGHT) -> RawOutcome:
    return outcome(("output", "r0", output), ("gradient", "x", gradient))


UNSUPPORTED = outcome(status="unsupported", says="no such op", phase="forward")
RAISED = outcome(status="exception", says="bad shape", phase="forward")
DIED = dead("crash", Death("SIGABRT", ABORT, True))

SAMPLES: dict[str, list[tuple[RawOutcome, RawOutcome]]] = {
    "neg": [
        (result(RIGHT), result(RIGHT)),
        (result(RIGHT), result(WRONG)),
        (result(RIGHT), result(RIGHT, WRONG)),
        (result(RIGHT), UNSUPPORTED),
        (result(RIGHT), UNSUPPORTED),
        (RAISED, RAISED),
        (result(RIGHT), RAISED),
        (result(RIGHT), DIED),
    ],
    "abs": [(result(RIGHT), UNSUPPORTED)],
}
"""Per op: what PyTorch and the framework make of each sample."""


class Source:
    """OpInfos whose samples are those above."""

    def entries(self) -> list[SourceEntry]:
        found = [
            SourceEntry("opinfo", op, group=op, names=(op,), dtypes=("float64",)) for op in SAMPLES
        ]
        return [*found, SourceEntry("moduleinfo", "nn.Linear", group="nn.Linear")]

    def index(self) -> OpIndex:
        return OpIndex(self.entries())

    def programs(
        self, requests: Sequence[SourceRequest], counts: SourceCounts
    ) -> Iterator[SourcedProgram]:
        for request in requests:
            assert (request.dtypes, request.kinds) == (("float64",), ("sample",))
            for number in range(len(SAMPLES[request.entry.name])):
                builder = ProgramBuilder(request.entry.name)
                x = builder.tensor("x", RIGHT + number, requires_grad=True)
                made = builder.call(request.entry.name, x)
                builder.output(made)
                builder.backward(made, RIGHT)
                blob = builder.blob()
                yield SourcedProgram(blob, digest(blob), request.entry.name)


class Pool:
    """Answers each job with its sample's outcomes, the last job first."""

    def facts(self) -> None:
        """Workers start."""

    def run(self, jobs: Iterable[Job]) -> Iterator[JobResult]:
        numbers: dict[str, int] = {}
        found: list[JobResult] = []
        for job in jobs:
            number = numbers.setdefault(job.group, 0)
            numbers[job.group] += 1
            found.append(JobResult(job, SAMPLES[job.group][number]))
        yield from reversed(found)


class Workshop:
    """The stand-in pool, source and store."""

    store = None

    @contextmanager
    def source(self) -> Generator[Source]:
        yield Source()

    @contextmanager
    def pool(self, targets: Sequence[PoolTarget]) -> Generator[Pool]:
        assert [str(target.target) for target in targets] == [
            "torch==2.13.0:cpu",
            "numpy==2.4.6:cpu",
        ]
        yield Pool()


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch) -> Any:
    def resolve(target: Any, store: object) -> PoolTarget:
        framework = str(target).partition("=")[0]
        environment = Environment(
            str(target), framework, Path("python"), "release", f"{framework}-digest"
        )
        return PoolTarget(target, environment)

    monkeypatch.setattr("bot.op_coverage.resolve", resolve)
    return Workshop()


def test_supported_agreeing_and_reasons(workshop: Any) -> None:
    """Supported: results, and exceptions of both sides' own; agreeing: those that nothing of differs."""
    table = measure_ops(workshop, "numpy==2.4.6", "float64")
    assert [op.name for op in table.ops] == ["abs", "neg"]
    absolute, negative = table.ops
    assert (absolute.samples, absolute.supported, absolute.agreeing) == (1, 0, 0)
    assert (negative.samples, negative.supported, negative.agreeing) == (8, 6, 2)
    assert negative.gradients == 3
    assert absolute.why == {"unsupported: no such op": 1}
    assert negative.why["unsupported: no such op"] == 2
    assert negative.why["differs: value"] == 1
    assert negative.why["differs: gradient"] == 1
    assert negative.why["differs: refuses: bad shape"] == 1
    # Times and thread ids differ from run to run, and are left out.
    crash = next(reason for reason in negative.why if "crash" in reason)
    assert crash.endswith("shape.cpp:30] Check failed: index < 4")
    assert "2026" not in crash
    assert (table.covered, table.to_json()["with_gradients"], table.to_json()["total"]) == (1, 1, 2)


def test_only_the_ops_that_are_wanted_run(workshop: Any) -> None:
    table = measure_ops(workshop, "numpy==2.4.6", "float64", ("abs",))
    assert [op.name for op in table.ops] == ["abs"]


def test_the_printed_table_counts(workshop: Any) -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    measure_ops(workshop, "numpy==2.4.6", "float64").print(console)
    text = console.export_text()
    assert "6 of 8" in text
    assert "numpy==2.4.6, float64: 1 of 2 ops covered, 1 with gradients" in text


@pytest.mark.parametrize(
    ("offered", "wanted", "chosen"),
    [
        (("float32", "float64"), "float64", "float64"),
        ((), "float64", "float64"),
        (("int16", "int64"), "float64", "int64"),
        (("bool", "complex128"), "float32", "complex128"),
        (("bool",), "float64", "bool"),
    ],
)
def test_the_dtype_of_samples(offered: tuple[str, ...], wanted: str, chosen: str) -> None:
    assert sample_dtype(offered, wanted) == chosen


def answer(path: Path, framework: str, dtype: str, **ops: tuple[int, int, int, int]) -> Path:
    rows: list[dict[str, Any]] = [
        {"op": op, "samples": n, "supported": s, "agreeing": a, "gradients": g, "why": {}}
        for op, (n, s, a, g) in ops.items()
    ]
    path.write_text(json.dumps({"framework": framework, "dtype": dtype, "ops": rows}))
    return path


def test_the_page_of_several_answers(tmp_path: Path) -> None:
    paths = [
        answer(tmp_path / "1", "paddle==3.3.1", "float32", add=(4, 4, 4, 8), erf=(2, 2, 1, 2)),
        answer(tmp_path / "2", "paddle==3.3.1", "float64", add=(4, 3, 2, 4), erf=(2, 0, 0, 0)),
        answer(tmp_path / "3", "numpy==2.4.6", "float64", add=(4, 4, 4, 0)),
        answer(tmp_path / "4", "numpy==2.4.6", "float64", sub=(5, 4, 0, 0)),
    ]
    page = coverage_page(read_answers(paths))
    lines = page.splitlines()
    # Of two chunks of one run both count; float64 stands before float32.
    assert "| numpy==2.4.6 | float64 | 1 of 2 | 0 | 8 of 9 | 4 |" in lines
    assert lines.index("| paddle==3.3.1 | float64 | 1 of 2 | 1 | 3 of 6 | 2 |") < lines.index(
        "| paddle==3.3.1 | float32 | 2 of 2 | 2 | 6 of 6 | 5 |"
    )
    assert lines[-5:] == [
        "| op | numpy==2.4.6 | paddle==3.3.1 |",
        "| --- | --- | --- |",
        "| `add` | 4/4, 4 | 3/4, 2, 4 g |",
        "| `erf` |  | 2/2, 1, 2 g float32 |",
        "| `sub` | 4/5, 0 |  |",
    ]
    # The order in which the files are named is of no consequence.
    assert coverage_page(read_answers(reversed(paths))) == page


def test_a_later_answer_about_an_op_counts(tmp_path: Path) -> None:
    paths = [
        answer(tmp_path / "1", "jax==0.10.2", "float64", add=(4, 1, 1, 2)),
        answer(tmp_path / "2", "jax==0.10.2", "float64", add=(4, 4, 4, 8)),
    ]
    assert "| `add` | 4/4, 4, 8 g |" in coverage_page(read_answers(paths))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"framework": "x", "dtype": "y", "ops": [{}]}'])
def test_what_is_no_answer_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "answer.json"
    path.write_text(text)
    with pytest.raises(OpDiffError, match=r"answer\.json: no answer of") as caught:
        read_answers([path])
    assert "\n" not in str(caught.value)


def test_the_command_prints_the_page(tmp_path: Path) -> None:
    path = answer(tmp_path / "1", "jax==0.10.2", "float64", add=(4, 4, 4, 8))
    printed = CliRunner().invoke(app, ["ops", "--page", str(path)])
    assert printed.exit_code == 0
    assert printed.output == coverage_page(read_answers([path]))


def test_evenly_spaced_samples() -> None:
    ten = [SourcedProgram(b"", str(number), "op") for number in range(10)]
    assert [p.digest for p in spaced(ten, 3)] == ["0", "4", "8"]
    assert [p.digest for p in spaced(ten, 20)] == [p.digest for p in ten]
    assert list(spaced(ten, None)) == ten
    assert list(spaced([], 3)) == []
