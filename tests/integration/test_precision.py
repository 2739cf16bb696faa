"""``opdiff precision`` against the fake GitHub: what is counted over pull requests, and whose word it is."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from fake_github.model import Comment
from fake_github.server import FakeGitHub
from publishing import BASE, BOT, Scene, set_up
from rich.console import Console
from typer.testing import CliRunner

from bot.cli import app
from bot.errors import OpDiffError
from bot.github import client as api
from bot.github.marker import write_marker
from bot.github.state import CommentState, Decision, Earlier, Seen
from bot.oracle.finding import Verdict
from bot.precision import Precision, precision

HEAD = "a" * 40
DAY = 86_400


@pytest.fixture
def scene(fake_github: FakeGitHub, tmp_path: Path) -> Scene:
    """The scene of 2030-03-17 17:46:40 UTC, nothing published yet."""
    return set_up(fake_github, tmp_path, findings=3)


def count(scene: Scene, since: str | None = None, **more: str) -> Precision:
    return precision(scene.job("precision", "schedule", {}, **more), since, scene.time.clock)


def rows(counted: Precision) -> dict[str, tuple[int, int, float | None]]:
    """Verdict -> given, wrong, precision; without the verdicts that were never given."""
    lines = (*counted.counts, counted.total)
    return {it.verdict: (it.given, it.wrong, it.precision) for it in lines if it.given}


def seen(number: int, verdict: Verdict) -> Seen:
    return Seen(fingerprint=f"{number:08x}", op="add", kind="value", verdict=verdict)


def wrong(comment: Comment, number: int, verdict: Verdict, author: str = "maintainer") -> Decision:
    return Decision(
        comment=comment.id,
        verb="wrong",
        author=author,
        head=HEAD,
        fingerprint=f"{number:08x}",
        reason="as the marker has it",
        verdict=verdict,
    )


def report(
    scene: Scene, number: int, *found: Seen, login: str = BOT, run: int = 7, **more: Any
) -> Comment:
    state = CommentState(head=HEAD, run=run, attempt=1, seen=found, **more)
    return scene.state.add_comment(BASE, number, login, f"text\n\n{write_marker(state)}")


def new_pull(scene: Scene, branch: str) -> int:
    scene.state.push("stranger/framework", branch, {"op.py": f"x = '{branch}'\n"})
    return scene.state.add_pull(BASE, head=("stranger/framework", branch)).number


def test_what_was_published_and_commanded_is_counted(scene: Scene) -> None:
    scene.publish()
    comment = scene.comment("/opdiff wrong 00000001 the reference is off")
    assert scene.command(comment).followed
    counted = count(scene)
    assert rows(counted) == {"candidate": (3, 1, 1 - 1 / 3), "all": (3, 1, 1 - 1 / 3)}
    (said,) = counted.said_wrong
    assert (said.pull_request, said.fingerprint, said.author, said.reason) == (
        1,
        "00000001",
        "maintainer",
        "the reference is off",
    )
    assert said.url.endswith(f"/framework/framework/pull/1#issuecomment-{comment.id}")
    assert scene.github.missing_permissions == []


def test_findings_that_later_pushes_fixed_were_given_all_the_same(scene: Scene) -> None:
    """0, 1, 2; then 1, 2; then 2; then 7; then none; each report is published twice."""
    run = scene.run
    for reported in ({"first": 1, "findings": 2}, {"first": 2}, {"first": 7}, {"findings": 0}):
        scene.publish(run)
        scene.publish(run)
        if reported == {"first": 2}:
            assert scene.command(scene.comment("/opdiff wrong 00000001 no")).followed
        run = scene.check_again(**reported)
    scene.publish(run)
    scene.publish(run)
    for _ in range(2):
        scene.publish(scene.check_again(findings=0))
    assert rows(count(scene)) == {"candidate": (4, 1, 0.75), "all": (4, 1, 0.75)}


def test_a_finding_that_comes_back_is_given_once(scene: Scene) -> None:
    scene.publish(scene.check_again(findings=1))
    scene.publish(scene.check_again(findings=0))
    scene.publish(scene.check_again(findings=1))
    scene.publish(scene.check_again(findings=0))
    scene.publish(scene.check_again(findings=0))
    assert rows(count(scene)) == {"candidate": (1, 0, 1.0), "all": (1, 0, 1.0)}


def test_pull_requests_add_up_by_verdict(scene: Scene) -> None:
    two, three, quiet = (new_pull(scene, name) for name in ("two", "three", "quiet"))
    # 1: a finding whose verdict changed; the first one was said to be wrong, by two people.
    scene.state.repositories[BASE].permissions["owner"] = "admin"
    scene.state.user("owner")
    said = [
        scene.comment("/opdiff wrong 00000001 the peer is wrong"),
        scene.comment("/opdiff wrong 00000001 so it is", "owner"),
    ]
    report(
        scene,
        1,
        seen(1, "upstream"),
        seen(2, "candidate"),
        earlier=Earlier(head=HEAD, seen=(seen(1, "candidate"), seen(3, "flaky"))),
        decisions=(wrong(said[0], 1, "candidate"), wrong(said[1], 1, "candidate", "owner")),
        past={"candidate": 2, "convention": 5},
    )
    # 2: the same fingerprint is another finding; the wrong one is in no report any more.
    gone = scene.state.add_comment(BASE, two, "maintainer", "/opdiff wrong 000000ff a tie, no bug")
    report(scene, two, seen(1, "candidate"), decisions=(wrong(gone, 255, "both"),), seen_left_out=4)
    # 3: no finding; and one without a report.
    report(scene, three)
    scene.state.add_comment(BASE, quiet, BOT, "a reply")
    counted = count(scene)
    assert rows(counted) == {
        "candidate": (5, 1, 0.8),  # 1: findings 1 and 2, two past ones; 2: finding 1
        "upstream": (1, 0, 1.0),
        "both": (1, 1, 0.0),
        "convention": (5, 0, 1.0),
        "flaky": (1, 0, 1.0),
        "all": (13, 2, 1 - 2 / 13),
    }
    assert (counted.pull_requests, counted.left_out) == (3, 4)
    assert [it.reason for it in counted.said_wrong] == [
        "the peer is wrong",
        "so it is",
        "a tie, no bug",
    ]
    listed = [it for it in scene.github.log if it.path.endswith("/issues/comments")]
    asked = [it for it in scene.github.log if it.path.endswith("/permission")]
    assert (len(listed), len(asked), len(scene.github.log)) == (1, 2, 3)
    assert scene.github.writes() == []


def test_the_json_and_the_table_say_the_same(scene: Scene) -> None:
    comment = scene.comment("/opdiff wrong 00000001 [bold]not\u202e so[/bold]")
    report(
        scene,
        1,
        seen(1, "candidate"),
        seen(2, "candidate"),
        seen(3, "candidate"),
        seen(4, "undecided"),
        decisions=(wrong(comment, 1, "candidate"),),
    )
    counted = count(scene)
    document = json.loads(json.dumps(counted.to_json(), allow_nan=False))
    nothing = {"given": 0, "wrong": 0, "precision": None}
    url = f"https://github.com/{BASE}/pull/1#issuecomment-{comment.id}"
    assert document == {
        "repository": BASE,
        "account": BOT,
        "since": None,
        "pull_requests": 1,
        "verdicts": [
            {"verdict": "candidate", "given": 3, "wrong": 1, "precision": 0.666667},
            {"verdict": "upstream", **nothing},
            {"verdict": "both", **nothing},
            {"verdict": "convention", **nothing},
            {"verdict": "flaky", **nothing},
            {"verdict": "undecided", "given": 1, "wrong": 0, "precision": 1.0},
        ],
        "all": {"verdict": "all", "given": 4, "wrong": 1, "precision": 0.75},
        "said_wrong": [
            {
                "pull_request": 1,
                "fingerprint": "00000001",
                "verdict": "candidate",
                "author": "maintainer",
                "reason": "[bold]not\\u202e so[/bold]",
                "url": url,
            }
        ],
        "left_out": 0,
    }
    out = io.StringIO()
    counted.print(Console(file=out, highlight=False, soft_wrap=True, emoji=False, width=80))
    assert [line.split() for line in out.getvalue().splitlines()[:8]] == [
        ["verdict", "given", "said", "to", "be", "wrong", "precision"],
        ["candidate", "3", "1", "66.7%"],
        ["upstream", "0", "0", "-"],
        ["both", "0", "0", "-"],
        ["convention", "0", "0", "-"],
        ["flaky", "0", "0", "-"],
        ["undecided", "1", "0", "100.0%"],
        ["all", "4", "1", "75.0%"],
    ]
    assert out.getvalue().splitlines()[8:] == [
        f"{BASE}: 1 pull request with a comment of {BOT}",
        f"#1 00000001 candidate: [bold]not\\u202e so[/bold] (maintainer, {url})",
    ]


@pytest.mark.parametrize(
    ("body", "author"),
    [
        ("/opdiff wrong 00000001 trust me", "stranger"),
        ("/opdiff wrong 00000001 trust me", "reader"),
        ("/opdiff wrong 00000002 another finding", "maintainer"),
        ("/opdiff accept 00000001 fine", "maintainer"),
        ("I take it back", "maintainer"),
    ],
)
def test_only_what_somebody_who_may_write_says_counts(scene: Scene, body: str, author: str) -> None:
    comment = scene.comment(body, author)
    decision = wrong(comment, 1, "candidate", author)
    report(scene, 1, seen(1, "candidate"), decisions=(decision,))
    assert rows(count(scene))["all"] == (1, 0, 1.0)


def test_another_command_that_a_marker_gives_a_verdict_says_nothing_of_it(scene: Scene) -> None:
    comment = scene.comment("/opdiff accept 00000001 it is meant")
    decision = wrong(comment, 1, "candidate").model_copy(update={"verb": "accept"})
    report(scene, 1, seen(1, "candidate"), decisions=(decision,))
    assert rows(count(scene))["all"] == (1, 0, 1.0)


def test_a_deleted_command_and_one_of_another_pull_request_do_not_count(scene: Scene) -> None:
    elsewhere = scene.state.add_comment(
        BASE, new_pull(scene, "two"), "maintainer", "/opdiff wrong 00000001 there"
    )
    deleted = scene.comment("/opdiff wrong 00000002 gone")
    scene.state.comments.remove(deleted)
    decisions = (wrong(elsewhere, 1, "candidate"), wrong(deleted, 2, "candidate"))
    report(scene, 1, seen(1, "candidate"), seen(2, "candidate"), decisions=decisions)
    for since in (None, "2030-03-17"):
        assert rows(count(scene, since))["all"] == (2, 0, 1.0)


def test_other_accounts_issues_and_later_markers_are_not_believed(scene: Scene) -> None:
    report(scene, 1, seen(1, "candidate"))
    report(scene, 1, seen(2, "upstream"), run=2**62)  # another workflow's
    report(scene, new_pull(scene, "two"), seen(3, "flaky"), login="stranger")
    issue = scene.state.add_issue(BASE, "an issue", author="maintainer")
    report(scene, issue.number, seen(4, "both"))
    quoted = report(scene, new_pull(scene, "three"), seen(5, "both"))
    quoted.body += "\nend"
    command = report(scene, new_pull(scene, "four"), seen(6, "both"), login="stranger")
    command.body = f"/opdiff retry\n{command.body}"
    assert rows(count(scene)) == {"candidate": (1, 0, 1.0), "all": (1, 0, 1.0)}


def test_since_takes_pull_requests_by_their_comment_and_those_whole(scene: Scene) -> None:
    """The comment of the first was last changed on 2030-03-17, the second's command is older than its comment."""
    two = new_pull(scene, "two")
    report(scene, 1, seen(1, "candidate"))
    comment = scene.state.add_comment(BASE, two, "maintainer", "/opdiff wrong 00000002 no")
    scene.time.sleep(DAY)
    decisions = (wrong(comment, 2, "upstream"),)
    report(scene, two, seen(2, "upstream"), seen(3, "upstream"), decisions=decisions)
    both = {"candidate": (1, 0, 1.0), "upstream": (2, 1, 0.5), "all": (3, 1, 1 - 1 / 3)}
    assert rows(count(scene)) == both
    assert rows(count(scene, "2030-03-17")) == both
    counted = count(scene, "2030-03-18")
    assert rows(counted) == {"upstream": (2, 1, 0.5), "all": (2, 1, 0.5)}
    assert counted.to_json()["since"] == "2030-03-18"
    scene.time.sleep(DAY)
    assert rows(count(scene, "2030-03-19")) == {}


