"""The store of environments: made once, from recipes, into a cache that every run of this user shares."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from packaging.version import Version

from bot.targets.candidate_interpreter import read_candidate
from bot.targets.environment import Environment
from bot.targets.environment_spec import (
    Build,
    is_interpreter,
    is_wheel,
    read_requirement,
    read_wheel,
)
from bot.targets.folder_cache import FolderCache
from bot.targets.inspection import InspectionError, import_framework, look
from bot.targets.installer import Installer, InstallError, Progress, find_uv, torch_backend_of
from bot.targets.interpreter_environment import read_interpreter
from bot.targets.interpreters import Interpreter, InterpreterFinder
from bot.targets.recipes import Recipe, RecipeBook, load_recipes
from bot.targets.sandbox import Sandbox, probe_sandbox
from bot.targets.starting import Start, start
from bot.targets.stored_environment import (
    LAYOUT,
    Construction,
    Description,
    is_changed,
    is_usable,
    key_of,
    read_description,
    site_packages,
    to_environment,
)
from bot.targets.target import TargetError

DAY = 86400.0  # seconds


def default_cache_dir() -> Path:
    """The user's cache folder of OpDiff."""
    return platformdirs.user_cache_path("opdiff", appauthor=False)


def prepared_cache_dir(environ: Mapping[str, str]) -> Path | None:
    """The cache that a container image brings ready-made, or None outside one."""
    folder = environ.get("OPDIFF_PREPARED")
    return Path(folder) if folder else None


def _silent(_: str) -> None:
    return


@dataclass(frozen=True)
class StoredEnvironment:
    """One folder of the store. ``description`` is None for one that is broken or of another layout."""

    key: str
    folder: Path
    description: Description | None
    last_use: float  # seconds since the epoch

    @property
    def name(self) -> str:
        """The spec that it was made from, or its folder's name."""
        return self.description.spec if self.description else self.key


@dataclass(frozen=True)
class Diagnosis:
    """What ``doctor`` found of one environment, in one line."""

    name: str
    ok: bool
    says: str


