"""The verdicts that the bot gave in a repository, and those that people said to be wrong: read from its comments.

One paging over the comments of all issues and pull requests. Of the rules of :mod:`bot.github.own_comments` hold here:

- A comment is the bot's own when its account wrote it on a pull request and its last line is a marker. Of several on one
  pull request the oldest that holds a report speaks, as there: nothing can be posted before it any more.
- A decision counts when the comment that it names is on the same pull request, is by the account that it names, begins
  with that very command, and its author may write to the repository now. The words of the reason are the comment's.

What does not hold, since it would take calls for each pull request: that GitHub knows the run which a report speaks of.
So another workflow that writes as the same account, and can be made to post a marker, can add verdicts that nobody
gave; what is said to be wrong it cannot make up. Only the verdict that a command was about is the marker's word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bot.github.client import ApiError, Client, NotFoundError, TooManyPagesError
from bot.github.command_text import Command, parse_command
from bot.github.marker import read_marker
from bot.github.own_comments import CommentRow, counting
from bot.github.state import CommentState, Decision
from bot.oracle.finding import Verdict

_PULL_REQUEST: Final = re.compile(r"/pull/([0-9]{1,18})#issuecomment-[0-9]+")


@dataclass(frozen=True)
class SaidWrong:
    """A verdict that somebody said to be wrong, and why. ``url`` is the comment's that said it."""

    pull_request: int
    fingerprint: str
    verdict: Verdict
    author: str
    reason: str
    url: str

    @property
    def subject(self) -> tuple[str, Verdict]:
        """What was said to be wrong: two people can say it of the same."""
        return self.fingerprint, self.verdict


@dataclass(frozen=True)
class GivenVerdicts:
    """The verdicts on one pull request's findings.

    ``given`` counts each verdict on each finding once, however many reports had it. ``left_out`` findings of the newest
    report are beyond what a comment remembers: their verdicts are not known.
    """

    pull_request: int
    given: Mapping[Verdict, int]
    wrong: tuple[SaidWrong, ...]
    left_out: int = 0


def given_verdicts(client: Client, login: str, since: str | None = None) -> list[GivenVerdicts]:
    """Of every pull request that ``login`` reported on, by number.

    ``since`` (YYYY-MM-DDTHH:MM:SSZ): only pull requests whose comment was changed from then on, and of those everything.
    Raises ApiError.
    """
    rows = _rows(client, login, since)
    authors: dict[str, bool] = {}
    found: list[GivenVerdicts] = []
    for number in sorted(rows):
        here = rows[number]
        markers = _markers(here, login)
        reports = [state for state in markers.values() if state.run]
        if not reports:
            continue
        decisions = _said_wrong(markers.values())
        if since is not None:
            # A command that was made before then is not in the list.
            _fetch_missing(client, number, decisions, here)
        counted = counting(client, decisions, here, authors)
        found.append(_verdicts(number, reports[0], counted, here))
    return found


def _rows(client: Client, login: str, since: str | None) -> dict[int, dict[int, CommentRow]]:
    """The bot's comments and the commands on each pull request, by number and id."""
    parameters = {"sort": "created", "direction": "asc"} | ({"since": since} if since else {})
    found: dict[int, dict[int, CommentRow]] = {}
    try:
        for row in client.pages(CommentRow, client.path("issues", "comments"), parameters):
            number = _pull_request_of(row)
            if number is not None and (row.is_by(login) or _is_command(row)):
                found.setdefault(number, {})[row.id] = row
    except TooManyPagesError:
        raise ApiError(
            f"{client.repository} has more comments than are read at once: give a later day with --since"
        ) from None
    return found


def _pull_request_of(row: CommentRow) -> int | None:
    """The number of the pull request that a comment is on; None for an issue's."""
    found = _PULL_REQUEST.search(row.html_url)
    return int(found[1]) if found is not None else None


def _is_command(row: CommentRow) -> bool:
    return isinstance(parse_command(row.body), Command)


def _markers(rows: Mapping[int, CommentRow], login: str) -> dict[int, CommentState]:
    """What the bot's own comments on a pull request remember, the oldest first."""
    own = {id_: read_marker(rows[id_].body) for id_ in sorted(rows) if rows[id_].is_by(login)}
    return {id_: state for id_, state in own.items() if state is not None}


def _said_wrong(states: Iterable[CommentState]) -> list[Decision]:
    """The decisions on verdicts, each once; the oldest marker's word for it."""
    by_comment: dict[int, Decision] = {}
    for state in states:
        for entry in state.decisions:
            if entry.verb == "wrong" and entry.verdict is not None:
                by_comment.setdefault(entry.comment, entry)
    return [by_comment[comment] for comment in sorted(by_comment)]


def _fetch_missing(
    client: Client, number: int, decisions: Iterable[Decision], rows: dict[int, CommentRow]
) -> None:
    for decision in decisions:
        if decision.comment in rows:
            continue
        try:
            row = client.get(CommentRow, client.path("issues", "comments", decision.comment))
        except NotFoundError:
            continue
        if _pull_request_of(row) == number:
            rows[row.id] = row


def _verdicts(
    number: int, report: CommentState, decisions: Iterable[Decision], rows: Mapping[int, CommentRow]
) -> GivenVerdicts:
    wrong = tuple(
        SaidWrong(
            number,
            entry.fingerprint,
            entry.verdict,
            entry.author,
            entry.reason,
            rows[entry.comment].html_url,
        )
        for entry in decisions
        if entry.fingerprint is not None and entry.verdict is not None
    )
    seen = (*report.seen, *(report.earlier.seen if report.earlier is not None else ()))
    subjects: set[tuple[str, Verdict]] = {it.subject for it in wrong}
    subjects.update((row.fingerprint, row.verdict) for row in seen)
    given: Counter[Verdict] = Counter(report.past)
    given.update(verdict for _, verdict in subjects)
    return GivenVerdicts(number, given, wrong, report.seen_left_out)
