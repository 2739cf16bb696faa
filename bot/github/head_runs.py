"""The check stage's runs of a pull request's head, by GitHub's word."""

from __future__ import annotations

from dataclasses import dataclass

from bot.github.client import Client
from bot.github.pull_request import PullRequest, is_of_branch
from bot.github.workflow_run import RunRow


@dataclass(frozen=True)
class HeadRuns:
    """The check stage's runs of a pull request's head, the newest first; there is at least one."""

    rows: tuple[RunRow, ...]

    @property
    def newest(self) -> RunRow:
        """The run that is run again: one that was skipped would be skipped again, so it comes last."""
        return next((row for row in self.rows if row.conclusion != "skipped"), self.rows[0])


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
