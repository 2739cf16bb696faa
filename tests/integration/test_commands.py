"""``opdiff command`` against the fake GitHub: what is followed, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fake_github import events
from fake_github.model import Comment
from fake_github.server import FakeGitHub
from publishing import BASE, BOT, BRANCH, FORK, LEAST, WORKFLOW, Scene, at_once, set_up

from bot.errors import OpDiffError
from bot.github.client import Client, Clock
from bot.github.marker import read_marker, write_marker
from bot.github.requested import Requested, requested_runs
from bot.github.state import CommentState, Decision


@pytest.fixture
def scene(fake_github: FakeGitHub, tmp_path: Path) -> Scene:
    """A pull request whose report is published, with two findings."""
    scene = set_up(fake_github, tmp_path, findings=2)
    scene.publish()
    scene.github.log.clear()
    return scene


def decisions(scene: Scene) -> tuple[Decision, ...]:
    sticky = [it for it in scene.own_comments if read_marker(it.body) is not None]
    state = read_marker(sticky[0].body) if sticky else None
    return state.decisions if state is not None else ()


def reactions(comment: Comment) -> list[str]:
    return [it.content for it in comment.reactions]


def replies(scene: Scene) -> list[str]:
    return [it.body for it in scene.own_comments if read_marker(it.body) is None]


def unmoved(scene: Scene) -> bool:
    return not decisions(scene) and len(scene.run.attempts) == 1


def test_run_is_recorded_and_read_by_the_run_that_is_started_again(scene: Scene) -> None:
    comment = scene.comment("/opdiff run nn.functional.softplus add --budget 90")
    assert scene.command(comment).followed
    (decision,) = decisions(scene)
    assert (decision.verb, decision.author, decision.comment) == ("run", "maintainer", comment.id)
    assert decision.head == scene.pull.head_sha
    assert [it.status for it in scene.run.attempts] == ["completed", "queued"]
    assert reactions(comment) == ["eyes", "+1"]
    assert not replies(scene)
    plan = scene.job("plan", "pull_request", events.pull_request(scene.state, scene.pull))
    asked = requested_runs(plan, scene.pull.number, scene.pull.head_sha, scene.time.clock)
    assert asked == Requested(("nn.functional.softplus", "add"), 90.0)
    newer = scene.state.push(FORK, BRANCH, {"op.py": "x = 3\n"})
    assert requested_runs(plan, scene.pull.number, newer.sha, scene.time.clock) == Requested()


def test_the_rest_of_the_comment_stays(scene: Scene) -> None:
    before = scene.comment_body
    scene.command(scene.comment("/opdiff retry"))
    assert scene.comment_body.rpartition("\n")[0] == before.rpartition("\n")[0]


def test_accept_makes_the_next_report_pass(scene: Scene) -> None:
    for fingerprint in ("00000000", "00000001"):
        comment = scene.comment(f"/opdiff accept {fingerprint} we changed the formula")
        assert scene.command(comment).followed
        scene.state.complete_run(scene.run)
    scene.state.add_artifact(scene.run, "opdiff", scene.report(findings=2))
    published = scene.publish()
    assert published.results is not None
    assert published.results.result == "clean"
    plan = scene.job("plan", "pull_request", events.pull_request(scene.state, scene.pull))
    asked = requested_runs(plan, scene.pull.number, scene.pull.head_sha, scene.time.clock)
    assert asked.accepted == ("00000000", "00000001")
    assert {it.ignored for it in published.results.findings} == {
        "accepted by maintainer: we changed the formula"
    }
    assert len(decisions(scene)) == 2


def test_wrong_is_kept_with_the_verdict_and_runs_nothing(scene: Scene) -> None:
    comment = scene.comment("/opdiff wrong 00000001 the reference is off")
    assert scene.command(comment).followed
    (decision,) = decisions(scene)
    assert (decision.verb, decision.fingerprint, decision.verdict, decision.reason) == (
        "wrong",
        "00000001",
        "candidate",
        "the reference is off",
    )
    assert len(scene.run.attempts) == 1
    assert reactions(comment) == ["eyes", "+1"]


def test_ignore_suggests_lines_for_the_configuration(scene: Scene) -> None:
    scene.command(scene.comment("/opdiff ignore 00000001 a known gap"))
    (reply,) = replies(scene)
    assert 'fingerprint: "00000001"' in reply
    assert "a known gap" in reply
    assert len(scene.run.attempts) == 1


def test_draft_gives_the_link_that_the_report_has(fake_github: FakeGitHub, tmp_path: Path) -> None:
    scene = set_up(fake_github, tmp_path, upstream=True)
    scene.publish()
    published = re.search(
        r"https://github\.com/pytorch/pytorch/issues/new\?[^)>\s]+", scene.comment_body
    )
    assert published is not None
    scene.command(scene.comment("/opdiff draft 00000000"))
    (reply,) = replies(scene)
    assert published[0] in reply
    assert len(scene.run.attempts) == 1


def test_draft_of_what_is_not_upstreams_and_of_a_report_that_is_gone(scene: Scene) -> None:
    scene.command(scene.comment("/opdiff draft 00000000"))
    assert "no draft" in replies(scene)[0]
    scene.state.artifacts.clear()
    comment = scene.comment("/opdiff draft 00000000")
    assert not scene.command(comment).followed
    assert "left no report" in replies(scene)[1]
    assert len(decisions(scene)) == 1


def test_the_same_comment_is_never_followed_twice(scene: Scene) -> None:
    comment = scene.comment("/opdiff retry")
    event = events.issue_comment(scene.state, comment)
    assert scene.command(comment, event).followed
    scene.state.complete_run(scene.run)
    assert not scene.command(comment, event).followed
    assert len(scene.run.attempts) == 2
    assert len(decisions(scene)) == 1


def test_a_command_that_was_recorded_and_not_finished_is_finished_by_the_next_try(
    scene: Scene,
) -> None:
    """GitHub is down in between, and somebody runs the job again."""
    comment = scene.comment("/opdiff run add")
    event = events.issue_comment(scene.state, comment)
    scene.github.fail("429", path="/rerun", retry_after=7200)
    with pytest.raises(OpDiffError, match="7200"):
        scene.command(comment, event)
    assert len(decisions(scene)) == 1
    assert len(scene.run.attempts) == 1
    scene.time.sleep(600)
    assert scene.command(comment, event).followed
    assert len(scene.run.attempts) == 2
    assert reactions(comment) == ["eyes", "+1"]
    assert len(decisions(scene)) == 1
    scene.state.complete_run(scene.run)
    assert not scene.command(comment, event).followed
    assert len(scene.run.attempts) == 2


def test_a_limit_is_no_refusal_to_run_again(scene: Scene) -> None:
    """Both are a 403."""
    comment = scene.comment("/opdiff retry")
    scene.github.fail("secondary-limit", path="/rerun", retry_after=7200)
    with pytest.raises(OpDiffError, match="7200"):
        scene.command(comment)
    assert reactions(comment) == ["eyes"]
    assert not replies(scene)


@pytest.mark.parametrize("author", ["stranger", "reader", "passer-by"])
def test_strangers_are_refused_without_a_word(scene: Scene, author: str) -> None:
    """The pull request's author has no more to say than others."""
    comment = scene.comment("/opdiff accept 00000000 trust me", author)
    answered = scene.command(comment)
    assert not answered.followed
    assert reactions(comment) == ["-1"]
    assert unmoved(scene)
    assert not replies(scene)


