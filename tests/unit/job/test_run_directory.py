"""The run directory: what is written comes back, a torn end is dropped, and nobody writes into another's run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.atomic_file import write_atomically
from bot.errors import InterruptedRunError, OpDiffError
from bot.oracle.counts import Counts, TargetStatus
from bot.oracle.finding import Difference, Mismatch, Observation
from bot.plan import Plan, PlannedTarget
from bot.run_directory import Entry, RunDirectory
from bot.targets.outcome import Death

PLAN = Plan(
    command="run",
    targets=(PlannedTarget(spec="torch==2.13.0:cpu"), PlannedTarget(spec="oneflow==0.9.0:cpu")),
    ops=("add",),
)
OK = TargetStatus("ok")

text = st.text(max_size=30)  # any Unicode that UTF-8 can hold: line separators, quotes, NUL
count = st.integers(0, 2**40)
number = st.floats(allow_nan=False)  # a difference can be infinite; NaN differs from itself
labels = st.lists(text, max_size=3).map(tuple)
kinds = st.sampled_from(("value", "gradient", "nan", "shape", "crash", "hang", "accepts"))
differences = st.builds(
    Difference,
    differing=count,
    elements=count,
    largest_absolute=st.none() | number,
    largest_relative=st.none() | number,
    largest_ulp=st.none() | count,
    first_index=st.none() | st.lists(count, max_size=4).map(tuple),
)
observations = st.builds(
    Observation,
    target=text,
    dtype=st.none() | text,
    shape=st.none() | st.lists(count, max_size=4).map(tuple),
    value=st.none() | text,
    happened=st.none() | text,
)
mismatches = st.builds(
    Mismatch,
    program=text,
    kind=kinds,
    role=text,
    name=text,
    path=st.lists(count, max_size=3).map(tuple),
    sides=st.lists(labels, max_size=3).map(tuple),
    observations=st.lists(observations, max_size=3).map(tuple),
    difference=st.none() | differences,
    note=text,
)
entries = st.builds(
    Entry,
    digest=text,
    op=text,
    statuses=st.lists(
        st.builds(TargetStatus, st.sampled_from(("ok", "exception", "crash")), text),
        min_size=2,
        max_size=2,
    ).map(tuple),
    counts=st.builds(
        Counts, compared=count, outputs=count, skipped=st.lists(text, max_size=3).map(tuple)
    ),
    mismatches=st.lists(mismatches, max_size=3).map(tuple),
    deaths=st.lists(
        st.none() | st.builds(Death, signal=text, last_words=text, confirmed=st.booleans()),
        max_size=3,
    ).map(tuple),
)


def plain(digest: str, mismatched: bool = False) -> Entry:
    found = (Mismatch(digest, "value", "output", "r0", (), (("a",), ("b",)), ()),)
    return Entry(digest, "add", (OK, OK), Counts(compared=1, outputs=1), found * mismatched)


def digests(directory: RunDirectory) -> list[str]:
    return [entry.digest for entry in directory.entries()]


@given(entries)
def test_a_line_reads_back_as_the_entry(entry: Entry) -> None:
    line = entry.to_line()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert Entry.from_line(line) == entry


def test_a_line_holds_what_is_counted_and_nothing_worked_out_from_it() -> None:
    entry = plain("a")
    line = entry.to_line()
    assert entry.counts.by_name == {"compared": 1, "outputs": 1}
    assert json.loads(line)["counts"] == {"compared": 1, "outputs": 1}
    assert entry.to_line() == line


@settings(max_examples=50, deadline=None)
@given(st.lists(entries, max_size=4), st.data())
def test_a_journal_cut_anywhere_keeps_every_whole_line(
    written: Sequence[Entry], data: st.DataObject
) -> None:
    lines = [entry.to_line() for entry in written]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, lines[: n + 1])) for n in range(len(lines))]
    kept = [entry for entry, end in zip(written, ends, strict=True) if end <= cut]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        RunDirectory.create(path, PLAN).close()
        (path / "journal.jsonl").write_bytes(whole[:cut])
        with RunDirectory.resume(path) as directory:
            assert list(directory.entries()) == kept
            directory.record(plain("next"), b"")  # it starts on a line of its own
            assert digests(directory) == [*(entry.digest for entry in kept), "next"]


def test_a_killed_writer_loses_at_most_the_line_it_was_writing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    script = f"""
import os, signal
from pathlib import Path
from bot.oracle.counts import Counts, TargetStatus
from bot.plan import Plan, PlannedTarget
from bot.run_directory import Entry, RunDirectory
plan = Plan(command="run", targets=(PlannedTarget(spec="torch==2.13.0:cpu"),) * 2, ops=("add",))
ok = (TargetStatus("ok"),) * 2
directory = RunDirectory.create(Path({str(folder)!r}), plan)
for number in range(20):
    directory.record(Entry(str(number), "add", ok, Counts()), b"")
