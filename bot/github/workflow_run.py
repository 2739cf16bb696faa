"""The check stage's run, as the API describes it: which of its claims hold before anything of it is published.

A fork can edit its workflows and can add one with any name, so that a run says nothing by itself. What GitHub says of
a run (its workflow's path, event, attempt, head) cannot be forged by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from bot.errors import OpDiffError
from bot.github.client import ApiError, ApiModel, Client
from bot.github.event import Id, Sha
from bot.report.escape import visible

Text = Annotated[str, Field(max_length=1_000)]

REPORTED: Final = ("success", "failure")
"""Conclusions after which a report is looked for: a check that found something may fail its job."""
_UNREPORTED: Final = {
    "cancelled": "was cancelled before it was done",
    "timed_out": "ran into its time limit",
    "startup_failure": "could not be started",
    "stale": "was given up by GitHub",
    "neutral": "ended without a result",
}


class NothingToPublishError(OpDiffError):
    """The run is none of ours, or no longer the newest: nothing is posted, and that is normal. One line says why."""


class _Owner(ApiModel):
    login: Text


class HeadRepository(ApiModel):
    """Where a head branch lies."""

    id: Id
    full_name: Text
    owner: _Owner


class RunRow(ApiModel):
    """A workflow run, as much as is used of it."""

    id: Id
    run_attempt: Annotated[int, Field(gt=0)]
    event: Text
    path: Text
    status: Text | None
    conclusion: Text | None
    head_sha: Sha
    head_branch: Text | None
    head_repository: HeadRepository | None
    html_url: Text
    created_at: AwareDatetime
    run_started_at: AwareDatetime | None = None

    @property
    def workflow(self) -> str:
        """The workflow file's path, without the ``@ref`` that GitHub may add."""
        path, _, ref = self.path.partition("@")
        return self.path if ref.endswith((".yml", ".yaml")) else path

    def is_check(self, workflow: str) -> bool:
        """Whether a pull request began it, and it is of the workflow at this path."""
        return self.event == "pull_request" and self.workflow == workflow


@dataclass(frozen=True)
class CheckStageRun:
    """A run of the check stage that answers for a pull request's head."""

    row: RunRow
    head_repository: HeadRepository
    head_branch: str

    @property
    def head(self) -> str:
        """The commit that it ran on."""
        return self.row.head_sha

    @property
    def unreported(self) -> str:
        """Why no report is to be expected of it; empty when there should be one."""
        conclusion = self.row.conclusion or ""
        if conclusion in REPORTED:
            return ""
        why = _UNREPORTED.get(conclusion, f"ended with {visible(conclusion, 50)!r}")
        return f"the check run {why}"


def check_stage_run(client: Client, run_id: int, attempt: int, workflow: str) -> CheckStageRun:
    """The run, when it is a completed attempt of the check workflow for a pull request.

    Raises NothingToPublishError, ApiError.
    """
    row = client.get(RunRow, client.path("actions", "runs", run_id))
    if row.id != run_id:
        raise ApiError(f"GitHub answers with run {row.id} for run {run_id}")
    if row.workflow != workflow:
        raise NothingToPublishError(
            f"run {run_id} is of {visible(row.workflow, 200)!r}, not of the check workflow {workflow!r}"
        )
    if row.event != "pull_request":
        raise NothingToPublishError(
            f"run {run_id} was started by {visible(row.event, 50)}, not by a pull request: its own summary has the report"
        )
    if row.run_attempt != attempt:
        raise NothingToPublishError(
            f"run {run_id} has attempt {row.run_attempt} by now, which publishes itself: attempt {attempt} is stale"
        )
    if row.status != "completed":
        raise NothingToPublishError(
            f"run {run_id} is not completed ({visible(row.status or '', 50)})"
        )
    if row.conclusion == "skipped":
        raise NothingToPublishError(f"run {run_id} was skipped: there is nothing to report")
    if row.conclusion == "action_required":
        raise NothingToPublishError(
            f"run {run_id} waits for a maintainer's approval: nothing has run"
        )
    if row.head_repository is None or not row.head_branch:
        raise NothingToPublishError(f"the repository or branch that run {run_id} ran for is gone")
    return CheckStageRun(row, row.head_repository, row.head_branch)


class _JobRow(ApiModel):
    conclusion: Text | None


def has_skipped_job(client: Client, run: RunRow) -> bool:
    """Whether the newest attempt of a run skipped one of its jobs. Raises ApiError."""
    jobs = client.pages(_JobRow, client.path("actions", "runs", run.id, "jobs"), key="jobs")
    return any(job.conclusion == "skipped" for job in jobs)
