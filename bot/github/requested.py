"""What people asked of the check stage in comments: ``/opdiff run`` and ``/opdiff accept``, read from the sticky comment.

The check stage's plan reads it with a token that may only read. Without one GitHub does not say whose word counts, so
that nothing is followed. What a comment says cannot make the plan fail: what could not be read is a note in the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bot.github.client import TIMEOUT, ApiError, Clock
from bot.github.job import JobError, read_job
from bot.github.own_comments import decisions_on
from bot.github.sticky_comment import ACTIONS_LOGIN

PATIENCE: Final = 60.0
"""Seconds that a plan waits for GitHub in all."""


@dataclass(frozen=True)
class Requested:
    """Ops to run beside the changed ones, and the budget in seconds that the last request gave."""

    ops: tuple[str, ...] = ()
    budget: float | None = None
    accepted: tuple[str, ...] = ()
    """Fingerprints of findings that somebody said to be an expected change, at this head or an older one."""
    note: str = ""
    """Why nobody knows what was asked for; empty when it was read."""


def requested_runs(
    environment: Mapping[str, str],
    number: int,
    head: str,
    clock: Clock | None = None,
    timeout: float = TIMEOUT,
) -> Requested:
    """The ops that ``/opdiff run`` asked for at ``head`` of pull request ``number``; never raises for a failed call.

    The comment is that of ``OPDIFF_GITHUB_LOGIN``, else of GitHub Actions' own account: whoever the publish stage
    writes as. A request counts while the comment that made it is there, by somebody who may write to the repository.
    """
    try:
        job = read_job(environment, token_required=False)
        client = job.client(clock, timeout, PATIENCE)
        decisions = decisions_on(client, number, job.login or ACTIONS_LOGIN)
    except (ApiError, JobError) as error:
        return Requested(note=f"commands in comments could not be read: {error}")
    runs = [entry for entry in decisions if entry.verb == "run" and entry.head == head]
    budgets = [entry.budget for entry in runs if entry.budget is not None]
    return Requested(
        ops=tuple(dict.fromkeys(op for entry in runs for op in entry.ops)),
        budget=budgets[-1] if budgets else None,
        accepted=tuple(
            dict.fromkeys(d.fingerprint for d in decisions if d.verb == "accept" and d.fingerprint)
        ),
    )
