"""What a workflow reads at ``GITHUB_EVENT_PATH``: payloads for the fake's state.

Each starts from one of Octokit's examples; what the state knows replaces the example's words. GitHub
publishes no example of ``schedule``, whose payload holds only the cron line, the workflow and the
repository.
"""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import Any

from .contract import github_contract
from .filled import Filler
from .model import Comment, PullRequest, WorkflowRun
from .render import Renderer
from .render_accounts import when
from .state import State

Json = dict[str, Any]
GITHUB_API = "https://api.github.com"
_EXAMPLES = Path(__file__).parent / "vendored" / "events.json"
# What the examples have by chance: the state has no installations and no organisations.
_BY_CHANCE = ("installation", "organization", "enterprise")


@functools.cache
def _examples() -> Json:
    return json.loads(_EXAMPLES.read_text("utf-8"))


def _example(name: str) -> Json:
    example = copy.deepcopy(_examples()[name])
    return {key: value for key, value in example.items() if key not in _BY_CHANCE}


def _over(example: Any, known: Any) -> Any:
    """``known``, with what only the example has."""
    if not (isinstance(example, dict) and isinstance(known, dict)):
        return known
    return example | {key: _over(example.get(key), value) for key, value in known.items()}


def _renderer(state: State, api: str) -> Renderer:
    return Renderer(state, Filler(github_contract()), api)


def _around(render: Renderer, full_name: str, sender: str) -> Json:
    """What every payload has."""
    repository = render.repository(render.state.repository(full_name), "repository")
    return {"repository": repository, "sender": render.user(sender)}


def pull_request(
    state: State,
    pull: PullRequest,
    action: str = "opened",
    *,
    sender: str | None = None,
    before: str | None = None,
    label: str | None = None,
    api: str = GITHUB_API,
) -> Json:
    """``action``: ``opened``, ``reopened``, ``ready_for_review``, ``closed``, ``synchronize`` (with
    the head ``before``) or ``labeled`` (with ``label``)."""
    render = _renderer(state, api)
    known = _around(render, pull.repository, sender or pull.author) | {
        "action": action,
        "number": pull.number,
        "pull_request": render.pull(pull, "pull-request"),
    }
    name = "opened"
    if action == "synchronize":
        name, known = action, known | {"before": before or "0" * 40, "after": pull.head_sha}
    if action == "labeled":
        labels = {it["name"]: it for it in render.labels(pull)}
        name, known = action, known | {"label": labels[label or pull.labels[-1]]}
    return _over(_example(f"pull-request-{name}"), known)


def workflow_run_completed(state: State, run: WorkflowRun, *, api: str = GITHUB_API) -> Json:
    """The event that starts the publishing workflow."""
    render = _renderer(state, api)
    known = _around(render, run.repository, run.actor) | {
        "workflow": render.workflow(run),
        "workflow_run": render.run(run),
    }
    return _over(_example("workflow-run-completed"), known)


def issue_comment(
    state: State,
    comment: Comment,
    action: str = "created",
    *,
    before: str = "",
    api: str = GITHUB_API,
) -> Json:
    """A comment ``created``, or ``edited`` from the text ``before``."""
    render = _renderer(state, api)
    issue = state.issue(comment.repository, comment.number)
    example = _example(f"issue-comment-{action}")
    example["issue"].pop("pull_request", None)
    known = _around(render, comment.repository, comment.login) | {
        "issue": render.issue(issue),
        "comment": render.comment(comment),
    }
    if action == "edited":
        known["changes"] = {"body": {"from": before}}
    return _over(example, known)


def merge_group(state: State, repository: str, *, head_ref: str, api: str = GITHUB_API) -> Json:
    """The merge queue asks for checks of its branch ``head_ref`` (``gh-readonly-queue/...``)."""
    render = _renderer(state, api)
    repo = state.repository(repository)
    head = state.commits[repo.branches[head_ref]]
    commit = _simple_commit(head.sha, head.message, head.author, when(head.date))
    known = _around(render, repository, repo.owner) | {
        "merge_group": {
            "head_sha": head.sha,
            "head_ref": f"refs/heads/{head_ref}",
            "base_sha": head.parents[0],
            "base_ref": f"refs/heads/{repo.default_branch}",
            "head_commit": commit,
        }
    }
    return _over(_example("merge-group-checks-requested"), known)


def _simple_commit(sha: str, message: str, author: str, time: str | None) -> Json:
    identity = {"name": author, "email": f"{author}@users.noreply.github.com"}
    return {
        "id": sha,
        "tree_id": sha,
        "message": message,
        "timestamp": time,
        "author": identity,
        "committer": identity,
    }


def push(state: State, repository: str, branch: str, *, before: str, api: str = GITHUB_API) -> Json:
    """The branch moved from ``before`` to its head, which is the one commit told of."""
    render = _renderer(state, api)
    repo = state.repository(repository)
    head = state.commits[repo.branches[branch]]
    web = f"{state.server_url}/{repo.full_name}"
    commit = _simple_commit(head.sha, head.message, head.author, when(head.date)) | {
        "distinct": True,
        "url": f"{web}/commit/{head.sha}",
        "added": [],
        "removed": [],
        "modified": sorted(head.files),
    }
    around = _around(render, repository, head.author)
    around["repository"]["owner"] |= {"name": repo.owner, "email": None}
    known = around | {
        "ref": f"refs/heads/{branch}",
        "before": before,
        "after": head.sha,
        "created": before == "0" * 40,
        "deleted": False,
        "base_ref": None,
        "compare": f"{web}/compare/{before[:12]}...{head.sha[:12]}",
        "commits": [commit],
        "head_commit": commit,
        "pusher": {"name": head.author, "email": f"{head.author}@users.noreply.github.com"},
    }
    example = _example("push")
    example["repository"].pop("organization")
    return _over(example, known)


def workflow_dispatch(
    state: State,
    repository: str,
    *,
    path: str,
    inputs: dict[str, str],
    sender: str | None = None,
    api: str = GITHUB_API,
) -> Json:
    """A person starts the workflow file ``path`` on the default branch."""
    render = _renderer(state, api)
    repo = state.repository(repository)
    known = _around(render, repository, sender or repo.owner) | {
        "ref": f"refs/heads/{repo.default_branch}",
        "workflow": path,
    }
    return _over(_example("workflow-dispatch"), known) | {"inputs": inputs}


def schedule(state: State, repository: str, *, cron: str, path: str, api: str = GITHUB_API) -> Json:
    """The clock starts the workflow file ``path``."""
    render = _renderer(state, api)
    around = _around(render, repository, state.repository(repository).owner)
    return around | {"schedule": cron, "workflow": path}
