"""Which comments on a pull request are the bot's own, and what of their markers is believed.

Other workflows write as the same account (``github-actions[bot]``), and one that posts what strangers gave it can be
made to post a marker. So the account alone proves nothing: of a marker counts what GitHub itself bears out.

- A decision counts when the comment that it names is on this pull request, is by the account that it names, begins
  with that very command, and its author may write to the repository now. A comment that is deleted, or edited to say
  something else, takes its decision back. The words of the reason are the comment's.
- What was reported (run, head, findings) counts when the run is one of the check workflow for this pull request's
  branch, at that head. A marker can still lie about the findings of such a run, as the run of a fork can: what is
  said to be new or fixed since then may be wrong, what is found now is not.
- A comment is the bot's own when its last line is a marker of which one or the other counts. Others are neither read
  nor touched.

Where check and publish are one job (a repository that trusts its branches), every run is taken as known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from bot.github.client import ApiModel, Client, NotFoundError
from bot.github.command_text import Command, parse_command
from bot.github.event import Id
from bot.github.marker import read_marker
from bot.github.permission import may_command
from bot.github.pull_request import PullRequest, is_of_branch
from bot.github.state import MAX_DECISIONS, CommentState, Decision
from bot.github.workflow_run import RunRow


class Author(ApiModel):
    """An account."""

    id: Id
    login: Annotated[str, Field(max_length=100)]


class CommentRow(ApiModel):
    """A comment on a pull request."""

    id: Id
    body: str = ""
    user: Author | None
    html_url: str

    def is_by(self, login: str) -> bool:
        """Whether this account wrote it; GitHub's logins have no case."""
        return self.user is not None and self.user.login.lower() == login.lower()


@dataclass(frozen=True)
class OwnComment:
    """One of the bot's own; ``state`` is what counts of its marker."""

    row: CommentRow
    state: CommentState

    @property
    def age(self) -> tuple[int, int]:
        """The run that it speaks of, and which attempt; (0, 0) before the first report."""
        return self.state.run, self.state.attempt


class OwnComments:
    """The bot's own comments on a pull request. What GitHub said of runs and people is remembered while a job lasts.

    ``workflow`` is the check workflow's path, or None where every run is taken as known. ``followed`` is a decision
    that this job has just taken, and ``published`` the run that it publishes: they need no other proof.
    """

    def __init__(
        self,
        client: Client,
        pull: PullRequest,
        login: str,
        workflow: str | None,
        followed: Decision | None = None,
        published: tuple[int, int] | None = None,
    ) -> None:
        self.client = client
        self.pull = pull
        self.login = login
        self._workflow = workflow
        self._followed = followed
        self._published = published
        self.is_posted = False
        """Whether this job has posted one: a list that lacks it lags behind."""
        self._runs: dict[tuple[int, int, str | None], bool] = {}
        self._authors: dict[str, bool] = {}

    def look(self) -> list[OwnComment]:
        """The comments as they are now, the oldest first. Raises ApiError."""
        rows = comments_on(self.client, self.pull.number)
        found: list[OwnComment] = []
        for row in rows.values():
            marker = read_marker(row.body) if row.is_by(self.login) else None
            if marker is None:
                continue
            decisions = counting(self.client, marker.decisions, rows, self._authors, self._followed)
            if self._is_known(marker):
                state = marker.model_copy(update={"decisions": decisions})
            else:
                state = CommentState(decisions=decisions)
            if state != CommentState():
                found.append(OwnComment(row, state))
        return sorted(found, key=lambda comment: comment.row.id)

    def _is_known(self, state: CommentState) -> bool:
        """Whether the run that a marker speaks of is one that it may speak of."""
        if state.run == 0 or self._workflow is None:
            return state.run != 0
        if (state.run, state.attempt, state.head) == (*(self._published or ()), self.pull.head.sha):
            return True
        key = (state.run, state.attempt, state.head)
        if key not in self._runs:
            self._runs[key] = self._ran(state, self._workflow)
        return self._runs[key]

    def _ran(self, state: CommentState, workflow: str) -> bool:
        """Whether it is the check workflow's, of this branch and that head."""
        try:
            run = self.client.get(RunRow, self.client.path("actions", "runs", state.run))
        except NotFoundError:
            return False
        return (
            run.is_check(workflow)
            and run.head_sha == state.head
            and state.attempt <= run.run_attempt
            and is_of_branch(run, self.pull)
        )


def comments_on(client: Client, number: int) -> dict[int, CommentRow]:
    """All comments on a pull request by their ids. Raises ApiError."""
    rows = client.pages(CommentRow, client.path("issues", number, "comments"))
    return {row.id: row for row in rows}


def decisions_on(client: Client, number: int, login: str) -> tuple[Decision, ...]:
    """The decisions that count, of every marker that the account wrote on the pull request. Raises ApiError."""
    rows = comments_on(client, number)
    authors: dict[str, bool] = {}
    markers = [read_marker(row.body) for row in rows.values() if row.is_by(login)]
    found = [
        entry
        for marker in markers
        if marker is not None
        for entry in counting(client, marker.decisions, rows, authors)
    ]
    return _each_once(found)


def all_decisions(own: Sequence[OwnComment]) -> tuple[Decision, ...]:
    """Everybody's decisions, each once, in the order of their comments."""
    return _each_once([entry for comment in own for entry in comment.state.decisions])


def counting(
    client: Client,
    decisions: Sequence[Decision],
    rows: Mapping[int, CommentRow],
    authors: dict[str, bool],
    followed: Decision | None = None,
) -> tuple[Decision, ...]:
    """Those of a marker's decisions that count. ``authors`` remembers who may command, ``followed`` needs no proof.

    Raises ApiError.
    """
    found: list[Decision] = []
    for decision in decisions:
        if decision == followed:
            found.append(decision)
            continue
        said = _said(decision, rows.get(decision.comment))
        if said is None:
            continue
        if said.author not in authors:
            authors[said.author] = may_command(client, said.author)
        if authors[said.author]:
            found.append(said)
    return tuple(found)


def _said(decision: Decision, row: CommentRow | None) -> Decision | None:
    """The decision in the words of its comment; None where the comment does not say so."""
    if row is None or not row.is_by(decision.author):
        return None
    command = parse_command(row.body)
    if not isinstance(command, Command):
        return None
    if (command.verb, command.ops, command.budget) != (
        decision.verb,
        decision.ops,
        decision.budget,
    ):
        return None
    if command.fingerprint is None or decision.fingerprint is None:
        same = command.fingerprint == decision.fingerprint
    else:
        same = decision.fingerprint.startswith(command.fingerprint)
    return decision.model_copy(update={"reason": command.reason}) if same else None


def _each_once(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    by_comment = {entry.comment: entry for entry in decisions}
    return tuple(by_comment[comment] for comment in sorted(by_comment))[-MAX_DECISIONS:]
