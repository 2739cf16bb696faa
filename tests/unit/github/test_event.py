"""Events of jobs: which commits they name, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_github import events
from fake_github.server import FakeGitHub
from fake_scene import BASE

from bot.github.event import (
    AllOps,
    EventError,
    IssueCommentEvent,
    Revisions,
    WorkflowRunEvent,
    parse_event,
    read_event,
    revisions_of,
)

A, B, ZERO = "a" * 40, "b" * 40, "0" * 40


def pull_request(**sides: Any) -> dict[str, Any]:
    pull = {"number": 5, "base": {"sha": A}, "head": {"sha": B}}
    return {"action": "opened", "pull_request": pull | sides}


@pytest.mark.parametrize(
    ("name", "payload", "expected"),
    [
        ("pull_request", pull_request(), Revisions(A, B, 5)),
        ("merge_group", {"merge_group": {"base_sha": A, "head_sha": B}}, Revisions(A, B)),
        ("push", {"before": A, "after": B}, Revisions(A, B)),
        ("push", {"before": "a" * 64, "after": "b" * 64}, Revisions("a" * 64, "b" * 64)),
        ("schedule", {"schedule": "0 3 * * *"}, AllOps()),
        ("workflow_dispatch", {"inputs": None, "ref": "refs/heads/main"}, AllOps()),
    ],
)
def test_what_an_event_asks_to_check(name: str, payload: dict[str, Any], expected: Any) -> None:
    assert revisions_of(name, payload) == expected


@pytest.mark.parametrize(
    ("name", "payload", "says"),
    [
        ("push", {"before": ZERO, "after": B}, "give the base with --base"),
        ("push", {"before": A, "after": ZERO}, "deletes a branch"),
        ("push", {"before": A}, "after"),
        ("push", {"before": "main", "after": B}, "before"),
        ("pull_request", {"action": "opened"}, "pull_request"),
        ("pull_request", pull_request(head={"sha": "--output=x"}), "head.sha"),
        ("pull_request", pull_request(number=-1), "number"),
        ("pull_request_target", pull_request(), "names no change"),
        ("evil\n::set-output", {}, "names no change"),
    ],
)
def test_what_names_no_two_commits_is_one_clear_line(
    name: str, payload: dict[str, Any], says: str
) -> None:
    with pytest.raises(EventError, match=says) as refused:
        revisions_of(name, payload)
    assert "\n" not in str(refused.value)


def test_events_as_github_sends_them(scene: FakeGitHub) -> None:
    state, pull = scene.state, scene.state.pulls[0]
    synchronize = events.pull_request(state, pull, "synchronize", before=A)
    assert revisions_of("pull_request", synchronize) == Revisions(
        pull.base_sha, pull.head_sha, pull.number
    )
    completed = events.workflow_run_completed(state, state.runs[0])
    run = parse_event(WorkflowRunEvent, completed).workflow_run
    assert (run.id, run.run_attempt) == (state.runs[0].id, 1)
    comment = state.add_comment(BASE, 1, "stranger", "hello")
    event = parse_event(IssueCommentEvent, events.issue_comment(state, comment))
    assert event.issue.pull_request is not None
    assert (event.comment.id, event.comment.body) == (comment.id, "hello")
    issue = state.add_issue(BASE, "no pull request", author="stranger")
    other = state.add_comment(BASE, issue.number, "stranger", "hello")
    event = parse_event(IssueCommentEvent, events.issue_comment(state, other))
    assert event.issue.pull_request is None


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"null"])
def test_a_file_that_is_no_event(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "event.json"
    path.write_bytes(raw)
    with pytest.raises(EventError) as refused:
        read_event(path)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_no_event(tmp_path: Path) -> None:
    with pytest.raises(EventError):
        read_event(tmp_path / "none.json")


def test_an_event_is_read(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps({"before": A}))
    assert read_event(path) == {"before": A}
