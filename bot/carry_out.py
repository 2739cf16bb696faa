"""Carry out a plan: programs of its ops through the pool, judged, and written up. What run and check share.

Reads like this: source -> programs -> measure -> judge -> summarise -> report.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from bot.changes.change import Changes
from bot.errors import OpDiffError
from bot.failed_programs import FailedPrograms
from bot.judge import bundles, judge, shrink_seconds
from bot.measure import Measured, Measurement
from bot.mutations import A_PROGRAM, Mutations, in_turn, mutations_of
from bot.oracle.compare import Comparator
from bot.oracle.roles import held_to
from bot.oracle.settle import Settlement
from bot.oracle.sides import unique_labels
from bot.plan import SUITE_SOURCES, Plan
from bot.prefetch import Prefetched
from bot.programs.op_groups import group_of
from bot.programs.op_index import OpIndex, UnknownOpError
from bot.programs.opinfo_source import OpInfoSource
from bot.programs.program import split
from bot.programs.source import SourceCounts, SourcedProgram, SourceEntry, SourceRequest
from bot.report.results import Results
from bot.report.write import write_report
from bot.run_directory import RunDirectory
from bot.shares import Shares, spared_none
from bot.summary import Story, summarise
from bot.targets.job import PoolTarget
from bot.targets.pool import TargetFacts
from bot.witness_pools import WitnessPools
from bot.workshop import Workshop

ROUNDS: Final = (2, 8, 32)
"""Programs of each op and kind after the first rounds of a run that has a budget; the last round takes all."""


@dataclass(frozen=True)
class Assignment:
    """A plan with what it needs to be carried out: nothing is run without targets. ``notes`` go into the report."""

    plan: Plan
    targets: tuple[PoolTarget, ...]
    changes: Changes | None = None
    notes: tuple[str, ...] = ()
    shortfalls: tuple[str, ...] = ()  # why the run is incomplete whatever it measures
    untestable: dict[str, str] = field(
        default_factory=dict[str, str]
    )  # op -> why what runs of it does not count


def carry_out(assignment: Assignment, directory: RunDirectory, workshop: Workshop) -> Results:
    """Run, judge and report. Raises TargetError, OpDiffError; what was measured is on disk whatever happens."""
    if not assignment.targets:
        return _report_nothing_run(assignment, directory, workshop)
    plan, progress = assignment.plan, workshop.progress
    started = workshop.now()
    labels = unique_labels([target.label for target in assignment.targets])
    counts = SourceCounts()
    hidden = [directory.path.resolve()]
    if workshop.failed_programs is not None:
        hidden.append(workshop.failed_programs.resolve())
    with (
        workshop.source() as source,
        workshop.pool(assignment.targets, hidden) as pool,
        WitnessPools(assignment.targets, labels, workshop, hidden) as others,
    ):
        groups = groups_of(plan, source.index())
        entries = entries_of(plan, groups, source.index())
        progress.step(f"running on {', '.join(labels)}")
        facts = pool.facts()
        # Every target has started: only now may an older report in this folder go.
        directory.keep_builds([target.environment.digest for target in assignment.targets])
        measured = Measured()
        for entry in directory.entries():
            measured.add(entry)
        if measured.entries:
            progress.note(f"{len(measured.entries):,} programs were measured before")
        comparator = comparator_of(assignment, labels, facts)
        left_out: Counter[str] = Counter()
        mutations = mutations_of(plan, groups, source.index(), workshop.signatures)
        asked = tuple(requests(plan, entries))
        memory = memory_of(plan, workshop)
        remembered = memory.programs(None if plan.ops is None else groups) if memory else ()
        ordered = in_order(plan, source, asked, counts, left_out, mutations)
        programs = Prefetched(chain(remembered, ordered))
        deadline = None if plan.budget is None else workshop.clock() + plan.budget
        shares = None if plan.budget is None else Shares(pool.counts, spared_none(plan.roles))
        try:
            told = None if mutations is None else mutations.note
            Measurement(pool, comparator, directory, progress, workshop.clock, shares, told).run(
                programs, measured, deadline
            )
        finally:
            programs.close()
        progress.step("judging what differs")
        settlement = judge(
            measured, pool, comparator, plan.roles, directory, progress, workshop.clock,
            shrink_seconds(plan.budget), others,
        )  # fmt: skip
        story = Story(
            assignment.plan, labels, facts, measured, counts, settlement, assignment.changes,
            (*assignment.notes, *_left_out(left_out, plan.per_op),
             *(memory.notes() if memory else ()), *(mutations.notes() if mutations else ()),
             *(shares.notes(labels) if shares else ())),
            assignment.shortfalls, assignment.untestable, started, workshop.now(), groups,
        )  # fmt: skip
        results = summarise(story)
        progress.step("writing the report")
        written = bundles(settlement, measured, pool, comparator, plan.roles, directory)
        write_report(directory.path, results, written)
        if memory is not None:
            digests = {finding.program for finding in settlement.findings}
            blobs = {d: blob for d in digests if (blob := directory.failing_blob(d)) is not None}
            memory.keep(measured.entries, settlement.findings, blobs)
    return results


def memory_of(plan: Plan, workshop: Workshop) -> FailedPrograms | None:
    """The programs that failed in earlier runs. A check of a diff, whose code is a pull request's, adds none and counts none."""
    if workshop.failed_programs is None:
        return None
    of_default_branch = plan.command == "run" or plan.every
    return FailedPrograms(workshop.failed_programs, workshop.remembers and of_default_branch)


