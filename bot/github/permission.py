"""Whose commands are followed: people who may write to the repository, asked of the API."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from bot.github.client import ApiModel, Client, NotFoundError

Permission = Literal["admin", "write", "read", "none"]
MAY_COMMAND: Final[frozenset[Permission]] = frozenset(("admin", "write"))
"""Custom roles and ``maintain`` come as the one of the four that they are built on."""


class _Level(ApiModel):
    permission: str = Field(max_length=100)


def may_command(client: Client, login: str) -> bool:
    """Whether the account may write to the repository. Raises ApiError."""
    try:
        level = client.get(_Level, client.path("collaborators", login, "permission"))
    except NotFoundError:
        return False
    return level.permission in MAY_COMMAND
