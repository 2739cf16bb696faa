"""The pull request that a run belongs to, found through the API: a run's own word for it is not taken."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bot.github.client import ApiModel, Client
from bot.github.event import Id, Sha
from bot.github.workflow_run import CheckStageRun, NothingToPublishError, RunRow

Text = Annotated[str, Field(max_length=1_000)]


class _Repository(ApiModel):
    id: Id
    full_name: Text


class _Side(ApiModel):
    sha: Sha
    ref: Text
    repo: _Repository | None
    """Null when the fork is gone."""


class PullRequest(ApiModel):
    """A pull request, as much as is used of it."""

    number: Id
    state: Text
    head: _Side
    base: _Side

    @property
    def from_fork(self) -> bool:
        """Whether its head lies in another repository, whose owner can edit the check workflow."""
        return (
            self.head.repo is None
            or self.base.repo is None
            or self.head.repo.id != self.base.repo.id
        )


def pull_request(client: Client, number: int) -> PullRequest:
    """One pull request as it is now. Raises NotFoundError, ApiError."""
    return client.get(PullRequest, client.path("pulls", number))


def pull_request_of(client: Client, run: CheckStageRun) -> PullRequest:
    """The only open pull request whose head repository, head branch and head commit all are the run's.

    ``workflow_run.pull_requests`` is empty for forks, and another pull request can sit at the same commit. Raises
    NothingToPublishError where there is not exactly one, ApiError.
    """
    parameters = {"state": "open", "head": f"{run.head_repository.owner.login}:{run.head_branch}"}
    pulls = client.pages(PullRequest, client.path("pulls"), parameters)
    found = [
        pull
        for pull in pulls
        if pull.state == "open" and is_of_branch(run.row, pull) and pull.head.sha == run.head
    ]
    if len(found) != 1:
        numbers = ", ".join(f"#{pull.number}" for pull in found) or "none"
        raise NothingToPublishError(
            f"run {run.row.id} belongs to not exactly one open pull request ({numbers} at {run.head[:12]})"
        )
    return found[0]


def is_of_branch(run: RunRow, pull: PullRequest) -> bool:
    """Whether a run is of the very branch that the pull request would merge: of that repository, by that name."""
    return (
        run.head_repository is not None
        and pull.head.repo is not None
        and run.head_repository.id == pull.head.repo.id
        and run.head_branch == pull.head.ref
    )
