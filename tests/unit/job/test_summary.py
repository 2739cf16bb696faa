"""The summary: which result and exit code a run ends with, and what is counted in what was tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.changes.change import ChangedOp, Changes
from bot.exit_codes import ExitCode
from bot.failing import fails
from bot.measure import Measured
from bot.oracle.counts import Counts, TargetStatus
from bot.oracle.finding import Finding
from bot.oracle.settle import Settlement
from bot.plan import ChangeSource, FailOn, Plan, PlannedTarget
from bot.programs.source import SourceCounts
from bot.report.results import dump_results, parse_results
from bot.run_directory import Entry
from bot.summary import MAX_REASONS, Story, summarise
from bot.targets.environment import Environment
from bot.targets.job import PoolTarget
from bot.targets.pool import TargetFacts
from bot.targets.target import parse_target

CANDIDATE, BASELINE, PEER = "oneflow@pr:cpu", "oneflow==0.9.0:cpu", "torch==2.13.0:cpu"
CHECK = Plan(
    command="check",
    arguments=("opdiff", "check"),
    targets=(
        PlannedTarget(spec=CANDIDATE, role="candidate"),
        PlannedTarget(spec=BASELINE, role="baseline"),
        PlannedTarget(spec=PEER),
    ),
    ops=("add",),
    fail_on="candidate",
    candidate="overlay",
    change=ChangeSource(framework="oneflow", patch="/p", source="/s"),
)
RUN = Plan(
    command="run", targets=(PlannedTarget(spec=BASELINE), PlannedTarget(spec=PEER)), ops=("add",)
)
BEGIN, END = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, 0, 1, tzinfo=UTC)


def facts(spec: str, unisolated: str | None = None) -> TargetFacts:
    target = parse_target(spec)
    framework = target.environment.split("=")[0].split("@")[0]
    environment = Environment(target.environment, framework, Path("/py"), "release", "digest")
    ready = {"version": "1.0", "processor": "Some CPU", "capability": "AVX2", "threads": 1}
    return TargetFacts(
        PoolTarget(target, environment, "@" in spec), ready, "bubblewrap", unisolated
    )


def finding(verdict: Any = "candidate", status: Any = "new", kind: Any = "value") -> Finding:
    return Finding(
        fingerprint="0123",
        op="add",
        kind=kind,
        verdict=verdict,
        blamed=(CANDIDATE,),
        confidence="strong",
        status=status,
        sides=((CANDIDATE,), (BASELINE, PEER)),
        program="d",
        mismatches=(),
        evidence=(),
    )


def entry(op: str = "add", digest: str = "d", *statuses: str, **counts: Any) -> Entry:
    found = statuses or ("ok", "ok", "ok")
    made = tuple(
        TargetStatus(status, "no such op" if status == "unsupported" else "")  # type: ignore[arg-type]
        for status in found
    )
    return Entry(digest, op, made, Counts(**(counts or {"compared": 1, "outputs": 1})))


def story(
    findings: Sequence[Finding] = (),
    entries: Sequence[Entry] = (entry(),),
    plan: Plan = CHECK,
    *,
    out_of_time: bool = False,
    unisolated: str | None = None,
    **more: Any,
) -> Story:
    measured = Measured(out_of_time=out_of_time)
    for one in entries:
        measured.add(one)
    specs = [target.spec for target in plan.targets]
    fields: dict[str, Any] = {
        "plan": plan,
        "labels": specs,
        "facts": [facts(spec, unisolated if "@" in spec else None) for spec in specs],
        "measured": measured,
        "counts": SourceCounts(cases=3, programs=2, expressed=2, skipped={"sparse": 1}),
        "settlement": Settlement(tuple(findings), 0, ()),
        "changes": None,
        "notes": (),
        "shortfalls": (),
        "untestable": {},
        "started": BEGIN,
        "finished": END,
        "ops": plan.ops or (),
    }
    return Story(**(fields | more))


# status and verdict of a finding -> does it fail a pull request (fail-on: candidate)?
PULL_REQUEST = [
    ("new", "candidate", True),
    ("new", "both", True),
    ("new", "undecided", True),  # it differs from its baseline: somebody must look
    ("new", "upstream", False),
    ("new", "convention", False),
    ("new", "flaky", False),
    ("changed", "candidate", True),
    ("changed", "undecided", True),
    ("changed", "upstream", False),
    ("known", "candidate", False),
    ("known", "both", False),
    ("known", "undecided", False),
    ("fixed", "candidate", False),
    ("fixed", "undecided", False),
    (None, "candidate", True),
    (None, "undecided", True),
]


@pytest.mark.parametrize(("status", "verdict", "failing"), PULL_REQUEST)
def test_which_findings_fail_a_pull_request(status: Any, verdict: Any, failing: bool) -> None:
    results = summarise(story([finding(verdict, status)]))
    assert (results.result, results.exit_code) == (
        ("findings", ExitCode.FINDINGS) if failing else ("clean", ExitCode.CLEAN)
    )
    assert len(results.findings) == 1  # reported all the same


@pytest.mark.parametrize(("status", "verdict", "failing"), PULL_REQUEST)
def test_fail_on_any_and_never(status: Any, verdict: Any, failing: bool) -> None:
    for fail_on, expected in (("any", True), ("never", False)):
        choice: FailOn = fail_on  # type: ignore[assignment]
        assert fails(finding(verdict, status), choice) is expected


def test_one_failing_finding_among_others_is_enough() -> None:
    results = summarise(story([finding(status="known"), finding(), finding("flaky")]))
    assert results.exit_code == 2


def test_a_run_without_a_candidate_fails_on_any_difference() -> None:
    entries = [entry("add", "d", "ok", "ok")]
    assert summarise(story([finding("upstream", None)], entries, RUN)).exit_code == 2
    assert summarise(story([], entries, RUN)).exit_code == 0


def incomplete(made: Story, *says: str) -> None:
    results = summarise(made)
    assert (results.result, results.exit_code) == ("incomplete", 1)
    for text in says:
        assert any(text in note for note in results.notes), results.notes


def test_incomplete_when_a_changed_op_ran_nowhere() -> None:
    incomplete(story(entries=[]), "add is not tested: no program calls it")


def test_incomplete_when_the_candidate_lacks_a_changed_op() -> None:
    ran = entry("add", "d", "unsupported", "ok", "ok", compared=1)
    incomplete(story(entries=[ran]), "add is not tested")


def test_incomplete_when_nobody_else_has_the_op() -> None:
    ran = entry("add", "d", "ok", "unsupported", "unsupported", skipped=("no such op",))
    incomplete(story(entries=[ran]), "add is not tested: no such op")


def test_incomplete_when_the_budget_ended() -> None:
    plan = CHECK.model_copy(update={"budget": 90.0})
    incomplete(story(plan=plan, out_of_time=True), "the budget of 90 s ended before everything")
    incomplete(story(entries=[], plan=plan, out_of_time=True), "the budget ended first")


def test_incomplete_when_all_were_asked_for_and_the_budget_ended() -> None:
    plan = RUN.model_copy(update={"ops": None, "budget": 1.0})
    incomplete(story(entries=[entry("add", "d", "ok", "ok")], plan=plan, out_of_time=True))


def test_incomplete_when_a_hunk_was_rejected() -> None:
    hunk = "a hunk does not apply to the release, so it was not tested: a.py:1"
    incomplete(story(shortfalls=[hunk]), hunk)


def test_incomplete_when_the_change_is_not_in_what_ran() -> None:
    """It ran, but without the pull request's C++: an overlay holds Python alone."""
    made = story(untestable={"add": "its change is not Python"})
    incomplete(made, "add is not tested: its change is not Python")
    (row,) = summarise(made).coverage
    assert not row.tested
    assert row.targets[0].programs == 1


