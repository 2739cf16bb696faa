"""``opdiff publish`` against the fake GitHub: what is posted, and what never is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_github import events
from fake_github.model import CheckRun
from fake_github.server import FakeGitHub
from publishing import (
    BASE,
    BOT,
    BRANCH,
    FORK,
    LEAST,
    WORKFLOW,
    Scene,
    archive_of,
    at_once,
    claims,
    files_of,
    report_files,
    set_up,
    write_files,
)

from bot.errors import OpDiffError
from bot.github.artifact import ArtifactLimits
from bot.github.marker import read_marker, write_marker
from bot.github.state import CommentState, Decision, Seen
from bot.publish import PublishOptions, publish


@pytest.fixture
def scene(fake_github: FakeGitHub, tmp_path: Path) -> Scene:
    return set_up(fake_github, tmp_path)


def nothing_posted(scene: Scene) -> bool:
    return not scene.github.writes() and not scene.state.comments and not scene.state.check_runs


def seen(fingerprint: str, **more: Any) -> Seen:
    return Seen(fingerprint=fingerprint, op="mul", kind="value", verdict="candidate", **more)


def test_a_run_of_a_fork_is_published(scene: Scene) -> None:
    published = scene.publish()
    state = read_marker(scene.comment_body)
    assert state is not None
    assert (state.head, state.run, state.attempt) == (scene.pull.head_sha, scene.run.id, 1)
    assert [it.fingerprint for it in state.seen] == ["00000000"]
    run = scene.check_run
    assert (run.conclusion, run.head_sha) == ("failure", scene.pull.head_sha)
    assert run.external_id == f"opdiff:{scene.pull.number}:{scene.run.id}:1"
    assert [(it.path, it.start_line) for it in run.annotations] == [
        ("op.py", n) for n in range(1, 6)
    ]
    assert published.comment_url.endswith(f"#issuecomment-{scene.own_comments[0].id}")
    assert "untrusted run" in scene.comment_body
    lines = published.output_lines()
    assert f"comment-url={published.comment_url}" in lines
    assert "result=findings" in lines


@pytest.mark.parametrize(("findings", "requests"), [(10, 1), (11, 2), (100, 10)])
def test_all_annotations_arrive_at_most_fifty_at_once(
    fake_github: FakeGitHub, tmp_path: Path, findings: int, requests: int
) -> None:
    scene = set_up(fake_github, tmp_path, findings=findings)
    scene.github.fail("cut-after", path="/check-runs", method="PATCH")
    scene.publish()
    places = {(it.title, it.start_line) for it in scene.check_run.annotations}
    assert len(scene.check_run.annotations) == len(places) == 5 * findings
    sent = [it for it in scene.github.log if it.writes and "/check-runs" in it.path]
    assert len(sent) == requests


def test_the_report_is_written_anew(scene: Scene) -> None:
    files = dict(report_files(claims(scene.pull, scene.run)))
    folder = next(name for name in files if name.endswith("/repro.py"))
    files |= {"report.md": b"lies", folder: b"import os", "extra.html": b"<script>"}
    scene.state.artifacts.clear()
    scene.state.add_artifact(scene.run, "opdiff", archive_of(files))
    published = scene.publish()
    assert published.out is not None
    written = files_of(published.out)
    assert b"lies" not in written["report.md"]
    assert b"import os\n" not in written[folder]
    assert b"torch" in written[folder]
    assert "extra.html" not in written


def test_a_second_publish_of_the_same_run_changes_nothing(scene: Scene) -> None:
    scene.publish()
    scene.publish()
    before = len(scene.github.writes())
    body = scene.comment_body
    scene.publish()
    assert len(scene.github.writes()) == before
    assert scene.comment_body == body
    assert len(scene.check_run.annotations) == 5


def test_the_comment_follows_the_pushes(scene: Scene) -> None:
    scene.publish()
    first = scene.own_comments[0].id
    scene.publish(scene.check_again(findings=0))
    assert [it.id for it in scene.own_comments] == [first]
    assert "Fixed" in scene.comment_body
    state = read_marker(scene.comment_body)
    assert state is not None
    assert (state.head, state.seen) == (scene.pull.head_sha, ())
    assert [it.conclusion for it in scene.state.check_runs] == ["failure", "success"]


@pytest.mark.parametrize("fields", [{"head": "f" * 40}, {"number": 2}, {"number": None}, {"base": "e" * 40}, {"head": ""}])  # fmt: skip
def test_an_artifact_about_something_else_is_not_shown(
    scene: Scene, fields: dict[str, Any]
) -> None:
    scene.state.artifacts.clear()
    scene.state.add_artifact(scene.run, "opdiff", scene.report(**fields))
    published = scene.publish()
    assert published.results is None
    assert published.broken
    assert "result=incomplete" in published.output_lines()
    assert "00000000" not in scene.comment_body
    assert scene.check_run.conclusion == "failure"
    assert not scene.check_run.annotations
    assert not files_of(scene.folder / "job-1")


def test_the_base_branch_may_go_on_while_the_check_runs(scene: Scene) -> None:
    """GitHub may name a newer commit of the base branch than the event did; another branch's is refused."""
    scene.pull.base_sha = scene.state.push(BASE, "main", {"other.py": "y = 1\n"}).sha
    published = scene.publish()
    assert published.results is not None
    assert published.results.result == "findings"
    main = scene.state.repositories[BASE].branches["main"]
    ahead = scene.state.push(BASE, "main", {"other.py": "y = 2\n"}).sha
    elsewhere = scene.state.push(BASE, "release", {"a": "b"}, start=main).sha
    for base in (ahead, elsewhere, scene.pull.head_sha, "d" * 40, "../../user", "main"):
        scene.state.artifacts.clear()
        scene.state.add_artifact(scene.run, "opdiff", scene.report(base=base))
        assert "no commit of the base branch" in scene.publish().broken, base


