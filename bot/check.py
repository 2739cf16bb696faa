"""``opdiff check``: the main job, from top to bottom.

changes -> plan -> run -> judge -> report
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from bot.carry_out import Assignment, carry_out
from bot.changes.change import Changes
from bot.changes.changeset import ChangeSet
from bot.defaults import defaults_of
from bot.errors import OpDiffError
from bot.plan import (
    CHECK_DTYPES,
    DEFAULT_SOURCES,
    SUITE_SOURCES,
    ChangeSource,
    Dtype,
    Plan,
    PlannedTarget,
)
from bot.programs.opinfo_source import PINNED_RELEASE
from bot.report.results import FailOn, Results
from bot.run_directory import RunDirectory
from bot.shards.costs import cost_of
from bot.shards.split import Part, budget_of, parse_part, share_of, split
from bot.subject import Subject, changed_subject, open_changes, subject_of, whole_subject
from bot.targets.environment import Environment
from bot.targets.job import PoolTarget
from bot.targets.overlay import Overlay
from bot.targets.resolve import overlay_of, resolve
from bot.targets.target import parse_target
from bot.workshop import Workshop

OVERLAY: Final = "overlay"
MAX_OPS_SHOWN: Final = 20
T = TypeVar("T")
WHOLE_DTYPES: tuple[Dtype, ...] = ("float32",)
"""Of a check of all ops."""


@dataclass(frozen=True)
class CheckRequest:
    """What the user asked for; None means the configuration's value, else the framework's default.

    ``budget`` is this run's own, whatever its shard; the configuration's is for all shards together. ``every``: all op
    groups instead of a diff's.
    """

    change: ChangeSource
    candidate: str | None = None
    baseline: str | None = None
    peers: tuple[str, ...] = ()
    device: str = "cpu"
    budget: float | None = None
    seed: int | None = None
    fail_on: FailOn | None = None
    arguments: tuple[str, ...] = ()
    config: Path | None = None
    ops: tuple[str, ...] = ()
    every: bool = False
    shard: str = ""
    pull_request: int | None = None
    mutations: int | None = None  # of each op; None for the usual number


def check(
    request: CheckRequest, out: Path, workshop: Workshop, subject: Subject | None = None
) -> Results:
    """Find the ops that a diff changes, run them on candidate, baseline and peers, and report. Raises OpDiffError."""
    subject = subject or find_subject(request)
    plan = plan_check(request, subject)
    with RunDirectory.create(out, plan) as directory:
        return carry_out(assign(plan, subject, workshop), directory, workshop)


def prepare(request: CheckRequest, workshop: Workshop, subject: Subject | None = None) -> None:
    """Make every environment that a check will need, while there is a network; nothing of the pull request runs.

    Raises OpDiffError, TargetError.
    """
    subject = subject or find_subject(request)
    plan = plan_check(request, subject)
    assignment = assign(plan, subject, workshop)
    if assignment.targets:
        resolve(parse_target(f"{PINNED_RELEASE}:cpu"), workshop.store)


def find_subject(request: CheckRequest) -> Subject:
    """What is asked to be checked. Raises OpDiffError, ChangesError."""
    find = whole_subject if request.every else changed_subject
    return find(request.change, request.ops, request.config)


def plan_check(request: CheckRequest, subject: Subject) -> Plan:
    """Which ops run on which targets: the candidate, its baseline, and the peers, all on one device."""
    config = subject.config
    part = parse_part(request.shard) if request.shard else None
    candidate = request.candidate or config.candidate or OVERLAY
    return Plan(
        command="check",
        arguments=request.arguments,
        targets=_targets(request, subject, candidate),
        ops=share_of(subject.ops, cost(subject), part),
        sources=DEFAULT_SOURCES if request.mutations != 0 else SUITE_SOURCES,
        mutations=request.mutations,
        dtypes=WHOLE_DTYPES if request.every else CHECK_DTYPES,
        seed=_first(request.seed, config.seed, 0),
        budget=_first(request.budget, _budget(subject, part)),
        fail_on=request.fail_on or config.fail_on,
        candidate=candidate,
        change=subject.change,
        config=config,
        every=request.every,
        device=request.device,
        asked=request.ops,
        shard=str(part or ""),
        pull_request=request.pull_request,
    )


def cost(subject: Subject) -> Callable[[str], float]:
    """The expected cost of an op group in the programs that a check of the subject runs."""
    return partial(cost_of, float32_alone=subject.changes is None)


def _targets(request: CheckRequest, subject: Subject, candidate: str) -> tuple[PlannedTarget, ...]:
    framework, config = subject.framework, subject.config
    baseline = request.baseline or config.baseline or defaults_of(framework).baseline
    peers = request.peers or _first(config.peers, defaults_of(framework).peers)
    others = [PlannedTarget(spec=_on(peer, request.device)) for peer in peers]
    if subject.changes is None and candidate == OVERLAY:  # no diff: the release stands for itself
        released = PlannedTarget(spec=_on(baseline, request.device), role="candidate")
        return (released, *others)
    return (
        PlannedTarget(spec=f"{framework}@pr:{request.device}", role="candidate"),
        PlannedTarget(spec=_on(baseline, request.device), role="baseline"),
        *others,
    )


def _budget(subject: Subject, part: Part | None) -> float | None:
    """This run's share of the configuration's budget."""
    total = subject.config.budget
    if total is None or part is None:
        return total
    shards = split(subject.ops, cost(subject), part.of)
    return budget_of(shards[part.number - 1], shards, total)


def _first(*values: T | None) -> T:
    """The first that is given, else the last."""
    return next((value for value in values if value is not None), values[-1])  # type: ignore[return-value]


def assign(plan: Plan, subject: Subject, workshop: Workshop) -> Assignment:
    """Prepare the plan's environments, the candidate's first, and note what this candidate cannot test."""
    if subject.changes is None:
        return _assign_whole(plan, subject, workshop)
    changes, progress = subject.changes, workshop.progress
    progress.step(_what_runs(plan, subject))
    if not plan.ops:  # documentation, CI, tests: there is nothing to make environments for
        notes = (_nothing_run(plan, subject), *changes.notes, *_tests(changes))
        return Assignment(plan, (), changes, notes, tuple(_unmapped(changes)))
    progress.step("preparing environments")
    assert subject.changeset is not None
    candidate = make_candidate(plan, changes.framework, subject.changeset, workshop)
    return Assignment(
        plan=plan,
        targets=_resolved(plan, workshop, candidate),
        changes=changes,
        notes=(*changes.notes, *_carried(candidate), *_tests(changes)),
        shortfalls=tuple(_shortfalls(changes, candidate)),
        untestable={
            op: why for op, why in _untestable(changes, candidate).items() if op in plan.ops
        },
    )


def _assign_whole(plan: Plan, subject: Subject, workshop: Workshop) -> Assignment:
    """All ops: there is no diff, so that nothing can be missed of it."""
    workshop.progress.step(_what_runs(plan, subject))
    if not plan.ops:
        return Assignment(plan, (), None, (_nothing_run(plan, subject),))
    workshop.progress.step("preparing environments")
    candidate, notes = None, ("no build was given: the release itself is the candidate",)
    if plan.candidate and plan.candidate != OVERLAY:
        candidate = workshop.store.prepare(plan.candidate, subject.framework, untrusted=True)
        notes = candidate.notes
    return Assignment(plan, _resolved(plan, workshop, candidate), None, notes)


def _resolved(
    plan: Plan, workshop: Workshop, candidate: Environment | Overlay | None
) -> tuple[PoolTarget, ...]:
    return tuple(
        resolve(parse_target(target.spec), workshop.store, candidate) for target in plan.targets
    )


def _what_runs(plan: Plan, subject: Subject) -> str:
    number = len(subject.ops)
    whole = f"{number} changed ops" if subject.changes is not None else f"all {number} ops"
    ops = plan.ops or ()
    shown = ", ".join(ops[:MAX_OPS_SHOWN]) + (", ..." if len(ops) > MAX_OPS_SHOWN else "")
    shard = f", {len(ops)} of them in shard {plan.shard}" if plan.shard else ""
    return f"{whole}{shard}: {shown or 'none'}"


def _nothing_run(plan: Plan, subject: Subject) -> str:
    if subject.ops:
        return f"shard {plan.shard} has no op to run: there are {len(subject.ops)} ops in all"
    return "no op is changed: nothing was run"


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
    if plan.every:
        subject = whole_subject(plan.change, plan.asked)
        subject = replace(subject, config=plan.config)
    else:
        subject = subject_of(plan.change, open_changes(plan.change), plan.config, plan.asked)
    part = parse_part(plan.shard) if plan.shard else None
    if share_of(subject.ops, cost(subject), part) != plan.ops:
        raise OpDiffError("the diff is no longer the one that this run began with: start anew")
    return assign(plan, subject, workshop)


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
