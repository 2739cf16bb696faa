"""``opdiff replay FINDING_DIR``: run one finding's program again on its targets, and say whether it still differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.oracle.finding import Mismatch
from bot.programs.program import Program
from bot.report.finding_folder import LoadedFinding, load_finding
from bot.report.results import TargetFacts
from bot.targets.outcome import RawOutcome
from bot.targets.target import names_a_path

Run = Callable[[LoadedFinding], Sequence[RawOutcome]]
"""Runs the finding's program on its targets; outcomes in the record's order of targets."""

Compare = Callable[[Program, bytes, Sequence[str], Sequence[RawOutcome]], Sequence[Mismatch]]
"""Compares outcomes: program, blob, the targets' labels, outcomes in the same order."""


@dataclass(frozen=True)
class Replay:
    """What a replay showed. ``differs``: a mismatch of the finding's own kind is there; ``other`` are of other kinds."""

    finding: LoadedFinding
    differs: bool
    same: tuple[Mismatch, ...]
    other: tuple[Mismatch, ...]
    outcomes: tuple[RawOutcome, ...]
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """One line for the terminal."""
        row = self.finding.record.finding
        what = f"{row.op}: {row.kind}"
        if self.differs:
            return f"{what}: still differs"
        if self.other:
            kinds = ", ".join(sorted({mismatch.kind for mismatch in self.other}))
            return f"{what}: no longer differs this way, but in another: {kinds}"
        return f"{what}: no longer differs"


def targets_by_path(targets: Sequence[TargetFacts]) -> tuple[str, ...]:
    """Specs that name a file on this machine: somebody's program, which a folder from elsewhere must not choose."""
    specs = ((target.spec or target.label).strip() for target in targets)
    return tuple(filter(names_a_path, specs))


def replay(folder: Path, run: Run, compare: Compare, cpu: str, instruction_set: str = "") -> Replay:
    """Run a folder's program again. ``cpu`` and ``instruction_set`` describe this machine.

    Raises FindingError for a folder that cannot be read, and whatever ``run`` and ``compare`` raise.
    """
    finding = load_finding(folder)
    labels = [target.label for target in finding.record.targets]
    outcomes = tuple(run(finding))
    if len(outcomes) != len(labels):
        raise ValueError(f"{len(outcomes)} outcomes for {len(labels)} targets")
    mismatches = tuple(compare(finding.program, finding.blob, labels, outcomes))
    same = tuple(m for m in mismatches if m.kind == finding.record.finding.kind)
    other = tuple(m for m in mismatches if m.kind != finding.record.finding.kind)
    notes = _machine_notes(finding, cpu, instruction_set)
    return Replay(finding, bool(same), same, other, outcomes, notes)


def _machine_notes(finding: LoadedFinding, cpu: str, instruction_set: str) -> tuple[str, ...]:
    recorded = finding.record.run
    notes: list[str] = []
    if recorded.cpu and recorded.cpu != cpu:
        notes.append(f"found on another CPU: {recorded.cpu}; this is {cpu or 'unknown'}")
    if recorded.instruction_set and recorded.instruction_set != instruction_set:
        here = instruction_set or "unknown"
        notes.append(f"found with {recorded.instruction_set}; this machine has {here}")
    return tuple(notes)
