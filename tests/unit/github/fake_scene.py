"""The scene that tests of the fake GitHub start from."""

from __future__ import annotations

import io
import zipfile

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


def archive(**files: str) -> bytes:
    """A ZIP of ``files``; underscores in names stand for dots."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name.replace("_", "."), text)
    return data.getvalue()


def set_up(github: FakeGitHub) -> None:
    """A pull request from a fork, its finished run with an artifact, an all-powerful token ``all``."""
    state = github.state
    state.add_repository(BASE, files={"op.py": "x = 1\n", ".github/opdiff.yml": "a: 1\n"})
    state.add_fork(BASE, "stranger")
    state.push(FORK, "fix/softplus", {"op.py": "x = 2\n"})
    state.add_pull(BASE, head=(FORK, "fix/softplus"))
    run = state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(FORK, "fix/softplus"))
    state.add_artifact(run, "opdiff", archive(results_json="{}"))
    state.app_token("all", EVERYTHING, repository=BASE)


def client(github: FakeGitHub, token: str = "all", url: str | None = None) -> Github:
    """PyGithub without retries and pauses."""
    return Github(
        auth=Auth.Token(token),
        base_url=url or github.url,
        retry=None,
        seconds_between_requests=None,
        seconds_between_writes=None,
    )


def headers(token: str = "all") -> dict[str, str]:
    """For calls without PyGithub."""
    return {"Authorization": f"Bearer {token}"}
