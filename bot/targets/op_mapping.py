"""Op mappings: how a framework is called by PyTorch's canonical op names where the two differ.

The rows of ``bot/worker/ops/<framework>.yml`` say how; a worker gets them with its ``hello``, so that no finding is an
artefact of the calling. A framework that speaks PyTorch's names (OneFlow) calls most ops as PyTorch does, and has rows
for the differences. Any other has a row with *call forms* for every op that it offers (``bot/worker/form_text.py``)::

    max:
      - (input) -> numpy.max(input)
      - (input, other:Tensor) -> numpy.maximum(input, other)

A row that is only text is its forms; its source is then the file's own ``source``, the framework's reference of the
functions that the forms name. Methods, in-place forms and aliases of an op are called by the op's own row where they
have none of their own.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from bot.programs.op_groups import SameCall, op_groups
from bot.worker.form_text import parse

FOLDER: Final = Path(__file__).parent.parent / "worker" / "ops"


class MappingError(ValueError):
    """An op mapping that cannot be used; the message is one line."""


class StatePlace(BaseModel):
    """Where a framework keeps a parameter or buffer of PyTorch's; in YAML its name alone, or all of it.

    ``transpose``: its last two axes are swapped. ``reshape``: it has another shape with the same elements in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    transpose: bool = False
    reshape: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short(cls, row: Any) -> Any:
        return {"name": row} if isinstance(row, str) else row


class OpRow(BaseModel):
    """One op: its call forms, or its differences. Those are applied in this order: positional, not_bool, not_tensor, only, pack, drop, rename, defaults.

    ``same_as``: the framework lacks this form of the op; another form (function for method) is called. ``positional``: PyTorch's names of the positional arguments, in its order. Those after the first ``keep`` are
    passed by name. ``not_bool``: positions at which a bool means something that this framework lacks. ``not_tensor``: positions and names at which the framework takes plain numbers only (a tensor
    would lose its gradient without a word). ``only``: an argument may have these values alone, anything else is unsupported. ``pack``: positional arguments from here on
    become one list. ``drop``: arguments left out when they have one of these values (an empty list: always), because
    that is this framework's behaviour without them. ``rename``: PyTorch's argument name to this framework's.
    ``defaults``: what PyTorch assumes and this framework asks for, in the program's value grammar, by this
    framework's names. ``unsupported``: the op of this name means something else; why. ``state``, of a module class with
    call forms: PyTorch's name of a parameter or buffer to the framework's place of it, null where it keeps no such
    thing. What is not listed has the same name and layout in both.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    call: tuple[str, ...] = ()
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
    state: dict[str, StatePlace | None] | None = None
    source: str = Field(min_length=3)

    @field_validator("call")
    @classmethod
    def _are_forms(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            parse(text)
        return texts

    @model_validator(mode="after")
    def _consistent(self) -> OpRow:
        if self.keep and self.keep > len(self.positional):
            raise ValueError("keep is more than there are positional names")
        if self.state is not None and not self.call:
            raise ValueError("state is of module classes that are made by call forms")
        return self


class OpMapping(BaseModel):
    """All rows of one framework, by canonical op name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    framework: str
    source: str = ""
    ops: dict[str, OpRow] = {}

    @model_validator(mode="before")
    @classmethod
    def _short_rows(cls, file: Any) -> Any:
        """Rows that are only forms, as rows."""
        if not isinstance(file, dict):
            return file
        data = cast(dict[str, Any], file)
        if not isinstance(data.get("ops"), dict):
            return data
        source = data.get("source", "")
        rows = {name: _as_row(row, source) for name, row in data["ops"].items()}
        return {**data, "ops": rows}

    @model_validator(mode="after")
    def _known(self) -> OpMapping:
        own = f"{self.framework}."
        unknown = [
            n
            for n, row in self.ops.items()
            if row.call and n not in op_names() and not n.startswith(own)
        ]
        if unknown:
            raise ValueError(f"no canonical op names: {', '.join(sorted(unknown))}")
        return self

    def same_calls(self) -> dict[str, tuple[str, SameCall]]:
        """Names without a row -> the op whose forms they are called by, and how."""
        found: dict[str, tuple[str, SameCall]] = {}
        for name in op_names():
            same = None if name in self.ops else op_groups().same_call(name)
            if same is not None and same[0] in self.ops and self.ops[same[0]].call:
                found[name] = same
        return found

    def message(self) -> dict[str, Any]:
        """The ``mapping`` of a ``hello``: plain JSON without what only people read."""
        rows = {
            name: row.model_dump(mode="json", exclude_defaults=True, exclude={"source"})
            for name, row in self.ops.items()
        }
        same = self.same_calls()
        return {"ops": rows, "same_calls": same} if same else {"ops": rows}


def _as_row(row: object, source: object) -> object:
    if isinstance(row, str):
        return {"call": [row], "source": source}
    if isinstance(row, list):
        return {"call": cast(list[object], row), "source": source}
    if isinstance(row, dict) and "call" in row:
        named = cast(dict[str, object], row)
        call = named["call"]
        return {"source": source, **named, "call": [call] if isinstance(call, str) else call}
    return cast(object, row)


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
