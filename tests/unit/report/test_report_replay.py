from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import made_findings as made
import pytest

from bot.errors import OpDiffError
from bot.oracle.finding import Mismatch
from bot.programs.program import Program
from bot.replaying import replay_finding
from bot.report.finding_folder import FindingError, LoadedFinding, write_finding
from bot.report.replay import replay, targets_by_path
from bot.report.results import TargetFacts
from bot.targets.outcome import RawOutcome
from bot.workshop import Workshop

OUTCOMES = (RawOutcome(b"a", b""), RawOutcome(b"b", b""))


def folder(tmp_path: Path) -> Path:
    run = made.RUN.model_copy(update={"instruction_set": "AVX-512"})
    return tmp_path / write_finding(tmp_path, made.doubled_bundle(), made.TARGETS, run).row.folder


def run(finding: LoadedFinding) -> Sequence[RawOutcome]:
    assert finding.blob == made.doubled()
    return OUTCOMES


def compare_to(*found: Mismatch):
    def compare(
        program: Program, blob: bytes, labels: Sequence[str], outcomes: Sequence[RawOutcome]
    ) -> Sequence[Mismatch]:
        assert program.op == "mul"
        assert blob == made.doubled()
        assert list(labels) == [made.WRONG, made.RIGHT]
        assert tuple(outcomes) == OUTCOMES
        return found

    return compare


def test_still_differs(tmp_path: Path) -> None:
    mismatch = made.mismatch("value", "output", "r0")
    result = replay(folder(tmp_path), run, compare_to(mismatch), "Some CPU", "AVX-512")
    assert result.differs
    assert result.same == (mismatch,)
    assert result.line == "mul: value: still differs"
    assert result.notes == ()


def test_no_longer_differs(tmp_path: Path) -> None:
    result = replay(folder(tmp_path), run, compare_to(), "Some CPU", "AVX-512")
    assert not result.differs
    assert result.line == "mul: value: no longer differs"


def test_differs_in_another_way(tmp_path: Path) -> None:
    mismatch = made.mismatch("crash", "", "")
    result = replay(folder(tmp_path), run, compare_to(mismatch), "Some CPU", "AVX-512")
    assert not result.differs
    assert result.line == "mul: value: no longer differs this way, but in another: crash"


def test_another_cpu_is_said(tmp_path: Path) -> None:
    result = replay(folder(tmp_path), run, compare_to(), "Other CPU", "AVX2")
    assert result.notes == (
        "found on another CPU: Some CPU; this is Other CPU",
        "found with AVX-512; this machine has AVX2",
    )


def test_outcomes_must_fit_the_targets(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 outcomes for 2 targets"):
        replay(folder(tmp_path), lambda _: OUTCOMES[:1], compare_to(), "")


def test_a_folder_that_is_none_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FindingError):
        replay(tmp_path, run, compare_to(), "")


def test_targets_that_name_a_file_are_told_apart() -> None:
    specs = (
        "torch==2.13.0:cpu",
        "python=/evil:cpu",
        'python="/a b/c":cpu',
        "../x.whl:cpu",
        "x.whl",
        "oneflow@pr:cpu",
    )
    targets = [TargetFacts(label=spec) for spec in specs]
    assert targets_by_path(targets) == specs[1:5]


def test_blanks_before_a_spec_hide_no_path() -> None:
    assert targets_by_path([TargetFacts(label=" python=evil:cpu")]) == ("python=evil:cpu",)


@pytest.mark.parametrize("count", [0, 1])
def test_a_finding_of_less_than_two_targets_is_one_line(tmp_path: Path, count: int) -> None:
    where = folder(tmp_path)
    document = json.loads((where / "finding.json").read_text())
    for rows in ("targets", "outcomes"):
        document[rows] = document[rows][:count]
    (where / "finding.json").write_text(json.dumps(document))
    unused = cast("Workshop", None)  # it is refused before anything is prepared
    with pytest.raises(OpDiffError, match=f"names {count} targets: a difference needs two"):
        replay_finding(where, unused)
