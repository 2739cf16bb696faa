"""``opdiff publish`` while people and machines do what they like: the order of jobs, branches that go, disks that are full."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_github import events, upheavals
from fake_github.model import WorkflowRun
from fake_github.server import FakeGitHub
from publishing import BASE, BRANCH, FORK, WORKFLOW, Scene, posted, set_up

from bot.github.client import Clock
from bot.github.marker import read_marker
from bot.github.state import CommentState
from bot.publish import Published, PublishOptions, publish


@pytest.fixture
def scene(fake_github: FakeGitHub, tmp_path: Path) -> Scene:
    return set_up(fake_github, tmp_path)


def nothing_posted(scene: Scene) -> bool:
    return not scene.github.writes() and not scene.state.comments and not scene.state.check_runs


def remembered(scene: Scene) -> CommentState:
    state = read_marker(scene.comment_body)
    assert state is not None
    return state


def publish_after(scene: Scene, change: Callable[[], object]) -> Published:
    """The check is done and its event sent; then ``change`` happens, and only then the publishing job begins."""
    event = events.workflow_run_completed(scene.state, scene.run)
    change()
    environment = scene.job("publish", "workflow_run", event)
    return publish(environment, PublishOptions(scene.folder / "out"), scene.time.clock)


def publish_with_between(
    scene: Scene, run: WorkflowRun, between: Callable[[], object]
) -> Published:
    """``between`` happens once, after the check run is written and before the comment is looked at: in the pause."""
    waiting = [between]

    def sleep(seconds: float) -> None:
        scene.time.sleep(seconds)
        if waiting:
            waiting.pop()()

    published = scene.publish(run, clock=Clock(scene.time.now, sleep))
    assert not waiting
    return published


# Publishes in the wrong order


def test_the_older_pushs_publish_comes_last(scene: Scene) -> None:
    newer = scene.check_again(findings=2, first=5)
    scene.publish(newer)
    before = posted(scene.state)
    published = scene.publish(scene.run)
    assert published.note.startswith("nothing is posted: ")
    assert posted(scene.state) == before
    assert (remembered(scene).run, scene.check_run.head_sha) == (newer.id, scene.pull.head_sha)


def test_the_newer_pushs_publish_overtakes_the_older_ones(scene: Scene) -> None:
    """The older one has written its check run, on its own commit, when the newer one begins and ends."""
    older_head = scene.pull.head_sha
    bodies: list[str] = []

    def overtake() -> None:
        scene.publish(scene.check_again(findings=2, first=5))
        bodies.append(scene.comment_body)

    published = publish_with_between(scene, scene.run, overtake)
    assert f"comment left alone: the head has moved on from {older_head[:12]}" in published.note
    assert [scene.comment_body] == bodies
    assert {it.fingerprint for it in remembered(scene).seen} == {"00000005", "00000006"}
    heads = [it.head_sha for it in scene.state.check_runs]
    assert heads == [older_head, scene.pull.head_sha]


def test_the_late_publish_of_a_head_that_came_back(scene: Scene) -> None:
    """Pushed, and pushed back: both runs are of the same commit, and the later one has been published."""
    first, head = scene.run, scene.pull.head_sha
    scene.check_again()
    scene.state.move_branch(FORK, BRANCH, head)
    last = scene.state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(FORK, BRANCH))
    scene.state.add_artifact(last, "opdiff", scene.report(last, findings=2, first=5))
    scene.publish(last)
    before = posted(scene.state)
    published = scene.publish(first)
    assert "comment left alone: a later run has been published" in published.note
    assert "check run left alone: a later run has been published" in published.note
    assert posted(scene.state) == before


# The check is run again while its publish works


def test_the_check_is_run_again_while_its_publish_works(scene: Scene) -> None:
    """What the first attempt said stays until the second is done; then there is one comment, and a check run of each."""
    run, state = scene.run, scene.state
    scene.github.before("GET", "/artifacts$", lambda: state.rerun(run))
    assert not scene.publish().broken
    assert (remembered(scene).run, remembered(scene).attempt) == (run.id, 1)
    scene.time.sleep(60)
    state.complete_run(run, "success")
    state.add_artifact(run, "opdiff", scene.report(findings=2, first=5))
    assert not scene.publish().broken
    assert (remembered(scene).run, remembered(scene).attempt) == (run.id, 2)
    assert {it.fingerprint for it in remembered(scene).seen} >= {"00000005", "00000006"}
    external = [it.external_id for it in state.check_runs]
    assert external == [f"opdiff:{scene.pull.number}:{run.id}:{attempt}" for attempt in (1, 2)]


def test_the_second_attempts_publish_overtakes_the_firsts(scene: Scene) -> None:
    run, state = scene.run, scene.state
    bodies: list[str] = []

    def second_attempt() -> None:
        state.rerun(run)
        scene.time.sleep(60)
        state.complete_run(run, "success")
        state.add_artifact(run, "opdiff", scene.report(findings=2, first=5))
        scene.publish()
        bodies.append(scene.comment_body)

    published = publish_with_between(scene, run, second_attempt)
    assert "comment left alone: a later run has been published" in published.note
    assert [scene.comment_body] == bodies
    assert remembered(scene).attempt == 2
    external = [it.external_id for it in state.check_runs]
    assert external == [f"opdiff:{scene.pull.number}:{run.id}:{attempt}" for attempt in (1, 2)]


# What becomes of the pull request between check and publish


def test_a_pull_request_that_is_a_draft_by_now_gets_its_report(scene: Scene) -> None:
    """Drafts are not checked; a check that was made all the same is no secret."""
    scene.pull.draft = True
    assert not scene.publish().broken
    assert scene.check_run.conclusion == "failure"


@pytest.mark.parametrize("what", ["closed", "branch deleted", "fork deleted"])
def test_a_pull_request_that_is_gone_gets_nothing(scene: Scene, what: str) -> None:
    published = publish_after(scene, lambda: depart(scene, what))
    assert published.note.startswith("nothing is posted: ")
    assert nothing_posted(scene)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("closed", "the pull request is no longer open"),
        ("branch deleted", "the pull request is no longer open"),
        ("fork deleted", "the repository of the head branch is gone"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_pull_request_that_goes_while_publishing_keeps_its_comment(
    scene: Scene, what: str, why: str, first: bool
) -> None:
    """One with a comment keeps it as it is, and one without gets none."""
    run = scene.run
    if not first:
        scene.publish()
        run = scene.check_again(findings=2, first=5)
    before = [(it.login, it.body) for it in scene.state.comments]
    published = publish_with_between(scene, run, lambda: depart(scene, what))
    assert f"comment left alone: {why}" in published.note
    assert [(it.login, it.body) for it in scene.state.comments] == before


def depart(scene: Scene, what: str) -> None:
    match what:
        case "closed":
            upheavals.close(scene.state, scene.pull)
        case "branch deleted":
            upheavals.delete_branch(scene.state, FORK, BRANCH)
        case "fork deleted":
            upheavals.delete_fork(scene.state, FORK)
        case _:
            raise AssertionError(what)


# Another base branch

IGNORED = "version: 1\nignore:\n- {fingerprint: '00000000', reason: known on this branch}\n"


def test_retargeted_to_a_branch_that_holds_the_old_base(scene: Scene) -> None:
    """The report covers the same changes or more, and is judged by the branch that it would go into now."""
    scene.state.push(BASE, "release", {".github/opdiff.yml": IGNORED})
    published = publish_after(scene, lambda: upheavals.retarget(scene.state, scene.pull, "release"))
    assert published.results is not None
    assert published.results.result == "clean"
    assert "known on this branch" in scene.comment_body
    assert scene.check_run.conclusion == "success"


def test_retargeted_to_a_branch_without_the_old_base(scene: Scene) -> None:
    """What the old base had already is new to this one: the report may lack it, so that it is not shown."""
    release = scene.state.push(BASE, "release", {".github/opdiff.yml": IGNORED}).sha
    scene.state.push(BASE, "main", {"other.py": "y = 1\n"})
    upheavals.retarget(scene.state, scene.pull, "main")
    scene.state.artifacts.clear()
    scene.state.add_artifact(scene.run, "opdiff", scene.report())
    published = publish_after(scene, lambda: upheavals.retarget(scene.state, scene.pull, "release"))
    assert f"no commit of the base branch at {release[:12]}" in published.broken
    assert "run the check again" in scene.comment_body
    assert "00000000" not in scene.comment_body
    assert scene.check_run.conclusion == "failure"


# Disks and networks


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("writer", ["write_finding", "write_results", "write_atomically"])
def test_a_report_that_cannot_be_written_is_said(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, number: int, writer: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number), "/secret/place")

    monkeypatch.setattr(f"bot.report.write.{writer}", refuse)
    published = scene.publish()
    assert os.strerror(number) in published.broken
    assert "/" not in published.broken
    assert "could not write its report" in scene.comment_body
    assert scene.check_run.conclusion == "failure"
    assert "result=incomplete" in published.output_lines()
    assert published.failure
    monkeypatch.undo()
    assert not scene.publish().failure  # the same job again, where there is room
    assert "op0" in scene.comment_body
    assert len(scene.check_run.annotations) == 5


NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""A process that may not write whole files would leave the next one halves of modules."""


