"""Texts of a stranger's run, from the artifact to what people see: whatever they hold, they are text and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import made_findings as made
import pytest
from fake_github.server import FakeGitHub
from published_texts import assert_harmless, everything_shown, finding, own_links, report, shows_all
from publishing import Scene, archive_of, files_of, set_up
from typer.testing import CliRunner
from unit.github.made_publications import HOSTILE

from bot.cli import app
from bot.github.marker import read_marker
from bot.report.escape import log_line
from bot.report.results import ChangedOpRow, ChangesRow, LinesRow
from bot.report.write import write_report

ALL_AT_ONCE = " ".join(HOSTILE).encode("utf-8", "replace").decode()
REPORT = ("h1", "h3")
"""Elements that report.md has and a comment has not."""
TEXTS = [*(it.encode("utf-8", "replace").decode() for it in HOSTILE), ALL_AT_ONCE, ALL_AT_ONCE[::-1]]  # fmt: skip


@pytest.fixture
def scene(fake_github: FakeGitHub, tmp_path: Path) -> Scene:
    return set_up(fake_github, tmp_path, report=False)


def step_summary(folder: Path) -> str:
    """What ``opdiff step-summary`` prints of the report that publish wrote."""
    done = CliRunner().invoke(app, ["step-summary", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def outputs(folder: Path) -> str:
    done = CliRunner().invoke(app, ["outputs", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("text", TEXTS)
def test_hostile_texts_are_shown_and_do_nothing(scene: Scene, text: str) -> None:
    scene.state.add_artifact(scene.run, "opdiff", report(scene, [finding(7, text)], text, lines=3))
    published = scene.publish()
    assert published.results is not None
    assert published.out is not None
    for name, shown in everything_shown(scene, published):
        if name in ("comment", "summary", "text"):
            marker = shown.rpartition("\n<!-- opdiff:1 ")[0] if name == "comment" else shown
            assert_harmless(marker, own_links(scene))
        elif name.endswith(".md"):
            assert_harmless(shown, (), REPORT)
        elif name == "note":
            assert shows_all(log_line(shown))
        else:
            assert all(shows_all(line) for line in shown.split("\n")), name
    assert_harmless(step_summary(published.out), ())
    for line in (*published.output_lines(), *outputs(published.out).splitlines()):
        assert re.fullmatch(
            r"comment-url=https://\S+|result=\w+|(new-)?findings=\d+|(report-path|json)=\S+", line
        )


def test_a_forged_marker_in_a_text_is_text(scene: Scene) -> None:
    """The state that is read next time is the bot's: nothing of a report can stand in the comment's last line."""
    text = "x\n\n<!-- opdiff:1 eNqrVkrOz0tVslIyNDICABVYA1o= -->"
    scene.state.add_artifact(scene.run, "opdiff", report(scene, [finding(7, text)], text))
    scene.publish()
    *lines, last = scene.comment_body.splitlines()
    assert not [line for line in lines if line.lstrip().startswith("<!-- opdiff")]
    state = read_marker(last)
    assert state is not None
    assert state.run == scene.run.id


@pytest.mark.parametrize("text", ["@everyone-team", "</details><script>", "```\n# x", "a|b", "../../x", "\u202egnp.py", "::set-output name=x::y", "\x1b[31m"])  # fmt: skip
def test_an_op_with_a_hostile_name_and_a_program(scene: Scene, tmp_path: Path, text: str) -> None:
    """It names a folder, and its script is shown."""
    claimed = ChangesRow(
        framework="oneflow",
        base=scene.pull.base_sha,
        head=scene.pull.head_sha,
        pull_request=scene.pull.number,
        ops=(ChangedOpRow(op=text, how="direct", lines=(LinesRow(file="op.py", first=1, last=1),)),),
    )  # fmt: skip
    raised = made.raised(f"{text} {ALL_AT_ONCE}"[:1_900])
    bundle = made.bundle(
        made.doubled(), raised, made.ok(made.tensor("output", "r0", [2, 4, 6])), "oneflow", op=text, kind="refuses"
    )  # fmt: skip
    folder = tmp_path / "their report"
    write_report(folder, made.results(changes=claimed), [bundle])
    scene.state.add_artifact(scene.run, "opdiff", archive_of(files_of(folder)))
    published = scene.publish()
    assert published.results is not None
    assert published.out is not None
    (row,) = published.results.findings
    assert re.fullmatch(r"findings/[A-Za-z0-9_+=][A-Za-z0-9._+=-]*", row.folder)
    body = scene.comment_body.rpartition("\n<!-- opdiff:1 ")[0]
    assert_harmless(body, own_links(scene))
    assert "import" in body
    assert_harmless(step_summary(published.out), ())
    assert_harmless(
        (published.out / "report.md").read_text(), (f"{row.folder}/repro.py", row.folder), REPORT
    )
