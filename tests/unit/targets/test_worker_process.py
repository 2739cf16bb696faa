"""One worker: what it may see, how it ends, and that it never outlives the bot."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from standin import WORKER, gone, run_all, standin_pool, standin_target, value, wait_until

from bot.targets.job import Limits
from bot.targets.launcher import open_worker
from bot.targets.watchdog import descendants, resident_bytes
from bot.targets.worker_process import WorkerDeath, manner_of_death
from bot.worker.protocol import encode_header

HOST = {
    "PATH": "/usr/bin:/bin",
    "TZ": "UTC",
    "HOME": "/root",
    "GITHUB_TOKEN": "ghs_secret",
    "GITHUB_WORKSPACE": "/github/workspace",
    "INPUT_TOKEN": "secret",
    "ACTIONS_RUNTIME_TOKEN": "secret",
    "ACTIONS_ID_TOKEN_REQUEST_URL": "https://example.invalid",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "PYTHONPATH": "/somewhere",
    "PYTHONSTARTUP": "/somewhere/start.py",
    "LD_PRELOAD": "",
    "LD_LIBRARY_PATH": "/somewhere",
    "CUDA_VISIBLE_DEVICES": "0",
    "OMP_NUM_THREADS": "64",
}


def attempt(what: str, *arguments: object) -> dict[str, object]:
    return {"do": "attempt", "what": what, "arguments": list(arguments)}


def seen(what: str, *arguments: object, target=None, **options) -> object:
    """What an attempt inside a worker returned."""
    with standin_pool(target or standin_target(), **options) as pool:
        answer = value(run_all(pool, [attempt(what, *arguments)])[0])
    assert answer.startswith("worked: "), answer
    return eval(answer.removeprefix("worked: "))


class TestEnvironment:
    def test_a_worker_sees_only_what_is_allowed(self):
        variables = seen("environ", host_environment=HOST)
        scratch = variables.pop("HOME")
        assert variables == {
            "PATH": "/usr/bin:/bin",
            "TZ": "UTC",
            "TMPDIR": scratch,
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONNOUSERSITE": "1",
            "PYTHONSAFEPATH": "1",
            "PYTHONUNBUFFERED": "1",
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "NVIDIA_TF32_OVERRIDE": "0",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "NUMEXPR_NUM_THREADS": "1",
            "VECLIB_MAXIMUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        assert scratch not in ("", "/root")

    def test_the_hosts_variables_are_in_no_process_above_it_but_the_bot(self):
        """The guard is started with an empty environment."""
        with open_worker(standin_target(), worker_directory=WORKER) as worker:
            raw = Path(f"/proc/{worker.guard_pid}/environ").read_bytes()
        assert b"HOME" not in raw
        assert b"PATH" not in raw

    def test_paths_of_the_environment(self, tmp_path):
        (tmp_path / "overlaid.py").write_text("x = 1")
        target = standin_target(import_paths=(tmp_path,), library_paths=(tmp_path, Path("/opt/l")))
        variables = seen("environ", target=target)
        assert variables["PYTHONPATH"] == str(tmp_path)
        assert variables["LD_LIBRARY_PATH"] == f"{tmp_path}:/opt/l"
        assert seen("import", "overlaid", target=target) == "overlaid"

    def test_the_bots_working_directory_is_neither_seen_nor_importable(self, tmp_path, monkeypatch):
        (tmp_path / "planted.py").write_text("x = 1")
        monkeypatch.chdir(tmp_path)
        assert seen("cwd") != str(tmp_path)
        path = seen("path")
        assert path[0] == str(WORKER)
        assert "" not in path
        assert str(tmp_path) not in path
        with standin_pool() as pool:
            assert value(run_all(pool, [attempt("import", "planted")])[0]) == "ModuleNotFoundError"

    def test_limits(self):
        core, file_size, _ = seen("limits")
        assert core == 0
        assert file_size == 1 << 30

    def test_no_descriptor_of_the_bot_is_inherited(self, tmp_path):
        secret = (tmp_path / "secret").open("w")
        os.set_inheritable(secret.fileno(), True)
        with secret:
            links = seen("fds")
        targets = [link.removeprefix("worked: ") for link in links.values()]
        assert not any("secret" in link for link in targets)
        pipes = {link for link in targets if "pipe:" in link}
        assert len(pipes) == 3  # frames in, frames out, words
        assert len(links) <= 6


class TestAsk:
    def test_a_message_and_its_answers(self):
        with open_worker(standin_target(), worker_directory=WORKER) as worker:
            blob = b'{"do": "answer", "value": 5}'
            message = {"type": "batch", "programs": [[0, len(blob)]]}
            ((answer, payload),) = worker.ask(message, blob, until="outcome", seconds=10)
        assert answer["values"] == [["output", "r", [], 5]]
        assert payload == b""

    def test_a_death_while_asked(self):
        with open_worker(standin_target(), worker_directory=WORKER) as worker:
            blob = b'{"do": "die", "signal": "SIGABRT", "say": "last"}'
            message = {"type": "batch", "programs": [[0, len(blob)]]}
            with pytest.raises(WorkerDeath) as caught:
                list(worker.ask(message, blob, until="outcome", seconds=10))
        assert (caught.value.signal, caught.value.last_words) == ("SIGABRT", "last")

    def test_a_worker_that_does_not_answer_is_killed(self):
        with open_worker(standin_target(), worker_directory=WORKER) as worker:
            blob = b'{"do": "hang"}'
            message = {"type": "batch", "programs": [[0, len(blob)]]}
            with pytest.raises(WorkerDeath) as caught:
                list(worker.ask(message, blob, until="outcome", seconds=0.3))
            assert caught.value.status == "hang"
            assert wait_until(lambda: gone([worker.guard_pid]))


@pytest.mark.parametrize(
    ("code", "by_status", "name"),
    [
        (-6, False, "SIGABRT"),
        (3, False, "exit 3"),
        (134, False, "exit 134"),
        (134, True, "SIGABRT"),
        (136, True, "SIGFPE"),
        (128, True, "exit 128"),
        (255, True, "exit 255"),
    ],
)
def test_manner_of_death(code, by_status, name):
    assert manner_of_death(code, by_status) == name


BOT = """
import json, sys
sys.path[:0] = {paths!r}
from standin import standin_pool, standin_target, jobs, LIMITS
from bot.targets.job import Limits
with standin_pool(standin_target(), standin_target(), limits=Limits(program_seconds=1000)) as pool:
    results = pool.run(jobs([{{"do": "children"}}, {{"do": "attempt", "what": "pid"}}, {{"do": "hang"}}]))
    print(json.dumps([next(results).outcomes[0].decode().values[0][3] for _ in range(2)]), flush=True)
    next(results)