def test_an_edited_comment_is_refused(scene: Scene) -> None:
    comment = scene.comment("/opdiff retry")
    created = events.issue_comment(scene.state, comment)
    scene.time.sleep(5)
    comment.body = "/opdiff accept 00000000 ok"
    comment.updated_at = scene.time.utc()
    edited = events.issue_comment(scene.state, comment, "edited", before="/opdiff retry")
    assert not scene.command(comment, edited).followed
    assert not scene.github.log
    assert not scene.command(comment, created).followed
    comment.body = "/opdiff retry"  # edited, and back again
    assert not scene.command(comment, created).followed
    assert unmoved(scene)
    assert reactions(comment) == ["-1"]
    assert len(replies(scene)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "look: /opdiff retry",
        "```\n/opdiff retry\n```",
        "    /opdiff retry",
        "> /opdiff retry",
        "first\n/opdiff retry",
        "/opdifference",
    ],
)
def test_what_is_no_command_asks_github_for_nothing(scene: Scene, body: str) -> None:
    assert not scene.command(scene.comment(body)).followed
    assert not scene.github.log


def test_a_bots_comment_and_an_issues_are_no_commands(scene: Scene) -> None:
    assert not scene.command(scene.comment("/opdiff retry", BOT)).followed
    issue = scene.state.add_issue(BASE, "an issue", author="maintainer")
    comment = scene.state.add_comment(BASE, issue.number, "maintainer", "/opdiff retry")
    assert not scene.command(comment).followed
    assert not scene.github.log


