"""The merge: nothing is counted as clean that is lost, nothing of another run gets in, and the order does not matter."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_shards import BASE, bundle, changes, covered, results, row, shard, write

from bot.errors import OpDiffError
from bot.report.results import Counts, Results, TargetFacts, dump_results, read_results
from bot.shards.merge import merge, merged_results
from bot.shards.reports import ShardReport, one_run

A, B = "00ab00ab00ab00ab", "11cd11cd11cd11cd"


def merged(*found: Results | ShardReport, expected: int = 0, fail_on: Any = None) -> Results:
    reports = [one if isinstance(one, ShardReport) else shard(one) for one in found]
    return merged_results(one_run(reports), expected or len(reports), fail_on)


def test_whole_shards_without_findings_are_clean() -> None:
    both = merged(results("1/2", ["add"]), results("2/2", ["mul"]))
    assert (both.result, both.exit_code, both.notes) == ("clean", 0, ())
    assert [row.op for row in both.coverage if row.tested] == ["add", "mul"]
    assert both.counts == Counts(cases=6, programs=4, compared=4, outputs=4, skipped={"sparse": 2})
    assert [(s.shard, s.device, s.state) for s in both.shards] == [
        ("1/2", "cpu", "whole"),
        ("2/2", "cpu", "whole"),
    ]
    assert both.run.shard == ""


def test_a_lost_shard_is_named_and_never_green() -> None:
    one = merged(results("2/3", ["add"]), results("1/3", []), expected=3)
    assert (one.result, one.exit_code) == ("incomplete", 1)
    assert "shard 3/3 on cpu is lost" in one.notes[0]
    assert "mul is not tested: its shard gave no report" in one.shortfalls
    assert [s.state for s in one.shards] == ["whole", "whole", "lost"]


def test_a_lost_shard_beside_findings_is_still_said() -> None:
    one = merged(results("1/2", findings=(row(A),)), expected=2)
    assert one.result == "findings"
    assert any("is lost" in note for note in one.notes)


def test_with_no_report_at_all_everything_is_lost() -> None:
    none = merged(expected=2)
    assert none.result == "incomplete"
    assert [s.state for s in none.shards] == ["lost", "lost"]
    assert any("a shard is lost" in note for note in none.notes)


def test_a_lost_device_is_counted_though_nobody_knows_its_name() -> None:
    one = merged(results("1/1"), expected=2)
    assert [s.state for s in one.shards] == ["whole", "lost"]
    assert one.result == "incomplete"


def test_a_broken_shard_says_why() -> None:
    broken = ShardReport("opdiff-shard-cpu-2-of-2", broken="results.json is not JSON: x")
    one = merged(results("1/2", ["add", "mul"]), broken, expected=2)
    assert one.result == "incomplete"
    assert one.shards[1].state == "broken"
    assert "opdiff-shard-cpu-2-of-2: results.json is not JSON" in one.shards[1].note
    assert any("a shard is broken" in note for note in one.shortfalls)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"changes": changes("add", "mul", head="d" * 40)}, "head"),
        ({"changes": changes("add", "mul", base="d" * 40)}, "base"),
        ({"changes": changes("add", "mul", pull_request=8)}, "pull_request"),
        ({"changes": changes("add")}, "ops"),
        ({"changes": None}, "command"),
        ({"run": {"seed": 8}}, "seed"),
        ({"run": {"opdiff": "9"}}, "opdiff"),
        ({"run": {"shard": "3/4"}}, "shards"),
        ({"configured_fail_on": "never"}, "fail_on"),
    ],
)
def test_a_shard_of_another_run_is_refused(other: dict[str, Any], said: str) -> None:
    foreign = results("3/3", findings=(row(A),), **other)
    one = merged(results("1/3"), results("2/3"), foreign, expected=3)
    assert [s.state for s in one.shards] == ["whole", "whole", "broken"]
    assert f"its {said} is" in one.shards[2].note
    assert (one.findings, one.result) == ((), "incomplete")
    assert one.changes is not None
    assert one.changes.base == BASE


def test_where_no_run_has_more_shards_nobody_is_believed() -> None:
    one = merged(results("1/2"), results("2/2", run={"seed": 9}))
    assert [s.state for s in one.shards] == ["broken", "broken"]
    assert one.result == "incomplete"


def test_one_shard_twice_counts_once() -> None:
    again = shard(results("1/2", ["add"], findings=(row(B),)), "copy")
    one = merged(results("1/2", ["add"]), results("2/2", ["mul"]), again, expected=2)
    assert sorted(s.state for s in one.shards) == ["broken", "whole", "whole"]
    assert one.result == "incomplete"
    assert any("3 reports, and 2 were expected" in note for note in one.shortfalls)


def test_empty_shards_of_two_devices_are_no_copies() -> None:
    nothing = {"targets": (), "coverage": (), "changes": changes()}
    one = merged(
        results("1/1", **nothing), results("1/1", run={"device": "cuda"}, **nothing), expected=2
    )
    assert (one.result, [s.device for s in one.shards]) == ("clean", ["cpu", "cuda"])


def test_an_op_tested_in_one_shard_is_tested() -> None:
    elsewhere = covered("mul", False, "no program")
    first = results("1/2", ["add"], shortfalls=("mul is not tested: no program",))
    first = first.model_copy(update={"coverage": (*first.coverage, elsewhere)})
    one = merged(first, results("2/2", ["mul"]))
    assert (one.result, one.shortfalls) == ("clean", ())
    assert all(row.tested for row in one.coverage)


def test_an_op_tested_on_one_device_alone_is_not_tested() -> None:
    cuda = results("1/1", [], run={"device": "cuda"}, shortfalls=("mul is not tested: no GPU",))
    cuda = cuda.model_copy(update={"coverage": (covered("add"), covered("mul", False, "no GPU"))})
    one = merged(results("1/1"), cuda)
    assert one.result == "incomplete"
    assert [(r.op, r.tested, r.reason) for r in one.coverage] == [
        ("add", True, ""),
        ("mul", False, "on cuda: no GPU"),
    ]


def test_one_cause_is_one_finding_with_all_its_programs() -> None:
    first = row(A, program="a" * 32, programs=("a" * 32, "b" * 32), count=2)
    second = row(A, program="b" * 32, programs=("b" * 32, "c" * 32), count=150)
    one = merged(results("1/2", findings=(first,)), results("2/2", findings=(second,)))
    (found,) = one.findings
    assert set(found.programs) == {"a" * 32, "b" * 32, "c" * 32}
    assert found.count == 151  # b is one program, though both shards ran it


def test_a_finding_is_ignored_only_where_every_copy_is() -> None:
    ignored = row(A, ignored="ignored: issue 12")
    both = merged(results("1/2", findings=(ignored,)), results("2/2", findings=(ignored,)))
    assert (both.result, both.findings[0].ignored) == ("clean", "ignored: issue 12")
    one = merged(results("1/2", findings=(ignored,)), results("2/2", findings=(row(A),)))
    assert (one.result, one.findings[0].ignored) == ("findings", None)


@pytest.mark.parametrize(
    ("configured", "given", "result"),
    [
        ("candidate", None, "clean"),
        ("any", None, "findings"),
        ("any", "never", "clean"),
        ("never", "any", "findings"),
    ],
)
def test_the_configuration_says_what_fails_unless_the_command_does(
    configured: Any, given: Any, result: str
) -> None:
    known = row(A, status="known")
    one = merged(results("1/1", findings=(known,), configured_fail_on=configured), fail_on=given)
    assert one.result == result


def test_what_people_accepted_fails_nothing_and_stays_listed() -> None:
    both = [shard(results("1/1", findings=(row(A), row(B))))]
    one = merged_results(one_run(both), 1, "any", {A})
    assert one.result == "findings"
    assert [bool(found.ignored) for found in one.findings] == [True, False]
    assert merged_results(one_run(both), 1, "any", {A, B}).result == "clean"


def test_machines_that_differ_are_said() -> None:
    other = results("2/2", ["mul"], run={"cpu": "B", "instruction_set": "AVX512"})
    one = merged(results("1/2", ["add"], run={"cpu": "A", "instruction_set": "AVX2"}), other)
    assert "the shards ran on different CPUs: A (AVX2), B (AVX512)" in one.notes


def test_a_target_that_failed_in_one_shard_is_shown_as_failed() -> None:
    failed = TargetFacts(label="torch==2.13.0:cpu", failed="it did not start")
    one = merged(results("1/2", ["add"]), results("2/2", ["mul"], targets=(failed,)))
    assert [t.failed for t in one.targets if t.label == failed.label] == ["it did not start"]


def test_the_run_spans_all_shards() -> None:
    late = {"started": "2030-01-01T01:00:00+01:00", "finished": "2030-01-01T00:02:00+00:00"}
    one = merged(results("1/2", ["add"], run={"budget_seconds": 10.0}), results("2/2", run=late))
    assert (one.run.finished, one.run.budget_seconds) == (late["finished"], 10.0)


shards_of_a_run = st.lists(
    st.builds(
        lambda ops, found, gone: (ops, found, gone),
        st.lists(st.sampled_from(("add", "mul", "exp")), unique=True),
        st.lists(
            st.builds(
                row,
                st.sampled_from((A, B)),
                program=st.sampled_from(("a" * 32, "b" * 32)),
                count=st.integers(1, 3),
                status=st.sampled_from(("new", "known")),
            ),
            unique_by=lambda finding: finding.fingerprint,
        ),
        st.sampled_from(("whole", "broken", "lost", "other head")),
    ),
    min_size=1,
    max_size=5,
)


@given(shards_of_a_run, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(made: list[Any], shuffle: random.Random) -> None:
    reports: list[ShardReport] = []
    for number, (ops, found, state) in enumerate(made, start=1):
        if state == "broken":
            reports.append(ShardReport(f"folder {number}", broken="no report"))
        elif state != "lost":
            more = {"changes": changes("add", head="e" * 40)} if state == "other head" else {}
            said = results(f"{number}/{len(made)}", ops, findings=tuple(found), **more)
            reports.append(shard(said, f"folder {number}"))
    first = merged(*reports, expected=len(made))
    shuffle.shuffle(reports)
    assert dump_results(merged(*reports, expected=len(made))) == dump_results(first)
    assert len(first.shards) == len(made)
    if {state for _, _, state in made} not in ({"whole"}, {"other head"}):
        assert first.result != "clean"


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Three shards' reports below one folder, as artifacts are downloaded."""
    write(tmp_path / "in" / "s-1", results("1/3", ["add"]), bundle(A, 1, 2, 3))
    write(tmp_path / "in" / "s-2", results("2/3", ["mul"]), bundle(A, 1), bundle(B, 5, 6))
    write(tmp_path / "in" / "s-3", results("3/3", []))
    return tmp_path / "in"


