"""GitHub's description judges what goes in and what comes out, and events too."""

from __future__ import annotations

import json

import pytest
import requests
from fake_github import events
from fake_github.api import OPERATIONS
from fake_github.contract import github_contract
from fake_github.fixtures import judged_github
from fake_github.permissions import NEEDS
from fake_github.server import FakeGitHub
from fake_scene import BASE, FORK, WORKFLOW, headers

REPOSITORY = f"/repos/{BASE}"
# Names in Octokit's examples that no event of a scene may keep.
EXAMPLE_NAMES = ("codertocat", "octo-org", "octo-repo", "octocoders", "hello-world", "octocat")


@pytest.mark.parametrize(
    ("method", "path", "given", "words"),
    [
        ("POST", f"{REPOSITORY}/issues/1/comments", {"json": {}}, "'body' is a required property"),
        (
            "POST",
            f"{REPOSITORY}/issues/1/comments",
            {"json": {"body": 7}},
            "is not of type 'string'",
        ),
        (
            "POST",
            f"{REPOSITORY}/issues/1/comments",
            {"json": {"body": "x", "bodyy": "y"}},
            "body fields ['bodyy'] are not in issues/create-comment",
        ),
        ("POST", f"{REPOSITORY}/issues/1/comments", {"data": b"{"}, "the body is not JSON"),
        (
            "POST",
            f"{REPOSITORY}/check-runs",
            {"json": {"name": "x", "head_sha": "y", "status": "done"}},
            "'done' is not one of",
        ),
        (
            "GET",
            f"{REPOSITORY}/actions/runs",
            {"params": {"head-sha": "x"}},
            "query parameters ['head-sha'] are not in actions/list-workflow-runs-for-repo",
        ),
        ("GET", f"{REPOSITORY}/pulls", {"params": {"state": "merged"}}, "'merged' is not one of"),
        ("GET", f"{REPOSITORY}/pulls", {"params": {"page": "first"}}, "first"),
        ("GET", f"{REPOSITORY}/pull/1", {}, "is not in the vendored description"),
    ],
)
def test_a_request_that_breaks_the_description_is_told(
    scene: FakeGitHub, method: str, path: str, given: dict[str, object], words: str
) -> None:
    answer = requests.request(method, scene.url + path, headers=headers(), **given)
    assert answer.status_code in (404, 422)
    [violation] = scene.violations
    assert words in violation
    assert f"{method} {path}" in violation
    assert scene.state.comments == scene.state.check_runs == []
    scene.log.clear()


def test_a_test_that_breaks_the_description_fails() -> None:
    with (
        pytest.raises(AssertionError, match="GET /nothing is not in the vendored description"),
        judged_github() as github,
    ):
        requests.get(f"{github.url}/nothing")


def test_a_fault_of_the_fake_itself_is_told(scene: FakeGitHub) -> None:
    scene.state.runs[0].head_sha = "0" * 40
    answer = requests.get(f"{scene.url}{REPOSITORY}/actions/runs", headers=headers())
    assert answer.status_code == 500
    assert "the fake broke" in scene.violations[0]
    scene.log.clear()


def test_a_response_that_breaks_the_description_is_told(scene: FakeGitHub) -> None:
    scene.state.add_comment(BASE, 1, "stranger", "hello")
    sha = scene.state.pulls[0].head_sha
    body = {"name": "OpDiff", "head_sha": sha}
    made = requests.post(f"{scene.url}{REPOSITORY}/check-runs", json=body, headers=headers()).json()
    scene.state.check_runs[0].status = "bogus"
    requests.get(made["url"], headers=headers())
    assert "'bogus' is not one of" in scene.violations[0]
    scene.log.clear()


@pytest.mark.parametrize("field", ["id", "user", "created_at"])
def test_every_required_field_of_a_response_is_looked_at(scene: FakeGitHub, field: str) -> None:
    scene.state.add_comment(BASE, 1, "stranger", "hello")
    address = f"{scene.url}{REPOSITORY}/issues/1/comments"
    comments = requests.get(address, headers=headers()).json()
    operation, values = scene.contract.find("get", f"{REPOSITORY}/issues/1/comments") or (None, {})
    assert operation is not None

    def error(body: object) -> str | None:
        data = json.dumps(body).encode()
        return scene.contract.response_error(operation, values, 200, data, "application/json")

    assert error(comments) is None
    del comments[0][field]
    assert f"'{field}' is a required property" in (error(comments) or "")


def test_every_vendored_operation_is_served_and_has_its_permission() -> None:
    description = github_contract().description
    ids = {it["operationId"] for path in description["paths"].values() for it in path.values()}
    assert ids == OPERATIONS.keys() == NEEDS.keys()


def test_events_are_valid_and_keep_nothing_of_the_examples(scene: FakeGitHub) -> None:
    state = scene.state
    pull, run = state.pulls[0], state.runs[0]
    pull.labels = ["opdiff"]
    comment = state.add_comment(BASE, 1, "stranger", "/opdiff retry")
    queue = "gh-readonly-queue/main/pr-1-0"
    state.push(BASE, queue, {"op.py": "x = 2\n"})
    made = {
        "pull-request-opened": events.pull_request(state, pull),
        "pull-request-synchronize": events.pull_request(
            state, pull, "synchronize", before=pull.base_sha
        ),
        "pull-request-labeled": events.pull_request(state, pull, "labeled"),
        "workflow-run-completed": events.workflow_run_completed(state, run),
        "issue-comment-created": events.issue_comment(state, comment),
        "issue-comment-edited": events.issue_comment(state, comment, "edited", before="hello"),
        "merge-group-checks-requested": events.merge_group(state, BASE, head_ref=queue),
        "push": events.push(state, BASE, "main", before="0" * 40),
        "workflow-dispatch": events.workflow_dispatch(
            state, BASE, path=WORKFLOW, inputs={"mode": "check"}
        ),
    }
    contract = github_contract()
    assert made.keys() == contract.description["x-webhooks"].keys()
    for name, event in made.items():
        assert contract.webhook_error(name, event) is None, name
        text = json.dumps(event).lower()
        assert [it for it in EXAMPLE_NAMES if it in text] == [], name
    assert "required" in (contract.webhook_error("push", {"ref": "x"}) or "")


def test_an_event_tells_of_the_state(scene: FakeGitHub) -> None:
    state = scene.state
    event = events.workflow_run_completed(state, state.runs[0], api=scene.url)
    run = event["workflow_run"]
    assert (event["action"], run["conclusion"], run["pull_requests"]) == (
        "completed",
        "success",
        [],
    )
    assert run["head_repository"]["full_name"] == FORK
    assert run["artifacts_url"].startswith(f"{scene.url}/repos/{BASE}/actions/runs/{run['id']}/")
    issue = state.add_issue(BASE, "A question", author="stranger")
    comment = state.add_comment(BASE, issue.number, "stranger", "/opdiff retry")
    assert "pull_request" not in events.issue_comment(state, comment)["issue"]
    scheduled = events.schedule(state, BASE, cron="0 3 * * *", path=WORKFLOW)
    assert (scheduled["schedule"], scheduled["repository"]["full_name"]) == ("0 3 * * *", BASE)
