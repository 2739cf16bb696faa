"""Finding a Python interpreter of a given version that really starts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROBE = (
    "import sys, struct; print('%d.%d.%d' % sys.version_info[:3], struct.calcsize('P') * 8,"
    " sys.implementation.name, getattr(sys, '_base_executable', sys.executable), sys.base_prefix, sep='\\n')"
)
PROBE_SECONDS = 20.0

Run = Callable[[Sequence[str], float], str | None]
"""Runs a command for at most so many seconds; its standard output, or None when it fails in any way."""


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter that starts. ``version`` is ``3.11.7``; ``base_prefix`` holds its standard library."""

    path: Path
    version: str
    base_prefix: Path


def run_quietly(command: Sequence[str], seconds: float) -> str | None:
    """Run a command without input; its standard output, or None when it fails, hangs or does not exist."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout if done.returncode == 0 else None


def probe(path: Path, run: Run = run_quietly) -> Interpreter | None:
    """Start an interpreter and ask it what it is; None unless it is a 64-bit CPython that starts.

    A path inside a virtual environment answers with the interpreter that the environment was made from. Shims of
    version switchers exist on PATH for versions that are not installed: only starting one tells.
    """
    answer = run([str(path), "-I", "-S", "-c", PROBE], PROBE_SECONDS)
    lines = (answer or "").splitlines()
    if len(lines) != 5 or lines[1:3] != ["64", "cpython"]:
        return None
    return Interpreter(Path(lines[3]), lines[0], Path(lines[4]))


def candidates(version: str, environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Where a ``python3.X`` may lie: every folder of PATH, then what pyenv keeps."""
    seen: set[Path] = set()
    folders = [Path(part) for part in environ.get("PATH", "").split(os.pathsep) if part]
    pyenv = Path(environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    folders += [folder / "bin" for folder in sorted(pyenv.glob(f"{version}*"), reverse=True)]
    for folder in folders:
        path = folder / f"python{version}"
        if path not in seen and path.is_file():
            seen.add(path)
            yield path


def seen_by(python: Path, *prefixes: Path) -> tuple[Path, ...]:
    """What must be seen for an interpreter to start: its prefixes, also under their real names, and its own links.

    A version manager keeps interpreters under a link without the patch version, and links to that from ``bin``.
    """
    found = list(dict.fromkeys(path for prefix in prefixes for path in (prefix, prefix.resolve())))
    hop = python
    for _ in range(40):  # the kernel's own bound on links
        if not any(hop.is_relative_to(folder) for folder in found):
            found.append(hop)
        if not hop.is_symlink():
            break
        hop = Path(os.path.normpath(hop.parent / hop.readlink()))
    return tuple(found)


@dataclass(frozen=True)
class InterpreterFinder:
    """Finds interpreters; ``uv`` is uv's executable, ``download`` allows it to fetch a missing version."""

    environ: Mapping[str, str]
    home: Path
    uv: Path | None = None
    run: Run = run_quietly
    download: bool = True

    def find(self, version: str) -> Interpreter | None:
        """An interpreter of a version such as ``3.11`` on this machine, downloading nothing."""
        for path in candidates(version, self.environ, self.home):
            found = self._checked(path, version)
            if found is not None:
                return found
        return self._managed(version, "find", "--no-python-downloads")

    def fetch(self, version: str) -> Interpreter | None:
        """Let uv download a version that this machine lacks; None when it cannot."""
        if self.uv is None or not self.download:
            return None
        if (
            self.run([str(self.uv), "python", "install", "--quiet", "--no-bin", version], 600)
            is None
        ):
            return None
        return self._managed(version, "find", "--no-python-downloads")

    def first(self, versions: Sequence[str]) -> Interpreter | None:
        """The first of these versions that is here, else the first that uv can download."""
        for look in (self.find, self.fetch):
            for version in versions:
                found = look(version)
                if found is not None:
                    return found
        return None

    def _managed(self, version: str, *command: str) -> Interpreter | None:
        if self.uv is None:
            return None
        answer = self.run(
            [str(self.uv), "python", *command, "--managed-python", "--no-project", version],
            PROBE_SECONDS,
        )
        path = (answer or "").strip()
        return self._checked(Path(path), version) if path else None

    def _checked(self, path: Path, version: str) -> Interpreter | None:
        found = probe(path, self.run)
        if found is None or not found.version.startswith(f"{version}."):
            return None
        return found