@pytest.mark.parametrize(
    "archive", [b"", b"PK\x05\x06", b"no zip", archive_of({"results.json": b"{}"}), archive_of({})]
)
def test_a_broken_artifact_is_said_to_be_broken(scene: Scene, archive: bytes) -> None:
    scene.state.artifacts.clear()
    scene.state.add_artifact(scene.run, "opdiff", archive)
    assert scene.publish().broken
    assert "could not report" in scene.comment_body
    assert scene.check_run.conclusion == "failure"


def test_a_missing_an_expired_and_an_earlier_attempts_artifact(
    fake_github: FakeGitHub, tmp_path: Path
) -> None:
    scene = set_up(fake_github, tmp_path, report=False)
    assert "left no artifact" in scene.publish().broken
    artifact = scene.state.add_artifact(scene.run, "opdiff", scene.report())
    artifact.expired = True
    assert "expired" in scene.publish().broken
    artifact.expired = False
    scene.time.sleep(60)
    scene.state.rerun(scene.run)
    scene.time.sleep(60)
    scene.state.complete_run(scene.run, "failure")
    assert "attempt 2 of the check run left no report" in scene.publish().broken
    scene.state.add_artifact(scene.run, "opdiff", scene.report())
    assert not scene.publish().broken


def test_a_too_large_artifact_is_not_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever size the API says: the stream itself is bounded."""
    artifact = scene.state.artifacts[0]
    limits = ArtifactLimits(archive=artifact.size - 1)
    monkeypatch.setattr("bot.github.check_report.ArtifactLimits", lambda: limits)
    assert "more than" in scene.publish().broken
    artifact.size = 10
    artifact.digest = None
    assert "more than" in scene.publish().broken


def test_the_configuration_is_the_base_commits(scene: Scene) -> None:
    rule = "version: 1\nfail-on: never\nignore:\n- {kind: value, reason: all is well}\n"
    scene.state.push(FORK, BRANCH, {".github/opdiff.yml": rule})
    run = scene.state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(FORK, BRANCH))
    scene.state.add_artifact(run, "opdiff", scene.report(run))
    published = scene.publish(run)
    assert published.results is not None
    assert published.results.result == "findings"
    assert scene.check_run.conclusion == "failure"


def test_the_base_commits_ignores_hold(fake_github: FakeGitHub, tmp_path: Path) -> None:
    scene = set_up(fake_github, tmp_path, report=False)
    rule = "version: 1\nignore:\n- {fingerprint: '00000000', reason: known to us}\n"
    commit = scene.state.push(BASE, "main", {".github/opdiff.yml": rule})
    scene.pull.base_sha = commit.sha
    scene.state.add_artifact(scene.run, "opdiff", scene.report())
    published = scene.publish()
    assert published.results is not None
    assert published.results.result == "clean"
    assert "known to us" in scene.comment_body


def test_a_broken_configuration_is_said(fake_github: FakeGitHub, tmp_path: Path) -> None:
    scene = set_up(fake_github, tmp_path, report=False)
    scene.pull.base_sha = scene.state.push(BASE, "main", {".github/opdiff.yml": "oops: 1\n"}).sha
    scene.state.add_artifact(scene.run, "opdiff", scene.report())
    assert ".github/opdiff.yml of the base commit:1" in scene.publish().broken


def test_no_configuration_is_no_problem(fake_github: FakeGitHub, tmp_path: Path) -> None:
    scene = set_up(fake_github, tmp_path, report=False)
    scene.pull.base_sha = scene.state.push(BASE, "main", {".github/opdiff.yml": None}).sha
    scene.state.add_artifact(scene.run, "opdiff", scene.report())
    assert not scene.publish().broken


def another_workflow(scene: Scene) -> None:
    scene.run.path = ".github/workflows/own.yml"


def a_workflow_whose_name_begins_like_it(scene: Scene) -> None:
    """What follows the ``@`` is no ref: it is all one file's name."""
    scene.run.path = f"{WORKFLOW}@own.yml"


