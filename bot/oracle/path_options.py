"""Which other paths a target has: the table ``paths.yml``, as targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict, Field

from bot.targets.target import MODES, Target

TABLE: Final = Path(__file__).with_name("paths.yml")


class PathRow(BaseModel):
    """One path of a framework; see the table's head."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    framework: str
    options: str = Field(pattern=r"^[a-z_]+(=[a-z0-9_]+)?$")
    beside: tuple[str, ...] = ()
    source: str = Field(min_length=1)

    @property
    def option(self) -> tuple[str, str]:
        """Key and value; an empty value for a flag."""
        key, _, value = self.options.partition("=")
        return key, value


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    paths: tuple[PathRow, ...]


@cache
def load_paths(table: Path = TABLE) -> tuple[PathRow, ...]:
    """Read and validate the table. Raises pydantic's ValidationError."""
    return _Table.model_validate(yaml.safe_load(table.read_text(encoding="utf-8"))).paths


def other_paths(target: Target, framework: str) -> Iterator[Target]:
    """The target on other paths of its framework: without its modes if it has any, then with each row's option more.

    On the CPU only: what a GPU's kernels are chosen by is not in the table.
    """
    if target.device.partition(".")[0] != "cpu":
        return
    plain = tuple(option for option in target.options if option[0] not in MODES)
    if plain != target.options:
        yield replace(target, options=plain)
    has = {key for key, _ in target.options}
    for row in load_paths():
        if row.framework == framework and not has & {row.option[0], *row.beside}:
            yield replace(target, options=(*target.options, row.option))


def is_compiled(target: Target) -> bool:
    """Whether it runs a program's calls as one function."""
    return any(key in MODES and key != "channels_last" for key, _ in target.options)
