"""``opdiff command``: follow a comment that begins with ``/opdiff``, from top to bottom.

event -> command -> comment anew -> author -> head -> finding -> recorded in the sticky comment -> run again -> answer

Nothing of the pull request is executed here: what a command asks for is written into the sticky comment's state, and
the pull request's own run, started again, reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bot.github import command_answer
from bot.github.check_report import BrokenReportError, check_belongs, fetch_report
from bot.github.client import (
    NO_PERMISSION,
    TIMEOUT,
    ApiError,
    Client,
    Clock,
    GaveUpError,
    NotFoundError,
)
from bot.github.command_text import Command, CommandError, parse_command
from bot.github.conversation import (
    CommandComment,
    Reaction,
    command_comment,
    react,
    reply,
)
from bot.github.event import IssueCommentEvent, parse_event, read_event
from bot.github.head_runs import HeadRuns, head_runs
from bot.github.job import read_job
from bot.github.marker import fitted, write_marker
from bot.github.permission import may_command
from bot.github.pull_request import PullRequest, pull_request
from bot.github.rerun import rerun
from bot.github.state import CommentState, Decision, Seen, Verb
from bot.github.sticky_comment import own_login, read_sticky_comment, record_decision
from bot.known_names import is_known_op, near_ops
from bot.publish import ARTIFACT_NAME, CHECK_WORKFLOW
from bot.report.repro_script import script_if_any
from bot.report.upstream import new_issue_url

RERUN: Final[frozenset[Verb]] = frozenset(("run", "retry", "accept"))
"""The commands after which the check runs again: the others change nothing that a run would show."""


@dataclass(frozen=True)
class CommandOptions:
    """What the command line says: whose runs are run again, and where their reports lie."""

    artifact_name: str = ARTIFACT_NAME
    check_workflow: str = CHECK_WORKFLOW


@dataclass(frozen=True)
class Answered:
    """What became of a comment, in one line; ``followed`` when it was a command that was carried out."""

    note: str
    followed: bool = False


class _RefusedError(Exception):
    """A command is not followed: how the comment is reacted to, and what is replied (nothing when empty)."""

    def __init__(self, reaction: Reaction, why: str, answer: str = "") -> None:
        super().__init__(why)
        self.reaction: Reaction = reaction
        self.why = why
        self.answer = answer


@dataclass(frozen=True)
class _Asked:
    """A command that may be followed, and what it is about."""

    command: Command
    comment: CommandComment
    author: str
    pull: PullRequest
    runs: HeadRuns
    state: CommentState
    login: str

    @property
    def is_recorded(self) -> bool:
        """Whether the sticky comment holds the command, from this job or an earlier one for the same comment."""
        return any(entry.comment == self.comment.id for entry in self.state.decisions)

    @property
    def has_run_since(self) -> bool:
        """Whether an attempt of the check began after the comment was made."""
        newest = self.runs.newest
        return (newest.run_started_at or newest.created_at) > self.comment.created_at


def answer(
    environment: Mapping[str, str],
    options: CommandOptions | None = None,
    clock: Clock | None = None,
    timeout: float = TIMEOUT,
) -> Answered:
    """Follow the command in the comment of this job's event, or say why not. Raises OpDiffError.

    A comment that is no command, and one that was followed before, change nothing. Where a job ended after it had
    recorded a command and before the check ran again, the next one for the same comment goes on from there.
    """
    options = options or CommandOptions()
    job = read_job(environment)
    event = parse_event(IssueCommentEvent, read_event(job.event_path))
    if event.action != "created" or event.issue.pull_request is None:
        return Answered("no new comment on a pull request: nothing to do")
    if event.comment.user.type == "Bot" or parse_command(event.comment.body) is None:
        return Answered("the comment is no command: nothing to do")
    client = job.client(clock, timeout)
    number = event.issue.number
    login = own_login(client, job.login)
    try:
        asked = _asked(client, event, login, options)
        if not asked.is_recorded:
            return _follow(client, asked, options)
        if asked.command.verb not in RERUN or asked.has_run_since:
            return Answered("the command was followed before: nothing to do")
        return _finish(client, asked, None)
    except NotFoundError as error:
        return Answered(f"the comment or its pull request is gone: {error}")
    except _RefusedError as refused:
        react(client, event.comment.id, refused.reaction)
        if refused.answer:
            reply(client, number, event.comment.id, login, refused.answer)
        return Answered(f"refused: {refused.why}")


def _asked(client: Client, event: IssueCommentEvent, login: str, options: CommandOptions) -> _Asked:
    """The command and its circumstances, all of it asked of the API. Raises _RefusedError, ApiError."""
    comment = command_comment(client, event.comment.id)
    author = comment.user.login if comment.user is not None else ""
    if not author or not may_command(client, author):
        # No reply: a stranger must not be able to make the bot talk.
        raise _RefusedError("-1", "the author may not write to this repository")
    if comment.body != event.comment.body or comment.updated_at != comment.created_at:
        raise _RefusedError("-1", "the comment was edited", _EDITED)
    command = parse_command(comment.body)
    if command is None:
        raise _RefusedError("confused", "the comment is no command")
    if isinstance(command, CommandError):
        raise _RefusedError("confused", "the command is not understood", command.message)
    unknown = [name for name in command.ops if not is_known_op(name)]
    if unknown:
        said = command_answer.unknown_op(unknown[0], near_ops(unknown[0]))
        raise _RefusedError("confused", "nobody knows an op that it names", said)
    pull = pull_request(client, event.issue.number)
    if pull.state != "open":
        raise _RefusedError("-1", "the pull request is closed", "The pull request is closed.")
    sticky = read_sticky_comment(client, pull, login, options.check_workflow)
    runs = _runs_before(client, pull, comment, sticky.state, options)
    return _Asked(command, comment, author, pull, runs, sticky.state, login)


def _runs_before(
    client: Client,
    pull: PullRequest,
    comment: CommandComment,
    state: CommentState,
    options: CommandOptions,
) -> HeadRuns:
    """The head's check runs, all begun before the comment was made. Raises _RefusedError, ApiError.

    The API does not say when a head was pushed, and a commit's own dates are its author's to choose. But each push to a
    pull request begins a run, and when GitHub began it is GitHub's word: a run of this head that is not older than the
    comment means that the head may be newer than what the author saw. A run that reopening or a label began counts as
    well, so that a command is at times refused without need; where no run of the check is found, it always is.
    """
    runs = head_runs(client, pull, options.check_workflow)
    if runs is None:
        raise _RefusedError("-1", "the head has no check run", command_answer.nothing_to_rerun())
    if max(row.created_at for row in runs.rows) >= comment.created_at:
        seen = state.head if state.head not in (None, pull.head.sha) else ""
        raise _RefusedError(
            "-1",
            "the head was pushed after the comment was made",
            command_answer.head_moved(seen or "", pull.head.sha),
        )
    return runs


def _follow(client: Client, asked: _Asked, options: CommandOptions) -> Answered:
    """Record the command, run the check again where that shows something, and answer. Raises _RefusedError, ApiError."""
    command, comment = asked.command, asked.comment
    finding = _finding(command, asked.state)
    react(client, comment.id, "eyes")
    link = _draft(client, asked, finding, options) if command.verb == "draft" else ""
    decision = _decision(asked, finding)
    record_decision(client, asked.pull, asked.login, decision, _first_body, options.check_workflow)
    return _finish(client, asked, finding, link)


def _finish(client: Client, asked: _Asked, finding: Seen | None, link: str = "") -> Answered:
    """What follows a command that is recorded. A job that died before it is done is taken up again here."""
    command, comment = asked.command, asked.comment
    started = _run_again(client, asked) if command.verb in RERUN else ""
    react(client, comment.id, "+1")
    if command.verb in ("ignore", "draft") or started == "running":
        text = command_answer.recorded(command, finding, link)
        if started == "running":
            text += f"\n\n{_RUNNING}"
        reply(client, asked.pull.number, comment.id, asked.login, text)
    return Answered(
        f"{command.verb}: recorded{'; check ' + started if started else ''}", followed=True
    )


def _run_again(client: Client, asked: _Asked) -> str:
    try:
        return rerun(client, asked.runs.newest)
    except GaveUpError:
        raise
    except ApiError as error:
        if error.status != 403 or NO_PERMISSION in str(error):
            raise
        raise _RefusedError(
            "confused", f"the check cannot run again: {error}", command_answer.nothing_to_rerun()
        ) from None


def _finding(command: Command, state: CommentState) -> Seen | None:
    """The finding of the last report that a command's fingerprint begins. Raises _RefusedError for none or several."""
    if command.fingerprint is None:
        return None
    matching = [seen for seen in state.seen if seen.fingerprint.startswith(command.fingerprint)]
    if not matching:
        raise _RefusedError(
            "confused",
            "no such finding",
            command_answer.no_such_finding(command.fingerprint, state.seen),
        )
    if len(matching) > 1:
        raise _RefusedError(
            "confused",
            "more than one such finding",
            command_answer.ambiguous(command.fingerprint, matching),
        )
    return matching[0]


