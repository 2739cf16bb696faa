"""A candidate given by its interpreter's path is the pull request's code from its first start on.

Every attempt is first shown to work when the same interpreter is read as a trusted one is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bot.targets.candidate_interpreter import read_candidate, shown_folders
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore
from bot.targets.interpreter_environment import read_interpreter
from bot.targets.recipes import load_recipes
from bot.targets.sandbox import Sandbox, probe_sandbox
from bot.targets.starting import start
from bot.targets.target import TargetError

BOOK = load_recipes()
PLAIN = Sandbox("process", unisolated="not allowed here")


@pytest.fixture(scope="module", params=["bubblewrap", "unshare"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    found = probe_sandbox(kinds=(request.param,))
    if found.unisolated is not None:
        pytest.skip(found.unisolated)
    return found


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment with packages that look like PyTorch and NumPy to whoever does not import them."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    for name in ("torch", "numpy"):
        put(folder, f"{name}/__init__.py", "")
    put(folder, "torch-2.13.0.dist-info/METADATA", "")
    return folder


def put(venv: Path, name: str, text: str) -> Path:
    (site,) = venv.glob("lib/python3*/site-packages")
    (site / name).parent.mkdir(exist_ok=True)
    (site / name).write_text(text)
    return site / name


def starts_with(venv: Path, code: str) -> None:
    """Have the interpreter run some code whenever it starts."""
    put(venv, "hostile_start.py", f"import os, sys, time, socket\n{code}\n")
    put(venv, "hostile.pth", "import hostile_start\n")


def spec_of(venv: Path) -> str:
    return f"python={venv / 'bin/python'}"


def candidate(venv: Path, sandbox: Sandbox) -> Environment:
    return read_candidate(spec_of(venv), BOOK, "torch", sandbox)


def trusted(venv: Path) -> Environment:
    return read_interpreter(spec_of(venv), BOOK, "torch", start)


def words(venv: Path, sandbox: Sandbox | None) -> str:
    """What the interpreter says last, as the error shows it."""
    with pytest.raises(TargetError) as caught:
        _ = trusted(venv) if sandbox is None else candidate(venv, sandbox)
    assert "\n" not in str(caught.value)
    return str(caught.value)


SAY = """
def attempt(what):
    try:
        return "worked: %s" % (what(),)
    except BaseException as error:
        return type(error).__name__
def say(what):
    sys.stderr.write(attempt(what) + chr(10))
    sys.stderr.flush()
    os._exit(1)
