"""What is written down about an environment when it is made, and how it is built and read back."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from bot.targets.code_digest import code_digest
from bot.targets.environment import Environment
from bot.targets.environment_spec import Build
from bot.targets.inspection import import_framework
from bot.targets.installer import Installer
from bot.targets.interpreters import Interpreter, seen_by
from bot.targets.starting import Start

DESCRIPTION = "opdiff-environment.json"
MAX_DESCRIPTION_BYTES = 1 << 20
LAYOUT = 1  # a change here makes every environment anew


class Description(BaseModel):
    """What is known of a stored environment; written last, so that its presence means that the rest is whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layout: int
    spec: str
    framework: str
    package: str
    origin: Literal["release", "wheel"]
    version: str
    python: str
    base_prefix: Path
    digest: str
    library_paths: tuple[str, ...]  # below the environment
    installed: tuple[str, ...]  # name-version of every distribution
    notes: tuple[str, ...] = ()
    code: str = ""  # of its files when it was made; "" for one made before that was written down

    @field_validator("library_paths")
    @classmethod
    def _lie_below(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                raise ValueError("a library folder lies outside of the environment")
        return paths


def key_of(build: Build, python: str, torch_backend: str | None) -> str:
    """The folder's name: readable, then a hash of everything that determines what is installed."""
    facts = {
        "layout": LAYOUT,
        "recipe": build.recipe.content(),
        "identity": build.identity,
        "python": python,
        "torch_backend": torch_backend,
        "machine": f"{sys.platform} {platform.machine()}",
    }
    digest = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9+.]+", "-", f"{build.recipe.framework}-{build.version}")
    return f"{readable}-py{python}-{'wheel-' if build.wheel else ''}{digest}"


def read_description(folder: Path) -> Description | None:
    """What is written down about an environment, or None when nothing readable is."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(folder / DESCRIPTION, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            text = file.read(MAX_DESCRIPTION_BYTES + 1)
        if len(text) > MAX_DESCRIPTION_BYTES:
            return None
        return Description.model_validate_json(text)
    except (OSError, ValidationError):
        return None


def is_usable(folder: Path) -> bool:
    """Whether an environment is described in this layout and its interpreter is still on the machine.

    A link is none: what it leads to may change without anybody's lock.
    """
    description = read_description(folder)
    if folder.is_symlink() or description is None or description.layout != LAYOUT:
        return False
    return (folder / "bin/python").exists() and description.base_prefix.is_dir()


def is_changed(folder: Path) -> bool:
    """Whether an environment's code is no longer what it was made with."""
    description = read_description(folder)
    if description is None or not description.code:
        return False
    return code_digest(folder) != description.code


def site_packages(folder: Path) -> Path:
    """An environment's site-packages."""
    return next(iter(sorted((folder / "lib").glob("python3.*/site-packages"))))


def to_environment(folder: Path, spec: str) -> Environment:
    """The Environment of a stored folder, under the spec that it was asked for by."""
    described = read_description(folder)
    assert described is not None, f"{folder} was checked to be usable"
    return Environment(
        spec=spec,
        framework=described.framework,
        python=folder / "bin/python",
        origin=described.origin,
        digest=described.digest,
        library_paths=tuple(folder / path for path in described.library_paths),
        readable=seen_by(folder / "bin/python", folder, described.base_prefix),
        notes=described.notes,
    )


@dataclass(frozen=True)
class Construction:
    """Builds one environment into an empty folder that is renamed afterwards."""

    build: Build
    interpreter: Interpreter
    installer: Installer
    torch_backend: str | None
    start: Start

    def into(self, folder: Path) -> None:
        """Install, compile, check, describe. Raises InstallError, InspectionError or OSError."""
        build = self.build
        self.installer.create(folder, self.interpreter.path)
        beside = build.recipe.installed_with(build.version)
        if build.recipe.dependencies:
            self.installer.install(
                folder,
                [build.install, *beside],
                torch_backend=self.torch_backend,
                built=build.recipe.built,
            )
        else:
            self.installer.install(folder, beside, built=build.recipe.built)
            self.installer.install(
                folder, [build.install], dependencies=False, torch_backend=self.torch_backend
            )
        packages = site_packages(folder)
        self.installer.progress("compiling to bytecode")
        self.installer.compile(packages, self.interpreter.path)
        libraries = _library_paths(packages, build.recipe.library_paths)
        if build.wheel is None:
            # A wheel is a pull request's code: it is started in a sandbox only.
            self.installer.progress(f"importing {build.recipe.import_name}")
            import_framework(
                folder / "bin/python", build.recipe.import_name, libraries, run=self.start
            )
        _remove_scripts(folder)
        description = self._describe(folder, packages, libraries)
        (folder / DESCRIPTION).write_text(description.model_dump_json(indent=1), encoding="utf-8")

    def _describe(self, folder: Path, packages: Path, libraries: tuple[Path, ...]) -> Description:
        build = self.build
        installed = tuple(
            sorted(p.name.removesuffix(".dist-info") for p in packages.glob("*.dist-info"))
        )
        state = hashlib.blake2b(digest_size=16)
        for text in (build.identity, self.interpreter.version, *installed):
            state.update(text.encode() + b"\0")
        return Description(
            layout=LAYOUT,
            spec=build.spec,
            framework=build.recipe.framework,
            package=build.recipe.import_name,
            origin="release" if build.wheel is None else "wheel",
            version=_installed_version(installed, build.recipe.distribution) or str(build.version),
            python=self.interpreter.version,
            base_prefix=self.interpreter.base_prefix,
            digest=state.hexdigest(),
            library_paths=tuple(str(path.relative_to(folder)) for path in libraries),
            installed=installed,
            notes=build.notes,
            code=code_digest(folder),
        )


def _library_paths(packages: Path, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    found = [path for pattern in patterns for path in sorted(packages.glob(pattern))]
    return tuple(path for path in found if path.is_dir())


def _installed_version(installed: tuple[str, ...], distribution: str) -> str | None:
    for entry in installed:
        name, _, version = entry.rpartition("-")
        if canonicalize_name(name) == canonicalize_name(distribution):
            return version
    return None


def _remove_scripts(folder: Path) -> None:
    """Leave only interpreters in ``bin``: the packages' scripts name the folder that this was built in."""
    for path in (folder / "bin").iterdir():
        if not re.fullmatch(r"python[0-9.]*", path.name):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