def another_event(scene: Scene) -> None:
    scene.run.event = "push"


def a_later_attempt(scene: Scene) -> None:
    scene.state.rerun(scene.run)


def a_later_attempt_that_is_done(scene: Scene) -> None:
    run_again(scene)


def a_skipped_run(scene: Scene) -> None:
    scene.state.complete_run(scene.run, "skipped")


def a_closed_pull(scene: Scene) -> None:
    scene.pull.state = "closed"


def a_newer_push(scene: Scene) -> None:
    scene.state.push(FORK, BRANCH, {"op.py": "x = 9\n"})


def a_second_pull_of_the_branch(scene: Scene) -> None:
    scene.state.push(BASE, "release", {"a": "b"})
    scene.state.add_pull(BASE, head=(FORK, BRANCH), base_ref="release")


def a_deleted_fork(scene: Scene) -> None:
    scene.pull.head_repository = None


@pytest.mark.parametrize(
    "change",
    [
        another_workflow,
        a_workflow_whose_name_begins_like_it,
        another_event,
        a_later_attempt,
        a_later_attempt_that_is_done,
        a_skipped_run,
        a_closed_pull,
        a_newer_push,
        a_second_pull_of_the_branch,
        a_deleted_fork,
    ],
)
def test_nothing_is_posted_for_a_run_that_is_not_the_pull_requests(
    scene: Scene, change: Callable[[Scene], None]
) -> None:
    event = events.workflow_run_completed(scene.state, scene.run)
    change(scene)
    environment = scene.job("publish", "workflow_run", event)
    published = publish(environment, PublishOptions(scene.folder / "out"), scene.time.clock)
    assert published.note.startswith("nothing is posted: ")
    assert "\n" not in published.note
    assert nothing_posted(scene)
    assert published.output_lines() == ["comment-url="]


@pytest.mark.parametrize("ref", ["main", "refs/heads/main", "refs/pull/1/merge"])
def test_a_runs_workflow_may_come_with_its_ref(scene: Scene, ref: str) -> None:
    """As in the example of docs.github.com/rest/actions/workflow-runs."""
    scene.run.path = f"{WORKFLOW}@{ref}"
    assert scene.publish().comment_url


