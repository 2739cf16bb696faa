"""Accounts, apps and repositories in GitHub's JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .filled import Filler
from .model import Repository
from .state import State

Json = dict[str, Any]


def when(time: datetime | None) -> str | None:
    """A time in GitHub's form."""
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class AccountRenderer:
    """Renders records; ``api`` is the address of the API that the caller used."""

    state: State
    filler: Filler
    api: str

    def repository_url(self, full_name: str) -> str:
        """The address of a repository in the API."""
        return f"{self.api}/repos/{full_name}"

    def web(self, path: str) -> str:
        """An address for people."""
        return f"{self.state.server_url}/{path}"

    def user(self, login: str, schema: str = "simple-user") -> Json:
        """An account."""
        user = self.state.user(login)
        url = f"{self.api}/users/{login}"
        values = {
            "id": user.id,
            "login": login,
            "type": user.type,
            "url": url,
            "html_url": self.web(login),
            "node_id": f"U_{user.id}",
            "gravatar_id": "",
        }
        if schema in ("public-user", "private-user"):
            values |= {
                "user_view_type": schema.removesuffix("-user"),
                "created_at": "2020-01-01T00:00:00Z",
            }
        return self.filler.filled(schema, values, url)

    def app(self, slug: str) -> Json:
        """A GitHub App."""
        app = self.state.app(slug)
        values = {
            "id": app.id,
            "slug": slug,
            "name": app.name,
            "node_id": f"A_{app.id}",
            "owner": self.user("github"),
            "html_url": self.web(f"apps/{slug}"),
        }
        return self.filler.filled("integration", values)

    def repository(self, repository: Repository, schema: str = "full-repository") -> Json:
        """A repository; ``schema`` one of the description's three sizes."""
        url = self.repository_url(repository.full_name)
        html = self.web(repository.full_name)
        values: Json = {
            "id": repository.id,
            "name": repository.name,
            "full_name": repository.full_name,
            "node_id": f"R_{repository.id}",
            "owner": self.user(repository.owner),
            "private": repository.private,
            "visibility": "private" if repository.private else "public",
            "fork": repository.parent is not None,
            "url": url,
            "html_url": html,
            "clone_url": f"{html}.git",
            "default_branch": repository.default_branch,
            "has_issues": True,
            "has_projects": True,
            "has_wiki": True,
            "has_downloads": True,
            "has_discussions": False,
            "topics": [],
            "created_at": when(repository.created_at),
            "updated_at": when(repository.created_at),
            "pushed_at": when(repository.created_at),
        }
        if schema == "full-repository" and repository.parent:
            parent = self.repository(self.state.repository(repository.parent), "repository")
            values |= {"parent": parent, "source": parent}
        return self.filler.filled(schema, values, url)
