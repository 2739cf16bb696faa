"""The one comment of the bot on a pull request: found, written, and kept one.

A comment is the bot's own when the bot's account wrote it and a marker is in its last line; a copied marker in
somebody else's comment is neither read nor touched. Of several own ones (two jobs began at once) the oldest stays,
holds what the newest run said and all decisions, and the others are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field

from bot.github.client import ApiError, ApiModel, Client, NotFoundError
from bot.github.event import Id
from bot.github.marker import fitted, read_marker, write_marker
from bot.github.pull_request import pull_request
from bot.github.state import MAX_DECISIONS, CommentState, Decision

MAX_BODY: Final = 65_500
"""Bytes of UTF-8: GitHub takes 65,536 characters."""
_GAVE_WAY: Final = "Details are in the whole report, and here again with the next one."
ACTIONS_LOGIN: Final = "github-actions[bot]"
Render = Callable[[CommentState], str]
"""From what the comment remembers (its decisions are the newest) to the whole body, marker included."""


class Author(ApiModel):
    """An account."""

    id: Id
    login: Annotated[str, Field(max_length=100)]


class CommentRow(ApiModel):
    """A comment on a pull request."""

    id: Id
    body: str = ""
    user: Author | None
    html_url: str


@dataclass(frozen=True)
class StickyComment:
    """The bot's comment as it is now. ``url`` is empty when there is none."""

    url: str = ""
    body: str = ""
    state: CommentState = field(default_factory=CommentState)


@dataclass(frozen=True)
class Posted:
    """What became of a comment or check run: its address, and why it was left alone where it was."""

    url: str = ""
    left_alone: str = ""


@dataclass(frozen=True)
class _Own:
    row: CommentRow
    state: CommentState

    @property
    def age(self) -> tuple[int, int]:
        return self.state.run, self.state.attempt


def own_login(client: Client, configured: str = "") -> str:
    """The account that the token writes as.

    A person's token may ask (GET /user). An app's installation token may not (403), and neither may nobody (401):
    it is then ``configured`` (the login of the app's account, ``NAME[bot]``), and without it GitHub Actions' own.
    """
    if configured:
        return configured
    try:
        return client.get(Author, "/user").login
    except ApiError as error:
        if error.status in (401, 403):
            return ACTIONS_LOGIN
        raise


def read_sticky_comment(client: Client, number: int, login: str) -> StickyComment:
    """The bot's comment on pull request ``number``; an empty one where there is none. Raises ApiError."""
    own = _own_comments(client, number, login)
    if not own:
        return StickyComment()
    newest = max(own, key=lambda comment: comment.age)
    state = newest.state.model_copy(update={"decisions": _decisions(own)})
    return StickyComment(own[0].row.html_url, newest.row.body, state)


def post_sticky_comment(
    client: Client, number: int, login: str, head: str, run: tuple[int, int], render: Render
) -> Posted:
    """Make the bot's comment hold what ``render`` makes of the state, and be the only one.

    It is left alone when it says so already, when the pull request's head has moved on from ``head`` or it is closed,
    and when it speaks of a later ``run`` (id and attempt): all looked at right before each write. Raises ApiError.
    """

    accepted: set[str] = set()
    before: CommentState | None = None  # of the report before this run's: what is compared with

    def step() -> Posted | None:
        nonlocal before
        own = _own_comments(client, number, login)
        moved = _moved_on(client, number, head)
        if moved:
            return Posted(own[0].row.html_url if own else "", moved)
        if not own:
            before = before or CommentState()
            _create(client, number, login, render(before))
            return None
        newest = max(own, key=lambda comment: comment.age)
        decisions = {"decisions": _decisions(own)}
        if newest.age > run:
            body = with_state(newest.row.body, newest.state.model_copy(update=decisions))
            if _brought_together(client, own, body, accepted):
                return Posted(own[0].row.html_url, "a later run has been published")
            return None
        if before is None or newest.age < run:
            before = newest.state
        if _brought_together(client, own, render(before.model_copy(update=decisions)), accepted):
            return Posted(own[0].row.html_url)
        return None

    return client.settle(step)


def record_decision(
    client: Client, number: int, login: str, decision: Decision, first_body: Render
) -> Posted:
    """Add a decision to the comment's state, once; ``first_body`` is the comment where there is none yet.

    After each write the comment is read again: a decision that another job's write took away is put back.
    """
    accepted: set[str] = set()

    def step() -> Posted | None:
        own = _own_comments(client, number, login)
        if not own:
            _create(client, number, login, first_body(CommentState(decisions=(decision,))))
            return None
        newest = max(own, key=lambda comment: comment.age)
        decisions = _decisions(own)
        if all(known.comment != decision.comment for known in decisions):
            decisions = (*decisions, decision)[-MAX_DECISIONS:]
        body = with_state(newest.row.body, newest.state.model_copy(update={"decisions": decisions}))
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


def _brought_together(client: Client, own: Sequence[_Own], body: str, accepted: set[str]) -> bool:
    """Whether the oldest comment is the only one and holds ``body``; if not, one write is made towards that.

    A body that GitHub ``accepted`` is there when its state is, even where the text is given back in another form.
    """
    oldest, *others = own
    path = client.path("issues", "comments", oldest.row.id)
    try:
        there = body in accepted and oldest.state == read_marker(body)
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


def _own_comments(client: Client, number: int, login: str) -> list[_Own]:
    """The bot's own comments with a marker, the oldest first."""
    found: list[_Own] = []
    for row in client.pages(CommentRow, client.path("issues", number, "comments")):
        if row.user is None or row.user.login.lower() != login.lower():
            continue
        state = read_marker(row.body)
        if state is not None:
            found.append(_Own(row, state))
    return sorted(found, key=lambda comment: comment.row.id)


def _decisions(own: Sequence[_Own]) -> tuple[Decision, ...]:
    """Everybody's decisions, each once, in the order of their comments."""
    decisions = {entry.comment: entry for comment in own for entry in comment.state.decisions}
    return tuple(decisions[comment] for comment in sorted(decisions))[-MAX_DECISIONS:]


def _moved_on(client: Client, number: int, head: str) -> str:
    pull = pull_request(client, number)
    if pull.state != "open":
        return "the pull request is no longer open"
    if pull.head.sha != head:
        return f"the head has moved on from {head[:12]} to {pull.head.sha[:12]}"
    return ""


def _create(client: Client, number: int, login: str, body: str) -> None:
    """Post the first comment. One that would never be found again is taken back, instead of one more with every push."""
    path = client.path("issues", number, "comments")
    created = client.parse(CommentRow, client.write("POST", path, {"body": body}), path)
    author = created.user.login if created.user else ""
    if author.lower() == login.lower():
        return
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
