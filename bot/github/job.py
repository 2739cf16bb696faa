"""The job of GitHub Actions that a command runs in: what its environment says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.errors import OpDiffError
from bot.github.client import DEFAULT_API, PATIENCE, TIMEOUT, Client, Clock, connect

TOKEN: Final = "OPDIFF_GITHUB_TOKEN"
LOGIN: Final = "OPDIFF_GITHUB_LOGIN"
DEFAULT_SERVER: Final = "https://github.com"


class JobError(OpDiffError):
    """The environment is no job's; the message is one line and names the variable."""


@dataclass(frozen=True)
class Job:
    """What GitHub's runner says of a job, and the token that it was given."""

    token: str = field(repr=False)
    repository: str
    api_url: str
    server_url: str
    event_name: str
    event_file: str
    """``GITHUB_EVENT_PATH``; empty where it is not set."""
    run: int
    attempt: int
    login: str
    """The account that the token writes as, where somebody said it; else empty."""

    @property
    def event_path(self) -> Path:
        """The event's file. Raises JobError where the runner named none."""
        if not self.event_file:
            raise JobError("GITHUB_EVENT_PATH is not set: GitHub's runner sets it")
        return Path(self.event_file)

    @property
    def url(self) -> str:
        """The job's own run."""
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run}"

    def client(
        self, clock: Clock | None = None, timeout: float = TIMEOUT, patience: float = PATIENCE
    ) -> Client:
        """The job's repository through the API. Raises ApiError."""
        return connect(self.repository, self.token, self.api_url, clock, timeout, patience)


def read_job(environment: Mapping[str, str], *, token_required: bool = True) -> Job:
    """The job from its environment variables. Raises JobError."""
    token = environment.get(TOKEN, "").strip()
    if token_required and not token:
        raise JobError(f"{TOKEN} is not set: give the job's token (action input `github-token`)")
    return Job(
        token=token,
        repository=_given(environment, "GITHUB_REPOSITORY"),
        api_url=environment.get("GITHUB_API_URL") or DEFAULT_API,
        server_url=(environment.get("GITHUB_SERVER_URL") or DEFAULT_SERVER).rstrip("/"),
        event_name=environment.get("GITHUB_EVENT_NAME", ""),
        event_file=environment.get("GITHUB_EVENT_PATH", "").strip(),
        run=_number(environment, "GITHUB_RUN_ID", 0),
        attempt=_number(environment, "GITHUB_RUN_ATTEMPT", 1),
        login=environment.get(LOGIN, "").strip(),
    )


def _given(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "").strip()
    if not value:
        raise JobError(f"{name} is not set: GitHub's runner sets it")
    return value


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise JobError(f"{name} is no number: GitHub's runner sets it")
    return int(text)
