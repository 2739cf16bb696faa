"""Sources of programs: what a source offers, and what came of asking it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceEntry:
    """One thing a source can make programs of: an OpInfo, a ModuleInfo.

    ``names`` are all canonical op names it exercises (function, method, in-place, aliases, module class); ``group`` is
    the op group that its findings are counted under unless a traced call says otherwise.
    """

    source: str  # opinfo, moduleinfo
    name: str
    variant: str = ""
    group: str = ""
    names: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()  # canonical dtype names it supports on CPU
    calls: tuple[str, ...] = ()  # canonical names that its first programs really call


@dataclass(frozen=True)
class SourceRequest:
    """What to make of an entry. ``kinds``: sample, reference, error. ``forms``: function, method, inplace, module."""

    entry: SourceEntry
    dtypes: tuple[str, ...] = ("float32",)
    kinds: tuple[str, ...] = ("sample", "reference", "error")
    forms: tuple[str, ...] = ("function", "method", "inplace", "module")
    seed: int = 0


@dataclass(frozen=True)
class SourcedProgram:
    """A program as a source gave it. A run that ends before its ``extra`` programs is whole all the same.

    ``group`` names the programs that are put off together when some of them have died; "" for those of the op.
    """

    blob: bytes
    digest: str
    op: str
    extra: bool = False
    group: str = ""


@dataclass
class SourceCounts:
    """How many of the source's own cases became programs, and why the others did not."""

    cases: int = 0  # what the source offered: samples x dtypes x kinds
    programs: int = 0  # programs made, extra forms included, after removing duplicates
    expressed: int = 0  # cases that became at least one program (or were duplicates of one)
    skipped: dict[str, int] = field(default_factory=dict[str, int])  # reason -> cases

    def add(self, other: SourceCounts) -> None:
        """Count another's in."""
        self.cases += other.cases
        self.programs += other.programs
        self.expressed += other.expressed
        self.merge_skipped(other.skipped)

    def merge_skipped(self, skipped: Mapping[str, int]) -> None:
        """Count reasons in."""
        for reason, count in skipped.items():
            self.skipped[reason] = self.skipped.get(reason, 0) + count
