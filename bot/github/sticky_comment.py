"""The one comment of the bot on a pull request: found, written, and kept one.

:mod:`bot.github.own_comments` says which comments are the bot's own and what of them counts. Of several own ones (two
jobs began at once, or another workflow posted a marker) the oldest is the one: nothing can be posted before it any
more. It holds what the newest run said and all decisions, and the others are deleted; none of their text is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bot.github.client import (
    SECONDS_BETWEEN_WRITES,
    ApiError,
    Client,
    GaveUpError,
    NotFoundError,
)
from bot.github.marker import fitted, read_marker, write_marker
from bot.github.own_comments import Author, CommentRow, OwnComment, OwnComments, all_decisions
from bot.github.publication import Posted
from bot.github.pull_request import PullRequest, pull_request
from bot.github.since import compared_with
from bot.github.state import MAX_DECISIONS, CommentState, Decision

MAX_BODY: Final = 65_500
"""Bytes of UTF-8: GitHub takes 65,536 characters."""
_GAVE_WAY: Final = "Details are in the whole report, and here again with the next one."
ACTIONS_LOGIN: Final = "github-actions[bot]"
Render = Callable[[CommentState], str]
"""From what the comment remembers (its decisions are the newest) to the whole body, marker included."""


@dataclass(frozen=True)
class StickyComment:
    """The bot's comment as it is now. ``url`` is empty when there is none."""

    url: str = ""
    body: str = ""
    state: CommentState = field(default_factory=CommentState)


def own_login(client: Client, configured: str = "") -> str:
    """The account that the token writes as.

    A person's token may ask (GET /user). An app's installation token may not (403), and neither may nobody (401):
    it is then ``configured`` (the login of the app's account, ``NAME[bot]``), and without it GitHub Actions' own.
    """
    if configured:
        return configured
    try:
        return client.get(Author, "/user").login
    except GaveUpError:
        raise
    except ApiError as error:
        if error.status in (401, 403):
            return ACTIONS_LOGIN
        raise


def read_sticky_comment(
    client: Client, pull: PullRequest, login: str, workflow: str | None
) -> StickyComment:
    """The bot's comment on a pull request; an empty one where there is none. Raises ApiError.

    ``workflow``: the check workflow's path, None where check and publish are one job.
    """
    own = OwnComments(client, pull, login, workflow).look()
    if not own:
        return StickyComment()
    return StickyComment(own[0].row.html_url, own[0].row.body, _state(own))


def post_sticky_comment(
    client: Client,
    pull: PullRequest,
    login: str,
    run: tuple[int, int],
    render: Render,
    workflow: str | None,
) -> Posted:
    """Make the bot's comment hold what ``render`` makes of the state, and be the only one.

    It is left alone when it says so already, when the pull request's head has moved on from ``pull``'s or it is closed,
    and when one speaks of a later ``run`` (id and attempt): all looked at right before each write. Raises ApiError.
    """
    comments = OwnComments(client, pull, login, workflow, published=run)
    accepted: set[str] = set()

    def step() -> Posted | None:
        own = comments.look()
        moved = _moved_on(client, pull)
        if moved:
            return Posted(own[0].row.html_url if own else "", moved)
        if not own:
            _create(comments, render(CommentState()))
            return None
        state = _state(own)
        if max(comment.age for comment in own) > run:
            # Whoever posted a younger one is still at work, and will bring them together.
            later = own[0].age > run
            body = with_state(own[0].row.body, state)
            if not later or _brought_together(client, own, body, accepted):
                return Posted(own[0].row.html_url, "a later run has been published")
            return None
        body = render(compared_with(state, run))
        if _brought_together(client, own, body, accepted):
            return Posted(own[0].row.html_url)
        return None

    return client.settle(step)