def test_all_pages_are_read(scene: Scene) -> None:
    for number in range(250):
        scene.state.add_comment(BASE, 1, "passer-by", f"{number}")
    report(scene, 1, seen(1, "candidate"))
    assert rows(count(scene))["all"] == (1, 0, 1.0)
    assert len(scene.github.log) == 3


def test_too_many_pages_say_what_to_do(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MAX_PAGES", 2)
    for number in range(201):
        scene.state.add_comment(BASE, 1, "passer-by", f"{number}")
    with pytest.raises(OpDiffError, match=r"framework/framework has more comments .* --since"):
        count(scene)


def test_another_apps_account_is_named(scene: Scene) -> None:
    report(scene, 1, seen(1, "candidate"), login="our-app[bot]")
    counted = count(scene)
    assert rows(counted) == {}
    out = io.StringIO()
    counted.print(Console(file=out, soft_wrap=True))
    assert "OPDIFF_GITHUB_LOGIN" in out.getvalue()
    assert rows(count(scene, OPDIFF_GITHUB_LOGIN="our-app[bot]"))["all"] == (1, 0, 1.0)


@pytest.mark.parametrize("permission", ["issues", "pull-requests"])
def test_either_permission_to_read_is_enough(scene: Scene, permission: str) -> None:
    report(scene, 1, seen(1, "candidate"))
    scene.state.tokens["precision"].permissions = {permission: "read"}
    assert rows(count(scene))["all"] == (1, 0, 1.0)
    scene.state.tokens["precision"].permissions = {"contents": "read"}
    with pytest.raises(OpDiffError, match="permissions"):
        count(scene)


@pytest.mark.parametrize(
    ("since", "said"),
    [
        ("yesterday", "--since 'yesterday' is no day: write it as in 2026-01-31"),
        ("2030-02-30", "is no day"),
        ("20300101", "is no day"),
        ("", "is no day"),
        ("2030-03-18", "lies in the future"),
    ],
)
def test_a_day_that_is_none_is_refused_before_anything_is_asked(
    scene: Scene, since: str, said: str
) -> None:
    with pytest.raises(OpDiffError, match=said):
        count(scene, since)
    assert not scene.github.log


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"OPDIFF_GITHUB_TOKEN": ""}, "OPDIFF_GITHUB_TOKEN is not set"),
        ({"GITHUB_REPOSITORY": ""}, "GITHUB_REPOSITORY is not set"),
        ({"GITHUB_REPOSITORY": "framework"}, "is no repository"),
        ({"OPDIFF_GITHUB_TOKEN": "expired"}, "401 Bad credentials"),
        ({"GITHUB_REPOSITORY": "framework/other"}, "404"),
    ],
)
def test_a_job_that_is_none_gets_one_line(scene: Scene, changed: dict[str, str], said: str) -> None:
    with pytest.raises(OpDiffError, match=said):
        count(scene, **changed)


def test_the_command_line(scene: Scene) -> None:
    report(scene, 1, seen(1, "candidate"))
    environment = scene.job("precision", "schedule", {})
    shown = CliRunner().invoke(app, ["precision"], env=environment)
    assert shown.exit_code == 0
    assert shown.stdout.startswith("verdict")
    shown = CliRunner().invoke(app, ["precision", "--json"], env=environment)
    assert json.loads(shown.stdout)["all"] == {
        "verdict": "all",
        "given": 1,
        "wrong": 0,
        "precision": 1.0,
    }
    shown = CliRunner().invoke(
        app, ["precision", "--since", "2020-01-01", "--json"], env=environment
    )
    assert json.loads(shown.stdout)["since"] == "2020-01-01"
