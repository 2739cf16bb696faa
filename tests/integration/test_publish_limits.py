"""GitHub's limits through the whole of publish: what does not fit is left out in whole pieces, and said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fake_github.server import FakeGitHub
from published_texts import assert_harmless, finding, own_links, report
from publishing import Scene, set_up
from typer.testing import CliRunner

from bot.cli import app
from bot.github.marker import read_marker

MAX_COMMENT = 65_536
MAX_CHECK_RUN = 65_535
MAX_STEP_SUMMARY = 1 << 20
REPORT = "https://github.com/framework/framework/actions/runs/77"


@pytest.fixture
def scene(fake_github: FakeGitHub, tmp_path: Path) -> Scene:
    return set_up(fake_github, tmp_path, report=False)


def publish(scene: Scene, findings: int, lines: int, text: str = "it differs") -> Path:
    rows = [finding(n, text, op=f"op{n}") for n in range(findings)]
    scene.state.artifacts.clear()
    scene.state.add_artifact(scene.run, "opdiff", report(scene, rows, text, lines))
    published = scene.publish()
    assert published.results is not None
    assert len(published.results.findings) == findings
    assert published.out is not None
    return published.out


def annotation_requests(scene: Scene) -> list[int]:
    """How many annotations each write of the check run brought."""
    bodies = [it.body for it in scene.github.writes() if "/check-runs" in it.path]
    return [len(body.get("output", {}).get("annotations", ())) for body in bodies]


def test_five_thousand_findings(scene: Scene) -> None:
    out = publish(scene, 5_000, 1, "@everyone-team differs " * 20)
    body = scene.comment_body
    assert len(body.encode()) < MAX_COMMENT
    assert "5000 new value faults" in body.splitlines()[0]
    assert f"[whole report]({REPORT})" in body
    assert "more findings" in body
    assert_harmless(body.rpartition("\n<!-- opdiff:1 ")[0], own_links(scene))
    state = read_marker(body)
    assert state is not None
    assert len(state.seen) + state.seen_left_out == 5_000
    run = scene.check_run
    assert len((run.summary or "").encode()) <= MAX_CHECK_RUN
    assert len((run.text or "").encode()) <= MAX_CHECK_RUN
    assert len(run.annotations) == 1_000
    whole = json.loads((out / "results.json").read_text())
    assert len(whole["findings"]) == 5_000
    scene.github.log.clear()
    scene.publish()
    assert not scene.github.writes()


@pytest.mark.parametrize(
    ("findings", "lines", "requests"),
    [(50, 1, [50]), (51, 1, [50, 1]), (100, 5, [50] * 10), (1, 5, [5])],
)
def test_all_annotations_arrive_in_requests_of_fifty(
    scene: Scene, findings: int, lines: int, requests: list[int]
) -> None:
    publish(scene, findings, lines)
    assert annotation_requests(scene) == requests
    arrived = [(it.start_line, it.title, it.message) for it in scene.check_run.annotations]
    assert len(set(arrived)) == len(arrived) == findings * lines
    assert {it.start_line for it in scene.check_run.annotations} == set(range(1, lines + 1))
    assert all(any(f"op{n}" in title for _, title, _ in arrived) for n in range(findings))


def test_a_summary_of_over_a_mebibyte(scene: Scene) -> None:
    """GitHub drops the whole of a step's summary above 1 MiB."""
    out = publish(scene, 2_000, 1, "it differs and that is told at length. " * 90)
    assert (out / "results.json").stat().st_size > 10 * MAX_STEP_SUMMARY
    done = CliRunner().invoke(app, ["step-summary", str(out)], catch_exceptions=False)
    assert done.exit_code == 0
    size = len(done.stdout.encode())
    assert MAX_STEP_SUMMARY // 2 < size < MAX_STEP_SUMMARY
    assert "2000 new value faults" in done.stdout
    assert re.search(r"\d+ more findings", done.stdout)
    assert_harmless(done.stdout, ())
    for said in (scene.comment_body, scene.check_run.summary or "", scene.check_run.text or ""):
        assert len(said.encode()) < MAX_COMMENT


def test_one_finding_larger_than_a_comment(scene: Scene) -> None:
    publish(scene, 1, 1, "漢字😀" * 1_300)
    assert len(scene.comment_body.encode()) < MAX_COMMENT
    assert_harmless(scene.comment_body.rpartition("\n<!-- opdiff:1 ")[0], own_links(scene))
