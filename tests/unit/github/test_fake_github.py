"""The fake GitHub behaves as GitHub does, seen through the clients that the bot uses."""

from __future__ import annotations

import pytest
from fake_github.server import FakeGitHub
from github import Auth, Github

BASE = "framework/framework"
FORK = "stranger/framework"
WORKFLOW = ".github/workflows/opdiff.yml"
EVERYTHING = {
    "actions": "write",
    "checks": "write",
    "contents": "read",
    "issues": "write",
    "pull-requests": "write",
}


@pytest.fixture
def scene(fake_github: FakeGitHub) -> FakeGitHub:
    """A pull request from a fork, its workflow run, an all-powerful token ``all``."""
    state = fake_github.state
    state.add_repository(BASE, files={"op.py": "x = 1\n", ".github/opdiff.yml": "a: 1\n"})
    state.add_fork(BASE, "stranger")
    state.push(FORK, "fix/softplus", {"op.py": "x = 2\n"})
    state.add_pull(BASE, head=(FORK, "fix/softplus"))
    state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(FORK, "fix/softplus"))
    state.app_token("all", EVERYTHING, repository=BASE)
    return fake_github


def client(github: FakeGitHub, token: str = "all") -> Github:
    return Github(
        auth=Auth.Token(token),
        base_url=github.url,
        retry=None,
        seconds_between_requests=None,
        seconds_between_writes=None,
    )


def test_a_pull_request_of_a_fork_is_found_by_its_head(scene: FakeGitHub) -> None:
    repository = client(scene).get_repo(BASE)
    found = list(repository.get_pulls(state="open", head="stranger:fix/softplus"))
    assert [it.number for it in found] == [1]
    assert found[0].head.repo.full_name == FORK
    assert [(it.filename, it.patch) for it in found[0].get_files()] == [
        ("op.py", "@@ -1 +1 @@\n-x = 1\n+x = 2")
    ]
