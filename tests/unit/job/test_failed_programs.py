"""The memory of failed programs: replayed first, counted, dropped, and never trusted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bot.failed_programs import LONG, MAX_OF_AN_OP, FailedPrograms
from bot.oracle.counts import Counts, TargetStatus
from bot.oracle.finding import Finding
from bot.programs.builder import ProgramBuilder
from bot.programs.program import digest
from bot.run_directory import Entry

A, B = "torch==1.8.1:cpu", "torch==2.13.0:cpu"


def blob(value: float = 1.0, op: str = "exp") -> bytes:
    builder = ProgramBuilder(op)
    builder.output(builder.call(op, builder.tensor("x", np.array([value]))))
    return builder.blob()


def finding(program: bytes, verdict: str = "undecided") -> Finding:
    fields = ("01" * 8, "exp", "value", verdict, (), "weak", None, ((A,), (B,)))
    return Finding(*fields, digest(program), (), ())  # type: ignore[arg-type]


def passed(program: bytes) -> Entry:
    return Entry(digest(program), "exp", (TargetStatus("ok"),) * 2, Counts(compared=1))


def remembered(folder: Path, ops: tuple[str, ...] | None = ("exp",)) -> list[bytes]:
    return [p.blob for p in FailedPrograms(folder, writes=False).programs(ops)]


def fail(folder: Path, *programs: bytes) -> None:
    memory = FailedPrograms(folder, writes=True)
    list(memory.programs(None))
    found = [finding(program) for program in programs]
    entries = [passed(program) for program in programs]
    memory.keep(entries, found, {digest(program): program for program in programs})


def run_and_pass(folder: Path) -> None:
    memory = FailedPrograms(folder, writes=True)
    memory.keep([passed(p.blob) for p in memory.programs(None)], [], {})


def test_a_failed_program_is_replayed_for_its_op_alone(tmp_path: Path) -> None:
    fail(tmp_path, blob())
    assert remembered(tmp_path) == remembered(tmp_path, None) == [blob()]
    assert remembered(tmp_path, ("log",)) == []


def test_what_passes_for_long_is_dropped(tmp_path: Path) -> None:
    fail(tmp_path, blob())
    for _ in range(LONG - 1):
        run_and_pass(tmp_path)
    assert remembered(tmp_path) == [blob()]
    run_and_pass(tmp_path)
    assert remembered(tmp_path) == []


def test_what_fails_again_begins_anew_and_comes_first(tmp_path: Path) -> None:
    fail(tmp_path, blob(1.0), blob(2.0))
    run_and_pass(tmp_path)
    for again in (blob(1.0), blob(2.0)):
        run_and_pass(tmp_path)
        fail(tmp_path, again)
        assert remembered(tmp_path)[0] == again
    names = sorted(file.name.split(".")[1] for file in (tmp_path / "exp").iterdir())
    assert names == ["0", "1"]


def test_a_run_that_may_not_write_changes_nothing(tmp_path: Path) -> None:
    fail(tmp_path, blob())
    memory = FailedPrograms(tmp_path, writes=False)
    programs = list(memory.programs(None))
    memory.keep([passed(programs[0].blob)], [finding(blob(2.0))], {digest(blob(2.0)): blob(2.0)})
    assert [file.name for file in (tmp_path / "exp").iterdir()] == [f"{digest(blob())}.0.opdiff"]


def test_conventions_are_not_remembered(tmp_path: Path) -> None:
    memory = FailedPrograms(tmp_path, writes=True)
    memory.keep([], [finding(blob(), "convention")], {digest(blob()): blob()})
    assert remembered(tmp_path, None) == []


def test_a_hostile_folder_is_refused_file_by_file(tmp_path: Path) -> None:
    """No program; another than its name says; no public op; another op's; a link out of the folder."""
    fail(tmp_path, blob())
    folder = tmp_path / "exp"
    secret = tmp_path / "secret"
    secret.write_bytes(blob(3.0))
    (folder / f"{'0' * 32}.0.opdiff").write_bytes(b"no program")
    (folder / f"{'1' * 32}.0.opdiff").write_bytes(blob(2.0))
    for bad in (blob(1.0, "os.system"), blob(1.0, "log")):
        (folder / f"{digest(bad)}.0.opdiff").write_bytes(bad)
    (folder / f"{digest(blob(3.0))}.0.opdiff").symlink_to(secret)
    memory = FailedPrograms(tmp_path, writes=False)
    assert [p.blob for p in memory.programs(("exp",))] == [blob()]
    assert memory.refused == 5
    assert any("5 files" in note for note in memory.notes())


def test_a_full_folder_drops_what_passed_longest(tmp_path: Path) -> None:
    fail(tmp_path, blob(0.5))
    run_and_pass(tmp_path)
    fail(tmp_path, *(blob(float(n)) for n in range(1, MAX_OF_AN_OP + 1)))
    kept = remembered(tmp_path)
    assert len(kept) == MAX_OF_AN_OP
    assert blob(0.5) not in kept


def test_two_runs_at_once_count_without_losing_a_program(tmp_path: Path) -> None:
    fail(tmp_path, blob())
    first, second = (FailedPrograms(tmp_path, writes=True) for _ in range(2))
    for memory in (first, second):
        list(memory.programs(None))
    for memory in (first, second):
        memory.keep([passed(blob())], [], {})
    assert remembered(tmp_path) == [blob()]
