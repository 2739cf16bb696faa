"""``opdiff precision``: how often people said that a verdict is wrong, over all pull requests, from top to bottom.

the day -> the repository's comments -> verdicts given and said to be wrong, by pull request -> added up -> table

Nothing is written. A verdict that nobody called wrong counts as right, so that the precision is at most what is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, get_args

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bot.errors import OpDiffError
from bot.github.client import TIMEOUT, Clock
from bot.github.given_verdicts import GivenVerdicts, SaidWrong, given_verdicts
from bot.github.job import read_job
from bot.github.sticky_comment import ACTIONS_LOGIN
from bot.oracle.finding import Verdict
from bot.report.escape import log_line, visible


@dataclass(frozen=True)
class VerdictCount:
    """How many findings were given a verdict (``all``: any), and of how many it was said to be wrong."""

    verdict: str
    given: int
    wrong: int

    @property
    def precision(self) -> float | None:
        """1 - wrong / given; None where nothing was given."""
        return 1 - self.wrong / self.given if self.given else None


@dataclass(frozen=True)
class Precision:
    """The count of a repository. ``counts`` has a row for each verdict, in the order of the README."""

    repository: str
    account: str
    since: date | None
    pull_requests: int
    counts: tuple[VerdictCount, ...]
    said_wrong: tuple[SaidWrong, ...]
    left_out: int

    @property
    def total(self) -> VerdictCount:
        """All verdicts together."""
        given = sum(row.given for row in self.counts)
        return VerdictCount("all", given, sum(row.wrong for row in self.counts))

    def to_json(self) -> dict[str, Any]:
        """What the table says, as JSON."""
        return {
            "repository": self.repository,
            "account": self.account,
            "since": self.since.isoformat() if self.since else None,
            "pull_requests": self.pull_requests,
            "verdicts": [_json(row) for row in self.counts],
            "all": _json(self.total),
            "said_wrong": [
                {
                    "pull_request": said.pull_request,
                    "fingerprint": said.fingerprint,
                    "verdict": said.verdict,
                    "author": said.author,
                    "reason": said.reason,
                    "url": said.url,
                }
                for said in self.said_wrong
            ],
            "left_out": self.left_out,
        }

    def print(self, console: Console) -> None:
        """The table, and a line for everything that was said to be wrong."""
        table = Table(box=None, pad_edge=False)
        for name in ("verdict", "given", "said to be wrong", "precision"):
            table.add_column(name, justify="left" if name == "verdict" else "right")
        for row in (*self.counts, self.total):
            shown = "-" if row.precision is None else f"{row.precision:.1%}"
            table.add_row(row.verdict, str(row.given), str(row.wrong), shown)
        console.print(table)
        console.print(escape(log_line(self._scope())))
        for said in self.said_wrong:
            line = f"#{said.pull_request} {said.fingerprint} {said.verdict}: {said.reason} ({said.author}, {said.url})"
            console.print(escape(log_line(line)))

    def _scope(self) -> str:
        since = f" since {self.since}" if self.since else ""
        pulls = (
            "1 pull request" if self.pull_requests == 1 else f"{self.pull_requests} pull requests"
        )
        said = f"{self.repository}: {pulls} with a comment of {self.account}{since}"
        if not self.pull_requests:
            said += " (another account writes it? Set OPDIFF_GITHUB_LOGIN)"
        if self.left_out:
            said += f"; {self.left_out} findings beyond what a comment remembers are not counted"
        return said


def precision(
    environment: Mapping[str, str],
    since: str | None = None,
    clock: Clock | None = None,
    timeout: float = TIMEOUT,
) -> Precision:
    """Count the verdicts of the job's repository; ``since`` is a day in UTC (YYYY-MM-DD). Raises OpDiffError.

    The comments are those of ``OPDIFF_GITHUB_LOGIN``, else of GitHub Actions' own account, as for a plan: the token may
    be anybody's who can read.
    """
    clock = clock or Clock()
    day = _day(since, clock) if since is not None else None
    job = read_job(environment)
    client = job.client(clock, timeout)
    account = job.login or ACTIONS_LOGIN
    pulls = given_verdicts(client, account, f"{day}T00:00:00Z" if day else None)
    return Precision(
        repository=job.repository,
        account=account,
        since=day,
        pull_requests=len(pulls),
        counts=tuple(_count(verdict, pulls) for verdict in get_args(Verdict)),
        said_wrong=tuple(said for pull in pulls for said in pull.wrong),
        left_out=sum(pull.left_out for pull in pulls),
    )


def _day(text: str, clock: Clock) -> date:
    try:
        day = datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise OpDiffError(
            f"--since {visible(text, 100)!r} is no day: write it as in 2026-01-31"
        ) from None
    if day > datetime.fromtimestamp(clock.now(), UTC).date():
        raise OpDiffError(f"--since {day} lies in the future: there is nothing to count yet")
    return day


def _count(verdict: Verdict, pulls: Sequence[GivenVerdicts]) -> VerdictCount:
    wrong = {(pull.pull_request, said.subject) for pull in pulls for said in pull.wrong}
    return VerdictCount(
        verdict,
        sum(pull.given.get(verdict, 0) for pull in pulls),
        sum(said == verdict for _, (_, said) in wrong),
    )


def _json(row: VerdictCount) -> dict[str, Any]:
    return {
        "verdict": row.verdict,
        "given": row.given,
        "wrong": row.wrong,
        "precision": None if row.precision is None else round(row.precision, 6),
    }
