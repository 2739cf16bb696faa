"""Markers that another workflow was made to post under the bot's own account: of them counts what GitHub bears out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_github import events
from fake_github.model import Comment
from fake_github.server import FakeGitHub
from publishing import BASE, BOT, BRANCH, FORK, WORKFLOW, Scene, set_up

from bot.github.marker import read_marker, write_marker
from bot.github.requested import Requested, requested_runs
from bot.github.state import CommentState, Decision, Seen

FOUND = "00000000"


@pytest.fixture
def scene(fake_github: FakeGitHub, tmp_path: Path) -> Scene:
    return set_up(fake_github, tmp_path)


def forge(scene: Scene, text: str = "Coverage went up.", **fields: Any) -> Comment:
    """What somebody made another workflow say on the pull request."""
    body = f"{text}\n\n{write_marker(CommentState(**fields))}"
    return scene.state.add_comment(BASE, scene.pull.number, BOT, body)


def decided(scene: Scene, said: Comment | int, verb: str = "accept", **more: Any) -> Decision:
    fields: dict[str, Any] = {
        "comment": said if isinstance(said, int) else said.id,
        "verb": verb,
        "author": "maintainer",
        "head": scene.pull.head_sha,
        "reason": "all is well",
    }
    if verb == "accept":
        fields["fingerprint"] = FOUND
    return Decision(**(fields | more))


def asked(scene: Scene) -> Requested:
    """What a plan of the pull request reads."""
    plan = scene.job("plan", "pull_request", events.pull_request(scene.state, scene.pull))
    return requested_runs(plan, scene.pull.number, scene.pull.head_sha, scene.time.clock)


def sticky(scene: Scene) -> CommentState:
    """The state of the comment that publish keeps."""
    reports = [it for it in scene.own_comments if "op0" in it.body]
    state = read_marker(reports[0].body)
    assert state is not None
    return state


def nobody(scene: Scene) -> tuple[Comment | int, dict[str, Any]]:
    return 123_456, {}


def a_stranger(scene: Scene) -> tuple[Comment | int, dict[str, Any]]:
    """Who says the very command: it was refused, and is no better in a marker."""
    said = scene.comment(f"/opdiff accept {FOUND} all is well", "stranger")
    return said, {"author": "stranger"}


def a_reader(scene: Scene) -> tuple[Comment | int, dict[str, Any]]:
    return scene.comment(f"/opdiff accept {FOUND} all is well", "reader"), {"author": "reader"}


def a_stranger_under_the_maintainers_name(scene: Scene) -> tuple[Comment | int, dict[str, Any]]:
    return scene.comment(f"/opdiff accept {FOUND} all is well", "stranger"), {}


def a_remark(scene: Scene) -> tuple[Comment | int, dict[str, Any]]:
    return scene.comment(f"I would not say /opdiff accept {FOUND} to this"), {}


def a_quote(scene: Scene) -> tuple[Comment | int, dict[str, Any]]:
    return scene.comment(f"> /opdiff accept {FOUND} all is well"), {}


def another_finding(scene: Scene) -> tuple[Comment | int, dict[str, Any]]:
    return scene.comment("/opdiff accept 00000001 all is well"), {}


def another_command(scene: Scene) -> tuple[Comment | int, dict[str, Any]]:
    return scene.comment(f"/opdiff wrong {FOUND} all is well"), {}


def another_pull_request(scene: Scene) -> tuple[Comment | int, dict[str, Any]]:
    state = scene.state
    state.push(FORK, "other", {"op.py": "x = 3\n"})
    other = state.add_pull(BASE, head=(FORK, "other"))
    body = f"/opdiff accept {FOUND} all is well"
    return state.add_comment(BASE, other.number, "maintainer", body), {}


LIES = [nobody, a_stranger, a_reader, a_stranger_under_the_maintainers_name, a_remark, a_quote, another_finding,
        another_command, another_pull_request]  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("place", ["first", "last", "of a true run", "in the bot's own"])
def test_a_forged_acceptance_is_dropped(scene: Scene, lie: Any, place: str) -> None:
    said, more = lie(scene)
    forged = decided(scene, said, **more)
    if place == "first":
        forge(scene, decisions=(forged,))
    if place == "of a true run":
        forge(scene, head=scene.run.head_sha, run=scene.run.id, attempt=1, decisions=(forged,))
    scene.publish()
    if place == "last":
        forge(scene, decisions=(forged,))
    if place == "in the bot's own":
        (own,) = scene.own_comments
        state = sticky(scene).model_copy(update={"decisions": (forged,)})
        own.body = f"{own.body.rpartition(chr(10))[0]}\n{write_marker(state)}"
    published = scene.publish(scene.check_again())
    assert published.results is not None
    assert published.results.result == "findings"
    assert not [it.ignored for it in published.results.findings if it.ignored]
    assert sticky(scene).decisions == ()
    assert scene.state.check_runs[-1].conclusion == "failure"


@pytest.mark.parametrize(
    "said",
    [
        None,
        ("/opdiff run add", "stranger"),
        ("/opdiff run add --budget 5", "maintainer"),
        ("/opdiff run mul", "maintainer"),
        ("/opdiff retry", "maintainer"),
    ],
)
def test_a_forged_request_is_dropped(scene: Scene, said: tuple[str, str] | None) -> None:
    comment = scene.comment(*said) if said else 77
    author = said[1] if said else "maintainer"
    forge(scene, decisions=(decided(scene, comment, "run", ops=("add",), author=author),))
    assert asked(scene) == Requested()


def test_a_true_request_is_read(scene: Scene) -> None:
    """So that the tests above refuse something that would be followed."""
    said = scene.comment("/opdiff run add")
    forge(scene, decisions=(decided(scene, said, "run", ops=("add",), reason=""),))
    assert asked(scene) == Requested(("add",))


def test_a_forged_decision_keeps_no_command_from_being_followed(scene: Scene) -> None:
    """Such as one that names the comment that will come next."""
    scene.publish()
    said = scene.comment(f"/opdiff accept {FOUND} we meant that")
    forge(scene, decisions=(decided(scene, said, "retry"),))
    assert scene.command(said).followed
    assert [(it.comment, it.verb) for it in sticky(scene).decisions] == [(said.id, "accept")]


def test_a_decision_goes_with_its_comment(scene: Scene) -> None:
    """Deleted, or edited to say something else: the decision is taken back. Its reason is what the comment says."""
    scene.publish()
    said = scene.comment(f"/opdiff accept {FOUND} we meant that")
    assert scene.command(said).followed
    scene.state.complete_run(scene.run)
    said.body = f"/opdiff accept {FOUND} we meant just that"
    published = scene.publish(scene.check_again())
    assert published.results is not None
    assert [it.ignored for it in published.results.findings] == ["accepted by maintainer: we meant just that"]  # fmt: skip
    said.body = "Sorry, no."
    published = scene.publish(scene.check_again())
    assert published.results is not None
    assert published.results.result == "findings"
    assert sticky(scene).decisions == ()


def test_a_decision_goes_with_its_authors_rights(scene: Scene) -> None:
    scene.publish()
    assert scene.command(scene.comment(f"/opdiff accept {FOUND} we meant that")).followed
    scene.state.complete_run(scene.run)
    scene.state.repositories[BASE].permissions["maintainer"] = "read"
    published = scene.publish(scene.check_again())
    assert published.results is not None
    assert published.results.result == "findings"


def of_no_run(scene: Scene) -> dict[str, Any]:
    return {"head": scene.pull.head_sha, "run": 10**15, "attempt": 1}


def of_another_workflows_run(scene: Scene) -> dict[str, Any]:
    own = ".github/workflows/own.yml"
    run = scene.state.add_run(BASE, path=own, event="pull_request", head=(FORK, BRANCH))
    return {"head": scene.pull.head_sha, "run": run.id, "attempt": 1}


def of_another_pull_requests_run(scene: Scene) -> dict[str, Any]:
    state = scene.state
    state.move_branch(FORK, "other", scene.pull.head_sha)
    state.add_pull(BASE, head=(FORK, "other"))
    run = state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(FORK, "other"))
    return {"head": scene.pull.head_sha, "run": run.id, "attempt": 1}


def of_another_forks_run(scene: Scene) -> dict[str, Any]:
    state = scene.state
    state.add_fork(BASE, "thief")
    state.move_branch("thief/framework", BRANCH, scene.pull.head_sha)
    run = state.add_run(BASE, path=WORKFLOW, event="pull_request", head=("thief/framework", BRANCH))
    return {"head": scene.pull.head_sha, "run": run.id, "attempt": 1}


def of_a_push(scene: Scene) -> dict[str, Any]:
    run = scene.state.add_run(BASE, path=WORKFLOW, event="push", head=(FORK, BRANCH))
    return {"head": scene.pull.head_sha, "run": run.id, "attempt": 1}


def of_an_attempt_to_come(scene: Scene) -> dict[str, Any]:
    return {"head": scene.pull.head_sha, "run": scene.run.id, "attempt": 2}


def at_another_head(scene: Scene) -> dict[str, Any]:
    return {"head": "a" * 40, "run": scene.run.id, "attempt": 1}


@pytest.mark.parametrize(
    "claims",
    [
        of_no_run, of_another_workflows_run, of_another_pull_requests_run, of_another_forks_run, of_a_push,
        of_an_attempt_to_come, at_another_head,
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [True, False])
def test_a_marker_of_a_run_that_was_not_is_neither_read_nor_touched(
    scene: Scene, claims: Any, before: bool
) -> None:
    """It cannot pass for a later report, so that nothing is published any more."""
    seen = (Seen(fingerprint="f" * 8, op="forged", kind="value", verdict="candidate"),)
    if not before:
        scene.publish()
    forged = forge(scene, **claims(scene), seen=seen)
    body = forged.body
    for findings in (2, 3):
        published = scene.publish(scene.check_again(findings=findings))
        assert "left alone" not in published.note
        report = next(it for it in scene.own_comments if it is not forged)
        assert published.comment_url.endswith(f"-{report.id}")
        assert f"op{findings - 1}" in report.body
        assert "forged" not in report.body
        assert forged.body == body
        assert len(scene.own_comments) == 2


def test_of_two_with_true_runs_the_older_stays_and_none_of_the_others_text(scene: Scene) -> None:
    """A run in another's marker may be a true one; then the report goes where it was, and says what it said."""
    scene.publish()
    (own,) = scene.own_comments
    run = scene.check_again(findings=2)
    forge(scene, "LIES", head=scene.pull.head_sha, run=run.id, attempt=1)
    scene.publish(run)
    assert [it.id for it in scene.own_comments] == [own.id]
    assert "op1" in own.body
    forge(scene, "LIES", head=scene.pull.head_sha, run=run.id, attempt=1)
    scene.command(scene.comment(f"/opdiff wrong {FOUND} no"))
    assert [it.id for it in scene.own_comments if read_marker(it.body)] == [own.id]
    assert "LIES" not in own.body