def opdiff_publish(
    scene: Scene, out: Path, prepare: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    event = events.workflow_run_completed(scene.state, scene.run)
    environment = scene.job("publish", "workflow_run", event)
    return subprocess.run(
        [str(Path(sys.executable).parent / "opdiff"), "publish", "--out", str(out)],
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environment, **NO_BYTECODE},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=prepare,
    )


def one_kilobyte_a_file() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


@pytest.mark.parametrize("full", [True, False])
def test_the_command_fails_with_one_line_when_its_report_cannot_be_written(
    scene: Scene, tmp_path: Path, full: bool
) -> None:
    """Real refusals: of a file that grows too large, and of a folder below a file."""
    (tmp_path / "file").write_text("")
    out = tmp_path / ("out" if full else "file/out")
    done = opdiff_publish(scene, out, one_kilobyte_a_file if full else None)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    line = done.stderr
    assert f"the report cannot be written below {out}: " in line
    assert ("File too large" if full else "Not a directory") in line
    outputs = dict(it.split("=", 1) for it in done.stdout.splitlines())
    assert outputs["result"] == "incomplete"
    assert outputs["comment-url"]
    assert "could not write its report" in scene.comment_body
    assert str(tmp_path) not in scene.comment_body
    assert scene.check_run.conclusion == "failure"


