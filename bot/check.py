"""``opdiff check``: the main job, from top to bottom.

changes -> plan -> run -> judge -> report
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bot.carry_out import Assignment, carry_out
from bot.changes.change import Changes
from bot.changes.changeset import ChangeSet
from bot.changes.find import find_changes
from bot.changes.git_changeset import GitChangeSet
from bot.changes.patch_changeset import PatchChangeSet
from bot.defaults import defaults_of
from bot.errors import OpDiffError
from bot.plan import CHECK_DTYPES, ChangeSource, Plan, PlannedTarget
from bot.report.results import FailOn, Results
from bot.run_directory import RunDirectory
from bot.targets.environment import Environment
from bot.targets.overlay import Overlay
from bot.targets.resolve import overlay_of, resolve
from bot.targets.target import parse_target
from bot.workshop import Workshop

OVERLAY = "overlay"


@dataclass(frozen=True)
class CheckRequest:
    """What the user asked for; None means the framework's default."""

    change: ChangeSource
    candidate: str = OVERLAY
    baseline: str | None = None
    peers: tuple[str, ...] = ()
    device: str = "cpu"
    budget: float | None = None
    seed: int = 0
    fail_on: FailOn = "candidate"
    arguments: tuple[str, ...] = ()


def check(request: CheckRequest, out: Path, workshop: Workshop) -> Results:
    """Find the ops that a diff changes, run them on candidate, baseline and peers, and report. Raises OpDiffError."""
    changeset = open_changes(request.change)
    changes = find_changes(changeset, request.change.framework)
    plan = plan_check(request, changes)
    with RunDirectory.create(out, plan) as directory:
        assignment = assign(plan, changes, changeset, workshop)
        return carry_out(assignment, directory, workshop)


def open_changes(source: ChangeSource) -> ChangeSet:
    """The diff's two sides: two revisions of a repository, or a patch and a folder."""
    if source.patch and source.source:
        return PatchChangeSet(Path(source.patch), Path(source.source))
    if source.base and source.head:
        return GitChangeSet(Path(source.repository or "."), source.base, source.head)
    raise OpDiffError(
        "say what to check: --repo DIR --base REV --head REV, or --patch FILE --source DIR"
    )


def plan_check(request: CheckRequest, changes: Changes) -> Plan:
    """Which ops run on which targets: the candidate, its baseline, and the peers, all on one device."""
    framework = changes.framework
    baseline = request.baseline or defaults_of(framework).baseline
    peers = request.peers or defaults_of(framework).peers
    targets = (
        PlannedTarget(spec=f"{framework}@pr:{request.device}", role="candidate"),
        PlannedTarget(spec=_on(baseline, request.device), role="baseline"),
        *(PlannedTarget(spec=_on(peer, request.device)) for peer in peers),
    )
    return Plan(
        command="check",
        arguments=request.arguments,
        targets=targets,
        ops=tuple(op.op for op in changes.ops),
        dtypes=CHECK_DTYPES,
        seed=request.seed,
        budget=request.budget,
        fail_on=request.fail_on,
        candidate=request.candidate,
        change=request.change.model_copy(update={"framework": framework}),
    )


def assign(plan: Plan, changes: Changes, changeset: ChangeSet, workshop: Workshop) -> Assignment:
    """Prepare the plan's environments, the candidate's first, and note what this candidate cannot test."""
    progress = workshop.progress
    progress.step(f"{len(changes.ops)} changed ops: {', '.join(plan.ops or ()) or 'none'}")
    if not changes.ops:  # documentation, CI, tests: there is nothing to make environments for
        notes = ("no op is changed: nothing was run", *changes.notes, *_tests(changes))
        return Assignment(plan, (), changes, notes, tuple(_unmapped(changes)))
    progress.step("preparing environments")
    candidate = make_candidate(plan, changes.framework, changeset, workshop)
    targets = tuple(
        resolve(parse_target(target.spec), workshop.store, candidate) for target in plan.targets
    )
    return Assignment(
        plan=plan,
        targets=targets,
        changes=changes,
        notes=(*changes.notes, *_carried(candidate), *_tests(changes)),
        shortfalls=tuple(_shortfalls(changes, candidate)),
        untestable=_untestable(changes, candidate),
    )


def make_candidate(
    plan: Plan, framework: str, changeset: ChangeSet, workshop: Workshop
) -> Environment | Overlay:
    """The candidate: an overlay of the baseline's release, a wheel, a requirement or an interpreter."""
    assert plan.candidate is not None
    if plan.candidate != OVERLAY:
        return workshop.store.prepare(plan.candidate, framework, untrusted=True)
    (baseline,) = [target for target in plan.targets if target.role == "baseline"]
    release = resolve(parse_target(baseline.spec), workshop.store).environment
    return overlay_of(release, changeset, workshop.store)


def resume_assignment(plan: Plan, workshop: Workshop) -> Assignment:
    """The assignment of an interrupted check, from its plan alone."""
    assert plan.change is not None
    changeset = open_changes(plan.change)
    changes = find_changes(changeset, plan.change.framework)
    if tuple(op.op for op in changes.ops) != plan.ops:
        raise OpDiffError("the diff is no longer the one that this run began with: start anew")
    return assign(plan, changes, changeset, workshop)


def _on(spec: str, device: str) -> str:
    """A target on the device, unless it names one itself."""
    target = parse_target(spec)
    return str(
        target
        if spec.endswith(f":{target.device}") or target.options
        else replace(target, device=device)
    )


def _carried(candidate: Environment | Overlay) -> tuple[str, ...]:
    if not isinstance(candidate, Overlay):
        return candidate.notes
    return tuple(
        f"not in the overlay: {entry.file}: {entry.why}" for entry in candidate.not_carried
    )


def _tests(changes: Changes) -> tuple[str, ...]:
    return tuple(
        f"{test}: a changed autotest file, not run by this version" for test in changes.tests
    )


def _untestable(changes: Changes, candidate: Environment | Overlay) -> dict[str, str]:
    """Changed ops whose change is not in what runs, and why."""
    if not isinstance(candidate, Overlay):
        return {}
    missed = {entry.file: entry.why for entry in candidate.not_carried if entry.missed}
    found: dict[str, str] = {}
    for op in changes.ops:
        files = [lines.file for lines in op.lines if lines.file in missed]
        if not op.in_python:
            found[op.op] = (
                "its change is not Python, and an overlay carries only Python: give a wheel of the pull request"
            )
        elif files:
            found[op.op] = f"{files[0]} is changed, and {missed[files[0]]}: give another --baseline"
    return found


def _shortfalls(changes: Changes, candidate: Environment | Overlay) -> Iterator[str]:
    """What keeps the check from being whole before anything has run."""
    if isinstance(candidate, Overlay):
        for hunk in candidate.rejected:
            yield f"a hunk does not apply to the release, so it was not tested: {hunk}"
        for entry in candidate.not_carried:
            if entry.missed:
                yield f"{entry.file} was not tested: {entry.why}"
    yield from _unmapped(changes)


def _unmapped(changes: Changes) -> Iterator[str]:
    for unmapped in changes.unmapped:
        yield f"{unmapped.file} is changed, and no op could be proven from it: {unmapped.why}"
