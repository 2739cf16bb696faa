"""Definition: the smallest named piece of a source file whose change can be followed to ops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

DefinitionKind = Literal[
    "function",
    "method",
    "class",
    "assignment",
    "import",
    "statement",
    "macro",
    "entry",
    "alias",
    "declaration",
    "export",
]


@dataclass(frozen=True)
class Definition:
    """A function, class, macro, registration, table row, yaml entry or other top-level piece of one file.

    ``code`` is what can change behaviour: equal code means equal behaviour, whatever comments, docstrings and
    line breaks say. ``uses`` are the names that it reads (dotted in Python, plain in C++). ``before`` is the code of the
    definition that a changed one takes the place of; empty for all others.
    """

    file: str
    name: str  # qualified within its file: "Softplus.forward"
    kind: DefinitionKind
    first: int  # lines, 1-based, inclusive
    last: int
    code: str = field(repr=False)
    uses: frozenset[str] = field(default=frozenset(), repr=False)
    before: str = field(default="", compare=False, repr=False)

    @property
    def place(self) -> str:
        """``softplus (python/x.py:12)``, for a step of a path."""
        return f"{self.name} ({self.file}:{self.first})"