os.write(directory._journal.fileno(), Entry("torn", "add", ok, Counts()).to_line()[:-9])
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", script], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with RunDirectory.resume(folder) as directory:
        assert digests(directory) == [str(number) for number in range(20)]


def test_a_line_that_is_no_entry_is_passed_over(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, PLAN) as directory:
        directory.record(plain("a"), b"")
        with (tmp_path / "journal.jsonl").open("ab") as journal:
            journal.write(b"[]\nnull\n\n{}\n\xff\xfe\n" + plain("b").to_line())
        assert digests(directory) == ["a", "b"]


class ShortWrites:
    """A journal on a nearly full disk: a write takes what fits, and the next one raises nothing yet."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("ab", buffering=0)

    def write(self, data: bytes) -> int:
        return self.file.write(data[:7])

    def close(self) -> None:
        self.file.close()


def test_a_short_write_is_gone_on_with(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, PLAN) as directory:
        directory._journal.close()
        directory._journal = ShortWrites(tmp_path / "journal.jsonl")  # type: ignore[assignment]
        directory.record(plain("a"), b"")
        directory.record(plain("b"), b"")
        assert digests(directory) == ["a", "b"]


def test_a_failing_program_is_on_disk_before_its_line(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, PLAN) as directory:
        directory.record(plain("good"), b"good")
        directory.record(plain("bad", mismatched=True), b"bad")
        assert directory.failing_blob("bad") == b"bad"
        assert directory.failing_blob("good") is None
        (tmp_path / "failing").rename(tmp_path / "moved")
        (tmp_path / "failing").touch()  # a blob that cannot be written
        with pytest.raises(OSError, match="failing"):
            directory.record(plain("worse", mismatched=True), b"worse")
        assert digests(directory) == ["good", "bad"]


def test_the_plan_comes_back(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path, PLAN).close()
    with RunDirectory.resume(tmp_path) as directory:
        assert directory.plan == PLAN


def test_a_run_in_progress_refuses_another_in_the_same_folder(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from bot.run_directory import RunDirectory\n"
        "RunDirectory.resume(Path(sys.argv[1]))"
    )
    with RunDirectory.create(tmp_path, PLAN) as directory:
        directory.record(plain("a"), b"")
        other = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)], capture_output=True, timeout=60
        )
        assert other.returncode == 1
        assert b"OpDiffError: another opdiff is running in" in other.stderr
        with pytest.raises(OpDiffError, match="another opdiff is running"):
            RunDirectory.create(tmp_path, PLAN)
        assert digests(directory) == ["a"]  # nothing of the running one was touched
    RunDirectory.resume(tmp_path).close()


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(OpDiffError, match="not empty and holds no OpDiff run"):
        RunDirectory.create(tmp_path, PLAN)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_in_which_a_run_failed_to_begin_can_be_used(tmp_path: Path) -> None:
    """A kill or a full disk after the lock is there and before the plan is."""
    (tmp_path / ".lock").touch()
    (tmp_path / ".plan.json.1.tmp").touch()
    RunDirectory.create(tmp_path, PLAN).close()


def test_an_older_run_is_replaced_whole(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, PLAN) as directory:
        directory.record(plain("old", mismatched=True), b"old")
    for name in ("results.json", "report.md", "findings/add-0123/repro.py", "failing/.x.9.tmp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with RunDirectory.create(tmp_path, PLAN.model_copy(update={"seed": 1})) as directory:
        assert digests(directory) == []
        directory.begin()
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert left == {".lock", "plan.json", "journal.jsonl"}
    assert json.loads((tmp_path / "plan.json").read_text())["seed"] == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "holds no OpDiff run to resume"),
        ('{"version": 2}', "has plan version 2; this opdiff reads 1"),
        ('{"command": "run", "targets": []}', "has plan version None"),
        ('{"version": 1}', "is not a plan"),
        ("[1]", "is not a plan"),
        ("{", "is not a plan"),
        ("\udcff", "is not a plan"),
    ],
)
def test_what_cannot_be_resumed_is_one_line(tmp_path: Path, content: str | None, says: str) -> None:
    if content is not None:
        (tmp_path / "plan.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(OpDiffError) as refused:
        RunDirectory.resume(tmp_path)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "journal.jsonl").exists()


def test_write_atomically_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomically(file, b"old")
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_nothing_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    file = tmp_path / "file"
    write_atomically(file, b"old")

    def half(self: Path, data: bytes) -> int:
        with self.open("wb") as stream:
            stream.write(data[:1])
        raise error

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(type(error)):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_run_is_resumed_with_the_builds_it_began_with(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, PLAN) as directory:
        directory.keep_builds(["aa", "bb"])
        directory.record(plain("one"), b"")
    with RunDirectory.resume(tmp_path) as directory:
        directory.keep_builds(["aa", "bb"])
        assert digests(directory) == ["one"]
        with pytest.raises(OpDiffError, match="begun with other builds"):
            directory.keep_builds(["aa", "cc"])


def test_a_new_run_in_the_same_folder_may_have_other_builds(tmp_path: Path) -> None:
    for build in ("aa", "cc"):
        with RunDirectory.create(tmp_path, PLAN) as directory:
            directory.keep_builds([build])


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file but the lock, with its content."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A folder with a finished run."""
    with RunDirectory.create(tmp_path / "run", PLAN) as directory:
        directory.keep_builds(["aa", "bb"])
        directory.record(plain("old", mismatched=True), b"old")
    (tmp_path / "run/results.json").write_text("{}")
    (tmp_path / "run/findings").mkdir()
    (tmp_path / "run/findings/repro.py").write_text("")
    return tmp_path / "run"