def test_of_two_pull_requests_at_one_commit_the_branch_decides(scene: Scene) -> None:
    state = scene.state
    state.add_fork(BASE, "thief")
    state.move_branch("thief/framework", BRANCH, scene.pull.head_sha)
    state.move_branch(FORK, "other", scene.pull.head_sha)
    thief = state.add_pull(BASE, head=("thief/framework", BRANCH))
    other = state.add_pull(BASE, head=(FORK, "other"))
    scene.publish()
    assert {it.number for it in state.comments} == {scene.pull.number}
    run = state.add_run(BASE, path=WORKFLOW, event="pull_request", head=("thief/framework", BRANCH))
    state.add_artifact(run, "opdiff", scene.report(run))  # a copy of the other's artifact
    published = scene.publish(run)
    assert "does not belong" in published.broken
    assert {it.number for it in state.comments} == {scene.pull.number, thief.number}
    assert other.number not in {it.number for it in state.comments}


def test_somebody_elses_copy_of_the_marker_is_neither_read_nor_touched(scene: Scene) -> None:
    forged = CommentState(
        head="a" * 40,
        run=10**9,
        decisions=(Decision(comment=1, verb="accept", author="x", head="a" * 40, fingerprint="00000000"),),
    )  # fmt: skip
    theirs = scene.state.add_comment(BASE, 1, "stranger", f"hi\n\n{write_marker(forged)}")
    body = theirs.body
    published = scene.publish()
    assert published.results is not None
    assert published.results.result == "findings"
    assert theirs.body == body
    assert len(scene.own_comments) == 1


def test_the_comment_is_found_behind_a_hundred_others(scene: Scene) -> None:
    scene.publish()
    for n in range(230):
        scene.state.add_comment(BASE, 1, "passer-by", f"comment {n}")
    own = scene.own_comments[0]
    scene.state.comments.remove(own)
    scene.state.comments.append(own)
    scene.publish(scene.check_again())
    assert [it.id for it in scene.own_comments] == [own.id]


def test_a_comment_of_the_bots_account_without_a_marker_is_not_its_own(scene: Scene) -> None:
    other = scene.state.add_comment(BASE, 1, BOT, "some other workflow speaks")
    scene.publish()
    assert other.body == "some other workflow speaks"
    assert len(scene.own_comments) == 2


def test_an_accepted_finding_does_not_fail(scene: Scene) -> None:
    scene.publish()
    said = scene.comment("/opdiff accept 00000000 meant")
    (own,) = scene.own_comments
    state = read_marker(own.body)
    assert state is not None
    decision = Decision(
        comment=said.id,
        verb="accept",
        author="maintainer",
        head=scene.pull.head_sha,
        fingerprint="00000000",
        reason="meant",
    )
    marker = write_marker(state.model_copy(update={"decisions": (decision,)}))
    own.body = own.body.rpartition("\n")[0] + f"\n{marker}"
    published = scene.publish(scene.check_again())
    assert published.results is not None
    assert published.results.result == "clean"
    kept = read_marker(scene.comment_body)
    assert kept is not None
    assert kept.decisions == (decision,)


def test_a_head_that_moves_while_publishing_keeps_the_comment_alone(scene: Scene) -> None:
    scene.publish()
    body = scene.comment_body
    run = scene.check_again(findings=3)
    scene.github.before(
        "GET", "/contents/", lambda: scene.state.push(FORK, BRANCH, {"op.py": "x = 77\n"})
    )
    published = scene.publish(run)
    assert "has moved on" in published.note
    assert scene.comment_body == body


def run_again(scene: Scene) -> None:
    """The run's second attempt, to its end."""
    scene.state.rerun(scene.run)
    scene.state.complete_run(scene.run, "failure")


def newer_comment(scene: Scene) -> str:
    """What a publish of the run's second attempt would have written."""
    state = CommentState(
        head=scene.pull.head_sha, run=scene.run.id, attempt=2, seen=(seen("abcdef0123456789"),)
    )
    return f"the newer report\n\n{write_marker(state)}"


