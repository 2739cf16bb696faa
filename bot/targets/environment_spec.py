"""What an environment is asked for by: a requirement, a wheel, or an interpreter's path."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging import tags
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from bot.targets.recipes import Recipe, RecipeBook
from bot.targets.target import TargetError

PlatformTags = Callable[[], Iterable[str]]


@dataclass(frozen=True)
class Build:
    """What is to be installed: a recipe, the exact thing to install, and the Python versions it can run on."""

    spec: str  # as the user wrote it
    recipe: Recipe
    version: Version
    install: str  # what uv is given: "torch==2.13.0", or a wheel's path
    identity: str  # what makes two builds the same: the requirement, or a wheel's content
    pythons: tuple[str, ...]
    wheel: Path | None = None
    notes: tuple[str, ...] = ()


def is_wheel(spec: str) -> bool:
    """Whether a spec is a wheel's path or a pattern of one."""
    return spec.endswith(".whl")


def is_interpreter(spec: str) -> bool:
    """Whether a spec is ``python=/path/to/python``."""
    return spec.startswith("python=")


def interpreter_path(spec: str) -> Path:
    """The path in ``python=/path`` or ``python="/path"``. Raises TargetError when it is empty."""
    text = spec.removeprefix("python=").strip('"')
    if not text:
        raise TargetError(f"{spec}: no path, write python=/path/to/python")
    return Path(text).expanduser().absolute()


def read_requirement(spec: str, book: RecipeBook) -> Build:
    """Read ``torch==2.13.0``. Raises TargetError unless it pins one version that a recipe serves."""
    try:
        requirement = Requirement(spec)
    except InvalidRequirement:
        raise TargetError(
            f"{spec!r} is no requirement, wheel or interpreter: write torch==2.13.0, path/to/NAME.whl or python=/path"
        ) from None
    if not book.named(requirement.name):
        raise TargetError(
            f"no recipe for {requirement.name!r}: {book.near_names(requirement.name)}"
        )
    pins = list(requirement.specifier)
    if len(pins) != 1 or pins[0].operator != "==" or pins[0].version.endswith(".*"):
        example = book.named(requirement.name)[0].example
        shown = f", as in {requirement.name}=={example}" if example else ""
        raise TargetError(f"{spec}: name one version{shown}")
    if requirement.url or requirement.marker:
        raise TargetError(f"{spec}: a target is NAME==VERSION without URL or marker")
    version = Version(pins[0].version)
    recipe = book.serving(requirement.name, version)
    if recipe is None:
        ranges = " or ".join(row.versions for row in book.named(requirement.name))
        raise TargetError(f"{spec}: no recipe for this version, known are {ranges}")
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    install = f"{recipe.distribution}{extras}=={version}"
    return Build(spec, recipe, version, install, install, recipe.python)


def find_wheel(pattern: str) -> Path:
    """The one wheel that a path or glob names. Raises TargetError for none or several."""
    matches = [Path(pattern)] if Path(pattern).is_file() else []
    matches = matches or [Path(match) for match in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207
    if not matches:
        raise TargetError(f"no wheel matches {pattern}")
    if len(matches) > 1:
        names = ", ".join(path.name for path in matches[:3]) + (", ..." if len(matches) > 3 else "")
        raise TargetError(f"{len(matches)} wheels match {pattern} ({names}): name one")
    return matches[0].absolute()


def supported_pythons(
    wheel_tags: Iterable[tags.Tag], pythons: Sequence[str], platforms: Sequence[str]
) -> tuple[str, ...]:
    """Those of the Python versions, in their order, that a wheel with these tags can be installed on."""
    wanted = set(wheel_tags)
    found: list[str] = []
    for python in pythons:
        major, minor = (int(part) for part in python.split("."))
        supported = {
            *tags.cpython_tags((major, minor), platforms=platforms),
            *tags.compatible_tags((major, minor), f"cp{major}{minor}", platforms),
        }
        if wanted & supported:
            found.append(python)
    return tuple(found)


def _wrong_wheel(
    path: Path, wheel_tags: frozenset[tags.Tag], recipe: Recipe, platforms: Sequence[str]
) -> TargetError:
    found = sorted({tag.platform for tag in wheel_tags})
    if not set(found) & {*platforms, "any"}:
        return TargetError(
            f"{path.name}: built for {' '.join(found)}, this machine is {platforms[-1]}"
        )
    pythons = ", ".join(sorted({f"{tag.interpreter}-{tag.abi}" for tag in wheel_tags}))
    return TargetError(
        f"{path.name}: built for Python {pythons}, {recipe.framework} runs here on Python"
        f" {', '.join(recipe.python)}: build it for one of them"
    )


def read_wheel(
    spec: str,
    book: RecipeBook,
    framework: str | None = None,
    platform_tags: PlatformTags = tags.platform_tags,
) -> Build:
    """Read a wheel's path or glob; the rest comes from its framework's recipe.

    Raises TargetError when not exactly one file matches, it is of no known framework, or it cannot be installed on this
    platform and the recipe's Python versions.
    """
    path = find_wheel(spec)
    try:
        name, version, _, wheel_tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise TargetError(f"{path.name}: no wheel's file name ({error})") from None
    recipe = book.nearest(framework or name, version)
    if recipe is None:
        raise TargetError(f"{path.name}: no recipe for {name!r}: {book.near_names(name)}")
    platforms = list(platform_tags())
    pythons = supported_pythons(wheel_tags, recipe.python, platforms)
    if not pythons:
        raise _wrong_wheel(path, wheel_tags, recipe, platforms)
    notes = ()
    if not recipe.serves(version):
        notes = (f"{version} is outside every recipe: installed like {recipe.versions}",)
    try:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "blake2b").hexdigest()
    except OSError as error:
        raise TargetError(f"{path}: cannot be read: {error.strerror}") from None
    return Build(spec, recipe, version, str(path), content, pythons, path, notes)