def _report_nothing_run(
    assignment: Assignment, directory: RunDirectory, workshop: Workshop
) -> Results:
    """The report of a plan that has nothing to run. No worker is started and no environment made."""
    plan = assignment.plan.model_copy(update={"targets": ()})
    now = workshop.now()
    story = Story(
        plan, (), (), Measured(), SourceCounts(), Settlement((), 0, ()), assignment.changes,
        assignment.notes, assignment.shortfalls, assignment.untestable, now, now,
    )  # fmt: skip
    results = summarise(story)
    directory.begin()
    write_report(directory.path, results, ())
    return results


def comparator_of(
    assignment: Assignment, labels: Sequence[str], facts: Sequence[TargetFacts]
) -> Comparator:
    """What compares the targets' outcomes, told which are one build, and what a candidate must support."""
    frameworks = [target.environment.framework for target in assignment.targets]
    versions = [str(fact.ready.get("version", "")) for fact in facts]
    return Comparator(
        labels,
        frameworks,
        builds_of(facts),
        held_to=held_to(labels, assignment.plan.roles, frameworks, versions),
        compiles=compiles_of(facts),
    )


def builds_of(facts: Sequence[TargetFacts]) -> list[str]:
    """Equal for targets that draw the same random numbers: one build, on one device, and no mode that draws others."""
    return [
        f"{fact.target.environment.digest}:{fact.target.target.device}"
        + ("" if fact.ready.get("same_random", True) is True else f":{fact.target.label}")
        for fact in facts
    ]


def compiles_of(facts: Sequence[TargetFacts]) -> list[bool]:
    """Which targets run a program's calls as one compiled function."""
    return [fact.ready.get("compiles") is True for fact in facts]


def capped(
    programs: Iterable[SourcedProgram], per_op: int | None, left_out: Counter[str]
) -> Iterator[SourcedProgram]:
    """The first ``per_op`` programs of each op and kind (samples, reference inputs, error inputs); the rest is counted."""
    if per_op is None:
        yield from programs
        return
    taken: Counter[tuple[str, str]] = Counter()
    for program in programs:
        kind = _kind(program)
        if taken[program.op, kind] < per_op:
            taken[program.op, kind] += 1
            yield program
        else:
            left_out[kind] += 1


def _kind(program: SourcedProgram) -> str:
    """Sample, reference or error. Read off the validated blob's JSON, at a fraction of the price of decoding it."""
    text, _ = split(program.blob)
    return str(json.loads(text)["origin"].get("kind", "sample"))


def in_order(
    plan: Plan,
    source: OpInfoSource,
    asked: Sequence[SourceRequest],
    counts: SourceCounts,
    left_out: Counter[str],
    mutations: Mutations | None,
) -> Iterator[SourcedProgram]:
    """All programs of a plan: its sources', then mutants of them; under a budget, in rounds and by turns."""
    if plan.sources == ("mutation",):
        assert mutations is not None
        for _ in mutations.offering(source.programs(asked, counts)):
            pass
    elif plan.budget is None:
        found = source.programs(asked, counts)
        offered = found if mutations is None else mutations.offering(found)
        yield from capped(offered, plan.per_op, left_out)
    elif mutations is None:
        yield from in_rounds(source, asked, counts, plan.per_op, left_out)
    else:
        # What PyTorch documents to raise is cheap; reference inputs are many, and like the samples.
        first = [r for kind in ("error", "sample") for r in asked if r.kinds == (kind,)]
        yield from in_rounds(source, first, counts, plan.per_op, left_out, mutations)
        rest = [r for r in asked if r.kinds == ("reference",)]
        references = in_rounds(source, rest, counts, plan.per_op, left_out)
        yield from in_turn(references, mutations.rest()) if mutations.between else references
    if mutations is not None:
        yield from mutations.last()