def test_a_late_publish_of_an_older_attempt_changes_nothing(scene: Scene) -> None:
    """Both find the pull request at the same head: only the attempt tells them apart."""
    body = newer_comment(scene)

    def newer() -> None:
        run_again(scene)
        scene.state.add_comment(BASE, 1, BOT, body)
        scene.state.check_runs.append(
            CheckRun(
                id=scene.state.new_id(),
                repository=BASE,
                name="OpDiff",
                head_sha=scene.pull.head_sha,
                app="github-actions",
                started_at=scene.time.utc(),
                external_id=f"opdiff:1:{scene.run.id}:2",
            )
        )

    scene.github.before("GET", "/contents/", newer)
    published = scene.publish()
    assert "comment left alone: a later run has been published" in published.note
    assert "check run left alone: a later run has been published" in published.note
    assert scene.comment_body == body
    assert len(scene.state.check_runs) == 1


@pytest.mark.parametrize("newer_is_theirs", [True, False])
def test_comments_posted_at_the_same_moment_become_one(scene: Scene, newer_is_theirs: bool) -> None:
    """Two find no comment, and both post one: the older stays, and says what the newest run said."""
    older, run = scene.run, scene.check_again()
    state = CommentState(head=older.head_sha, run=older.id, attempt=1)
    body = f"an older report\n\n{write_marker(state)}"
    if newer_is_theirs:
        scene.run = run
        body = newer_comment(scene)

    def theirs() -> None:
        if newer_is_theirs:
            run_again(scene)
        scene.state.add_comment(BASE, 1, BOT, body)

    scene.github.before("POST", "/issues/1/comments", theirs)
    published = scene.publish(run)
    (comment,) = scene.own_comments
    assert published.comment_url.endswith(f"-{comment.id}")
    assert ("the newer report" in comment.body) == newer_is_theirs
    assert ("op0" in comment.body) != newer_is_theirs
    deleted = [it.path for it in scene.github.writes() if it.method == "DELETE"]
    assert deleted == [f"/repos/{BASE}/issues/comments/{comment.id + 1}"]


def nth_time(scene: Scene, nth: int, method: str, path: str, action: Callable[[], None]) -> None:
    """Do ``action`` right before the ``nth`` call from now on."""
    if nth == 1:
        scene.github.before(method, path, action)
    else:
        scene.github.before(method, path, lambda: nth_time(scene, nth - 1, method, path, action))


def test_a_list_that_lags_behind_makes_no_second_comment(scene: Scene) -> None:
    """GitHub's lists may lack for seconds what was posted."""
    comments, path = scene.state.comments, "/issues/1/comments"

    def hide() -> None:
        hidden = comments.copy()
        comments.clear()
        scene.github.before("GET", path, lambda: comments.extend(hidden))

    nth_time(scene, 3, "GET", path, hide)  # the first one after the comment is posted
    scene.publish()
    assert len(scene.own_comments) == 1
    assert [it.method for it in scene.github.writes() if it.path.endswith("/comments")] == ["POST"]


def test_a_list_that_lags_behind_makes_no_second_check_run_and_no_annotation_twice(
    fake_github: FakeGitHub, tmp_path: Path
) -> None:
    scene = set_up(fake_github, tmp_path, findings=11)
    runs, path = scene.state.check_runs, "/check-runs$"
    late: list[Any] = []

    def hide_run() -> None:
        hidden = runs.copy()
        runs.clear()
        scene.github.before("PATCH", "/check-runs/", lambda: runs.extend(hidden))

    def hide_last_annotations() -> None:
        late.extend(runs[0].annotations[50:])
        del runs[0].annotations[50:]

    nth_time(scene, 2, "GET", path, hide_run)  # after the POST
    nth_time(scene, 3, "GET", path, hide_last_annotations)  # after the PATCH
    scene.publish()
    (run,) = runs
    assert len(late) == 5
    annotations = [*run.annotations, *late]
    assert len(annotations) == len({(it.title, it.start_line) for it in annotations}) == 55