def test_a_command_that_is_not_understood_is_explained(scene: Scene) -> None:
    comment = scene.comment("/opdiff dance @framework/team")
    scene.command(comment)
    assert reactions(comment) == ["confused"]
    (reply,) = replies(scene)
    assert "There is no command" in reply
    assert unmoved(scene)


def test_an_op_that_nobody_knows_is_not_run(scene: Scene) -> None:
    comment = scene.comment("/opdiff run add softpluss")
    scene.command(comment)
    assert reactions(comment) == ["confused"]
    (reply,) = replies(scene)
    assert "No single op is known by the name `softpluss`. Is it `nn.functional.softplus`?" in reply
    assert unmoved(scene)


def test_a_head_pushed_after_the_comment_is_not_what_it_was_about(scene: Scene) -> None:
    comment = scene.comment("/opdiff run add")
    scene.check_again()
    answered = scene.command(comment)
    assert not answered.followed
    assert reactions(comment) == ["-1"]
    assert "The head is now" in replies(scene)[0]
    assert not decisions(scene)
    assert {len(it.attempts) for it in scene.state.runs} == {1}


def test_a_head_pushed_in_the_comments_second_counts_as_later(scene: Scene) -> None:
    scene.time.sleep(60)
    scene.state.push(FORK, BRANCH, {"op.py": "x = 4\n"})
    scene.state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(FORK, BRANCH))
    comment = scene.state.add_comment(BASE, 1, "maintainer", "/opdiff run add")
    assert not scene.command(comment).followed


def test_a_head_without_a_run_of_the_check_is_refused(scene: Scene) -> None:
    """Such as one that was pushed a moment ago."""
    scene.state.push(FORK, BRANCH, {"op.py": "x = 4\n"})
    scene.state.add_run(BASE, path=".github/workflows/own.yml", event="pull_request", head=(FORK, BRANCH))  # fmt: skip
    scene.state.add_run(BASE, path=WORKFLOW, event="push", head=(FORK, BRANCH))
    comment = scene.comment("/opdiff run add")
    assert not scene.command(comment).followed
    assert reactions(comment) == ["-1"]
    assert not decisions(scene)


def test_a_head_that_was_there_before_and_is_back_is_refused(scene: Scene) -> None:
    """A force-push to an older commit begins a new run of it."""
    old = scene.pull.head_sha
    scene.check_again()
    comment = scene.comment("/opdiff run add")
    scene.time.sleep(5)
    scene.state.move_branch(FORK, BRANCH, old)
    scene.state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(FORK, BRANCH))
    assert not scene.command(comment).followed


def test_a_closed_pull_request_is_refused(scene: Scene) -> None:
    scene.pull.state = "closed"
    assert not scene.command(scene.comment("/opdiff retry")).followed
    assert unmoved(scene)


