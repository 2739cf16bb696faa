"""A run that is killed, interrupted or out of disk: what was measured is kept, and the rest is done by ``--resume``."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from command import opdiff, start

from bot.report.results import Results, read_results
from bot.targets.environment import Environment

# Findings on softplus's gradient, and enough else that there is a middle to be interrupted in.
OPS = ("softplus", "cumsum", "nn.functional.softmax", "nn.functional.conv2d", "sub")
RUN = (
    "run", *(word for op in OPS for word in ("--op", op)), "--dtype", "float32",
    "--mutations", "0", "--target", "torch==1.8.1:cpu", "--target", "torch==2.13.0:cpu",
)  # fmt: skip
ENOUGH = 60  # programs measured before something happens
PATIENCE = 240.0  # seconds, on a busy machine


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory,
    torch_environment: Environment,
    old_torch_environment: Environment,
) -> Results:
    """The run that nobody interrupts."""
    out = tmp_path_factory.mktemp("whole")
    done = opdiff(*RUN, "--out", out, "--quiet")
    assert done.returncode == 2, done.stderr
    results = read_results(out / "results.json")
    assert [row.kind for row in results.findings if row.op == "nn.functional.softplus"]
    assert results.counts.programs > 3 * ENOUGH
    return results


def measured(out: Path) -> int:
    """Whole lines of the journal."""
    try:
        return (out / "journal.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


class Running:
    """A run in progress, and every process that came of it."""

    def __init__(self, out: Path, errors: Path, temporary: Path) -> None:
        self.out, self.errors, self.temporary = out, errors, temporary
        temporary.mkdir()
        self.bot = start(*RUN, "--out", out, errors=errors, TMPDIR=str(temporary))
        self.seen: dict[int, psutil.Process] = {}

    def look(self) -> list[psutil.Process]:
        """Every process below the bot's, remembered."""
        try:
            found = psutil.Process(self.bot.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        self.seen.update((process.pid, process) for process in found)
        return found

    def wait_for_the_middle(self) -> None:
        end = time.monotonic() + PATIENCE
        while measured(self.out) < ENOUGH:
            assert self.bot.poll() is None, self.errors.read_text()
            assert time.monotonic() < end, "nothing was measured"
            time.sleep(0.01)
        self.look()

    def worker(self, release: str) -> psutil.Process:
        """The worker that runs a release's programs: the oldest, for others may wait to take its place."""
        there = [p for p in self.look() if f"/{release}-" in (command(p) or [""])[0]]
        return min(there, key=lambda process: process.create_time())

    def end(self) -> int:
        while self.bot.poll() is None:
            self.look()
            time.sleep(0.2)
        return self.bot.returncode

    def assert_nothing_is_left(self) -> None:
        """Neither a process nor a folder of one."""
        gone = psutil.wait_procs(self.seen.values(), timeout=15)
        left = [p for p in gone[1] if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
        assert self.seen
        assert left == [], [command(process) for process in left]
        end = time.monotonic() + 5
        while (there := list(self.temporary.iterdir())) and time.monotonic() < end:
            time.sleep(0.05)
        assert there == []


def command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture
def running(tmp_path: Path, whole: Results) -> Iterator[Running]:
    made = Running(tmp_path / "run", tmp_path / "stderr", tmp_path / "temporary")
    yield made
    if made.bot.poll() is None:
        os.killpg(made.bot.pid, signal.SIGKILL)
        made.bot.wait()


def assert_same(out: Path, whole: Results) -> None:
    """The same findings, counts and coverage as the run that nobody interrupted."""
    results = read_results(out / "results.json")
    assert results.findings == whole.findings
    assert results.counts == whole.counts
    assert results.coverage == whole.coverage
    assert results.result == whole.result


def assert_resumes(out: Path, whole: Results, at_least: int = ENOUGH) -> None:
    """``--resume`` runs what is missing, and only that."""
    before = (out / "journal.jsonl").read_bytes()
    kept = before[: before.rfind(b"\n") + 1]
    assert at_least <= kept.count(b"\n") < whole.counts.programs, "it was not in the middle"
    assert not (out / "results.json").exists()
    done = opdiff("run", "--resume", out)
    assert done.returncode == 2, done.stderr
    assert "programs were measured before" in done.stderr
    after = (out / "journal.jsonl").read_bytes()
    assert after.startswith(kept)
    assert after.count(b"\n") == whole.counts.programs  # each once: nothing ran again
    assert_same(out, whole)


def kill(running: Running) -> None:
    running.bot.send_signal(signal.SIGKILL)


def terminate(running: Running) -> None:
    running.bot.send_signal(signal.SIGTERM)


def press_ctrl_c(running: Running) -> None:
    os.killpg(running.bot.pid, signal.SIGINT)  # a terminal sends it to all


@pytest.mark.parametrize(
    ("interrupt", "code", "says"),
    [
        (kill, -signal.SIGKILL, None),
        (terminate, 1, "interrupted; what was measured is kept"),
        (press_ctrl_c, 1, "interrupted; what was measured is kept"),
    ],
)
def test_an_interrupted_run_is_resumed(
    running: Running,
    whole: Results,
    interrupt: Callable[[Running], None],
    code: int,
    says: str | None,
) -> None:
    running.wait_for_the_middle()
    interrupt(running)
    begun = time.monotonic()
    assert running.end() == code
    assert time.monotonic() - begun < 30
    running.assert_nothing_is_left()
    said = running.errors.read_text()
    assert "Traceback" not in said
    assert says is None or says in said.splitlines()[-1]
    assert_resumes(running.out, whole)


def test_a_worker_that_is_killed_is_blamed_on_nobody(running: Running, whole: Results) -> None:
    running.wait_for_the_middle()
    running.worker("torch-1.8.1").kill()
    assert running.end() == 2, running.errors.read_text()
    running.assert_nothing_is_left()
    assert_same(running.out, whole)
    assert "Traceback" not in running.errors.read_text()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a part of a run."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_one_line_and_the_run_goes_on_later(
    small_disk: Path, whole: Results
) -> None:
    out = small_disk / "run"
    done = opdiff(*RUN, "--out", out, "--quiet")
    assert done.returncode == 1, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: no space left while writing")
    assert "--resume" in line
    assert done.stdout == ""
    subprocess.run(["mount", "-o", "remount,size=128m", small_disk], check=True)
    assert_resumes(out, whole, at_least=1)