def record_decision(
    client: Client,
    pull: PullRequest,
    login: str,
    decision: Decision,
    first_body: Render,
    workflow: str | None,
) -> Posted:
    """Add a decision to the comment's state, once; ``first_body`` is the comment where there is none yet.

    After each write the comment is read again: a decision that another job's write took away is put back.
    """
    comments = OwnComments(client, pull, login, workflow, followed=decision)
    accepted: set[str] = set()

    def step() -> Posted | None:
        own = comments.look()
        if not own:
            _create(comments, first_body(CommentState(decisions=(decision,))))
            return None
        state = _state(own)
        if all(known.comment != decision.comment for known in state.decisions):
            decisions = (*state.decisions, decision)[-MAX_DECISIONS:]
            state = state.model_copy(update={"decisions": decisions})
        body = with_state(own[0].row.body, state)
        if not _brought_together(client, own, body, accepted):
            return None
        return Posted(own[0].row.html_url)

    return client.settle(step)


def with_state(body: str, state: CommentState) -> str:
    """The same comment with another state in its marker, which is its last line.

    A comment that was full has no room for one more decision: its details then give way, first and last paragraph stay.
    """
    text, newline, _ = body.rstrip().rpartition("\n")
    marker = write_marker(fitted(state))
    whole = f"{text}{newline}{marker}"
    if len(whole.encode()) <= MAX_BODY:
        return whole
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join([paragraphs[0], _GAVE_WAY, paragraphs[-1], marker])


def _brought_together(
    client: Client, own: Sequence[OwnComment], body: str, accepted: set[str]
) -> bool:
    """Whether the oldest comment is the only one and holds ``body``; if not, one write is made towards that.

    A body that GitHub ``accepted`` is there when its state is, even where the text is given back in another form.
    """
    oldest, *others = own
    path = client.path("issues", "comments", oldest.row.id)
    try:
        there = body in accepted and read_marker(oldest.row.body) == read_marker(body)
        if not (there or _same(oldest.row.body, body)):
            client.write("PATCH", path, {"body": body})
            accepted.add(body)
            return False
        if others:
            client.write("DELETE", client.path("issues", "comments", others[-1].row.id))
            return False
    except NotFoundError:  # another job has just deleted it
        return False
    return True


def _state(own: Sequence[OwnComment]) -> CommentState:
    """The oldest's state with the decisions of all."""
    return own[0].state.model_copy(update={"decisions": all_decisions(own)})


def _moved_on(client: Client, before: PullRequest) -> str:
    pull = pull_request(client, before.number)
    if pull.state != "open":
        return "the pull request is no longer open"
    if (pull.head.repo is None) != (before.head.repo is None):
        return "the repository of the head branch is gone"
    if pull.head.sha != before.head.sha:
        return f"the head has moved on from {before.head.sha[:12]} to {pull.head.sha[:12]}"
    return ""


def _create(comments: OwnComments, body: str) -> None:
    """Post the first comment, or wait for the list to have it.

    One that would never be found again is taken back, instead of one more with every push.
    """
    client, login = comments.client, comments.login
    if comments.is_posted:
        client.clock.sleep(SECONDS_BETWEEN_WRITES)
        return
    path = client.path("issues", comments.pull.number, "comments")
    created = client.parse(CommentRow, client.write("POST", path, {"body": body}), path)
    if created.is_by(login):
        comments.is_posted = True
        return
    author = created.user.login if created.user else ""
    path = client.path("issues", "comments", created.id)
    client.settle(lambda: _delete(client, path))
    raise ApiError(
        f"the token writes as {author!r}, and {login!r} was expected: "
        f"set OPDIFF_GITHUB_LOGIN to {author!r} in the publishing job"
    )


def _delete(client: Client, path: str) -> Any:
    try:
        client.write("DELETE", path)
    except NotFoundError:
        return "gone"
    return "gone"


def _same(there: str, wanted: str) -> bool:
    """GitHub may give a body back with other line ends and without blanks at its end."""
    return there.replace("\r\n", "\n").rstrip() == wanted.replace("\r\n", "\n").rstrip()
