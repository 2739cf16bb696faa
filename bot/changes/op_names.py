"""Public names of frameworks to canonical ops, in the words of the reports."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Callable
from functools import cache

import yaml
from pydantic import BaseModel, ConfigDict

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


def op_group(name: str) -> str:
    """The op group of a canonical name: its function where it has one, whatever form was named."""
    names = torch_names()
    scope, _, short = name.rpartition(".")
    plain = short.rstrip("_") if not short.startswith("__") else short
    candidates = (
        [plain, f"nn.functional.{plain}"] if scope in ("Tensor", "") else [f"{scope}.{plain}"]
    )
    if scope == "nn":
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", short.removesuffix("Loss")).lower()
        loss = f"nn.functional.{snake}_loss"
        candidates = [f"nn.functional.{snake}", f"nn.functional.{short.lower()}", loss]
    return next((candidate for candidate in candidates if candidate in names), name)


def canonical_op(alias: str, framework: str, group: OpGroup = op_group) -> str:
    """The op group of a framework's public name; what PyTorch lacks keeps the framework in front."""
    name = alias.removeprefix(framework + ".")
    return group(name) if framework == "torch" or name in torch_names() else alias
