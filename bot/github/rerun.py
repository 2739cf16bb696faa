"""Find the check run of a head, and run it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bot.github.client import ApiError, Client
from bot.github.pull_request import PullRequest, is_of_branch
from bot.github.workflow_run import RunRow

Rerun = Literal["started", "running"]


@dataclass(frozen=True)
class HeadRuns:
    """The check stage's runs of a pull request's head, the newest first; there is at least one."""

    rows: tuple[RunRow, ...]

    @property
    def newest(self) -> RunRow:
        """The run that is run again."""
        return self.rows[0]


def head_runs(client: Client, pull: PullRequest, workflow: str) -> HeadRuns | None:
    """The runs that GitHub began for this head of this pull request; None without one. Raises ApiError."""
    rows = client.pages(
        RunRow,
        client.path("actions", "runs"),
        {"event": "pull_request", "head_sha": pull.head.sha},
        key="workflow_runs",
    )
    ours = [
        row
        for row in rows
        if row.is_check(workflow) and row.head_sha == pull.head.sha and is_of_branch(row, pull)
    ]
    if not ours:
        return None
    return HeadRuns(tuple(sorted(ours, key=lambda row: row.id, reverse=True)))


def rerun(client: Client, run: RunRow) -> Rerun:
    """Run all jobs again; ``running`` where the run is not done yet. Raises ApiError where GitHub refuses.

    A refusal and a cut answer alike are looked into before anything is asked for again: a run that has a newer attempt
    was started.
    """
    path = client.path("actions", "runs", run.id)
    refused: list[ApiError] = []

    def step() -> Rerun | None:
        now = client.get(RunRow, path)
        if now.run_attempt > run.run_attempt:
            return "started"
        if now.status != "completed":
            return "running"
        if refused:
            raise refused[0]
        try:
            client.write("POST", f"{path}/rerun")
        except ApiError as error:
            if error.status != 403 or "already running" not in str(error):
                raise
            refused.append(error)
            return None
        return "started"

    return client.settle(step)
