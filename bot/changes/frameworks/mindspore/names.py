"""MindSpore's operators as Tensor's methods: the table ``facts.yml``."""

from __future__ import annotations

from functools import cache

from pydantic import BaseModel, ConfigDict, Field

from bot.changes.table_file import read_table


class _Operators(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(min_length=3)
    methods: dict[str, tuple[str, ...]]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    operators: _Operators


@cache
def operator_methods() -> dict[str, tuple[str, ...]]:
    """Module of an operator's overloads, without ``_impl`` -> Tensor's methods."""
    return read_table("bot.changes.frameworks.mindspore", "facts.yml", _File).operators.methods
