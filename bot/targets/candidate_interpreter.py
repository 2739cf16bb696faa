"""A candidate given by its interpreter's path: the pull request's code, which starts in the sandbox only.

What such an interpreter says of itself is data from outside. So the folders that a sandbox shows come from files, and
an answer may only point into them; nothing that it says makes more of the machine visible.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from bot.targets.environment import Environment
from bot.targets.inspection import Contents
from bot.targets.interpreter_environment import describe, interpreter_file, look_into
from bot.targets.interpreters import seen_by
from bot.targets.job import PoolTarget
from bot.targets.launch import RESOURCE_LIMITS, SANDBOXED_PROCESSES
from bot.targets.recipes import RecipeBook
from bot.targets.sandbox import Sandbox
from bot.targets.sandbox_view import make_view
from bot.targets.starting import Ran, Start, start, start_bounded
from bot.targets.target import Target, TargetError

MEMORY_BYTES = 1 << 30  # it imports nothing
MAX_FILE_BYTES = 1 << 20
_WORKER = Path(__file__).resolve().parent.parent / "worker"


def read_candidate(
    spec: str, book: RecipeBook, framework: str | None, sandbox: Sandbox
) -> Environment:
    """The environment of ``python=/path`` whose code is not trusted, found out inside the sandbox.

    Where the host has none, it is started as the candidate's workers will be, and the run says ``unisolated``. Raises
    TargetError as :func:`bot.targets.interpreter_environment.read_interpreter`, and for an answer that points elsewhere.
    """
    path = interpreter_file(spec)
    roots = shown_folders(path, book)
    run = start if sandbox.unisolated is not None else _inside(spec, path, roots, sandbox)
    contents = _confined(look_into(spec, path, book, run), roots, spec)
    return describe(spec, path, contents, book, framework, lambda _: roots)


def shown_folders(python: Path, book: RecipeBook) -> tuple[Path, ...]:
    """What must be seen for an interpreter to start with its packages, by files alone.

    Its own folder; the one of the Python that it was made from; and the folders of a checkout whose framework is
    installed there for development. Whatever a file names is shown only when a Python, or a framework's package, is there.
    """
    prefixes = [
        prefix
        for prefix in (python.parent.parent, python.resolve().parent.parent, _home(python))
        if prefix is not None and prefix != Path("/") and _holds_python(prefix)
    ]
    found = list(seen_by(python, *prefixes))
    for site in _site_packages(prefixes):
        for folder in _developed(site, book):
            if not any(folder.is_relative_to(other) for other in found):
                found.append(folder)
    return tuple(found)


def _holds_python(prefix: Path) -> bool:
    """Whether a folder is a virtual environment or a Python installation."""
    try:
        return (prefix / "pyvenv.cfg").is_file() or any(prefix.glob("lib*/python3*/os.py"))
    except OSError:  # a name too long for any
        return False


def _is_file(path: Path) -> bool:
    """Whether a path out of a file of others names a file; it may be too long for any."""
    try:
        return path.is_file()
    except OSError:
        return False


def _home(python: Path) -> Path | None:
    """The folder of the Python that a virtual environment was made from (``home`` in pyvenv.cfg, PEP 405)."""
    for line in _text(python.parent.parent / "pyvenv.cfg").splitlines():
        name, _, value = line.partition("=")
        home = Path(value.strip())
        if name.strip().lower() == "home" and home.is_absolute():
            return Path(os.path.normpath(home)).parent
    return None


def _site_packages(prefixes: Sequence[Path]) -> Iterator[Path]:
    for prefix in prefixes:
        for pattern in ("lib*/python3*/site-packages", "lib*/python3*/dist-packages"):
            yield from sorted(prefix.glob(pattern))


def _developed(site: Path, book: RecipeBook) -> Iterator[Path]:
    """Folders outside that a framework is imported from: in ``.pth`` files, and of editable installs (PEP 610)."""
    names = {recipe.import_name for recipe in book.recipes}
    for file in sorted(site.glob("*.pth")):
        for line in _text(file).splitlines():
            folder = site / line.strip()
            if line.strip() and any(_is_file(folder / name / "__init__.py") for name in names):
                yield Path(os.path.normpath(folder))
    for file in sorted(site.glob("*.dist-info/direct_url.json")):
        project = _project(_text(file))
        roots = (root for recipe in book.recipes for root in recipe.roots)
        for root in dict.fromkeys(roots):
            if project is not None and _is_file(project / root / "__init__.py"):
                yield (project / root).parent


def _project(text: str) -> Path | None:
    """The project's folder out of a ``direct_url.json``; None unless it is one on this machine."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    url = cast("dict[str, Any]", fields).get("url") if isinstance(fields, dict) else None
    if not isinstance(url, str) or not url.startswith("file:///") or "\0" in unquote(url):
        return None
    return Path(os.path.normpath(unquote(urlsplit(url).path)))


def _text(path: Path) -> str:
    """A regular file's text, its NUL bytes left out; nothing of one that is not there, too large or a pipe."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return ""
    return "" if len(data) > MAX_FILE_BYTES else data.decode("utf-8", "replace").replace("\0", "")


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _confined(contents: Contents, roots: Sequence[Path], spec: str) -> Contents:
    """An answer whose packages lie in what is shown, by their real places too."""
    real = [root.resolve() for root in roots]
    for name, place in contents.packages.items():
        inside = "\0" not in str(place) and ".." not in place.parts
        inside = inside and any(place.is_relative_to(root) for root in (*roots, *real))
        if not inside or not any(_real(place).is_relative_to(root) for root in real):
            said = str(place)[:200].replace("\0", "")
            raise TargetError(
                f"{spec}: its {name} is said to lie in {said!r}, outside of its folders"
            )
    return contents


def _real(path: Path) -> Path:
    """Where a path leads; nowhere of ours for what is not there, a loop of links, or a name too long."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        return Path("/")


def _inside(spec: str, path: Path, roots: tuple[Path, ...], sandbox: Sandbox) -> Start:
    """A start inside the sandbox, bounded like a worker's, with no more to see than the interpreter's folders."""
    environment = Environment(spec, "", path, "interpreter", "", readable=roots)
    view = make_view(PoolTarget(Target(spec), environment), _WORKER, sandbox.hidden)

    def run(command: Sequence[str], environ: Mapping[str, str], seconds: float) -> Ran:
        wrapped = sandbox.wrap(view, list(command), dict(environ))
        try:
            ran = start_bounded(
                wrapped.command,
                wrapped.environment,
                seconds,
                limits=RESOURCE_LIMITS | {"NPROC": SANDBOXED_PROCESSES},
                memory_bytes=MEMORY_BYTES,
                pass_fds=wrapped.pass_fds,
            )
        finally:
            for fd in wrapped.pass_fds:
                os.close(fd)
        # A sandbox's own process reports a signal as exit 128 + its number.
        signalled = ran.status is not None and ran.status > 128
        return replace(ran, status=128 - ran.status) if signalled and ran.status else ran

    return run