def test_publishes_at_once_leave_one_comment(scene: Scene) -> None:
    ended = at_once(*[scene.publish] * 4)
    assert [it.broken for it in ended] == [""] * 4
    assert len(scene.own_comments) == 1
    assert {it.comment_url for it in ended} == {ended[0].comment_url}
    assert {it.conclusion for it in scene.state.check_runs} == {"failure"}


@pytest.mark.parametrize("missing", list(LEAST["publish"]))
def test_each_permission_of_publish_is_needed(scene: Scene, missing: str) -> None:
    assert scene.publish().comment_url
    assert scene.github.missing_permissions == []
    token = scene.state.tokens["publish"]
    run = scene.check_again(findings=2)
    lower = {"write": "read"}.get(token.permissions[missing])
    token.permissions = {
        name: lower if name == missing and lower else level
        for name, level in token.permissions.items()
        if name != missing or lower
    }  # type: ignore[assignment]
    with pytest.raises(OpDiffError, match="permissions"):
        scene.publish(run)


def test_the_token_goes_nowhere_else(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """The fake's blob host refuses a credential; logs and texts of errors hold none either."""
    caplog.set_level("DEBUG")
    token = "ghs_verysecret"
    scene.state.tokens[token] = scene.state.tokens["publish"].model_copy(update={"value": token})
    event = events.workflow_run_completed(scene.state, scene.run)
    published = publish(
        scene.job(token, "workflow_run", event),
        PublishOptions(scene.folder / "o"),
        scene.time.clock,
    )
    assert published.comment_url
    blob = next(it for it in scene.github.log if it.path.startswith("/blob/"))
    assert blob.token is None
    assert token not in caplog.text
    scene.state.tokens[token].permissions = {}
    with pytest.raises(OpDiffError) as refused:
        publish(scene.job(token, "workflow_run", event), PublishOptions(scene.folder / "o"))
    assert token not in str(refused.value)


def test_enterprise(scene: Scene) -> None:
    scene.environment["GITHUB_API_URL"] = scene.github.enterprise_url
    assert scene.publish().comment_url


def test_a_persons_token(scene: Scene) -> None:
    """Check runs are for apps alone: a person's token can write the comment."""
    scene.state.user_token("publish", "maintainer", LEAST["publish"])
    published = scene.publish(check_run=False)
    assert [it.login for it in scene.state.comments] == ["maintainer"]
    scene.publish(scene.check_again(), check_run=False)
    assert [it.login for it in scene.state.comments] == ["maintainer"]
    assert published.comment_url


def test_a_limit_does_not_make_a_persons_token_an_apps(scene: Scene) -> None:
    """Both are a 403: what an app's token is told, and who asks too often."""
    scene.state.user_token("publish", "maintainer", LEAST["publish"])
    scene.github.fail("secondary-limit", path="/user$", retry_after=7200)
    with pytest.raises(OpDiffError, match="7200"):
        scene.publish(check_run=False)
    assert nothing_posted(scene)


def test_another_apps_token_must_be_named(scene: Scene) -> None:
    scene.state.app_token("publish", LEAST["publish"], repository=BASE, app="our-app")
    with pytest.raises(OpDiffError, match=r"OPDIFF_GITHUB_LOGIN to 'our-app\[bot\]'"):
        scene.publish()
    assert not scene.state.comments
    scene.environment["OPDIFF_GITHUB_LOGIN"] = "our-app[bot]"
    scene.publish()
    scene.publish(scene.check_again())
    assert [it.login for it in scene.state.comments] == ["our-app[bot]"]


def test_comment_and_check_run_can_be_left_out(scene: Scene) -> None:
    assert scene.publish(pr_comment=False).comment_url == ""
    assert not scene.state.comments
    assert scene.state.check_runs
    scene.state.check_runs.clear()
    assert scene.publish(check_run=False).comment_url
    assert not scene.state.check_runs


def test_a_locked_conversation_does_not_keep_the_check_run_from_being_posted(scene: Scene) -> None:
    scene.state.tokens["publish"].permissions = LEAST["publish"] | {"pull-requests": "read"}
    with pytest.raises(OpDiffError):
        scene.publish()
    assert scene.check_run.conclusion == "failure"


def test_one_stage_in_a_repository_that_trusts_its_branches(
    fake_github: FakeGitHub, tmp_path: Path
) -> None:
    scene = set_up(fake_github, tmp_path, report=False)
    state = scene.state
    state.push(BASE, "own", {"op.py": "x = 5\n"})
    scene.pull = state.add_pull(BASE, head=(BASE, "own"))
    run = state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(BASE, "own"))
    write_files(tmp_path / "report", report_files(claims(scene.pull, run)))
    event = events.pull_request(state, scene.pull)
    environment = scene.job("publish", "pull_request", event)
    options = PublishOptions(tmp_path / "out", report=tmp_path / "report")
    published = publish(environment, options, scene.time.clock)
    assert published.results is not None
    assert "untrusted" not in scene.comment_body
    assert state.check_runs[0].external_id == f"opdiff:{scene.pull.number}:77:1"
    write_files(tmp_path / "report", report_files(claims(scene.pull, run, head="b" * 40)))
    assert "does not belong" in publish(environment, options, scene.time.clock).broken
    write_files(tmp_path / "report", {})
    assert publish(environment, options, scene.time.clock).broken
    other = publish(environment | {"GITHUB_EVENT_NAME": "merge_group"}, options, scene.time.clock)
    assert "nothing is posted" in other.note
    state.push(BASE, "own", {"op.py": "x = 6\n"})
    assert "moved on" in publish(environment, options, scene.time.clock).note