"""


class TestOrphans:
    @pytest.fixture
    def bot(self):
        """A bot whose workers hang (all signals blocked), with children of theirs that left the group and parent."""
        here = Path(__file__).parent
        code = BOT.format(paths=[str(here), str(here.parents[2])])
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        line = json.loads(process.stdout.readline())
        time.sleep(0.2)
        below = descendants(process.pid)
        assert len(below) >= 4 + len(line[0])  # two guards, two workers, and the sleepers
        yield process, below
        process.kill()
        process.wait()

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
    def test_nothing_outlives_the_bot(self, bot, number):
        process, below = bot
        scratch = {
            variable.split("=", 1)[1]
            for pid in below
            for variable in environment_of(pid)
            if variable.startswith("TMPDIR=")
        }
        assert scratch
        process.send_signal(number)
        process.wait(10)
        assert wait_until(lambda: gone(below))
        assert wait_until(lambda: not any(Path(folder).exists() for folder in scratch))

    def test_a_killed_guard_takes_its_worker_along(self):
        with standin_pool(limits=Limits(program_seconds=1000)) as pool:
            pid = eval(value(run_all(pool, [attempt("pid")])[0]).removeprefix("worked: "))
            guard = psutil.Process(pid).parent()
            guard.kill()
            assert wait_until(lambda: gone([pid]))
            scratch = pool.facts()[0].ready["home"]
        assert not Path(scratch).exists()


def environment_of(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return []


class TestWatchdog:
    def test_descendants_and_resident_bytes_against_psutil(self):
        code = (
            "import subprocess, sys; x = b'x' * (50 << 20); subprocess.run(['sleep', '60']) "
            "if len(sys.argv) > 1 else None"
        )
        process = subprocess.Popen([sys.executable, "-c", code, "x"])
        try:
            assert wait_until(lambda: len(descendants(process.pid)) == 1)
            children = psutil.Process(process.pid).children(recursive=True)
            assert descendants(process.pid) == [child.pid for child in children]
            assert resident_bytes(process.pid) == psutil.Process(process.pid).memory_info().rss
            assert 50 << 20 < resident_bytes(process.pid) < 100 << 20
        finally:
            for child in psutil.Process(process.pid).children():
                child.kill()
            process.kill()
            process.wait()
        assert resident_bytes(process.pid) == 0


def test_encode_header_is_what_the_lane_looks_into():
    """The lane finds an outcome's id by these bytes, without parsing; a string cannot contain them."""
    header = encode_header(
        {"type": "outcome", "id": 5, "error": {"message": '"id":6,"type":"outcome"'}}
    )
    assert b'"id":5,' in header
    assert b'"id":6,' not in header
