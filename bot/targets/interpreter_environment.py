"""An environment that someone else made, given by its interpreter's path."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name
from packaging.version import InvalidVersion, Version

from bot.targets.environment import Environment
from bot.targets.environment_spec import interpreter_path
from bot.targets.inspection import Contents, InspectionError, look
from bot.targets.interpreters import seen_by
from bot.targets.recipes import Recipe, RecipeBook
from bot.targets.starting import Start
from bot.targets.target import TargetError

_CODE = (".py", ".so", ".pyd", ".dylib")


def read_interpreter(
    spec: str, book: RecipeBook, framework: str | None, start: Start
) -> Environment:
    """The environment of ``python=/path``, its framework found by which package it has.

    The interpreter is the user's own: it is started. Raises TargetError when it does not start, is too old, lacks
    NumPy, or has none or several of the frameworks.
    """
    path = interpreter_file(spec)
    contents = look_into(spec, path, book, start)
    return describe(
        spec, path, contents, book, framework, lambda place: _readable(path, contents, place)
    )


def interpreter_file(spec: str) -> Path:
    """The file that ``python=/path`` names. Raises TargetError when there is none."""
    path = interpreter_path(spec)
    if not path.is_file():
        raise TargetError(f"{spec}: no such file {path}")
    return path


def look_into(spec: str, path: Path, book: RecipeBook, start: Start) -> Contents:
    """What an interpreter says that it holds. Raises TargetError when it does not start or says nothing usable."""
    try:
        return look(path, tuple(recipe.import_name for recipe in book.recipes), start)
    except InspectionError as error:
        raise TargetError(f"{spec}: {error}") from None


def describe(
    spec: str,
    path: Path,
    contents: Contents,
    book: RecipeBook,
    framework: str | None,
    readable: Callable[[Path], tuple[Path, ...]],
) -> Environment:
    """The environment of an interpreter's contents; ``readable`` says what must be seen, given the package's folder."""
    packages = {recipe.import_name: recipe for recipe in book.recipes}
    if tuple(int(part) for part in contents.version.split(".")[:2]) < (3, 8):
        raise TargetError(f"{spec}: Python {contents.version} is older than 3.8")
    if not contents.numpy:
        raise TargetError(f"{spec}: it has no NumPy, which a worker needs: install numpy there")
    package = _one_package(spec, contents, packages, framework)
    place = contents.packages[package]
    shown = readable(place)
    version = _distribution_version(place.parent, packages[package].distribution)
    recipe = _recipe(book, packages[package], version)
    return Environment(
        spec=spec,
        framework=recipe.framework,
        python=path,
        origin="interpreter",
        digest=_digest(path, contents, place, version),
        library_paths=tuple(
            folder
            for pattern in recipe.library_paths
            for folder in sorted(place.parent.glob(pattern))
        ),
        readable=shown,
    )


def _one_package(
    spec: str, contents: Contents, packages: dict[str, Recipe], framework: str | None
) -> str:
    found = [
        name
        for name in contents.packages
        if name in packages and framework in (None, packages[name].framework)
    ]
    if framework is None:
        # Every framework brings NumPy along: an interpreter with NumPy alone is one of NumPy only where that is said.
        found = [name for name in found if packages[name].framework != "numpy"]
    if not found:
        wanted = framework or ", ".join(dict.fromkeys(r.framework for r in packages.values()))
        raise TargetError(f"{spec}: it has no framework ({wanted}): install one there")
    if len(found) > 1:
        raise TargetError(
            f"{spec}: it has {' and '.join(found)}: say which, as in"
            f" {spec}:cpu:framework={packages[found[0]].framework}"
        )
    return found[0]


def _distribution_version(folder: Path, distribution: str) -> str:
    """The version in the name of a ``.dist-info`` or ``.egg-info`` beside a package, ``?`` without one."""
    for path in sorted(folder.glob("*.*-info")):
        name, _, version = path.name.rpartition(".")[0].partition("-")
        try:
            if canonicalize_name(name) == canonicalize_name(distribution):
                return version.split("-py")[0] or "?"
        except InvalidWheelFilename:
            continue
    return "?"


def _recipe(book: RecipeBook, fallback: Recipe, version: str) -> Recipe:
    try:
        return book.serving(fallback.framework, Version(version)) or fallback
    except InvalidVersion:
        return fallback


def _readable(python: Path, contents: Contents, package: Path) -> tuple[Path, ...]:
    """What must be seen: the interpreter's own, and whatever of the import path lies outside of that."""
    roots = list(seen_by(python, contents.prefix, contents.base_prefix))
    for path in (*contents.path, package.parent, package.resolve().parent):
        if path.exists() and not any(path.is_relative_to(root) for root in roots):
            roots.append(path)
    return tuple(roots)


def _code_files(package: Path) -> Iterator[Path]:
    """A package's code; a build folder can also hold links to what is not there."""
    return (path for path in sorted(package.rglob("*")) if path.suffix in _CODE and path.is_file())


def _digest(python: Path, contents: Contents, package: Path, version: str) -> str:
    """Identifies the content without reading it: a build folder may change between two runs."""
    state = hashlib.blake2b(digest_size=16)
    for text in (str(python), contents.version, version):
        state.update(text.encode() + b"\0")
    for path in _code_files(package):
        facts = path.stat()
        state.update(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    return state.hexdigest()
