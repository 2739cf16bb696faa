"""The ``opdiff`` command as a user starts it: a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

OPDIFF = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'opdiff'; from bot.cli import main; main()",
]
ROOT = Path(__file__).parents[1]

# Forks a child per request, so that a hundred commands do not import everything a hundred times.
SERVER = """
import json, os, sys
import bot.cli
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(request["folder"])
        os.environ.update(request["variables"])
        for number, name in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["opdiff", *request["arguments"]]
        bot.cli.main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def environment(**more: str) -> dict[str, str]:
    """This process's environment with one thread for numerics, and the checkout in front."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **more}


def opdiff(
    *arguments: str | Path,
    folder: Path | None = None,
    seconds: float = 300,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command in ``folder`` and wait for it."""
    return subprocess.run(
        [*OPDIFF, *map(str, arguments)],
        cwd=folder or ROOT,
        env=environment(**(variables or {})),
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def start(*arguments: str | Path, errors: Path, **variables: str) -> subprocess.Popen[bytes]:
    """Start the command in a process group of its own, and go on; its stderr goes to a file."""
    with errors.open("wb") as stream:
        return subprocess.Popen(
            [*OPDIFF, *map(str, arguments)],
            cwd=ROOT,
            env=environment(**variables),
            stdout=subprocess.DEVNULL,
            stderr=stream,
            start_new_session=True,
        )


class CommandServer:
    """Runs many commands quickly: each in a process forked from one that has imported the command. A context manager."""

    def __init__(self, scratch: Path) -> None:
        self._out, self._err = scratch / "stdout", scratch / "stderr"
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )

    def __enter__(self) -> CommandServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.communicate()

    def opdiff(
        self, *arguments: str | Path, folder: Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command in ``folder`` and wait for it."""
        words = [str(word) for word in arguments]
        request = {
            "arguments": words,
            "folder": str(folder),
            "variables": variables,
            "stdout": str(self._out),
            "stderr": str(self._err),
        }
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        out, err = self._out.read_text(), self._err.read_text()
        return subprocess.CompletedProcess(["opdiff", *words], code, out, err)


def the_error(finished: subprocess.CompletedProcess[str]) -> str:
    """The one line on stderr of a command that could not do its job; nothing on stdout, exit code 1."""
    assert finished.returncode == 1, finished
    assert finished.stdout == "", finished
    lines = finished.stderr.splitlines()
    assert len(lines) == 1, finished.stderr
    assert lines[0].startswith("error: "), lines
    return lines[0].removeprefix("error: ")