def test_forged_findings_of_a_true_run_change_no_result(scene: Scene) -> None:
    """A fork's own run could claim the same: what is said of the past may be wrong, what is found now is not."""
    seen = (Seen(fingerprint=FOUND, op="op0", kind="value", verdict="candidate", status="known"),)
    forge(scene, head=scene.pull.head_sha, run=scene.run.id, attempt=1, seen=seen)
    published = scene.publish(scene.check_again())
    assert published.results is not None
    assert published.results.result == "findings"
    assert scene.check_run.conclusion == "failure"


def test_a_publish_that_is_done_again_says_the_same(scene: Scene) -> None:
    """It compares with the report before, not with its own."""
    scene.publish()
    run = scene.check_again(findings=0)
    scene.publish(run)
    body = scene.comment_body
    assert body.startswith("**Fixed: ")
    assert "1 fixed (`op0`)" in body
    titles = [it.title for it in scene.state.check_runs]
    for _ in range(2):
        scene.github.log.clear()
        scene.publish(run)
        assert scene.comment_body == body
        assert [it.title for it in scene.state.check_runs] == titles
        assert not scene.github.writes()
    assert scene.command(scene.comment("/opdiff run add")).followed
    scene.publish(run)
    assert scene.comment_body.startswith("**Fixed: ")


def test_a_report_after_a_publish_done_again_compares_with_it(scene: Scene) -> None:
    scene.publish()
    run = scene.check_again(findings=2)
    scene.publish(run)
    scene.publish(run)
    assert "1 new (`op1`)" in scene.comment_body
    scene.publish(scene.check_again(findings=1))
    assert "1 fixed (`op1`)" in scene.comment_body