@pytest.mark.parametrize("error", [OpDiffError("a target does not start"), ValueError("bad")])
def test_a_run_that_never_begins_costs_no_older_report(older: Path, error: Exception) -> None:
    before = files_of(older)
    with (
        pytest.raises(type(error), match=str(error)),
        RunDirectory.create(older, PLAN.model_copy(update={"seed": 1})),
    ):
        raise error
    assert files_of(older) == before


def test_an_older_runs_journal_is_not_the_new_ones(older: Path) -> None:
    with RunDirectory.create(older, PLAN) as directory:
        assert digests(directory) == []
    with RunDirectory.resume(older) as directory:
        assert digests(directory) == ["old"]


def test_ctrl_c_before_anything_ran_says_what_is_in_the_folder(older: Path) -> None:
    """--resume would go on with the older run's plan."""
    before = files_of(older)
    with (
        pytest.raises(OpDiffError, match=r"interrupted before anything ran; .* the older run"),
        RunDirectory.create(older, PLAN),
    ):
        raise KeyboardInterrupt
    assert files_of(older) == before


def test_ctrl_c_in_a_new_folder_can_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "my run"
    with (
        pytest.raises(InterruptedRunError) as caught,
        RunDirectory.create(folder, PLAN),
    ):
        raise KeyboardInterrupt
    assert str(caught.value) == (
        f"interrupted; what was measured is kept: go on with opdiff run --resume '{folder}'"
    )
    with RunDirectory.resume(folder) as directory:
        assert directory.plan == PLAN


