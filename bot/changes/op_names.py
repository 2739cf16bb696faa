"""Public names of frameworks to canonical ops, in the words of the reports."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from functools import cache

import yaml
from pydantic import BaseModel, ConfigDict

from bot.programs.op_groups import group_of

OpGroup = Callable[[str], str]


class TorchNames(BaseModel):
    """The file ``torch_names.yml``: public callables of PyTorch, without ``torch.``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    names: frozenset[str]


@cache
def torch_names() -> frozenset[str]:
    """The public callables of PyTorch, without ``torch.``."""
    text = importlib.resources.files("bot.changes").joinpath("torch_names.yml").read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return TorchNames.model_validate(yaml.load(text, loader)).names


def canonical_op(alias: str, framework: str, group: OpGroup = group_of) -> str:
    """The op group of a framework's public name; what PyTorch lacks keeps the framework in front."""
    name = alias.removeprefix(framework + ".").removeprefix("_C.")
    if name not in torch_names() and f"nn.functional.{name}" in torch_names():
        name = f"nn.functional.{name}"
    return group(name) if framework == "torch" or name in torch_names() else alias