def _decision(asked: _Asked, finding: Seen | None) -> Decision:
    command = asked.command
    return Decision(
        comment=asked.comment.id,
        verb=command.verb,
        author=asked.author,
        head=asked.pull.head.sha,
        fingerprint=finding.fingerprint if finding is not None else None,
        reason=command.reason,
        ops=command.ops,
        budget=command.budget,
        verdict=finding.verdict if command.verb == "wrong" and finding is not None else None,
    )


def _draft(client: Client, asked: _Asked, finding: Seen | None, options: CommandOptions) -> str:
    """The address of a prefilled issue, made from the newest run's report; empty for a finding that is not upstream's."""
    assert finding is not None
    try:
        report = fetch_report(client, asked.runs.newest, options.artifact_name)
        check_belongs(client, report.results, asked.pull)
        for row, bundle in zip(report.results.findings, report.bundles(), strict=True):
            if row.fingerprint == finding.fingerprint:
                return new_issue_url(row, report.results, script_if_any(bundle)) or ""
    except (BrokenReportError, ValueError) as error:
        raise _RefusedError("confused", f"no report to draft from: {error}", _NO_REPORT) from None
    return ""


def _first_body(state: CommentState) -> str:
    return f"{_FIRST}\n\n{write_marker(fitted(state))}"


_EDITED: Final = "This comment was edited: commands are taken from comments as they were made."
_RUNNING: Final = (
    "The check is running, so it may have begun without this: say `/opdiff retry` when it is done."
)
_NO_REPORT: Final = "The newest check run of this head left no report to draft from."
_FIRST: Final = "OpDiff has noted a command. The report will be here when the check is done."
