"""How repro scripts speak each framework: the table ``dialects.yml``."""

from __future__ import annotations

import functools
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter


class Dialect(BaseModel):
    """One row of ``dialects.yml``; the file explains the columns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    seed: str
    threads: str
    dtypes: frozenset[str]
    from_numpy: str
    view: str
    source: str


@functools.cache
def dialects() -> dict[str, Dialect]:
    """Framework -> dialect, validated."""
    text = resources.files("bot.report").joinpath("dialects.yml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Dialect]).validate_python(yaml.safe_load(text))
