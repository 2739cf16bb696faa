"""Which permission each operation needs, as a workflow file names them.

Source: GitHub's "Permissions required for GitHub Apps" (docs.github.com/rest/authentication). GitHub
lets any token read some things of a public repository; the fake does not, so that a test proves which
permissions a program needs everywhere. ``metadata: read`` is always granted and not listed.
"""

from __future__ import annotations

from .model import Level, PullRequest, Token
from .state import NotHere, State

Need = tuple[str, Level]

NEEDS: dict[str, tuple[Need, ...]] = {
    "repos/get": (),
    "repos/get-collaborator-permission-level": (),
    "repos/get-content": (("contents", "read"),),
    "repos/get-commit": (("contents", "read"),),
    "repos/compare-commits-with-basehead": (("contents", "read"),),
    "repos/list-pull-requests-associated-with-commit": (("pull-requests", "read"),),
    "pulls/list": (("pull-requests", "read"),),
    "pulls/get": (("pull-requests", "read"),),
    "pulls/list-files": (("pull-requests", "read"),),
    "issues/get": (("issues", "read"), ("pull-requests", "read")),
    "issues/list-comments-for-repo": (("issues", "read"), ("pull-requests", "read")),
    "issues/list-comments": (("issues", "read"), ("pull-requests", "read")),
    "issues/create-comment": (("issues", "write"), ("pull-requests", "write")),
    "issues/get-comment": (("issues", "read"), ("pull-requests", "read")),
    "issues/update-comment": (("issues", "write"), ("pull-requests", "write")),
    "issues/delete-comment": (("issues", "write"), ("pull-requests", "write")),
    "reactions/list-for-issue-comment": (("issues", "read"), ("pull-requests", "read")),
    "reactions/create-for-issue-comment": (("issues", "write"), ("pull-requests", "write")),
    "checks/create": (("checks", "write"),),
    "checks/update": (("checks", "write"),),
    "checks/get": (("checks", "read"),),
    "checks/list-annotations": (("checks", "read"),),
    "checks/list-for-ref": (("checks", "read"),),
    "actions/list-workflow-runs-for-repo": (("actions", "read"),),
    "actions/get-workflow": (("actions", "read"),),
    "actions/list-workflow-runs": (("actions", "read"),),
    "actions/get-workflow-run": (("actions", "read"),),
    "actions/get-workflow-run-attempt": (("actions", "read"),),
    "actions/list-jobs-for-workflow-run": (("actions", "read"),),
    "actions/list-workflow-run-artifacts": (("actions", "read"),),
    "actions/get-artifact": (("actions", "read"),),
    "actions/download-artifact": (("actions", "read"),),
    "actions/re-run-workflow": (("actions", "write"),),
    "actions/re-run-workflow-failed-jobs": (("actions", "write"),),
    "rate-limit/get": (),
    "users/get-authenticated": (),
    "users/get-by-username": (),
}

BY_PARENT = ("reactions/create-for-issue-comment",)
"""Of a pull request's comment these need the permission for pull requests; the one for issues is
not enough, though the documentation names it alone (tried in MakieOrg/Makie.jl, pull request 5644)."""


def needs(state: State, operation: str, full_name: str, values: dict[str, str]) -> tuple[Need, ...]:
    """The permissions of which one is enough; for a plain issue the one for pull requests is not."""
    alternatives = NEEDS[operation]
    if len(alternatives) < 2:
        return alternatives
    if not _is_pull(state, full_name, values):
        return tuple(it for it in alternatives if it[0] != "pull-requests")
    if operation in BY_PARENT:
        return tuple(it for it in alternatives if it[0] == "pull-requests")
    return alternatives


def _is_pull(state: State, full_name: str, values: dict[str, str]) -> bool:
    number = values.get("issue_number", "")
    if "comment_id" in values:
        wanted = values["comment_id"]
        number = next((str(it.number) for it in state.comments if str(it.id) == wanted), "")
    try:
        return isinstance(state.issue(full_name, int(number or 0)), PullRequest)
    except NotHere:
        return True


def granted(token: Token, alternatives: tuple[Need, ...]) -> bool:
    """Whether ``token`` has one of them; ``write`` holds ``read``."""
    given = {name.replace("_", "-"): level for name, level in token.permissions.items()}
    return not alternatives or any(
        given.get(name) in ((level, "write") if level == "read" else (level,))
        for name, level in alternatives
    )
