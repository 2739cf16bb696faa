"""Starting an interpreter to learn what it holds and whether its framework imports."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.targets.starting import Ran, Start, start

IMPORT_SECONDS = 240.0
LOOK_SECONDS = 60.0

# Both scripts run under any Python from 3.8 on. find_spec of a top-level name imports nothing.
_LOOK = """
import importlib.util, json, sys
def where(name):
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else None
packages = {name: where(name) for name in sys.argv[1:]}
print("\\n" + json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3], "prefix": sys.prefix, "base_prefix": sys.base_prefix,
    "packages": {k: v for k, v in packages.items() if v}, "numpy": where("numpy") is not None,
    "path": [p for p in sys.path if p],
}))
"""
_IMPORT = """
import importlib, json, sys
for path in reversed(sys.argv[2:]):
    sys.path.insert(0, path)
import numpy
module = importlib.import_module(sys.argv[1])
print("\\n" + json.dumps({"version": str(getattr(module, "__version__", "?")), "numpy": numpy.__version__}))
"""


class InspectionError(Exception):
    """An interpreter does not do what an environment must; one line."""


class Contents(BaseModel):
    """What an interpreter holds. ``packages`` maps those of the asked-for packages that are there to their folders."""

    model_config = ConfigDict(frozen=True)

    version: str = Field(pattern=r"^\d{1,3}\.\d{1,3}\.\d{1,5}$")
    prefix: Path
    base_prefix: Path
    packages: dict[str, Path]
    numpy: bool
    path: tuple[Path, ...]


def scrubbed(library_paths: Sequence[Path], environ: Mapping[str, str]) -> dict[str, str]:
    """The few variables that an interpreter needs: no token, no setting of the bot's own reaches it."""
    kept = {k: environ[k] for k in ("PATH", "LANG", "LC_ALL", "TMPDIR", "TZ") if k in environ}
    kept |= {"HOME": "/nonexistent", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if library_paths:
        kept["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, library_paths))
    return kept


def look(
    python: Path,
    packages: Sequence[str],
    run: Start = start,
    environ: Mapping[str, str] = os.environ,
) -> Contents:
    """Ask an interpreter, importing nothing, which of these packages it has. Raises InspectionError."""
    ran = run([str(python), "-I", "-c", _LOOK, *packages], scrubbed((), environ), LOOK_SECONDS)
    if ran.status != 0:
        raise InspectionError(f"{python} does not start: {_reason(ran, LOOK_SECONDS)}")
    try:
        return Contents.model_validate_json(ran.output.strip().rpartition("\n")[2])
    except ValidationError:
        raise InspectionError(f"{python} is not a Python interpreter") from None


@dataclass(frozen=True)
class Imported:
    """A framework that was imported: its own version, NumPy's, and how long it took from start to end."""

    version: str
    numpy: str
    seconds: float


def import_framework(
    python: Path,
    package: str,
    library_paths: Sequence[Path] = (),
    import_paths: Sequence[Path] = (),
    run: Start = start,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.monotonic,
) -> Imported:
    """Start an interpreter and import NumPy and a framework. Raises InspectionError with the framework's last words."""
    begun = clock()
    command = [str(python), "-I", "-c", _IMPORT, package, *map(str, import_paths)]
    ran = run(command, scrubbed(library_paths, environ), IMPORT_SECONDS)
    if ran.status != 0:
        raise InspectionError(f"import {package} fails: {_reason(ran, IMPORT_SECONDS)}")
    try:
        said = json.loads(ran.output.strip().rpartition("\n")[2])
        return Imported(str(said["version"]), str(said["numpy"]), clock() - begun)
    except (ValueError, KeyError, TypeError):
        raise InspectionError(f"import {package} ends without a word") from None


def _reason(ran: Ran, seconds: float) -> str:
    if ran.timed_out:
        return f"no end after {seconds:.0f} s"
    words = " ".join((ran.errors.strip().splitlines() or [""])[-1].split())[:300]
    if ran.status is not None and ran.status < 0:
        name = _signal_name(-ran.status)
        return f"died of {name}" + (f" ({words})" if words else "")
    return words or f"ended with status {ran.status}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
