"""A command's comment and what is answered to it: reactions, and one reply that is never posted twice."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from bot.github.client import ApiError, ApiModel, Client, GaveUpError, UnsettledError
from bot.github.event import Id
from bot.github.own_comments import Author, CommentRow

Reaction = Literal["eyes", "+1", "-1", "confused"]


class CommandComment(ApiModel):
    """The comment that holds a command, as it is now."""

    id: Id
    body: str = ""
    user: Author | None
    created_at: AwareDatetime
    updated_at: AwareDatetime


def command_comment(client: Client, comment: int) -> CommandComment:
    """The comment through the API. Raises NotFoundError when it was deleted, ApiError."""
    return client.get(CommandComment, client.path("issues", "comments", comment))


def react(client: Client, comment: int, reaction: Reaction) -> None:
    """React to the command's comment; GitHub keeps one of each.

    Not worth failing for: what GitHub refuses for good (a comment that is gone, a locked conversation, a token that may
    not) is let be. Raises ApiError where GitHub cannot answer for too long.
    """
    path = client.path("issues", "comments", comment, "reactions")

    def step() -> bool:
        try:
            client.write("POST", path, {"content": reaction})
        except (UnsettledError, GaveUpError):
            raise
        except ApiError:
            return True
        return True

    client.settle(step)


def reply(client: Client, number: int, comment: int, login: str, text: str) -> str:
    """Answer to a command's comment, once; returns the reply's address. Raises ApiError."""
    mark = f"<!-- opdiff-answer {comment} -->"
    path = client.path("issues", number, "comments")

    def step() -> str | None:
        for row in client.pages(CommentRow, path):
            if row.is_by(login) and row.body.rstrip().endswith(mark):
                return row.html_url
        created = client.write("POST", path, {"body": f"{text}\n\n{mark}"})
        row = client.parse(CommentRow, created, path)
        if row.user is not None and row.user.login.lower() != login.lower():
            raise ApiError(
                f"the token writes as {row.user.login!r}: set OPDIFF_GITHUB_LOGIN to that"
            )
        return row.html_url

    return client.settle(step)