def test_an_unknown_and_an_ambiguous_fingerprint(fake_github: FakeGitHub, tmp_path: Path) -> None:
    scene = set_up(fake_github, tmp_path)
    scene.publish()
    (own,) = scene.own_comments
    state = read_marker(own.body)
    assert state is not None
    twice = tuple(
        state.seen[0].model_copy(update={"fingerprint": f"abcdef01{end}"}) for end in ("aa", "bb")
    )
    marker = write_marker(state.model_copy(update={"seen": twice}))
    own.body = f"{own.body.rpartition(chr(10))[0]}\n{marker}"
    for fingerprint, said in (("12345678", "No finding"), ("abcdef01", "2 findings begin with")):
        comment = scene.comment(f"/opdiff accept {fingerprint} yes")
        assert not scene.command(comment).followed
        assert reactions(comment) == ["confused"]
        assert said in replies(scene)[-1]
    comment = scene.comment("/opdiff accept abcdef01b yes")
    assert scene.command(comment).followed
    assert [it.fingerprint for it in decisions(scene)] == ["abcdef01bb"]


def test_a_command_before_the_first_report(fake_github: FakeGitHub, tmp_path: Path) -> None:
    scene = set_up(fake_github, tmp_path)
    assert scene.command(scene.comment("/opdiff run add")).followed
    assert len(scene.own_comments) == 1
    assert [it.ops for it in decisions(scene)] == [("add",)]
    scene.state.complete_run(scene.run)
    scene.state.add_artifact(scene.run, "opdiff", scene.report())
    scene.publish()
    assert len(scene.own_comments) == 1
    assert [it.ops for it in decisions(scene)] == [("add",)]
    assert "op0" in scene.comment_body


def test_a_run_that_was_skipped_is_not_what_runs_again(scene: Scene) -> None:
    """Such as one that another label began: run again, it is skipped again."""
    scene.time.sleep(60)
    skipped = scene.state.add_run(
        BASE, path=WORKFLOW, event="pull_request", head=(FORK, BRANCH), conclusion="skipped"
    )
    assert scene.command(scene.comment("/opdiff run add")).followed
    assert (len(scene.run.attempts), len(skipped.attempts)) == (2, 1)


def test_a_check_that_is_still_running(scene: Scene) -> None:
    scene.state.rerun(scene.run)
    comment = scene.comment("/opdiff run add")
    assert scene.command(comment).followed
    assert len(scene.run.attempts) == 2
    assert "The check is running" in replies(scene)[0]


def test_a_check_that_cannot_run_again(scene: Scene) -> None:
    scene.time.sleep(31 * 86_400)
    comment = scene.comment("/opdiff retry")
    answered = scene.command(comment)
    assert "over a month" in answered.note
    assert reactions(comment) == ["eyes", "confused"]


def test_commands_at_once_are_all_recorded(scene: Scene) -> None:
    comments = [scene.comment(f"/opdiff wrong 0000000{n % 2} reason {n}") for n in range(4)]
    jobs = [lambda comment=comment: scene.command(comment, clock=Clock()) for comment in comments]
    ended = at_once(*jobs)
    assert all(it.followed for it in ended), ended
    assert sorted(it.comment for it in decisions(scene)) == [it.id for it in comments]
    assert len([it for it in scene.own_comments if read_marker(it.body)]) == 1


def test_a_command_and_a_publish_at_once_lose_nothing(scene: Scene) -> None:
    comment = scene.comment("/opdiff wrong 00000000 no")
    run = scene.state.runs[0]
    jobs = (
        lambda: scene.publish(run, clock=Clock()),
        lambda: scene.command(comment, clock=Clock()),
    )
    ended = at_once(*jobs)
    assert not any(isinstance(it, Exception) for it in ended), ended
    assert [it.comment for it in decisions(scene)] == [comment.id]


