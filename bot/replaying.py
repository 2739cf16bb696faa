"""``opdiff replay``: make a finding's targets again, run its program on them, and say whether it still differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from bot.carry_out import builds_of, compiles_of
from bot.errors import OpDiffError
from bot.oracle.compare import Comparator, Comparison
from bot.oracle.finding import Mismatch
from bot.oracle.roles import Role, held_to
from bot.programs.program import Program, digest
from bot.programs.source import SourcedProgram
from bot.report.escape import log_line
from bot.report.finding_folder import LoadedFinding, load_finding
from bot.report.replay import Replay, replay, targets_by_path
from bot.report.rows import mismatch_row
from bot.targets.environment import Environment
from bot.targets.job import Job, PoolTarget
from bot.targets.outcome import RawOutcome
from bot.targets.overlay import find_overlay
from bot.targets.resolve import resolve
from bot.targets.target import parse_target
from bot.workshop import Workshop


def replay_finding(folder: Path, workshop: Workshop, candidate: str | None = None) -> Replay:
    """Replay a finding's folder, which may come from anywhere: it chooses releases by version, never paths.

    ``candidate`` says what to use for a candidate that is not a release: a wheel, a requirement, an interpreter.
    Raises FindingError, TargetError, OpDiffError.
    """
    loaded = load_finding(folder)
    targets = [_target(spec, loaded, candidate, workshop) for spec in _specs(loaded)]
    with workshop.pool(targets, [folder.resolve()]) as pool:
        facts = pool.facts()
        ready = facts[0].ready
        frameworks = [target.environment.framework for target in targets]
        versions = [str(fact.ready.get("version", "")) for fact in facts]
        roles: list[Role] = [target.role for target in loaded.record.targets]

        def run(finding: LoadedFinding) -> Sequence[RawOutcome]:
            (result,) = pool.run([Job(0, finding.blob, finding.program.op)])
            return result.outcomes

        def compare(
            program: Program, blob: bytes, labels: Sequence[str], outcomes: Sequence[RawOutcome]
        ) -> Sequence[Mismatch]:
            sourced = SourcedProgram(blob, digest(blob), program.op)
            support = held_to(labels, roles, frameworks, versions)
            comparator = Comparator(
                labels, frameworks, builds_of(facts), held_to=support, compiles=compiles_of(facts)
            )
            comparison = comparator.compare(sourced, outcomes)
            if not comparison.mismatches and not comparison.counts.compared:
                raise OpDiffError(f"{folder}: nothing was compared: {_why_not(comparison, labels)}")
            return comparison.mismatches

        return replay(
            folder, run, compare, str(ready.get("processor", "")), str(ready.get("capability", ""))
        )


def _why_not(comparison: Comparison, labels: Sequence[str]) -> str:
    """``torch==2.13.0:cpu: refused: ...``, for each target: a program that ran nowhere is no fault that is gone."""
    return "; ".join(
        log_line(f"{label}: {status.status}{': ' if status.reason else ''}{status.reason}", 500)
        for label, status in zip(labels, comparison.statuses, strict=True)
    )


def _specs(loaded: LoadedFinding) -> list[str]:
    given = targets_by_path(loaded.record.targets)
    if given:
        raise OpDiffError(
            f"{loaded.folder} names a program of some machine ({log_line(given[0])}): replay runs only releases"
        )
    specs = [target.spec or target.label for target in loaded.record.targets]
    if len(specs) < 2:
        raise OpDiffError(f"{loaded.folder} names {len(specs)} targets: a difference needs two")
    return specs


def _target(
    spec: str, loaded: LoadedFinding, candidate: str | None, workshop: Workshop
) -> PoolTarget:
    target = parse_target(spec)
    if "@" not in target.environment:
        return resolve(target, workshop.store)
    framework = target.environment.partition("@")[0]
    if candidate is not None:
        made = workshop.store.prepare(candidate, framework, untrusted=True)
        return resolve(target, workshop.store, made)
    return resolve(target, workshop.store, _overlay(framework, loaded, workshop))


def _overlay(framework: str, loaded: LoadedFinding, workshop: Workshop) -> Environment:
    """The candidate's overlay, when this machine still has it."""
    rows = {row.role: row for row in loaded.record.targets}
    row, baseline = rows.get("candidate"), rows.get("baseline")
    if row is not None and baseline is not None and row.origin == "overlay":
        release = resolve(baseline.spec or baseline.label, workshop.store).environment
        found = find_overlay(release, row.digest, workshop.store.overlays)
        if found is not None:
            return found
    raise OpDiffError(
        f"the candidate {framework}@pr is not on this machine: say what to use with --candidate"
    )


def replay_json(shown: Replay) -> dict[str, Any]:
    """``{"finding", "differs", "same", "other", "notes"}``."""
    return {
        "finding": shown.finding.record.finding.fingerprint,
        "differs": shown.differs,
        "same": [mismatch_row(m).model_dump(mode="json") for m in shown.same],
        "other": [mismatch_row(m).model_dump(mode="json") for m in shown.other],
        "notes": list(shown.notes),
    }


def print_replay(console: Console, shown: Replay) -> None:
    """What the replay showed, and what each target had."""
    console.print(escape(log_line(shown.line)))
    for mismatch in (*shown.same, *shown.other):
        for seen in mismatch.observations:
            what = (
                seen.happened
                or f"{mismatch.label}: {seen.dtype} {list(seen.shape or ())} {seen.value or ''}"
            )
            console.print(escape(f"  {log_line(seen.target)}: {log_line(what)}"))
    for note in shown.notes:
        console.print(escape(f"  note: {log_line(note)}"))
