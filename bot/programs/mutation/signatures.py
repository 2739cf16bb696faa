"""Signatures: what PyTorch itself says of its functions' parameters, read as hostile data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

MAX_OVERLOADS: Final = 16


class Parameter(BaseModel):
    """One parameter of one overload. ``type`` is the schema's own word (``int[2]?``, ``Scalar``), "" where none is told."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=100)
    type: str = Field(default="", max_length=200)
    required: bool = True
    keyword: bool = False  # only by name
    default: Any = None  # in the program's grammar; None where it has none that is plain


_TABLE = TypeAdapter(dict[str, list[list[Parameter]]])


@dataclass(frozen=True)
class Signatures:
    """Canonical function name -> its overloads' parameters, self included."""

    table: dict[str, list[list[Parameter]]] = field(
        default_factory=dict[str, list[list[Parameter]]]
    )

    def parameters(self, fn: str) -> list[Parameter]:
        """The parameters of all overloads of a function."""
        return [parameter for overload in self.table.get(fn, ()) for parameter in overload]

    def optional(self, fn: str) -> list[Parameter]:
        """The parameters that may be left out: they have a default, or another overload does not have them."""
        overloads = self.table.get(fn, [])
        names = [{parameter.name for parameter in overload} for overload in overloads]
        return [
            parameter
            for overload in overloads
            for parameter in overload
            if not parameter.required or not all(parameter.name in others for others in names)
        ]

    def name_of(self, fn: str, position: int) -> str:
        """The name of a positional parameter; the position as text where it has none."""
        for overload in self.table.get(fn, ()):
            if position < len(overload) and not overload[position].keyword:
                return overload[position].name
        return str(position)

    def types(self, fn: str, name: str) -> set[str]:
        """The types that a parameter has over all overloads."""
        return {p.type for p in self.parameters(fn) if p.name == name and p.type}


def read_signatures(text: bytes) -> Signatures | None:
    """Signatures from JSON; None for what does not add up."""
    try:
        return Signatures(_TABLE.validate_json(text))
    except ValidationError:
        return None
