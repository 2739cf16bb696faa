from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bot.targets.installer import (
    Installer,
    InstallError,
    find_uv,
    one_line,
    torch_backend_of,
    uv_environment,
)


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_pips_settings_are_named_for_uv(tmp_path: Path) -> None:
    environ = {"PIP_FIND_LINKS": f"{tmp_path} other", "VIRTUAL_ENV": "/venv", "HOME": "/home"}
    settings = uv_environment(environ)
    assert settings["UV_FIND_LINKS"] == f"{tmp_path},other"
    assert settings["HOME"] == "/home"
    assert "VIRTUAL_ENV" not in settings


def test_uvs_own_settings_win() -> None:
    environ = {"PIP_FIND_LINKS": "a", "UV_FIND_LINKS": "b"}
    assert uv_environment(environ)["UV_FIND_LINKS"] == "b"


def test_a_variable_of_uvs_set_to_nothing_is_not_set() -> None:
    settings = uv_environment(
        {"UV_TORCH_BACKEND": "", "UV_INDEX": "", "PIP_EXTRA_INDEX_URL": "a b"}
    )
    assert "UV_TORCH_BACKEND" not in settings
    assert settings["UV_INDEX"] == "a b"


def test_a_relative_folder_of_wheels_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = uv_environment({"PIP_FIND_LINKS": "wheels"})
    assert settings["UV_FIND_LINKS"] == str(tmp_path / "wheels")


@pytest.mark.parametrize(
    ("local", "backend"),
    [(None, None), ("cu126", "cu126"), ("cpu", "cpu"), ("rocm6.3", "rocm6.3"), ("git12ab", None)],
)
def test_the_backend_of_a_local_version_label(local: str | None, backend: str | None) -> None:
    assert torch_backend_of(local, {}) == backend


def test_a_wheel_at_hand_needs_no_backend(tmp_path: Path) -> None:
    (tmp_path / "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl").touch()
    assert torch_backend_of("cpu", {"PIP_FIND_LINKS": str(tmp_path)}) is None
    assert torch_backend_of("cu126", {"PIP_FIND_LINKS": str(tmp_path)}) == "cu126"


def test_an_error_of_uv_becomes_one_line() -> None:
    lines = [
        "Using Python 3.11.7 environment at: x",
        "  × No solution found when resolving dependencies:",
        "  ╰─▶ Because there is no version of torch==9.9.9 and you require",
        "      torch==9.9.9, we can conclude that your requirements are unsatisfiable.",
    ]
    assert one_line(lines) == (
        "No solution found when resolving dependencies: Because there is no version of torch==9.9.9"
        " and you require torch==9.9.9, we can conclude that your requirements are unsatisfiable."
    )
    assert len(one_line(["error: " + "x" * 1000])) == 400


def test_an_error_with_causes_becomes_one_line() -> None:
    lines = ["Resolved 5 packages", "error: Failed to fetch x", "  cause: connection refused"]
    assert one_line(lines) == "Failed to fetch x: connection refused"


def test_only_what_is_named_is_built_from_source(tmp_path: Path) -> None:
    uv = program(tmp_path / "uv", 'echo "$@"')
    said: list[str] = []
    installer = Installer(uv, {"PATH": os.environ["PATH"]}, said.append)
    installer.install(tmp_path, ["torch==1"])
    installer.install(tmp_path, ["torch==1"], built=["slow", "pure"])
    python = tmp_path / "bin/python"
    assert said == [
        f"pip install --only-binary :all: --python {python} -- torch==1",
        f"pip install --only-binary :all: --python {python} --no-binary slow --no-binary pure -- torch==1",
    ]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    uv = program(tmp_path / "uv", "echo error: a; echo '  cause: No space left on device'; exit 2")
    with pytest.raises(InstallError, match=f"^no space left in {tmp_path.parent}: free some"):
        Installer(uv, {"PATH": os.environ["PATH"]}, print).install(tmp_path, ["torch==1"])


def test_progress_is_handed_on_and_a_failure_raised_in_one_line(tmp_path: Path) -> None:
    uv = program(
        tmp_path / "uv", "echo Resolved 3 packages; echo ' + numpy==1'; echo error: no; exit 1"
    )
    said: list[str] = []
    with pytest.raises(InstallError, match=r"^no$"):
        Installer(uv, {"PATH": os.environ["PATH"]}, said.append).install(tmp_path, ["torch==1"])
    assert said == ["Resolved 3 packages", "error: no"]


def test_a_uv_that_is_killed_is_named(tmp_path: Path) -> None:
    uv = program(tmp_path / "uv", "echo Downloading torch; kill -9 $$")
    with pytest.raises(InstallError, match=r"^uv was ended by SIGKILL .*: try again$"):
        Installer(uv, {"PATH": os.environ["PATH"]}, lambda _: None).create(tmp_path, tmp_path)


def test_uv_does_not_run_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, environment = tmp_path / "checkout", tmp_path / "environment"
    checkout.mkdir()
    environment.mkdir()
    monkeypatch.chdir(checkout)
    said: list[str] = []
    uv = program(tmp_path / "uv", "pwd")
    Installer(uv, {"PATH": os.environ["PATH"]}, said.append).install(environment, ["torch==1"])
    assert said == [str(environment)]


def test_a_uv_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="does not start: No such file"):
        Installer(tmp_path / "uv", {}, print).install(tmp_path, ["torch==1"])


def test_uv_is_there() -> None:
    done = subprocess.run([find_uv(), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("uv ")


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_an_install_dies_with_the_bot(tmp_path: Path) -> None:
    uv = program(tmp_path / "uv", 'echo "pid $$"; exec sleep 600')
    script = f"""
import os
from pathlib import Path
from bot.targets.installer import Installer
say = lambda line: print(line, flush=True)
Installer(Path({str(uv)!r}), os.environ, say).install(Path({str(tmp_path)!r}), ["torch==1"])
"""
    bot = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert bot.stdout is not None
    child = int(bot.stdout.readline().split()[1])
    assert psutil.pid_exists(child)
    bot.send_signal(signal.SIGKILL)
    bot.communicate()
    deadline = time.monotonic() + 5
    while psutil.pid_exists(child) and time.monotonic() < deadline:
        if psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.02)
    assert not psutil.pid_exists(child)