def test_what_the_environment_lacks_is_one_clear_line(scene: Scene, tmp_path: Path) -> None:
    event = events.workflow_run_completed(scene.state, scene.run)
    for name in ("OPDIFF_GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_EVENT_PATH"):
        environment = scene.job("publish", "workflow_run", event) | {name: ""}
        with pytest.raises(OpDiffError) as refused:
            publish(environment, PublishOptions(tmp_path / "out"), scene.time.clock)
        assert "\n" not in str(refused.value)
    environment = scene.job("publish", "workflow_run", event)
    Path(environment["GITHUB_EVENT_PATH"]).write_text(json.dumps([1]))
    with pytest.raises(OpDiffError, match="no event"):
        publish(environment, PublishOptions(tmp_path / "out"), scene.time.clock)


def test_a_limit_that_lasts_too_long_ends_in_one_line(scene: Scene) -> None:
    scene.github.fail("429", path="/pulls", retry_after=7200)
    with pytest.raises(OpDiffError, match="7200"):
        scene.publish()
    assert nothing_posted(scene)


def test_writes_are_a_second_apart(scene: Scene) -> None:
    scene.publish(scene.run)
    assert scene.time.slept
    assert max(scene.time.slept) <= 1.0
    writes = [it.path for it in scene.github.writes()]
    assert len(scene.time.slept) >= len(writes) == 2


def opdiff(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as a job runs it: nothing but the job's environment."""
    return subprocess.run(
        [str(Path(sys.executable).parent / "opdiff"), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_line(scene: Scene, tmp_path: Path) -> None:
    """Posted and nothing to post both are 0; what cannot be posted is 1 with one line; stdout is for $GITHUB_OUTPUT."""
    event = events.workflow_run_completed(scene.state, scene.run)
    environment = scene.job("publish", "workflow_run", event)
    command = ("publish", "--out", str(tmp_path / "out"))
    done = opdiff(environment, *command)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    lines = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert lines["result"] == "findings"
    assert lines["comment-url"].endswith(f"-{scene.own_comments[0].id}")
    stranger = opdiff(environment, *command, "--check-workflow", ".github/workflows/x.yml")
    assert (stranger.returncode, stranger.stdout) == (0, "comment-url=\n")
    assert "nothing is posted" in stranger.stderr
    refused = opdiff(environment | {"OPDIFF_GITHUB_TOKEN": "expired"}, *command)
    assert refused.returncode == 1
    assert "401" in refused.stderr
    assert "expired" not in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
