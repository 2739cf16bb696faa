"""The event that started a job, from the file that ``GITHUB_EVENT_PATH`` names: only the fields that are used.

GitHub's runner writes the file, but titles, branches and comments in it are anybody's text: every field is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.errors import OpDiffError
from bot.report.escape import visible
from bot.report.files import FileError, read_bounded
from bot.report.untrusted_json import first_problem

MAX_EVENT_BYTES: Final = 32 << 20
MAX_BODY: Final = 300_000
"""Characters of a comment: GitHub's own limit is 65,536, and a little more from older servers is no reason to stop."""

Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Login = Annotated[str, Field(max_length=100)]
Id = Annotated[int, Field(gt=0, lt=2**63)]


class EventError(OpDiffError):
    """The event cannot be used; the message is one line and says what to do."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Commit(_Model):
    sha: Sha


class _PullRequest(_Model):
    number: Id
    base: _Commit
    head: _Commit


class PullRequestEvent(_Model):
    """``pull_request``: opened, synchronize, reopened, ready_for_review, labeled."""

    action: Annotated[str, Field(max_length=100)]
    pull_request: _PullRequest


class _MergeGroup(_Model):
    base_sha: Sha
    head_sha: Sha


class MergeGroupEvent(_Model):
    """``merge_group``: checks_requested."""

    merge_group: _MergeGroup


class PushEvent(_Model):
    """``push``; ``before`` or ``after`` is all zeros for a branch that begins or ends."""

    before: Sha
    after: Sha


class _User(_Model):
    login: Login
    type: Annotated[str, Field(max_length=100)] = "User"


class _Comment(_Model):
    id: Id
    body: Annotated[str, Field(max_length=MAX_BODY)]
    user: _User


class _Issue(_Model):
    number: Id
    pull_request: dict[str, Any] | None = None
    """Null for an issue that is no pull request."""


class IssueCommentEvent(_Model):
    """``issue_comment``: only ``created`` is followed."""

    action: Annotated[str, Field(max_length=100)]
    issue: _Issue
    comment: _Comment


class _WorkflowRun(_Model):
    id: Id
    run_attempt: Annotated[int, Field(gt=0)]


class WorkflowRunEvent(_Model):
    """``workflow_run``: which run; everything else about it is asked of the API."""

    action: Annotated[str, Field(max_length=100)]
    workflow_run: _WorkflowRun


@dataclass(frozen=True)
class Revisions:
    """The two commits between which the diff lies, and the pull request where there is one."""

    base: str
    head: str
    pull_request: int | None = None


@dataclass(frozen=True)
class AllOps:
    """No diff: ``schedule`` and ``workflow_dispatch`` run all ops on what is checked out."""


E = TypeVar("E", bound=BaseModel)


def read_event(path: Path) -> dict[str, Any]:
    """The payload in an event file. Raises EventError."""
    try:
        raw = read_bounded(path, MAX_EVENT_BYTES)
        payload = json.loads(raw)
    except (FileError, ValueError, RecursionError) as error:
        raise EventError(f"the event file cannot be read: {visible(str(error), 300)}") from None
    if not isinstance(payload, dict):
        raise EventError(f"{path} is no event: GITHUB_EVENT_PATH is set by GitHub's runner")
    return cast("dict[str, Any]", payload)


def parse_event(model: type[E], payload: Mapping[str, Any]) -> E:
    """The payload as one of this module's events. Raises EventError."""
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        raise EventError(
            f"the event is no {model.__name__}: {visible(first_problem(error))}"
        ) from None


def revisions_of(event_name: str, payload: Mapping[str, Any]) -> Revisions | AllOps:
    """What an event asks to check. Raises EventError where it names no two commits."""
    if event_name == "pull_request":
        pull = parse_event(PullRequestEvent, payload).pull_request
        return Revisions(pull.base.sha, pull.head.sha, pull.number)
    if event_name == "merge_group":
        group = parse_event(MergeGroupEvent, payload).merge_group
        return Revisions(group.base_sha, group.head_sha)
    if event_name == "push":
        push = parse_event(PushEvent, payload)
        if _is_zero(push.after):
            raise EventError("this push deletes a branch: there is nothing to check")
        if _is_zero(push.before):
            raise EventError(
                "this push begins a branch, so it has no commit before it: give the base with --base"
            )
        return Revisions(push.before, push.after)
    if event_name in ("schedule", "workflow_dispatch"):
        return AllOps()
    raise EventError(
        f"event {visible(event_name, 100)!r} names no change: use pull_request, merge_group, push, schedule "
        "or workflow_dispatch, or give --base and --head"
    )


def _is_zero(sha: str) -> bool:
    return not sha.strip("0")
