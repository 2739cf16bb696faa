"""Recipes: how an environment of a framework's release is made, as data (``recipes.yml``)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

RECIPES_FILE = Path(__file__).with_name("recipes.yml")


class RecipeError(ValueError):
    """A row of the recipe table is wrong; one line per bad row."""


class Recipe(BaseModel):
    """How releases of one framework in one range of versions are installed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    framework: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    distribution: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    package: str = ""
    versions: str
    python: tuple[str, ...] = Field(min_length=1)
    requirements: tuple[str, ...] = ()
    dependencies: bool = True
    built: tuple[str, ...] = ()
    library_paths: tuple[str, ...] = ()
    source_roots: dict[str, str] = {}
    example: str = ""
    notes: str = ""
    source: str = Field(min_length=1)

    @field_validator("versions")
    @classmethod
    def _specifiers(cls, text: str) -> str:
        try:
            SpecifierSet(text)
        except InvalidSpecifier:
            raise ValueError(f"{text!r} is no range of versions, as in '>=1.8,<1.11'") from None
        return text

    @model_validator(mode="after")
    def _example_is_served(self) -> Recipe:
        if self.example and not self.serves(Version(self.example)):
            raise ValueError(f"example {self.example} is none of the versions {self.versions}")
        return self

    @field_validator("python")
    @classmethod
    def _python_versions(cls, versions: tuple[str, ...]) -> tuple[str, ...]:
        for version in versions:
            match = re.fullmatch(r"3\.(\d+)", version)
            if match is None or int(match[1]) < 8:
                raise ValueError(f"{version!r} is no Python version from 3.8 on, as in '3.11'")
        return versions

    @field_validator("requirements")
    @classmethod
    def _requirements(cls, requirements: tuple[str, ...]) -> tuple[str, ...]:
        for text in requirements:
            try:
                Requirement(text.replace("{version}", "1"))
            except InvalidRequirement:
                raise ValueError(f"{text!r} is no requirement, as in 'numpy<2'") from None
        return requirements

    @field_validator("built")
    @classmethod
    def _distributions(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                raise ValueError(f"{name!r} is no distribution's name")
        return names

    @field_validator("library_paths")
    @classmethod
    def _relative(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            if path.startswith("/") or ".." in path.split("/"):
                raise ValueError(f"{path!r} must lie below site-packages")
        return paths

    @property
    def import_name(self) -> str:
        """The package to import."""
        return self.package or self.framework

    @property
    def roots(self) -> dict[str, str]:
        """Folders of the framework's repository -> the packages they are installed as."""
        return self.source_roots or {self.import_name: self.import_name}

    def serves(self, version: Version) -> bool:
        """Whether the version lies in this row's range; local labels (``+cpu``) don't matter."""
        return SpecifierSet(self.versions).contains(version.public, prereleases=True)

    def installed_with(self, version: Version) -> tuple[str, ...]:
        """The requirements beside the distribution, for one version of it."""
        return tuple(text.replace("{version}", version.public) for text in self.requirements)

    def content(self) -> dict[str, Any]:
        """The fields that determine what is installed; part of an environment's key."""
        content = self.model_dump(
            include={"distribution", "requirements", "dependencies", "library_paths"}
        )
        return content | ({"built": self.built} if self.built else {})


@dataclass(frozen=True)
class RecipeBook:
    """Every recipe, by name and version."""

    recipes: tuple[Recipe, ...]

    def names(self) -> tuple[str, ...]:
        """The names that a requirement may have: distributions and frameworks."""
        names = dict.fromkeys(
            name for recipe in self.recipes for name in (recipe.distribution, recipe.framework)
        )
        return tuple(names)

    def frameworks(self) -> tuple[str, ...]:
        """The frameworks that have a recipe."""
        return tuple(dict.fromkeys(recipe.framework for recipe in self.recipes))

    def named(self, name: str) -> tuple[Recipe, ...]:
        """The rows of a distribution or framework, by either name."""
        wanted = canonicalize_name(name)
        return tuple(
            recipe
            for recipe in self.recipes
            if wanted in (canonicalize_name(recipe.distribution), recipe.framework)
        )

    def serving(self, name: str, version: Version) -> Recipe | None:
        """The row for a version of a distribution or framework, or None."""
        return next((recipe for recipe in self.named(name) if recipe.serves(version)), None)

    def nearest(self, name: str, version: Version) -> Recipe | None:
        """The row for a version, or for a build outside every range (a nightly) the framework's newest row."""
        rows = self.named(name)
        return self.serving(name, version) or (rows[0] if rows else None)

    def near_names(self, name: str) -> str:
        """``did you mean torch?``, or all names when none is near."""
        near = get_close_matches(name, self.names(), n=3, cutoff=0.6)
        if near:
            return f"did you mean {' or '.join(near)}?"
        return f"known: {', '.join(self.names())}"


def _row_error(number: int, row: Any, error: ValidationError) -> str:
    cells: dict[str, Any] = cast(dict[str, Any], row) if isinstance(row, dict) else {}
    name = f" ({cells.get('framework', '?')} {cells.get('versions', '?')})" if cells else ""
    problems = "; ".join(
        f"{'.'.join(map(str, item['loc'])) or 'row'}: {item['msg'].removeprefix('Value error, ')}"
        for item in error.errors(include_url=False)
    )
    return f"recipe {number}{name}: {problems}"


def read_recipes(rows: Iterable[Any]) -> RecipeBook:
    """Validate the rows of a recipe table. Raises RecipeError with one line per bad row."""
    recipes: list[Recipe] = []
    problems: list[str] = []
    for number, row in enumerate(rows, start=1):
        try:
            recipes.append(Recipe.model_validate(row))
        except ValidationError as error:
            problems.append(_row_error(number, row, error))
    if problems:
        raise RecipeError("\n".join(problems))
    return RecipeBook(tuple(recipes))


def load_recipes(path: Path = RECIPES_FILE) -> RecipeBook:
    """Read and validate a recipe table. Raises RecipeError with one line per bad row."""
    try:
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise RecipeError(f"{path.name} is not YAML: {' '.join(str(error).split())}") from None
    rows: Any = cast(dict[str, Any], table).get("recipes") if isinstance(table, dict) else None
    if not isinstance(rows, list):
        raise RecipeError(f"{path.name} has no list named 'recipes'")
    return read_recipes(cast(list[Any], rows))