class EnvironmentStore:
    """Makes, finds, checks and removes environments. Any number of processes may share one ``cache_dir``.

    What is not there is looked for in the prepared cache that ``OPDIFF_PREPARED`` in ``environ`` names: part of a
    container image, never written to. ``progress`` is given lines of text. ``torch_backend`` is uv's ``--torch-backend`` (``cpu``, ``cu126``, ``auto``).
    An environment that this store gave out is not pruned by anyone until the store is closed or its process ends.
    """

    def __init__(
        self,
        cache_dir: Path | None = None,
        *,
        progress: Progress = _silent,
        torch_backend: str | None = None,
        recipes: RecipeBook | None = None,
        finder: InterpreterFinder | None = None,
        start: Start = start,
        probe: Callable[[], Sandbox] = probe_sandbox,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.cache_dir = cache_dir or default_cache_dir()
        self.recipes = recipes or load_recipes()
        self.overlays = FolderCache(self.cache_dir / "overlays")
        self._folders = FolderCache(self.cache_dir / "envs")
        self.prepared_dir = prepared_cache_dir(environ)
        self._prepared = FolderCache(self.prepared_dir / "envs") if self.prepared_dir else None
        self._progress = progress
        # uv reads this variable by itself; here it becomes part of what an environment is known by.
        self._torch_backend = torch_backend or environ.get("UV_TORCH_BACKEND") or None
        self._finder = finder
        self._start = start
        self._probe = probe
        self._environ = environ
        self._checked: set[Path] = set()

    def __enter__(self) -> EnvironmentStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of every environment that was given out."""
        for cache in self._caches():
            cache.close()
        self.overlays.close()

    def prepare(
        self,
        spec: str,
        framework: str | None = None,
        *,
        again: bool = False,
        untrusted: bool = False,
    ) -> Environment:
        """The environment of a requirement, a wheel's path or glob, or ``python=/path``; made when it is not there.

        ``framework`` says which one is meant where a wheel's name or an interpreter's content does not. ``again``
        makes it anew. An ``untrusted`` interpreter, the pull request's, is looked into inside the sandbox. Raises
        TargetError, in one line, when it cannot be made.
        """
        if is_interpreter(spec) and untrusted:
            return read_candidate(spec, self.recipes, framework, self._probe())
        if is_interpreter(spec):
            return read_interpreter(spec, self.recipes, framework, self._start)
        build = self._read(spec, framework)
        if again:
            self._remove(build)
        found = self._open(build)
        return to_environment(found or self._make(build), spec)

    def find(self, spec: str, framework: str | None = None) -> Environment | None:
        """The environment of a spec if it needs no making, else None. Raises TargetError for a bad spec."""
        if is_interpreter(spec):
            return read_interpreter(spec, self.recipes, framework, self._start)
        folder = self._open(self._read(spec, framework))
        return to_environment(folder, spec) if folder else None

    def recipe_of(self, environment: Environment) -> Recipe:
        """The recipe of an environment's framework and version; the framework's newest for a build of neither."""
        described = read_description(environment.python.parent.parent)
        rows = self.recipes.named(environment.framework)
        if described is None:
            return rows[0]
        return self.recipes.nearest(environment.framework, Version(described.version)) or rows[0]

    def site_packages(self, environment: Environment) -> Path:
        """The folder that an environment's framework is installed in. Raises TargetError when there is none."""
        folder = environment.python.parent.parent
        if read_description(folder) is not None:
            return site_packages(folder)
        package = self.recipe_of(environment).import_name
        try:
            return look(environment.python, [package], self._start).packages[package].parent
        except (InspectionError, KeyError) as error:
            raise TargetError(f"{environment.spec}: no package {package} there: {error}") from None

    def stored(self) -> tuple[StoredEnvironment, ...]:
        """Every environment of the store, prepared ones included."""
        return tuple(entry for cache in self._caches() for entry in _entries(cache))

    def prune(self, unused_days: float | None, now: float | None = None) -> tuple[str, ...]:
        """Remove environments and overlays not used for so many days (None: all), and what killed builds left.

        What a running process uses stays. Returns what was removed, by name.
        """
        before = (time.time() if now is None else now) - (unused_days or 0) * DAY
        removed: list[str] = []
        for entry in _entries(self._folders):
            if (unused_days is None or entry.last_use <= before) and self._folders.remove(
                entry.key
            ):
                removed.append(entry.name)
        for key in self.overlays.stored_keys():
            old = unused_days is None or self.overlays.last_use(key) <= before
            if old and self.overlays.remove(key):
                removed.append(f"overlay {key}")
        leftover = self._folders.sweep() + self.overlays.sweep()
        if leftover:
            removed.append(f"{leftover} unfinished folder{'s' if leftover > 1 else ''}")
        return tuple(removed)

    def doctor(
        self, specs: Sequence[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> Iterator[Diagnosis]:
        """Start each environment (all stored ones without ``specs``) and import its framework."""
        if specs:
            yield from (self._diagnose_spec(spec, clock) for spec in specs)
        else:
            yield from (self._diagnose(entry, clock) for entry in self.stored())

    def _diagnose_spec(self, spec: str, clock: Callable[[], float]) -> Diagnosis:
        try:
            if is_interpreter(spec):
                environment = read_interpreter(spec, self.recipes, None, self._start)
                return self._import(environment, environment.framework, clock)
            build = self._read(spec, None)
        except TargetError as error:
            return Diagnosis(spec, False, str(error))
        for cache in self._caches():
            for key in self._keys(build):
                folder = cache.root / key
                if folder.is_dir():
                    return self._diagnose(
                        StoredEnvironment(key, folder, read_description(folder), 0.0), clock
                    )
        return Diagnosis(spec, False, f"not prepared: opdiff envs prepare '{spec}'")

    def _diagnose(self, entry: StoredEnvironment, clock: Callable[[], float]) -> Diagnosis:
        description = entry.description
        if description is None:
            says = f"its description is missing or damaged: remove {entry.folder}"
            return Diagnosis(entry.name, False, says)
        remake = f"opdiff envs prepare --again '{entry.name}'"
        if description.layout != LAYOUT:
            says = f"made by another version of OpDiff: remove {entry.folder}"
            return Diagnosis(entry.name, False, says)
        if not is_usable(entry.folder):
            says = f"its Python {description.python} in {description.base_prefix} is gone: {remake}"
            return Diagnosis(entry.name, False, says)
        if is_changed(entry.folder):
            return Diagnosis(entry.name, False, f"files were changed after it was made: {remake}")
        if description.origin == "wheel":
            says = f"{description.framework} {description.version}, not started: a wheel's code runs in a sandbox only"
            return Diagnosis(entry.name, True, says)
        diagnosis = self._import(
            to_environment(entry.folder, entry.name), description.package, clock
        )
        return (
            diagnosis
            if diagnosis.ok
            else Diagnosis(entry.name, False, f"{diagnosis.says}: {remake}")
        )

    def _import(
        self, environment: Environment, package: str, clock: Callable[[], float]
    ) -> Diagnosis:
        try:
            imported = import_framework(
                environment.python,
                package,
                environment.library_paths,
                environment.import_paths,
                self._start,
                self._environ,
                clock,
            )
        except InspectionError as error:
            return Diagnosis(environment.spec, False, str(error))
        return Diagnosis(
            environment.spec,
            True,
            f"{environment.framework} {imported.version}, NumPy {imported.numpy},"
            f" starts in {imported.seconds:.1f} s",
        )

    def _read(self, spec: str, framework: str | None) -> Build:
        if is_wheel(spec):
            return read_wheel(spec, self.recipes, framework)
        return read_requirement(spec, self.recipes)

    def _backend(self, build: Build) -> str | None:
        if build.recipe.framework != "torch":
            return None
        if build.wheel is None:
            asked = torch_backend_of(build.version.local, self._environ)
            return asked or self._torch_backend
        return self._torch_backend

    def _keys(self, build: Build) -> tuple[str, ...]:
        """The folders that would do, best first: one per Python version of the recipe."""
        return tuple(key_of(build, python, self._backend(build)) for python in build.pythons)

    def _caches(self) -> tuple[FolderCache, ...]:
        return (self._folders,) if self._prepared is None else (self._folders, self._prepared)

    def _open(self, build: Build) -> Path | None:
        for cache in self._caches():
            for key in self._keys(build):
                folder = cache.open(key, is_usable)
                if folder is not None:
                    self._check(folder, build)
                    return folder
        return None

    def _check(self, folder: Path, build: Build) -> None:
        """Raise TargetError for an environment whose code was changed. Each is looked at once."""
        if folder not in self._checked:
            if is_changed(folder):
                raise TargetError(
                    f"{build.spec}: files in {folder} were changed after it was made:"
                    f" opdiff envs prepare --again '{build.spec}'"
                )
            self._checked.add(folder)

    def _remove(self, build: Build) -> None:
        self._folders.close()
        for key in self._keys(build):
            if not self._folders.remove(key) and (self._folders.root / key).is_dir():
                raise TargetError(f"{build.spec}: a running process uses it: end that first")

    def _make(self, build: Build) -> Path:
        backend = self._backend(build)
        try:
            uv = find_uv()
            interpreter = self._interpreter(build, uv)
            key = key_of(build, interpreter.version.rpartition(".")[0], backend)
            self._say(build, f"preparing with Python {interpreter.version}")

            def build_into(folder: Path, lock: int) -> None:
                installer = Installer(uv, self._environ, lambda line: self._say(build, line), lock)
                Construction(build, interpreter, installer, backend, self._start).into(folder)

            return self._folders.make(
                key,
                build_into,
                is_usable,
                lambda: self._say(build, "waiting for another process that prepares it"),
            )
        except (InstallError, InspectionError) as error:
            raise TargetError(f"{build.spec} cannot be installed: {error}") from None
        except OSError as error:
            raise TargetError(
                f"{build.spec} cannot be installed in {self._folders.root}: {error.strerror or error}"
            ) from None

    def _interpreter(self, build: Build, uv: Path) -> Interpreter:
        finder = self._finder or InterpreterFinder(self._environ, Path.home(), uv)
        interpreter = finder.first(build.pythons)
        if interpreter is None:
            raise InstallError(
                f"no working Python {' or '.join(build.pythons)} here, and none could be downloaded: install one"
            )
        return interpreter

    def _say(self, build: Build, line: str) -> None:
        self._progress(f"{build.recipe.framework} {build.version}: {line}")


def _entries(cache: FolderCache) -> Iterator[StoredEnvironment]:
    for key in cache.stored_keys():
        folder = cache.root / key
        yield StoredEnvironment(key, folder, read_description(folder), cache.last_use(key))
