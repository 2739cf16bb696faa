"""Operations on issues, pull requests, their comments and reactions."""

from __future__ import annotations

from datetime import datetime

from .exchange import Call, Refusal, Reply, Serve, invalid
from .model import Comment, PullRequest, Reaction
from .state import one

# https://docs.github.com/rest/issues/comments; counted in characters.
LONGEST_COMMENT = 65_536
# https://docs.github.com/rest/pulls/pulls#list-pull-requests-files
MOST_FILES = 3000


def get_issue(call: Call) -> Reply:
    issue = call.state.issue(call.full_name, call.number("issue_number"))
    return Reply(body=call.render.issue(issue))


def list_pulls(call: Call) -> Reply:
    """Newest first. A ``head`` that is not ``owner:branch`` filters nothing, as on GitHub."""
    state = call.query.get("state", "open")
    owner, colon, ref = call.query.get("head", "").partition(":")

    def wanted(pull: PullRequest) -> bool:
        head = call.state.repositories.get(pull.head_repository or "")
        from_head = head is not None and (head.owner.lower(), pull.head_ref) == (owner.lower(), ref)
        return (
            pull.repository == call.full_name
            and state in ("all", pull.state)
            and pull.base_ref == call.query.get("base", pull.base_ref)
            and (from_head or not colon)
        )

    key = {"updated": "updated_at"}.get(call.query.get("sort", "created"), "created_at")
    default = "desc" if call.query.get("sort", "created") == "created" else "asc"
    found = sorted(
        filter(wanted, call.state.pulls),
        key=lambda it: (getattr(it, key), it.number),
        reverse=call.query.get("direction", default) == "desc",
    )
    return call.page(found, call.render.pull)


def get_pull(call: Call) -> Reply:
    pull = call.state.pull(call.full_name, call.number("pull_number"))
    return Reply(body=call.render.pull(pull, "pull-request"))


def list_files(call: Call) -> Reply:
    pull = call.state.pull(call.full_name, call.number("pull_number"))
    files = call.render.files_of(pull)[:MOST_FILES]
    return call.page(files, lambda it: call.render.file(call.full_name, pull.head_sha, it))


def _body(call: Call) -> str:
    text: str = call.body["body"]
    if not text.strip():
        invalid("IssueComment", "data", "Body can't be blank", "unprocessable")
    if len(text) > LONGEST_COMMENT:
        message = f"Body is too long (maximum is {LONGEST_COMMENT} characters)"
        invalid("IssueComment", "data", message, "unprocessable")
    return text


def list_comments(call: Call) -> Reply:
    number = call.number("issue_number")
    call.state.issue(call.full_name, number)
    comments = _since(call, call.state.comments_on(call.full_name, number))
    return call.page(comments, call.render.comment)


def list_repository_comments(call: Call) -> Reply:
    """Those on issues and on pull requests. Without ``sort`` by their ids, and ``direction`` is then ignored."""
    here = [it for it in call.state.comments if it.repository == call.full_name]
    comments = sorted(_since(call, here), key=lambda it: it.id)
    if "sort" in call.query:
        key = {"created": "created_at", "updated": "updated_at"}[call.query["sort"]]
        comments.sort(
            key=lambda it: (getattr(it, key), it.id),
            reverse=call.query.get("direction", "desc") == "desc",
        )
    return call.page(comments, call.render.comment)


def _since(call: Call, comments: list[Comment]) -> list[Comment]:
    """Those that were changed since the time that the query gives."""
    if "since" not in call.query:
        return comments
    since = datetime.fromisoformat(call.query["since"])
    return [it for it in comments if it.updated_at >= since]


def create_comment(call: Call) -> Reply:
    number = call.number("issue_number")
    issue = call.state.issue(call.full_name, number)
    text = _body(call)
    level = call.repository.permissions.get(call.caller.login, "none")
    if issue.locked and not call.caller.app and level in ("none", "read", "triage"):
        raise Refusal(403, "Unable to create comment because issue is locked.")
    comment = call.state.add_comment(
        call.full_name, number, call.caller.login, text, app=call.caller.app
    )
    shown = call.render.comment(comment)
    return Reply(201, shown, {"Location": shown["url"]})


def _comment(call: Call) -> Comment:
    wanted = (call.full_name, call.number("comment_id"))
    return one(call.state.comments, lambda it: (it.repository, it.id) == wanted, "comment")


def get_comment(call: Call) -> Reply:
    return Reply(body=call.render.comment(_comment(call)))


def update_comment(call: Call) -> Reply:
    comment = _comment(call)
    comment.body = _body(call)
    comment.updated_at = call.state.now()
    return Reply(body=call.render.comment(comment))


def delete_comment(call: Call) -> Reply:
    call.state.comments.remove(_comment(call))
    return Reply(204)


def list_reactions(call: Call) -> Reply:
    content = call.query.get("content")
    reactions = [it for it in _comment(call).reactions if content in (None, it.content)]
    return call.page(reactions, call.render.reaction)


def create_reaction(call: Call) -> Reply:
    """The same reaction of the same account again answers 200 and adds nothing."""
    comment, content, login = _comment(call), call.body["content"], call.caller.login
    for reaction in comment.reactions:
        if (reaction.login, reaction.content) == (login, content):
            return Reply(200, call.render.reaction(reaction))
    reaction = Reaction(
        id=call.state.new_id(), login=login, content=content, created_at=call.state.now()
    )
    comment.reactions.append(reaction)
    return Reply(201, call.render.reaction(reaction))


OPERATIONS: dict[str, Serve] = {
    "issues/get": get_issue,
    "pulls/list": list_pulls,
    "pulls/get": get_pull,
    "pulls/list-files": list_files,
    "issues/list-comments-for-repo": list_repository_comments,
    "issues/list-comments": list_comments,
    "issues/create-comment": create_comment,
    "issues/get-comment": get_comment,
    "issues/update-comment": update_comment,
    "issues/delete-comment": delete_comment,
    "reactions/list-for-issue-comment": list_reactions,
    "reactions/create-for-issue-comment": create_reaction,
}