def test_whatever_is_written_first_replaces_the_older_run(older: Path) -> None:
    plan = PLAN.model_copy(update={"seed": 1})
    with RunDirectory.create(older, plan) as directory:
        directory.record(plain("new"), b"")
        assert digests(directory) == ["new"]
    assert set(files_of(older)) == {"plan.json", "journal.jsonl"}
    with RunDirectory.resume(older) as directory:
        assert directory.plan == plan


def test_another_tools_plan_is_no_run(tmp_path: Path) -> None:
    """A folder with a plan.json and findings of somebody else's is left as it is."""
    (tmp_path / "plan.json").write_text('{"format_version": "1.2", "resource_changes": []}')
    (tmp_path / "findings").mkdir()
    with pytest.raises(OpDiffError, match="is not empty and holds no OpDiff run"):
        RunDirectory.create(tmp_path, PLAN)
    assert (tmp_path / "findings").is_dir()


@pytest.mark.parametrize("name", [".lock", "journal.jsonl", "failing", "findings"])
def test_a_link_does_not_lead_a_runs_files_away(tmp_path: Path, name: str) -> None:
    """A checkout may hold a folder that looks like an older run's, with links in it."""
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    RunDirectory.create(run, PLAN).close()
    for entry in (run / name, run / "findings"):
        if entry.is_dir():
            entry.rmdir()
        else:
            entry.unlink(missing_ok=True)
    (run / name).symlink_to(elsewhere if name in ("failing", "findings") else elsewhere / "new")
    for begin in (lambda: RunDirectory.create(run, PLAN), lambda: RunDirectory.resume(run)):
        with pytest.raises(OpDiffError, match="is a symbolic link"):
            begin()
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OpDiffError, match="a file: give a folder as --out"):
            RunDirectory.create(out, PLAN)


def test_json_nested_without_end_is_no_plan_and_no_entry(tmp_path: Path) -> None:
    deep = b'{"version":1,"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    with RunDirectory.create(tmp_path / "run", PLAN) as directory:
        directory.record(plain("one"), b"")
    with (tmp_path / "run" / "journal.jsonl").open("ab") as journal:
        journal.write(deep + b"\n")
    with RunDirectory.resume(tmp_path / "run") as directory:
        assert digests(directory) == ["one"]
    (tmp_path / "run" / "plan.json").write_bytes(deep)
    with pytest.raises(OpDiffError, match="is not a plan"):
        RunDirectory.resume(tmp_path / "run")
    with pytest.raises(OpDiffError, match="holds no OpDiff run"):
        RunDirectory.create(tmp_path / "run", PLAN)


def test_a_line_of_other_targets_is_passed_over(tmp_path: Path) -> None:
    """A line with one status too few belongs to no run of this plan."""
    RunDirectory.create(tmp_path, PLAN).close()
    few = Entry("few", "add", (OK,), Counts()).to_line()
    (tmp_path / "journal.jsonl").write_bytes(few + plain("right").to_line())
    with RunDirectory.resume(tmp_path) as directory:
        assert digests(directory) == ["right"]


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for another user than root, whom permissions do not stop."""
    monkeypatch.setattr("bot.run_directory.os.access", lambda *_: False)
    with pytest.raises(OpDiffError, match=r"cannot be read and written: give another --out$"):
        RunDirectory.create(tmp_path, PLAN)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line() -> None:
    with pytest.raises(OpDiffError, match=r"^/proc/run cannot be made: .*: give another --out$"):
        RunDirectory.create(Path("/proc/run"), PLAN)
