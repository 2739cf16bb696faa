"""The file ``facts.yml``: what PaddlePaddle's macros, folders, decorators and operators mean, each row with its source."""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from bot.changes.table_file import read_table

Names = Literal["kernel", "op"]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str = Field(min_length=3)


class Registrars(_Row):
    """Macros whose first argument names a kernel or an op."""

    names: Names
    macros: tuple[str, ...] = Field(min_length=1)


class OpFunctions(_Row):
    """Folders in which a C++ function is called after its op."""

    folders: tuple[str, ...] = Field(min_length=1)
    suffixes: tuple[str, ...] = Field(min_length=1)


class Decorators(_Row):
    """Python decorators whose text argument is an op's name."""

    names: tuple[str, ...] = Field(min_length=1)


class Operators(_Row):
    """Op -> Tensor's operator methods."""

    methods: dict[str, tuple[str, ...]]


class PaddleTables(BaseModel):
    """All of ``paddle.yml``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    registrars: tuple[Registrars, ...]
    op_functions: tuple[OpFunctions, ...]
    decorators: tuple[Decorators, ...]
    operators: Operators

    @property
    def names_of(self) -> dict[str, Names]:
        """Registering macro -> what its first argument names."""
        return {macro: row.names for row in self.registrars for macro in row.macros}

    @property
    def decorator_names(self) -> frozenset[str]:
        """Every decorator that names an op."""
        return frozenset(name for row in self.decorators for name in row.names)

    def op_of_function(self, path: str, name: str) -> str:
        """The op that a C++ function of a file computes, by its name; "" when the file's functions have other names."""
        for row in self.op_functions:
            if path.startswith(row.folders):
                for suffix in row.suffixes:
                    if name.endswith(suffix):
                        return name.removesuffix(suffix)
        return ""


@cache
def paddle_tables() -> PaddleTables:
    """The tables, read once. Raises pydantic's ValidationError when the file is not as it should be."""
    return read_table("bot.changes.frameworks.paddle", "facts.yml", PaddleTables)