def every_call_takes(scene: Scene, seconds: float) -> None:
    """By the scene's clock."""

    def every(method: str) -> None:
        def pass_by() -> None:
            scene.time.pass_by(seconds)
            every(method)

        scene.github.before(method, "", pass_by)

    for method in ("GET", "POST", "PATCH", "DELETE"):
        every(method)


@pytest.mark.parametrize("pushes", [0, 1])
def test_a_slow_server_changes_nothing(pushes: int, tmp_path: Path) -> None:
    """Each call takes 3 s: the same is posted by the same calls, and no more is waited for."""
    ended: list[tuple[object, object, str]] = []
    for seconds in (0.0, 3.0):
        with FakeGitHub() as github:
            scene = set_up(github, tmp_path, findings=11)
            for _ in range(pushes):
                scene.publish()
                scene.run = scene.check_again(findings=2, first=5)
            github.log.clear()
            scene.time.slept.clear()
            every_call_takes(scene, seconds)
            began = scene.time.now()
            published = scene.publish()
            assert not github.violations
            waited = sum(scene.time.slept)
            calls = [(it.method, it.path) for it in github.log]
            assert scene.time.now() - began == pytest.approx(waited + seconds * len(calls))
            assert waited <= len(github.writes())  # the second between two writes, and no more
            ended.append((posted(github.state), calls, published.note))
    quick, slow = ended
    assert slow == quick
