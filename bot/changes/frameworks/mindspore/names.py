"""MindSpore's operators as Tensor's methods: the table ``mindspore.yml``."""

from __future__ import annotations

import importlib.resources
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict, Field


class _Operators(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(min_length=3)
    methods: dict[str, tuple[str, ...]]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    operators: _Operators


def _load() -> _File:
    text = (
        importlib.resources.files("bot.changes.frameworks.mindspore")
        .joinpath("facts.yml")
        .read_text("utf-8")
    )
    return _File.model_validate(yaml.safe_load(text))


OPERATORS: Final = _load().operators.methods
"""Module of an operator's overloads, without ``_impl`` -> Tensor's methods."""
