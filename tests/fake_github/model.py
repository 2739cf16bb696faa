"""The records that the fake GitHub's state consists of; all of them can be written as JSON."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Level = Literal["read", "write"]
Conclusion = str


class Model(BaseModel):
    """The base of all records: no unknown field, changes are validated."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class User(Model):
    """An account; a bot's login ends with ``[bot]``."""

    id: int
    login: str
    type: Literal["User", "Bot", "Organization"] = "User"


class App(Model):
    """A GitHub App, which is what checks and a bot's comments belong to."""

    id: int
    slug: str
    name: str


class Token(Model):
    """A credential. ``permissions`` are named as in a workflow file (``pull-requests: write``).

    A token of an app (``GITHUB_TOKEN`` is one) acts as the app's bot and sees ``repositories`` alone;
    a person's token has no app and sees everything public.
    """

    value: str
    login: str
    permissions: dict[str, Level]
    app: str | None = None
    repositories: list[str] | None = None
    limit: int = 5000
    used: int = 0


class Commit(Model):
    """A commit with its whole tree: path -> text."""

    sha: str
    message: str
    author: str
    date: datetime
    parents: list[str] = Field(default_factory=list)
    files: dict[str, str] = Field(default_factory=dict)


class Repository(Model):
    """A repository; forks name their ``parent`` and share its commits."""

    id: int
    owner: str
    name: str
    created_at: datetime
    private: bool = False
    parent: str | None = None
    default_branch: str = "main"
    branches: dict[str, str] = Field(default_factory=dict)
    permissions: dict[str, Literal["admin", "maintain", "write", "triage", "read", "none"]] = Field(
        default_factory=dict
    )

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


class ChangedFile(Model):
    """A file as a pull request lists it; ``patch`` is missing for binary and for large files."""

    filename: str
    status: Literal["added", "removed", "modified", "renamed"]
    additions: int
    deletions: int
    patch: str | None = None
    previous_filename: str | None = None


class Issue(Model):
    """An issue, or the issue side of a pull request."""

    id: int
    repository: str
    number: int
    title: str
    body: str | None
    author: str
    created_at: datetime
    updated_at: datetime
    state: Literal["open", "closed"] = "open"
    labels: list[str] = Field(default_factory=list)
    locked: bool = False


class PullRequest(Issue):
    """``head_repository`` is None when the fork was deleted. ``files`` given: listed as they are."""

    head_repository: str | None
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    draft: bool = False
    merged: bool = False
    files: list[ChangedFile] | None = None


class Reaction(Model):
    """One person's reaction to a comment."""

    id: int
    login: str
    content: str
    created_at: datetime


class Comment(Model):
    """A comment in the conversation of an issue or a pull request."""

    id: int
    repository: str
    number: int
    login: str
    body: str
    created_at: datetime
    updated_at: datetime
    app: str | None = None
    reactions: list[Reaction] = Field(default_factory=list)


class Annotation(Model):
    """A remark of a check run on lines of a file."""

    path: str
    start_line: int
    end_line: int
    annotation_level: Literal["notice", "warning", "failure"]
    message: str
    start_column: int | None = None
    end_column: int | None = None
    title: str | None = None
    raw_details: str | None = None


class CheckRun(Model):
    """A check run; its annotations pile up over requests."""

    id: int
    repository: str
    name: str
    head_sha: str
    app: str
    status: str = "queued"
    conclusion: Conclusion | None = None
    started_at: datetime
    completed_at: datetime | None = None
    external_id: str | None = None
    details_url: str | None = None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[Annotation] = Field(default_factory=list)
    actions: list[dict[str, str]] = Field(default_factory=list)


class Attempt(Model):
    """One attempt of a workflow run."""

    status: str
    conclusion: Conclusion | None
    started_at: datetime
    updated_at: datetime
    failed_jobs_only: bool = False


class WorkflowRun(Model):
    """A run of a workflow; ``attempts`` holds all of them, the current one last.

    ``head_repository`` is None when the fork was deleted.
    """

    id: int
    repository: str
    workflow_id: int
    path: str
    name: str
    event: str
    run_number: int
    head_repository: str | None
    head_branch: str | None
    head_sha: str
    actor: str
    created_at: datetime
    attempts: list[Attempt]
    pull_requests: list[int] = Field(default_factory=list)
    jobs: dict[str, Conclusion] = Field(default_factory=dict)
    """Name -> conclusion, where a test is about jobs."""

    @property
    def run_attempt(self) -> int:
        return len(self.attempts)

    @property
    def status(self) -> str:
        return self.attempts[-1].status

    @property
    def conclusion(self) -> Conclusion | None:
        return self.attempts[-1].conclusion


class Artifact(Model):
    """An artifact; its ZIP is kept as base64 so that the whole state is JSON."""

    id: int
    repository: str
    run_id: int
    name: str
    archive: str
    digest: str | None
    size: int
    created_at: datetime
    expires_at: datetime
    expired: bool = False

    @property
    def data(self) -> bytes:
        return base64.b64decode(self.archive)
