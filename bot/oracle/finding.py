"""Mismatches and findings: the words that the oracle hands to the report."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal[
    "value", "gradient", "nan", "shape", "dtype", "side-effect", "accepts", "refuses", "crash", "hang", "memory",
    "nondeterminism",
]  # fmt: skip
Verdict = Literal["candidate", "upstream", "both", "convention", "flaky", "undecided"]
Confidence = Literal["proved", "strong", "weak"]
FindingStatus = Literal["new", "known", "fixed", "changed"]

FINGERPRINT: Final = r"[0-9a-f]{8,64}"
"""The pattern of a whole fingerprint, or of as much of one as a person types."""


def is_fingerprint(text: str) -> bool:
    """Whether a text from outside can be a finding's fingerprint."""
    return re.fullmatch(FINGERPRINT, text) is not None


@dataclass(frozen=True)
class Difference:
    """How far two tensors of the same shape and dtype are apart.

    ``largest_absolute`` and ``largest_relative`` are over the finite elements; ``largest_ulp`` counts representable
    numbers of the dtype between the two values (None for integers and bool). ``first_index`` is the first element,
    in C order, out of tolerance.
    """

    differing: int
    elements: int
    largest_absolute: float | None
    largest_relative: float | None
    largest_ulp: int | None
    first_index: tuple[int, ...] | None


@dataclass(frozen=True)
class Observation:
    """What one target had at the place of a mismatch: a tensor's dtype, shape and value, or what happened instead."""

    target: str
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    value: str | None = None  # the first differing element, shortest text that reads back exactly
    happened: str | None = None  # "raised ValueError: ...", "died of SIGFPE", "no gradient"
    confirmed: bool = True  # False for a death that did not come again when the program ran alone


@dataclass(frozen=True)
class Mismatch:
    """One tensor, exception or crash on which outcomes of one program disagree.

    ``sides`` partitions the targets: those within one inner tuple agree with each other. ``odd`` is the side that
    the difference is measured on, against the first other side.
    """

    program: str  # digest
    kind: Kind
    role: str  # output, intermediate, gradient, side-effect, parameter, buffer; "" for exceptions and crashes
    name: str
    path: tuple[int, ...]
    sides: tuple[tuple[str, ...], ...]
    observations: tuple[Observation, ...]
    difference: Difference | None = None
    note: str = ""  # e.g. the crash signature: what distinguishes causes beside role and name

    @property
    def label(self) -> str:
        """``gradient of weight``, ``output r0[1]``; "" where there is no tensor."""
        if not self.role:
            return ""
        suffix = "".join(f"[{index}]" for index in self.path)
        return f"{self.role}{' of ' if self.role == 'gradient' else ' '}{self.name}{suffix}"


@dataclass(frozen=True)
class Evidence:
    """What one witness said, with its numbers. ``against`` names the targets it speaks against (may be empty)."""

    rung: str  # "crash", "repeat", "baseline", "float64", "vote", ...
    says: str  # one line for the report
    against: tuple[str, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Finding:
    """Mismatches with one cause, its smallest failing program, and what is known about it."""

    fingerprint: str
    op: str  # the op group
    kind: Kind
    verdict: Verdict
    blamed: tuple[str, ...]  # the targets that the verdict speaks against
    confidence: Confidence
    status: FindingStatus | None  # None without a baseline
    sides: tuple[tuple[str, ...], ...]
    program: str  # digest of the representative program
    mismatches: tuple[Mismatch, ...]  # of the representative program
    evidence: tuple[Evidence, ...]
    programs: tuple[str, ...] = ()  # digests of all programs with this cause (at most 100 kept)
    count: int = 1  # how many programs have it
    argument_class: dict[str, Any] = field(default_factory=dict[str, Any])
    known_to_suite: str | None = None  # PyTorch's own suite skips or expects it
    ops: tuple[str, ...] = ()  # other ops that show the same cause
