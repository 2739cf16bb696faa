"""How repro scripts speak each framework: the table ``dialects.yml``."""

from __future__ import annotations

import functools
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class Gradients(BaseModel):
    """How a framework is asked for gradients, in statements; ``dialects.yml`` explains the columns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    leaf: str = ""
    record: list[str] = []
    function: str = ""
    backward: str
    gradient: str = "{x}.grad"


class Dialect(BaseModel):
    """One row of ``dialects.yml``; the file explains the columns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    names: bool = False
    imports: dict[str, str] = {}
    helpers: dict[str, str] = {}
    setup: list[str] = []
    devices: dict[str, str] | None = None
    seed: str
    threads: str
    dtype: str
    dtype_names: dict[str, str] = {}
    dtypes: frozenset[str]
    narrowed: dict[str, str] = {}
    lacks: str = ""
    tensor: str
    from_numpy: str
    view: str
    copy_: str = Field(alias="copy")
    assign: str = ""
    kept: str = "{x}"
    gradients: Gradients | None
    to_numpy: str = ""
    source: str

    def dtype_source(self, name: str) -> str:
        """The source of a canonical dtype."""
        return self.dtype_names.get(name, self.dtype.format(name=name))


@functools.cache
def dialects() -> dict[str, Dialect]:
    """Framework -> dialect, validated."""
    text = resources.files("bot.report").joinpath("dialects.yml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Dialect]).validate_python(yaml.safe_load(text))