def test_incomplete_beats_clean_and_findings_beat_incomplete() -> None:
    assert summarise(story([finding()], shortfalls=["x"])).exit_code == 2
    assert summarise(story([finding(status="known")], shortfalls=["x"])).exit_code == 1


def test_a_difference_that_may_be_there_does_not_make_an_incomplete_run_whole() -> None:
    plan = CHECK.model_copy(update={"fail_on": "never"})
    assert summarise(story([finding()], plan=plan)).exit_code == 0
    assert summarise(story([finding()], plan=plan, shortfalls=["x"])).exit_code == 1


def test_what_the_result_rests_on_is_in_it() -> None:
    change = ChangeSource(repository="/r", base="b" * 40, head="c" * 40)
    plan = CHECK.model_copy(update={"change": change, "shard": "2/3", "pull_request": 7})
    found = summarise(
        story([finding("upstream")], plan=plan, changes=Changes("oneflow"), shortfalls=("x: y",))
    )
    assert (found.fail_on, found.result, found.run.shard) == ("candidate", "incomplete", "2/3")
    assert found.shortfalls == ("x: y",)
    assert "x: y" in found.notes
    assert found.changes is not None
    assert (found.changes.base, found.changes.head) == ("b" * 40, "c" * 40)
    assert found.changes.pull_request == 7


def test_all_ops_with_some_that_a_framework_lacks_is_whole() -> None:
    plan = RUN.model_copy(update={"ops": None})
    entries = [
        entry("add", "1", "ok", "ok"),
        entry("logdet", "2", "unsupported", "ok", skipped=("no such op",)),
    ]
    made = story([], entries, plan, ops=("add", "logdet", "never_expressed"))
    results = summarise(made)
    assert results.exit_code == 0
    assert {row.op: row.tested for row in results.coverage} == {
        "add": True,
        "logdet": False,
        "never_expressed": False,
    }
    (lacking,) = [row for row in results.coverage if row.op == "logdet"]
    assert lacking.targets[0].unsupported == {"no such op": 1}
    assert lacking.targets[1].unsupported == {}
    assert [target.compared for target in lacking.targets] == [0, 0]  # it ran on one alone


