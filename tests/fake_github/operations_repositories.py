"""Operations on repositories, contents, commits and accounts."""

from __future__ import annotations

from .exchange import Call, Refusal, Reply, Serve
from .model import PullRequest
from .state import NotHere
from .trees import ahead, changed_files, merge_base

# https://docs.github.com/rest/commits/commits#compare-two-commits
MOST_FILES_COMPARED = 300


def get_repository(call: Call) -> Reply:
    return Reply(body=call.render.repository(call.repository))


def get_content(call: Call) -> Reply:
    ref = call.query.get("ref") or call.repository.default_branch
    try:
        tree = call.state.commit_at(call.repository, ref).files
    except NotHere:
        raise Refusal(404, f"No commit found for the ref {ref}") from None
    path = call.values["path"].strip("/")
    if path in tree:
        if "raw" in call.accept:
            raw = "application/vnd.github.raw+json; charset=utf-8"
            return Reply(body=tree[path].encode(), content_type=raw)
        return Reply(body=call.render.content(call.full_name, ref, path, tree[path]))
    below = [it for it in tree if it.startswith(f"{path}/" if path else "")]
    if not below:
        raise Refusal(404, "Not Found")
    depth = len(path.split("/")) if path else 0
    files = [it for it in below if it.count("/") == depth]
    entries = [call.render.content(call.full_name, ref, it, tree[it]) for it in files]
    kept = [{k: v for k, v in it.items() if k not in ("content", "encoding")} for it in entries]
    folders = sorted({"/".join(it.split("/")[: depth + 1]) for it in below if it not in files})
    kept += [call.render.folder(call.full_name, ref, it) for it in folders]
    return Reply(body=kept)


def get_commit(call: Call) -> Reply:
    commit = call.state.commit_at(call.repository, call.values["ref"])
    body = call.render.commit(call.full_name, commit)
    parents = [call.state.commits[it] for it in commit.parents[:1]]
    files = changed_files(parents[0], commit) if parents else []
    body["files"] = [call.render.file(call.full_name, commit.sha, it) for it in files]
    return Reply(body=body)


def compare(call: Call) -> Reply:
    base_name, dots, head_name = call.values["basehead"].partition("...")
    if not dots:
        raise Refusal(404, "Not Found")
    base = call.state.commit_at(call.repository, base_name)
    head = call.state.commit_at(call.repository, head_name)
    fork_point = merge_base(call.state, base.sha, head.sha)
    new, old = ahead(call.state, base.sha, head.sha), ahead(call.state, head.sha, base.sha)
    words = {(0, 0): "identical", (1, 0): "ahead", (0, 1): "behind", (1, 1): "diverged"}
    page = call.page(new, lambda it: call.render.commit(call.full_name, it))
    body = {
        "base_commit": call.render.commit(call.full_name, base),
        "merge_base_commit": call.render.commit(call.full_name, fork_point),
        "status": words[bool(new), bool(old)],
        "ahead_by": len(new),
        "behind_by": len(old),
        "total_commits": len(new),
        "commits": page.body,
        "files": [
            call.render.file(call.full_name, head.sha, it)
            for it in changed_files(fork_point, head)[:MOST_FILES_COMPARED]
        ],
    }
    body = call.render.filler.filled("commit-comparison", body, call.url)
    return Reply(body={**body, "url": call.url}, headers=page.headers)


def list_pulls_of_commit(call: Call) -> Reply:
    """Pull requests that hold the commit. Asked of the base, GitHub leaves out those from forks:
    they are found only when the fork is asked."""

    def holds(pull: PullRequest) -> bool:
        if pull.head_repository != call.full_name:
            return False
        new = ahead(call.state, pull.base_sha, pull.head_sha)
        return call.values["commit_sha"] in [it.sha for it in new]

    if call.values["commit_sha"] not in call.state.commits:
        raise Refusal(422, f"No commit found for SHA: {call.values['commit_sha']}", [])
    pulls = [it for it in call.state.pulls if holds(it)]
    return call.page(pulls, call.render.pull)


PUSHERS = ("write", "maintain", "admin")


def get_permission(call: Call) -> Reply:
    """An app may ask always, a person who may push, and nobody else."""
    login = call.values["username"]
    caller = call.caller
    if not caller.app and call.repository.permissions.get(caller.login) not in PUSHERS:
        raise Refusal(403, "Must have push access to view collaborator permission.")
    if login not in call.state.users:
        raise Refusal(404, f"{login} is not a user")
    role = call.repository.permissions.get(login, "none" if call.repository.private else "read")
    shown = {"maintain": "write", "triage": "read"}.get(role, role)
    user = call.render.user(login, "nullable-collaborator")
    order = ("read", "triage", "write", "maintain", "admin")
    names = ("pull", "triage", "push", "maintain", "admin")
    reached = order.index(role) if role in order else -1
    user["permissions"] = {name: index <= reached for index, name in enumerate(names)}
    user["role_name"] = role
    return Reply(body={"permission": shown, "role_name": role, "user": user})


def get_authenticated(call: Call) -> Reply:
    """An app's token has no user: a workflow cannot ask who it is."""
    if call.caller.app:
        raise Refusal(403, "Resource not accessible by integration")
    return Reply(body=call.render.user(call.caller.login, "public-user"))


def get_user(call: Call) -> Reply:
    if call.values["username"] not in call.state.users:
        raise Refusal(404, "Not Found")
    return Reply(body=call.render.user(call.values["username"], "public-user"))


def get_rate_limit(call: Call) -> Reply:
    limit, used = (call.token.limit, call.token.used) if call.token else (60, 0)
    reset = int(call.state.now().timestamp()) + 3600
    rate = {"limit": limit, "used": used, "remaining": max(limit - used, 0), "reset": reset}
    return Reply(body={"resources": {"core": rate, "search": rate}, "rate": rate})


OPERATIONS: dict[str, Serve] = {
    "repos/get": get_repository,
    "repos/get-content": get_content,
    "repos/get-commit": get_commit,
    "repos/compare-commits-with-basehead": compare,
    "repos/list-pull-requests-associated-with-commit": list_pulls_of_commit,
    "repos/get-collaborator-permission-level": get_permission,
    "users/get-authenticated": get_authenticated,
    "users/get-by-username": get_user,
    "rate-limit/get": get_rate_limit,
}
