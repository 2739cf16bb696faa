"""What passes between the server and the operations: a call, a reply, a refusal, pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlencode

from .model import Repository, Token
from .render import Renderer
from .state import State

Json = dict[str, Any]
JSON_TYPE = "application/json; charset=utf-8"
DOCUMENTATION = "https://docs.github.com/rest"
# https://docs.github.com/rest/using-the-rest-api/using-pagination-in-the-rest-api
PER_PAGE, MOST_PER_PAGE = 30, 100

T = TypeVar("T")


@dataclass(frozen=True)
class Reply:
    """A response; ``body`` None sends none."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = JSON_TYPE

    def data(self) -> bytes:
        """The body's bytes."""
        if self.body is None:
            return b""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Refusal(Exception):
    """GitHub refuses a call; ``reply`` is its answer."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: list[Json] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        body: Json = {"message": message, "documentation_url": DOCUMENTATION, "status": str(status)}
        if errors is not None:
            body["errors"] = errors
        self.reply = Reply(status, body, headers or {})


def invalid(resource: str, field_name: str, message: str, code: str = "custom") -> NoReturn:
    """Refuse a value as GitHub does: 422 with one error."""
    error = {"resource": resource, "code": code, "field": field_name, "message": message}
    raise Refusal(422, "Validation Failed", [error])


@dataclass(frozen=True)
class Call:
    """One call as an operation sees it: found, permitted, and valid by the description."""

    state: State
    render: Renderer
    token: Token | None
    values: Mapping[str, str]
    query: Mapping[str, str]
    body: Json
    accept: str
    url: str
    blob_url: Callable[[int], str]

    @property
    def repository(self) -> Repository:
        """The repository that the path names."""
        return self.state.repository(f"{self.values['owner']}/{self.values['repo']}")

    @property
    def full_name(self) -> str:
        return self.repository.full_name

    @property
    def caller(self) -> Token:
        """The caller's token, where one is needed."""
        if self.token is None:
            raise Refusal(401, "Requires authentication")
        return self.token

    def number(self, name: str) -> int:
        """A number of the path; what is none is not found."""
        if not self.values[name].isdecimal():
            raise Refusal(404, "Not Found")
        return int(self.values[name])

    def page(self, items: list[T], show: Callable[[T], Any], wrapped: str | None = None) -> Reply:
        """The page of ``items`` that the query asks for, with GitHub's ``Link`` header.

        ``wrapped``: the list goes into a field of that name, beside ``total_count``.
        """
        size = min(max(int(self.query.get("per_page", PER_PAGE)), 1), MOST_PER_PAGE)
        page = max(int(self.query.get("page", 1)), 1)
        last = max((len(items) + size - 1) // size, 1)
        shown = [show(it) for it in items[(page - 1) * size : page * size]]
        relations = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
        if page >= last:
            del relations["next"], relations["last"]
        if page <= 1:
            del relations["prev"], relations["first"]
        links = [
            f'<{self.url}?{urlencode({**self.query, "page": number})}>; rel="{relation}"'
            for relation, number in relations.items()
        ]
        headers = {"Link": ", ".join(links)} if links else {}
        body = {"total_count": len(items), wrapped: shown} if wrapped else shown
        return Reply(200, body, headers)


Serve = Callable[[Call], Reply]