def test_an_op_that_a_program_merely_also_calls_is_no_shortfall() -> None:
    """Only what was asked for must be tested; programs of an entry can count under another op."""
    other = entry("mul", "2", "unsupported", "ok", "ok", skipped=("no such op",))
    assert summarise(story(entries=[entry(), other])).exit_code == 0


def test_nothing_changed_is_clean() -> None:
    plan = CHECK.model_copy(update={"ops": ()})
    results = summarise(story([], [], plan, changes=Changes("oneflow")))
    assert (results.exit_code, results.coverage) == (0, ())
    assert results.changes is not None


def test_the_changed_ops_are_told_with_their_paths() -> None:
    op = ChangedOp("add", "direct", ("oneflow.add",), ("oneflow/math.py: def add",))
    row = summarise(story(changes=Changes("oneflow", (op,)))).changes
    assert row is not None
    assert (row.ops[0].op, row.ops[0].path) == ("add", ("oneflow/math.py: def add",))


def test_what_was_compared_is_counted() -> None:
    entries = [
        entry("add", "1", compared=1, outputs=2, gradients=3, side_effects=4, intermediates=5),
        entry("add", "2", compared=1, parameters=1, buffers=2, exceptions=1, skipped=("one nan",)),
        entry("add", "3", skipped=("one nan", "two")),
    ]
    counts = summarise(story(entries=entries, settlement=Settlement((), 7, ()))).counts
    assert (counts.cases, counts.expressed, counts.programs, counts.compared) == (3, 2, 3, 2)
    assert (counts.outputs, counts.gradients, counts.side_effects) == (2, 3, 4)
    assert (counts.intermediates, counts.parameters, counts.exceptions) == (5, 3, 1)
    assert counts.skipped == {"case not expressed: sparse": 1, "one nan": 2, "two": 1}
    assert counts.dismissed == {"float64": 7}


def test_deaths_are_in_the_coverage() -> None:
    (row,) = summarise(story(entries=[entry("add", "1", "crash", "ok", "ok", compared=1)])).coverage
    assert row.tested
    assert [target.died for target in row.targets] == [1, 0, 0]
    assert [target.compared for target in row.targets] == [1, 1, 1]


def test_who_ran_where_and_when() -> None:
    results = summarise(story(unisolated="no user namespaces here"))
    assert [(t.label, t.role, t.isolation) for t in results.targets] == [
        (CANDIDATE, "candidate", "unisolated: no user namespaces here"),
        (BASELINE, "baseline", "bubblewrap"),
        (PEER, "peer", "bubblewrap"),
    ]
    assert any("ran unisolated: no user namespaces here" in note for note in results.notes)
    assert (results.run.started, results.run.finished) == (
        "2030-01-01T00:00:00+00:00",
        "2030-01-01T00:01:00+00:00",
    )
    assert (results.run.cpu, results.run.instruction_set, results.run.threads) == (
        "Some CPU",
        "AVX2",
        1,
    )


def test_reasons_do_not_depend_on_the_order_of_the_results() -> None:
    """More reasons than are kept, each once: which of them are kept, and how they are ordered, is the same."""
    entries = [
        entry(digest=f"d{number}", compared=1, skipped=(f"reason {number:03}",))
        for number in range(MAX_REASONS + 50)
    ]
    first, second = (summarise(story(entries=made)) for made in (entries, entries[::-1]))
    assert list(first.counts.skipped.items()) == list(second.counts.skipped.items())
    assert first == second


def test_all_ops_with_nothing_compared_is_not_clean() -> None:
    every = RUN.model_copy(update={"ops": None})
    lacking = entry("add", "d", "unsupported", "ok", skipped=("unsupported",))
    assert summarise(story(entries=[lacking], plan=every)).result == "incomplete"
    assert summarise(story(entries=[], plan=every)).result == "incomplete"
    some = [lacking, entry("sum", "e", "ok", "ok")]
    assert summarise(story(entries=some, plan=every)).result == "clean"


def test_more_notes_and_reasons_than_a_results_file_takes_are_counted() -> None:
    skipped = {f"reason {number:03}": 1 for number in range(250)}
    results = summarise(
        story(
            notes=[f"note {number}" for number in range(10_001)],
            shortfalls=["a file"],
            counts=SourceCounts(cases=250, skipped=skipped),
        )
    )
    assert results.notes[0] == "a file"
    assert len(results.notes) == 10_000
    assert results.notes[-1] == "3 more notes were left out"
    assert results.counts.skipped["50 rarer reasons"] == 50
    assert sum(results.counts.skipped.values()) == 250
    assert parse_results(dump_results(results)) == results


def test_the_machine_is_described_by_a_worker_that_can_be_trusted() -> None:
    """A candidate's worker has loaded the pull request's code: it could say anything of the CPU."""
    boast = replace(
        facts(CANDIDATE), ready={"processor": "Abacus", "capability": "wood", "threads": 9}
    )
    told = replace(story(), facts=(boast, facts(BASELINE), facts(PEER)))
    assert summarise(told).run.cpu == "Some CPU"
