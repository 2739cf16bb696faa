"""What was compared and what was not, and why: the numbers without which "no findings" means nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal

Disposition = Literal[
    "ok", "exception", "unsupported", "refused", "crash", "hang", "memory"
]  # an outcome's status, as coverage counts it

ROLE_FIELD: dict[str, str] = {
    "output": "outputs",
    "intermediate": "intermediates",
    "gradient": "gradients",
    "side-effect": "side_effects",
    "parameter": "parameters",
    "buffer": "buffers",
}
"""A tensor's role -> the field of Counts that counts it."""


@dataclass(frozen=True)
class Counts:
    """What one program's comparison covered: tensors present on at least two targets, and so on."""

    compared: int = 0  # 1 when at least two targets could be compared
    outputs: int = 0
    intermediates: int = 0
    gradients: int = 0
    side_effects: int = 0
    parameters: int = 0
    buffers: int = 0
    values: int = 0  # results that are no tensors
    exceptions: int = 0  # 1 when targets agreed that the program raises
    elements: int = 0  # of the tensors above
    by_contract: int = (
        0  # of the tensors above: shape, dtype and range only (random, uninitialised)
    )
    by_convention: int = (
        0  # of the tensors above: equal but for elements that a convention takes away
    )
    skipped: tuple[str, ...] = ()  # reasons why something was not compared

    @cached_property
    def by_name(self) -> dict[str, int]:
        """What was compared: the fields that are not 0, by name. Not to be changed by the caller."""
        return {name: count for name in _NUMBERS if (count := getattr(self, name))}

    @cached_property
    def not_compared(self) -> dict[str, int]:
        """What was not compared: how often each reason holds. Not to be changed by the caller."""
        return dict(Counter(self.skipped))


@dataclass(frozen=True)
class TargetStatus:
    """What became of a program on one target. ``reason`` is one line: the exception, or why it is unsupported."""

    status: Disposition
    reason: str = ""


_NUMBERS = tuple(field.name for field in fields(Counts) if field.name != "skipped")
