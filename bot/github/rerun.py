"""Run the check of a head again, once."""

from __future__ import annotations

from typing import Literal

from bot.github.client import ApiError, Client
from bot.github.workflow_run import RunRow

Rerun = Literal["started", "running"]


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
