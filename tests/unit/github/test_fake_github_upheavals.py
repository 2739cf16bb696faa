"""The fake GitHub after forks and branches were deleted: what it answers, held to GitHub's description."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from fake_github import upheavals
from fake_github.server import FakeGitHub

BASE = "framework/framework"
FORK = "stranger/framework"


@pytest.fixture
def scene(fake_github: FakeGitHub) -> FakeGitHub:
    state = fake_github.state
    state.add_repository(BASE, files={"op.py": "x = 1\n"})
    state.add_fork(BASE, "stranger")
    state.push(FORK, "fix", {"op.py": "x = 2\n"})
    state.add_pull(BASE, head=(FORK, "fix"))
    run = state.add_run(BASE, path="w.yml", event="pull_request", head=(FORK, "fix"))
    state.add_artifact(run, "opdiff", b"PK")
    state.app_token("t", {"actions": "read", "pull-requests": "read"}, repository=BASE)
    return fake_github


def get(scene: FakeGitHub, path: str) -> Any:
    answer = requests.get(
        f"{scene.url}/repos/{BASE}/{path}", headers={"Authorization": "Bearer t"}, timeout=10
    )
    assert answer.status_code == 200
    return answer.json()


def test_a_deleted_fork_is_null(scene: FakeGitHub) -> None:
    """The fixture fails where the description is broken."""
    (pull,), (run,) = scene.state.pulls, scene.state.runs
    head = pull.head_sha
    upheavals.delete_fork(scene.state, FORK)
    for shown in (get(scene, f"pulls/{pull.number}"), *get(scene, "pulls?state=open")):
        assert shown["state"] == "open"
        assert (shown["head"]["repo"], shown["head"]["sha"]) == (None, head)
        assert shown["base"]["repo"]["full_name"] == BASE
    for shown in (get(scene, f"actions/runs/{run.id}"), *get(scene, "actions/runs")["workflow_runs"]):  # fmt: skip
        assert (shown["head_repository"], shown["head_branch"]) == (None, "fix")
    (artifact,) = get(scene, f"actions/runs/{run.id}/artifacts")["artifacts"]
    assert artifact["workflow_run"]["head_sha"] == head
    assert "head_repository_id" not in artifact["workflow_run"]


def test_nothing_else_may_be_null(scene: FakeGitHub) -> None:
    """What is added to the description is for forks alone."""
    shown = get(scene, "pulls/1")
    schema = {"$ref": "#/components/schemas/pull-request"}
    assert scene.contract.schema_error(schema, shown) is None
    shown["base"]["repo"] = None
    assert "$.base.repo" in (scene.contract.schema_error(schema, shown) or "")


def test_a_deleted_branch_closes_its_pull_request(scene: FakeGitHub) -> None:
    upheavals.delete_branch(scene.state, FORK, "fix")
    shown = get(scene, "pulls/1")
    assert (shown["state"], shown["head"]["ref"]) == ("closed", "fix")
    assert shown["head"]["repo"]["full_name"] == FORK