def test_folders_are_read_and_one_report_is_written(folders: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    one = merge([folders], 3, out)
    assert one == read_results(out / "results.json")
    assert (one.result, one.exit_code) == ("findings", 2)
    assert {f.fingerprint for f in one.findings} == {A, B}
    shown = next(f for f in one.findings if f.fingerprint == A)
    assert shown.mismatches[0].difference is not None
    assert shown.mismatches[0].difference.elements == 1  # the smallest program is shown
    assert shown.count == 2
    for found in one.findings:
        assert (out / found.folder / "repro.py").is_file()
        assert json.loads((out / found.folder / "finding.json").read_text())
    assert (out / "report.md").is_file()


def test_single_reports_may_be_named_and_merging_again_replaces(
    folders: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    together = merge([folders], 3, out)
    named = [folders / "s-3", folders / "s-1", folders / "s-2"]
    assert merge(named, 3, out) == together
    assert len(list((out / "findings").iterdir())) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "results.json").write_text("NaN"),
        lambda folder: (folder / "results.json").unlink(),
        lambda folder: shutil.rmtree(folder) or folder.symlink_to("/etc"),
        lambda folder: (folder / "results.json").write_text('{"schema_version": 99}'),
    ],
)
def test_a_damaged_report_is_broken_not_fatal(damage: Any, folders: Path, tmp_path: Path) -> None:
    damage(folders / "s-1")
    one = merge([folders], 3, tmp_path / "out")
    assert [s.state for s in one.shards] == ["whole", "whole", "broken"]
    assert one.result == "findings"
    assert {f.fingerprint for f in one.findings} == {A, B}


def test_a_finding_whose_folder_is_damaged_stays_without_it(folders: Path, tmp_path: Path) -> None:
    (found,) = (folders / "s-1" / "findings").iterdir()
    (found / "program.opdiff").write_bytes(b"\xff" * 8)
    (folders / "s-2" / "results.json").unlink()
    one = merge([folders], 3, tmp_path / "out")
    assert [f.folder for f in one.findings] == [""]
    assert one.result == "findings"


def test_folders_that_cannot_be_merged_into(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    for out in (tmp_path / "mine", folders, folders / "merged", folders / "s-1" / "findings"):
        with pytest.raises(OpDiffError):
            merge([folders], 3, out)
    with pytest.raises(OpDiffError, match="not a folder"):
        merge([tmp_path / "none"], 3, tmp_path / "out")
    assert (tmp_path / "mine" / "thesis.tex").exists()
