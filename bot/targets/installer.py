"""Installing into a new environment with uv: its settings, its progress, its errors in one line."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

Progress = Callable[[str], None]

_LAST_LINES = 40
_NOISE = re.compile(r"[×╰─▶├│→]|\x1b\[[0-9;]*m")
_PR_SET_PDEATHSIG = 1  # prctl(2)


class InstallError(Exception):
    """uv could not do it; the message is one line in uv's own words."""


def uv_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that uv runs with.

    uv does not read pip's settings: a folder of wheels or an index named for pip is named for uv too, unless uv has
    its own. Active virtual environments are none of uv's business here. A variable of uv's that is set to nothing,
    which uv may refuse, counts as not set.
    """
    settings = {
        name: value
        for name, value in environ.items()
        if name not in ("VIRTUAL_ENV", "CONDA_PREFIX") and (value or not name.startswith("UV_"))
    }
    for pip, uv, separator in (
        ("PIP_FIND_LINKS", "UV_FIND_LINKS", ","),
        ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", " "),
        ("PIP_EXTRA_INDEX_URL", "UV_INDEX", " "),
        ("PIP_CERT", "SSL_CERT_FILE", " "),
        ("PIP_DEFAULT_TIMEOUT", "UV_HTTP_TIMEOUT", " "),
    ):
        if environ.get(pip) and not environ.get(uv):
            settings[uv] = separator.join(environ[pip].split())
    if settings.get("UV_FIND_LINKS"):
        folders = settings["UV_FIND_LINKS"].split(",")
        settings["UV_FIND_LINKS"] = ",".join(
            str(Path(f).absolute()) if Path(f).is_dir() else f for f in folders
        )
    settings["UV_PYTHON_DOWNLOADS"] = "never"
    settings["PYTHONDONTWRITEBYTECODE"] = "1"
    return settings


def torch_backend_of(local: str | None, environ: Mapping[str, str]) -> str | None:
    """The ``--torch-backend`` that a local version label asks for (``cu126``, ``cpu``, ``xpu``), or None.

    A wheel of that label in a folder of wheels needs no backend: with one, uv would ask PyTorch's own index.
    """
    if local is None or not re.fullmatch(r"cpu|xpu|cu\d{2,4}|rocm[0-9.]+", local):
        return None
    folders = (
        environ.get("UV_FIND_LINKS", "").split(",") + environ.get("PIP_FIND_LINKS", "").split()
    )
    if any(any(Path(folder).glob(f"torch-*+{local}-*.whl")) for folder in folders if folder):
        return None
    return local


def one_line(lines: Sequence[str], limit: int = 400) -> str:
    """uv's error of several lines (``error: .. cause: ..``, or a drawn tree) as one, from where it starts."""
    starts = [i for i, line in enumerate(lines) if line.startswith("error") or "×" in line]
    text = [_NOISE.sub(" ", line) for line in lines[starts[0] if starts else -3 :]]
    joined = " ".join(" ".join(text).split())
    joined = joined.removeprefix("error: ").replace(" cause: ", ": ")
    return joined if len(joined) <= limit else joined[: limit - 3] + "..."


def _die_with_parent() -> Callable[[], object] | None:
    """What a child calls so that it is killed when the bot dies: a killed install must not go on alone (Linux)."""
    if sys.platform != "linux":
        return None
    # Looked up here: between fork and exec, little more than a system call is safe.
    return partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True)
class Installer:
    """Runs uv. ``lock`` is kept open by every program started, so that a lock outlives the bot with them."""

    uv: Path
    environ: Mapping[str, str]
    progress: Progress
    lock: int | None = None

    def create(self, folder: Path, python: Path) -> None:
        """Make an empty virtual environment that may be moved. Raises InstallError."""
        self._run(
            ["venv", "--quiet", "--relocatable", "--allow-existing", "--no-project",
             "--python", str(python), str(folder)],
            folder,
        )  # fmt: skip

    def install(
        self,
        folder: Path,
        requirements: Sequence[str],
        *,
        dependencies: bool = True,
        torch_backend: str | None = None,
        built: Sequence[str] = (),
    ) -> None:
        """Install into an environment; wheels only, so that no package's set-up code runs. Raises InstallError.

        ``built`` names the distributions that are released as source only, and are built here.
        """
        command = [
            "pip",
            "install",
            "--only-binary",
            ":all:",
            "--python",
            str(folder / "bin/python"),
        ]
        for name in built:
            command += ["--no-binary", name]
        if not dependencies:
            command.append("--no-deps")
        if torch_backend is not None:
            command += ["--torch-backend", torch_backend]
        self._run([*command, "--", *requirements], folder)

    def compile(self, site_packages: Path, python: Path) -> None:
        """Compile to bytecode: an environment is read-only for what runs in it, and would be compiled every time.

        The interpreter is the one that the environment was made from, so that nothing installed there (``.pth`` files)
        runs.
        """
        command = [
            str(python),
            "-I",
            "-S",
            "-m",
            "compileall",
            "-qq",
            "-j",
            "0",
            str(site_packages),
        ]
        environ = {k: v for k, v in self.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        # Fails for files in another version's syntax, which packages carry as test data.
        self._stream(command, environ, site_packages)

    def _run(self, arguments: Sequence[str], folder: Path) -> None:
        # Not in the current folder: a pull request's checkout may hold settings for uv.
        command = [str(self.uv), *arguments]
        status, lines = self._stream(command, uv_environment(self.environ), folder)
        if status != 0:
            if any("No space left on device" in line for line in lines):
                raise InstallError(
                    f"no space left in {folder.parent}: free some, or use another cache"
                )
            raise InstallError(
                _manner(status) or one_line(lines) or f"uv ended with status {status}"
            )

    def _stream(
        self, command: Sequence[str], environ: Mapping[str, str], folder: Path
    ) -> tuple[int, tuple[str, ...]]:
        """Run a program, handing on its lines as progress; its status and last lines."""
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                cwd=folder,
                text=True,
                encoding="utf-8",
                errors="replace",
                umask=0o022,
                pass_fds=() if self.lock is None else (self.lock,),
                preexec_fn=_die_with_parent(),
            )
        except OSError as error:
            raise InstallError(f"{command[0]} does not start: {error.strerror}") from None
        lines: deque[str] = deque(maxlen=_LAST_LINES)
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line.rstrip())
                self._report(line)
            return process.wait(), tuple(lines)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()

    def _report(self, line: str) -> None:
        text = line.strip()
        # uv lists every package it put there as " + name==version"; the counts before it say enough.
        if text and not text.startswith(("+", "-", "~", "Using Python")):
            self.progress(text)


def _manner(status: int) -> str | None:
    """How uv died, when a signal ended it: its last lines are then only progress."""
    if status >= 0:
        return None
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"uv was ended by {name} (out of memory, or somebody stopped it): try again"


def find_uv() -> Path:
    """uv's executable from its package. Raises InstallError when it has none."""
    from uv import find_uv_bin

    try:
        return Path(os.fsdecode(find_uv_bin()))
    except FileNotFoundError:
        raise InstallError("uv's executable is missing: reinstall OpDiff") from None