def in_rounds(
    source: OpInfoSource,
    asked: Sequence[SourceRequest],
    counts: SourceCounts,
    per_op: int | None,
    left_out: Counter[str],
    mutations: Mutations | None = None,
) -> Iterator[SourcedProgram]:
    """The same programs in rounds, the first few of every op before more of any: where time ends, all ops have been run.

    A round takes what :data:`ROUNDS` says of each op and kind, less what the rounds before took. What the source offers
    is counted in the first, which sees all of it; the tracer's cache gives it again to the others. Mutants of every op
    follow each round, and take turns with the last.
    """
    taken_before = 0
    for number, limit in enumerate((*ROUNDS, None)):
        limit = per_op if limit is None or (per_op is not None and per_op < limit) else limit
        beyond: Counter[str] = Counter()
        offered = source.programs(asked, counts if number == 0 else SourceCounts())
        if mutations is not None and number == 0:
            offered = mutations.offering(offered)
        taken = _beyond(capped(offered, limit, beyond), taken_before)
        if mutations is not None and mutations.between:
            if limit is None:
                taken = in_turn(taken, mutations.rest())
            else:
                taken = chain(taken, mutations.each(limit * A_PROGRAM))
        yield from taken
        if not beyond or limit == per_op:
            left_out.update(beyond)
            return
        assert limit is not None
        taken_before = limit


def _beyond(programs: Iterable[SourcedProgram], taken: int) -> Iterator[SourcedProgram]:
    """All but the first few of each op and kind."""
    place: Counter[tuple[str, str]] = Counter()
    for program in programs:
        key = program.op, _kind(program)
        place[key] += 1
        if place[key] > taken:
            yield program


def _left_out(left_out: Counter[str], per_op: int | None) -> Iterator[str]:
    if left_out:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(left_out.items()))
        yield (
            f"--per-op {per_op}: {left_out.total():,} programs were left out ({kinds}); "
            f"of each op, {per_op} of each kind ran"
        )


def groups_of(plan: Plan, index: OpIndex) -> tuple[str, ...]:
    """The plan's op groups, each once.

    What a person names may be short; raises OpDiffError for an op that nobody knows. An op that a diff changes is
    meant exactly: where no program calls it, none of a namesake's may stand for it, and the report says so.
    """
    if plan.ops is None:
        return index.groups
    return tuple(dict.fromkeys(_group_of(op, plan, index) for op in plan.ops))


def _group_of(op: str, plan: Plan, index: OpIndex) -> str:
    if plan.command == "check":
        return group_of(op)
    try:
        return index.resolve(op)
    except UnknownOpError as error:
        raise OpDiffError(str(error)) from None


def entries_of(plan: Plan, groups: Sequence[str], index: OpIndex) -> tuple[SourceEntry, ...]:
    """The source's entries for op groups, each once."""
    entries = dict.fromkeys(entry for group in groups for entry in index.entries_of(group))
    sources = SUITE_SOURCES if plan.sources == ("mutation",) else plan.sources
    return tuple(entry for entry in entries if entry.source in sources)


def requests_of(plan: Plan, index: OpIndex) -> Iterator[SourceRequest]:
    """Everything that a plan asks of the source. Raises OpDiffError for an op that nobody knows."""
    return requests(plan, entries_of(plan, groups_of(plan, index), index))


def requests(plan: Plan, entries: Sequence[SourceEntry]) -> Iterator[SourceRequest]:
    """What to ask of the source. Under a budget, every op's samples come before anyone's reference inputs."""
    passes = [plan.kinds] if plan.budget is None else [(kind,) for kind in plan.kinds]
    for kinds in passes:
        for entry in entries:
            dtypes = tuple(dtype for dtype in plan.dtypes if dtype in entry.dtypes)
            if dtypes:
                yield SourceRequest(entry, dtypes, kinds, plan.forms, plan.seed)
