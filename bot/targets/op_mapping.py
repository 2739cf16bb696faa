"""Op mappings: how a framework is called by PyTorch's canonical op names where the two differ.

A framework calls most ops as PyTorch does, and needs no row. The rows of ``bot/worker/ops/<framework>.yml`` say
the rest; a worker gets them with its ``hello`` and adapts each call, so that no finding is an artefact of the calling.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

FOLDER: Final = Path(__file__).parent.parent / "worker" / "ops"


class MappingError(ValueError):
    """An op mapping that cannot be used; the message is one line."""


class OpRow(BaseModel):
    """One op's differences. Applied in this order: positional, not_bool, not_tensor, only, pack, drop, rename, defaults.

    ``same_as``: the framework lacks this form of the op; another form (function for method) is called. ``positional``: PyTorch's names of the positional arguments, in its order. Those after the first ``keep`` are
    passed by name. ``not_bool``: positions at which a bool means something that this framework lacks. ``not_tensor``: positions and names at which the framework takes plain numbers only (a tensor
    would lose its gradient without a word). ``only``: an argument may have these values alone, anything else is unsupported. ``pack``: positional arguments from here on
    become one list. ``drop``: arguments left out when they have one of these values (an empty list: always), because
    that is this framework's behaviour without them. ``rename``: PyTorch's argument name to this framework's.
    ``defaults``: what PyTorch assumes and this framework asks for, in the program's value grammar, by this
    framework's names. ``unsupported``: the op of this name means something else; why.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    same_as: str = ""
    positional: list[str] = []
    keep: int = Field(default=0, ge=0)
    not_bool: list[int] = []
    not_tensor: list[int | str] = []
    only: dict[str, list[Any]] = {}
    pack: int | None = None
    drop: dict[str, list[Any]] = {}
    rename: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    unsupported: str = ""
    source: str = Field(min_length=3)

    @model_validator(mode="after")
    def _consistent(self) -> OpRow:
        if self.keep and self.keep > len(self.positional):
            raise ValueError("keep is more than there are positional names")
        return self


class OpMapping(BaseModel):
    """All rows of one framework, by canonical op name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    framework: str
    ops: dict[str, OpRow] = {}

    def message(self) -> dict[str, Any]:
        """The ``mapping`` of a ``hello``: plain JSON without what only people read."""
        rows = {
            name: row.model_dump(mode="json", exclude_defaults=True, exclude={"source"})
            for name, row in self.ops.items()
        }
        return {"ops": rows}


def load_op_mapping(framework: str, folder: Path = FOLDER) -> OpMapping:
    """A framework's mapping; empty where it has none. Raises MappingError with what is wrong where."""
    path = folder / f"{framework}.yml"
    if not path.exists():
        return OpMapping(framework=framework)
    try:
        return OpMapping.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError, OSError) as error:
        line = " ".join(str(error).split())[:300]
        raise MappingError(f"{path.name}: {line}") from None


@cache
def op_names() -> frozenset[str]:
    """Every canonical op name that a worker may have: ``bot/worker/ops/names.txt``."""
    lines = (FOLDER / "names.txt").read_text(encoding="ascii").splitlines()
    return frozenset(line.strip() for line in lines if not line.startswith("#"))