"""


def test_it_is_described_as_one_of_the_users_own_is(venv: Path, sandbox: Sandbox) -> None:
    found, own = candidate(venv, sandbox), trusted(venv)
    assert (found.framework, found.origin, found.digest) == ("torch", "interpreter", own.digest)
    assert found.python == own.python
    assert venv in found.readable
    assert Path(sys.base_prefix).resolve() in {path.resolve() for path in found.readable}


def test_start_up_code_runs_where_it_can_write_nothing(
    venv: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    starts_with(venv, f"try: open({str(marker)!r}, 'w').close()\nexcept OSError: pass")
    assert candidate(venv, sandbox).framework == "torch"
    assert not marker.exists()
    trusted(venv)
    assert marker.exists()


def test_it_writes_nothing_into_its_own_environment(venv: Path, sandbox: Sandbox) -> None:
    starts_with(venv, f"try: open({str(venv / 'new')!r}, 'w').close()\nexcept OSError: pass")
    candidate(venv, sandbox)
    assert not (venv / "new").exists()


def test_it_reads_no_file_of_the_machine_and_no_variable_of_the_bot(
    venv: Path, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("the secret")
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_secret")
    read = f"{SAY}\nsay(lambda: open({str(tmp_path / 'secret')!r}).read())"
    starts_with(venv, read)
    assert "worked: the secret" in words(venv, None)
    assert "FileNotFoundError" in words(venv, sandbox)
    parent = (
        f"{SAY}\nsay(lambda: open('/proc/%d/environ' % {os.getpid()}).read().count('GITHUB_TOKEN'))"
    )
    starts_with(venv, parent)
    assert "worked" in words(venv, None)
    assert "FileNotFoundError" in words(venv, sandbox)
    starts_with(venv, f"{SAY}\nsay(lambda: sorted(os.environ))")
    for way in (None, sandbox):
        assert "GITHUB" not in words(venv, way)


def test_it_has_no_network(venv: Path, sandbox: Sandbox) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        starts_with(
            venv, f"{SAY}\nsay(lambda: bool(socket.create_connection(('127.0.0.1', {port}))))"
        )
        assert "worked: True" in words(venv, None)
        message = words(venv, sandbox)
        assert "Error" in message
        assert "worked" not in message


def test_a_flood_is_bounded_and_its_end_is_what_counts(venv: Path, sandbox: Sandbox) -> None:
    starts_with(venv, "for _ in range(3200): os.write(1, b'y' * 65536); os.write(2, b'n' * 65536)")
    before = psutil.Process().memory_info().rss
    for environment in (candidate(venv, sandbox), trusted(venv)):
        assert environment.framework == "torch"
    assert psutil.Process().memory_info().rss - before < 64 << 20


@pytest.mark.parametrize("own", [False, True])
def test_one_that_never_ends_is_ended_with_all_its_children(
    venv: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    """A child that left its session and holds the pipes too."""
    monkeypatch.setattr("bot.targets.inspection.LOOK_SECONDS", 1.5)
    starts_with(venv, "if os.fork() == 0: os.setsid()\ntime.sleep(300)")
    before = {process.pid for process in psutil.process_iter()}
    begun = time.monotonic()
    assert "no end after" in words(venv, None if own else sandbox)
    assert time.monotonic() - begun < 10
    ours = str(venv)
    left = [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.pid not in before and ours in " ".join(process.info["cmdline"] or [])
    ]
    assert left == []


def test_one_that_leaves_a_child_behind_does_not_hold_up_the_bot(venv: Path) -> None:
    starts_with(venv, "if os.fork() == 0:\n    os.setsid()\n    time.sleep(300)")
    begun = time.monotonic()
    assert trusted(venv).framework == "torch"
    assert time.monotonic() - begun < 20


def test_memory_is_bounded(venv: Path, sandbox: Sandbox) -> None:
    starts_with(
        venv, "held = []\nfor _ in range(3000): held.append(b'x' * (1 << 20))\ntime.sleep(60)"
    )
    begun = time.monotonic()
    assert "does not start" in words(venv, sandbox)
    assert time.monotonic() - begun < 40


def said(venv: Path, **changed: object) -> str:
    (site,) = venv.glob("lib/python3*/site-packages")
    truth = {
        "version": "3.11.2", "prefix": str(venv), "base_prefix": sys.base_prefix,
        "packages": {"torch": str(site / "torch")}, "numpy": True, "path": [str(site)],
    }  # fmt: skip
    answer = json.dumps({**truth, **changed})
    return f"os.write(1, {answer.encode()!r})\nos._exit(0)"


class TestLies:
    @pytest.mark.parametrize(
        "place",
        [
            "/etc",
            "/root/.ssh",
            "/",
            "relative",
            "a\0b",
            "{venv}/../outside",
            "{venv}/link",
            "{venv}/loop",
            "{venv}/long" + "x" * 9000,
            "x" * 9000,
        ],
    )
    def test_a_package_elsewhere(
        self, venv: Path, sandbox: Sandbox, tmp_path: Path, place: str
    ) -> None:
        (tmp_path / "outside").mkdir()
        (venv / "link").symlink_to(tmp_path / "outside")
        (venv / "loop").symlink_to(venv / "loop")
        starts_with(venv, said(venv, packages={"torch": place.format(venv=venv)}))
        message = words(venv, sandbox)
        assert "outside of its folders" in message
        assert len(message) < 500

    def test_an_import_path_makes_nothing_more_visible(
        self, venv: Path, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        secret = tmp_path / "secrets"
        secret.mkdir()
        starts_with(
            venv, said(venv, path=[str(secret)], prefix=str(secret), base_prefix=str(secret))
        )
        assert secret in trusted(venv).readable
        assert not any(secret.is_relative_to(root) for root in candidate(venv, sandbox).readable)

    @pytest.mark.parametrize(
        "changed",
        [
            {"version": "three"},
            {"version": "3.11.2\n::set-output"},
            {"packages": ["torch"]},
            {"packages": {"nothing": "/etc"}},
            {"numpy": "?"},
            {"path": 5},
        ],
    )
    def test_an_answer_that_is_none_is_one_line(
        self, venv: Path, sandbox: Sandbox, changed: dict[str, object]
    ) -> None:
        starts_with(venv, said(venv, **changed))
        assert words(venv, sandbox).startswith(f"{spec_of(venv)}: ")

    def test_an_older_python_and_no_numpy(self, venv: Path, sandbox: Sandbox) -> None:
        starts_with(venv, said(venv, version="3.7.1"))
        assert "older than 3.8" in words(venv, sandbox)
        starts_with(venv, said(venv, numpy=False))
        assert "it has no NumPy" in words(venv, sandbox)


class TestFolders:
    """What files may make visible, for they are the pull request's too."""

    def test_a_checkout_installed_for_development_is_shown_without_its_repository(
        self, venv: Path, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        import shutil

        checkout = tmp_path / "checkout"
        (checkout / "torch").mkdir(parents=True)
        (checkout / "torch/__init__.py").write_text("")
        (checkout / ".git").mkdir()
        (checkout / ".git/config").write_text("AUTHORIZATION: basic secret")
        shutil.rmtree(put(venv, "torch/__init__.py", "").parent)
        put(venv, "torch.pth", f"{checkout}\n")
        found = candidate(venv, sandbox)
        assert checkout in found.readable
        starts_with(
            venv, f"{SAY}\nsay(lambda: open({str(checkout / 'torch/__init__.py')!r}).read())"
        )
        assert "worked" in words(venv, sandbox)
        starts_with(venv, f"{SAY}\nsay(lambda: open({str(checkout / '.git/config')!r}).read())")
        assert "worked: AUTHORIZATION" in words(venv, None)
        assert "worked" not in words(venv, sandbox)

    def test_an_editable_install(self, venv: Path, tmp_path: Path) -> None:
        (tmp_path / "checkout/python/oneflow").mkdir(parents=True)
        (tmp_path / "checkout/python/oneflow/__init__.py").write_text("")
        url = json.dumps({"url": f"file://{tmp_path}/checkout", "dir_info": {"editable": True}})
        put(venv, "oneflow-0.9.0.dist-info/direct_url.json", url)
        assert tmp_path / "checkout/python" in shown_folders(venv / "bin/python", BOOK)

    @pytest.mark.parametrize(
        "text", ["[]", "{", '{"url": 5}', '{"url": "file:///a%00b"}', "[" * 99999]
    )
    def test_a_damaged_record_names_nothing(self, venv: Path, text: str) -> None:
        before = shown_folders(venv / "bin/python", BOOK)
        put(venv, "torch-2.13.0.dist-info/direct_url.json", text)
        assert shown_folders(venv / "bin/python", BOOK) == before

    def test_no_folder_without_a_python_or_a_framework(self, venv: Path, tmp_path: Path) -> None:
        secret = tmp_path / "secrets"
        (secret / "bin").mkdir(parents=True)
        before = shown_folders(venv / "bin/python", BOOK)
        put(venv, "secret.pth", f"{secret}\n/\n{Path.home()}\nimport os\n\0\n../../../../..\n")
        url = json.dumps({"url": f"file://{secret}", "dir_info": {"editable": True}})
        put(venv, "torch-2.13.0.dist-info/direct_url.json", url)
        assert shown_folders(venv / "bin/python", BOOK) == before
        (venv / "pyvenv.cfg").write_text(f"home = {secret}/bin\n")
        assert not any(secret == path for path in shown_folders(venv / "bin/python", BOOK))

    def test_lines_that_are_no_folders(self, venv: Path) -> None:
        """Code of namespace packages, as the wheels of protobuf bring it, and paths longer than any."""
        before = shown_folders(venv / "bin/python", BOOK)
        put(venv, "code.pth", "import sys, types, os;" + "p = os.path.join('google');" * 40 + "\n")
        put(venv, "long.pth", "/" + "x" * 5000 + "\n" + "y" * 300 + "\n")
        (venv / "pyvenv.cfg").write_text(f"home = /{'x' * 5000}/bin\n")
        url = json.dumps({"url": f"file:///{'x' * 5000}"})
        put(venv, "torch-2.13.0.dist-info/direct_url.json", url)
        assert set(shown_folders(venv / "bin/python", BOOK)) <= set(before)

    def test_a_pipe_is_not_waited_for(self, venv: Path) -> None:
        (site,) = venv.glob("lib/python3*/site-packages")
        os.mkfifo(site / "pipe.pth")
        shown_folders(venv / "bin/python", BOOK)


class TestStore:
    def test_the_store_isolates_only_what_is_not_trusted(
        self, venv: Path, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        marker = tmp_path / "marker"
        starts_with(venv, f"try: open({str(marker)!r}, 'w').close()\nexcept OSError: pass")
        store = EnvironmentStore(tmp_path / "cache", probe=lambda: sandbox)
        store.prepare(spec_of(venv), "torch", untrusted=True)
        assert not marker.exists()
        store.prepare(spec_of(venv), "torch")
        assert marker.exists()

    def test_where_the_host_has_no_sandbox_it_starts_as_its_workers_will(
        self, venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GITHUB_TOKEN", "ghs_secret")
        assert candidate(venv, PLAIN).framework == "torch"
        starts_with(venv, f"{SAY}\nsay(lambda: sorted(os.environ))")
        assert "GITHUB" not in words(venv, PLAIN)