@pytest.mark.parametrize("missing", ["actions", "pull-requests"])
def test_each_permission_of_command_is_needed(scene: Scene, missing: str) -> None:
    assert scene.command(scene.comment("/opdiff accept 00000000 yes")).followed
    assert scene.github.missing_permissions == []
    scene.state.complete_run(scene.run)
    token = scene.state.tokens["command"]
    token.permissions = LEAST["command"] | {missing: "read"}
    with pytest.raises(OpDiffError, match="permissions"):
        scene.command(scene.comment("/opdiff accept 00000001 yes"))


@pytest.mark.parametrize("status", [403, 404])
def test_a_command_whose_reactions_are_refused_is_followed_all_the_same(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Such as on a locked conversation."""
    refused: list[str] = []
    write = Client.write

    def refusing(client: Client, verb: str, path: str, body: Any = None) -> Any:
        if path.endswith("/reactions"):
            refused.append(body["content"])
            raise client.refused(f"{verb} {path}", status, {}, "You can't do that")
        return write(client, verb, path, body)

    monkeypatch.setattr(Client, "write", refusing)
    assert scene.command(scene.comment("/opdiff run add")).followed
    assert [it.ops for it in decisions(scene)] == [("add",)]
    assert len(scene.run.attempts) == 2
    assert refused == ["eyes", "+1"]
    assert not scene.command(scene.comment("/opdiff dance")).followed
    assert "There is no command" in replies(scene)[0]


def test_a_reaction_that_meets_a_limit_is_waited_for(scene: Scene) -> None:
    """A limit is a 403 too."""
    scene.github.fail("secondary-limit", path="/reactions", retry_after=70)
    comment = scene.comment("/opdiff retry")
    assert scene.command(comment).followed
    assert reactions(comment) == ["eyes", "+1"]
    assert 70 in scene.time.slept


def test_a_plan_that_cannot_read_never_fails(scene: Scene) -> None:
    """Without a token comments can be read, and whether their authors count cannot: nothing of them is followed."""
    environment = scene.job("plan", "pull_request", events.pull_request(scene.state, scene.pull))
    nobody = environment | {"OPDIFF_GITHUB_TOKEN": ""}
    head = scene.pull.head_sha
    assert requested_runs(nobody, 1, head, scene.time.clock) == Requested()
    scene.command(scene.comment("/opdiff run add"))
    unread = requested_runs(nobody, 1, head, scene.time.clock)
    assert unread.ops == ()
    assert "Requires authentication" in unread.note

    def asked(**changed: str) -> Requested:
        return requested_runs(environment | changed, 1, head, scene.time.clock, 0.5)

    assert asked().ops == ("add",)
    assert asked(GITHUB_REPOSITORY="").note
    assert asked(GITHUB_API_URL="http://127.0.0.1:1").note
    assert "could not be read" in asked(OPDIFF_GITHUB_TOKEN="expired").note
    scene.github.fail("429", retry_after=600)
    assert "600 s" in asked().note
    assert asked(OPDIFF_GITHUB_LOGIN="somebody-else[bot]") == Requested()


def test_a_strangers_copy_of_the_marker_asks_for_nothing(
    fake_github: FakeGitHub, tmp_path: Path
) -> None:
    scene = set_up(fake_github, tmp_path)
    forged: dict[str, Any] = {"comment": 1, "verb": "run", "author": "maintainer", "ops": ("add",)}
    state = CommentState(decisions=(Decision(head=scene.pull.head_sha, **forged),))
    scene.comment(write_marker(state), "stranger")
    plan = scene.job("plan", "pull_request", events.pull_request(scene.state, scene.pull))
    assert requested_runs(plan, 1, scene.pull.head_sha, scene.time.clock) == Requested()


def test_answers_mention_nobody(scene: Scene) -> None:
    scene.command(scene.comment("/opdiff ignore 00000000 @everyone-team </details><script> ::x"))
    scene.command(scene.comment("/opdiff @everyone-team"))
    for reply in replies(scene):
        outside_code = re.sub(r"(`+).*?\1", "", reply, flags=re.DOTALL)
        assert "@everyone" not in outside_code
        assert "<script>" not in outside_code
