"""Summarise: from everything a run measured and judged to one ``Results``, and its verdict on the run itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version

from bot.changes.change import Changes
from bot.config import apply_config
from bot.failing import result_of
from bot.measure import Measured
from bot.oracle.coverage import NOT_OFFERED, Coverage
from bot.oracle.settle import Settlement
from bot.plan import ChangeSource, Plan
from bot.programs.source import SourceCounts
from bot.report.results import (
    ChangesRow,
    Counts,
    OpCoverage,
    Results,
    RunFacts,
    TargetCoverage,
    TargetFacts,
)
from bot.report.rows import changes_row, clip, finding_row, note_rows
from bot.targets.pool import TargetFacts as PoolFacts

MAX_REASONS = 200
MAX_NAME = 500
MAX_TARGET_REASONS = 20
_FACTS_SHOWN = ("python", "numpy", "capability", "threads", "names")


@dataclass(frozen=True)
class Story:
    """All that happened, for the summary."""

    plan: Plan
    labels: Sequence[str]
    facts: Sequence[PoolFacts]
    measured: Measured
    counts: SourceCounts
    settlement: Settlement
    changes: Changes | None
    notes: Sequence[str]
    shortfalls: Sequence[str]
    untestable: Mapping[str, str]
    started: datetime
    finished: datetime
    ops: Sequence[str] = field(default=())  # the op groups that were asked for


def summarise(story: Story) -> Results:
    """The results of a run; its findings get their folders when the report is written."""
    coverage = _coverage(story)
    findings = story.settlement.findings
    shortfalls = [*story.shortfalls, *_shortfalls(story, coverage)]
    rows = tuple(finding_row(finding) for finding in findings)
    results = Results(
        result=result_of(rows, story.plan.fail_on, bool(shortfalls)),
        configured_fail_on=story.plan.config.fail_on,
        run=_run_facts(story),
        targets=_targets(story),
        changes=_changes(story),
        coverage=coverage,
        counts=_counts(story),
        findings=rows,
        notes=note_rows([*shortfalls, *_isolation(story), *story.notes]),
        shortfalls=note_rows(shortfalls),
    )
    config = story.plan.config.model_copy(update={"fail_on": story.plan.fail_on})
    return apply_config(results, config, (), story.finished.date())


def _changes(story: Story) -> ChangesRow | None:
    if story.changes is None:
        return None
    change = story.plan.change or ChangeSource()
    return changes_row(story.changes, change.base or "", change.head or "", story.plan.pull_request)


def _run_facts(story: Story) -> RunFacts:
    # A worker with the pull request's code could say anything of the machine.
    trusted = [fact.ready for fact in story.facts if not fact.target.untrusted]
    ready = trusted[0] if trusted else {}
    return RunFacts(
        opdiff=version("opdiff"),
        command=tuple(clip(word) for word in story.plan.arguments),
        seed=story.plan.seed,
        started=story.started.isoformat(timespec="seconds"),
        finished=story.finished.isoformat(timespec="seconds"),
        cpu=clip(str(ready.get("processor", "")), MAX_NAME),
        instruction_set=clip(str(ready.get("capability", "")), MAX_NAME),
        threads=_threads(ready.get("threads")),
        budget_seconds=story.plan.budget,
        shard=story.plan.shard,
        device=story.plan.device,
    )


def _threads(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 1


def _targets(story: Story) -> tuple[TargetFacts, ...]:
    rows: list[TargetFacts] = []
    for label, planned, fact in zip(story.labels, story.plan.targets, story.facts, strict=True):
        environment = fact.target.environment
        rows.append(
            TargetFacts(
                label=clip(label, MAX_NAME),
                spec=clip(str(fact.target.target), MAX_NAME),
                role=planned.role,
                framework=environment.framework,
                version=clip(str(fact.ready.get("version", "")), MAX_NAME),
                origin=environment.origin,
                digest=environment.digest,
                isolation=f"unisolated: {fact.unisolated}"[:MAX_NAME]
                if fact.unisolated
                else fact.isolation,
                python=str(environment.python),
                import_paths=tuple(map(str, environment.import_paths)),
                library_paths=tuple(map(str, environment.library_paths)),
                facts={
                    key: clip(str(fact.ready[key])) for key in _FACTS_SHOWN if key in fact.ready
                },
            )
        )
    return tuple(rows)


def _isolation(story: Story) -> Iterable[str]:
    for label, fact in zip(story.labels, story.facts, strict=True):
        if fact.unisolated:
            yield f"{label} ran unisolated: {fact.unisolated}"


def _counts(story: Story) -> Counts:
    compared = story.measured.compared
    skipped = Counter({f"case not expressed: {k}": v for k, v in story.counts.skipped.items()})
    skipped.update(story.measured.not_compared)
    dismissed = {
        "float64": story.settlement.within_float64_witness,
        "causes in which NumPy, the reference, is alone": story.settlement.of_references,
    }
    return Counts(
        cases=story.counts.cases,
        expressed=story.counts.expressed,
        programs=len(story.measured.entries),
        compared=compared["compared"],
        outputs=compared["outputs"],
        intermediates=compared["intermediates"],
        gradients=compared["gradients"],
        side_effects=compared["side_effects"],
        parameters=compared["parameters"] + compared["buffers"],
        exceptions=compared["exceptions"],
        skipped=_most_frequent(skipped, MAX_REASONS),
        dismissed={what: count for what, count in dismissed.items() if count},
    )


def _most_frequent(reasons: Counter[str], most: int) -> dict[str, int]:
    """The most frequent reasons, by name among equals, and the rest as one: nothing is left uncounted."""
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    kept: Counter[str] = Counter()
    for number, (reason, count) in enumerate(ordered):
        rest = f"{len(ordered) - most} rarer reasons"
        kept[clip(reason) if number < most else rest] += count
    return dict(kept)


def _coverage(story: Story) -> tuple[OpCoverage, ...]:
    """One row per op that ran, and per op that was asked for and did not."""
    coverage = Coverage(story.labels, story.plan.roles)
    reasons: dict[str, list[Counter[str]]] = {}
    for entry in story.measured.entries:
        statuses = [status.status for status in entry.statuses]
        coverage.add(entry.op, statuses, bool(entry.counts.compared), entry.counts.not_compared)
        counters = reasons.setdefault(entry.op, [Counter() for _ in story.labels])
        for counter, status in zip(counters, entry.statuses, strict=True):
            if status.status in NOT_OFFERED:
                counter[clip(status.reason or status.status)] += 1
    wanted = {*coverage.ops, *story.ops, *story.untestable}
    return tuple(_op_row(op, coverage, reasons.get(op, []), story) for op in sorted(wanted))


def _op_row(
    op: str, coverage: Coverage, reasons: Sequence[Counter[str]], story: Story
) -> OpCoverage:
    tested = coverage.tested(op)
    reason = story.untestable.get(op) or tested.reason
    if story.measured.out_of_time and not tested.programs:
        reason = f"{reason}; the budget ended first"
    counted = coverage.ops.get(op)
    return OpCoverage(
        op=clip(op, MAX_NAME),
        tested=tested.tested and op not in story.untestable,
        reason=clip(reason),
        targets=tuple(
            TargetCoverage(
                target=clip(label, MAX_NAME),
                programs=counted.programs,
                compared=target.compared,
                unsupported=_most_frequent(unsupported, MAX_TARGET_REASONS),
                died=target.died,
            )
            for label, target, unsupported in zip(
                story.labels, counted.targets, reasons, strict=True
            )
        )
        if counted is not None
        else (),
    )


def _shortfalls(story: Story, coverage: Sequence[OpCoverage]) -> Iterable[str]:
    """Why the run did only part of its job. With all ops asked for, what a framework lacks is no shortfall."""
    if story.measured.out_of_time:
        yield f"the budget of {story.plan.budget:g} s ended before everything had run"
    if story.plan.ops is None or story.plan.every:
        if not story.measured.compared["compared"]:
            yield "nothing was compared: no program ran on two targets"
        return
    wanted: set[str] = {*story.ops, *story.untestable}
    for row in coverage:
        if not row.tested and row.op in wanted:
            yield f"{not_tested(row.op)}{row.reason}"


def not_tested(op: str) -> str:
    """How the shortfall of an op begins; a merge takes it away where another shard tested the op."""
    return f"{op} is not tested: "
