"""``opdiff publish``: the write stage, from top to bottom. It runs none of the pull request's code.

event -> run -> pull request -> artifact -> read back -> config -> previous state -> report -> comment, check run
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from bot.config import Config, ConfigError, apply_config
from bot.errors import OpDiffError
from bot.github.check_report import (
    BrokenReportError,
    check_belongs,
    report_in_folder,
    report_of_run,
)
from bot.github.check_run import CheckRunSubject, post_check_run
from bot.github.check_run_body import check_run_body
from bot.github.client import TIMEOUT, ApiError, Client, Clock
from bot.github.comment_body import comment_body
from bot.github.event import EventError, PullRequestEvent, WorkflowRunEvent, parse_event, read_event
from bot.github.job import Job, read_job
from bot.github.outputs import output_lines
from bot.github.publication import Posted, Publication
from bot.github.pull_request import PullRequest, pull_request, pull_request_of
from bot.github.repository_config import read_config
from bot.github.since import compared_with
from bot.github.state import CommentState, Decision
from bot.github.sticky_comment import own_login, post_sticky_comment, read_sticky_comment
from bot.github.workflow_run import NothingToPublishError, check_stage_run
from bot.report.read_back import RunReport
from bot.report.results import Results
from bot.report.upstream import new_issue_url
from bot.report.write import WrittenReport, write_report

ARTIFACT_NAME: Final = "opdiff"
CHECK_WORKFLOW: Final = ".github/workflows/opdiff.yml"


@dataclass(frozen=True)
class PublishOptions:
    """What the command line says. ``report``: the check's folder, in a repository that does both stages in one."""

    out: Path
    report: Path | None = None
    artifact_name: str = ARTIFACT_NAME
    check_workflow: str = CHECK_WORKFLOW
    pr_comment: bool = True
    check_run: bool = True


@dataclass(frozen=True)
class Published:
    """What was posted. ``results`` is None for a broken run, and where nothing was posted; ``note`` is one line.

    ``failure`` is one line on what this job could not do though it posted: the command fails then.
    """

    note: str
    results: Results | None = None
    out: Path | None = None
    broken: str = ""
    comment_url: str = ""
    failure: str = ""

    def output_lines(self) -> list[str]:
        """``name=value`` lines for ``$GITHUB_OUTPUT``; a broken run's result is ``incomplete``."""
        lines = [f"comment-url={self.comment_url}"]
        if self.results is not None and self.out is not None:
            return [*lines, *output_lines(self.results, str(self.out))]
        return [*lines, "result=incomplete"] if self.broken else lines


@dataclass(frozen=True)
class _Subject:
    """The pull request that is spoken of, the check stage's run of its head, and how to read what that left."""

    pull: PullRequest
    run: int
    attempt: int
    run_url: str
    read: Callable[[], RunReport]
    workflow: str | None
    """The check workflow's path; None where the run is this job's own."""


@dataclass(frozen=True)
class _Report:
    """The report that this stage wrote anew, or in ``broken`` one line on why there is none.

    ``failure`` is that line for the job's own log, where it is this job that failed and not the check.
    """

    written: WrittenReport | None = None
    config: Config = field(default_factory=Config)
    drafts: Mapping[str, str] = field(default_factory=dict[str, str])
    broken: str = ""
    failure: str = ""


class _UnwrittenError(OpDiffError):
    """The report cannot be written: what the comment says of it is in ``said``, without the machine's paths."""

    def __init__(self, out: Path, error: OSError) -> None:
        why = error.strerror or type(error).__name__
        super().__init__(
            f"the report cannot be written below {out}: {why}; "
            "make room there or name another place, and run the job again"
        )
        self.said = f"the publishing job could not write its report ({why})"


def publish(
    environment: Mapping[str, str],
    options: PublishOptions,
    clock: Clock | None = None,
    timeout: float = TIMEOUT,
) -> Published:
    """Publish what the check stage reported for a pull request. Raises OpDiffError for what cannot be posted.

    A run that belongs to no pull request any more, or to none, is normal: nothing is posted, and ``note`` says why.
    """
    clock = clock or Clock()
    job = read_job(environment)
    client = job.client(clock, timeout)
    try:
        subject = _subject(client, job, options)
        return _publish(client, job, subject, options)
    except NothingToPublishError as reason:
        return Published(note=f"nothing is posted: {reason}")


def _publish(client: Client, job: Job, subject: _Subject, options: PublishOptions) -> Published:
    """Read the report, and post it. Raises NothingToPublishError, OpDiffError."""
    today = datetime.fromtimestamp(client.clock.now(), UTC).date()
    login = own_login(client, job.login)
    sticky = read_sticky_comment(client, subject.pull, login, subject.workflow)
    previous = compared_with(sticky.state, (subject.run, subject.attempt))
    report = _report(client, subject, options.out, previous.decisions, today)

    def publication(state: CommentState) -> Publication:
        return _publication(subject, job, report, state, today)

    return _post(client, subject, login, options, publication, previous, report.failure)


def _subject(client: Client, job: Job, options: PublishOptions) -> _Subject:
    """Which pull request this is about. Raises NothingToPublishError, ApiError, EventError."""
    payload = read_event(job.event_path)
    if options.report is not None:
        if job.event_name != "pull_request":
            raise NothingToPublishError(
                f"{job.event_name or 'this'} is no event of a pull request: the job's own summary has the report"
            )
        return _own_subject(client, job, parse_event(PullRequestEvent, payload), options.report)
    if job.event_name != "workflow_run":
        raise EventError(
            "publishing is done on `workflow_run`, or with --report in a pull request's own run"
        )
    event = parse_event(WorkflowRunEvent, payload).workflow_run
    run = check_stage_run(client, event.id, event.run_attempt, options.check_workflow)
    pull = pull_request_of(client, run)
    return _Subject(
        pull,
        run.row.id,
        run.row.run_attempt,
        run.row.html_url,
        lambda: report_of_run(client, run, pull, options.artifact_name),
        options.check_workflow,
    )


def _own_subject(client: Client, job: Job, event: PullRequestEvent, folder: Path) -> _Subject:
    """One stage: the run is this job's own, and the pull request that of its event."""
    pull = pull_request(client, event.pull_request.number)
    if pull.state != "open":
        raise NothingToPublishError(f"pull request #{pull.number} is no longer open")
    if pull.head.sha != event.pull_request.head.sha:
        raise NothingToPublishError(
            f"the head of #{pull.number} has moved on from {event.pull_request.head.sha[:12]}"
        )
    return _Subject(pull, job.run, job.attempt, job.url, lambda: report_in_folder(folder), None)


def _report(
    client: Client, subject: _Subject, out: Path, decisions: Sequence[Decision], today: date
) -> _Report:
    """Read the report back, judge it by the base commit's configuration, and write it anew below ``out``."""
    try:
        config = read_config(client, subject.pull.base.sha)
        run_report = subject.read()
        check_belongs(client, run_report.results, subject.pull)
        judged = apply_config(run_report.results, config, decisions, today)
        written = _written(out, judged, run_report)
    except _UnwrittenError as error:
        return _Report(broken=error.said, failure=str(error))
    except (BrokenReportError, ConfigError, ValueError) as error:
        return _Report(broken=str(error))
    return _Report(written, config, _drafts(written))


def _written(out: Path, judged: Results, run_report: RunReport) -> WrittenReport:
    """The report, written anew. Raises _UnwrittenError, ValueError."""
    try:
        return write_report(out, judged, run_report.bundles())
    except OSError as error:
        raise _UnwrittenError(out, error) from None


def _drafts(written: WrittenReport) -> dict[str, str]:
    """Fingerprint -> address of a prefilled page, for the findings that are upstream's."""
    drafts: dict[str, str] = {}
    for row in written.results.findings:
        url = new_issue_url(row, written.results, written.scripts.get(row.fingerprint, ""))
        if url is not None:
            drafts[row.fingerprint] = url
    return drafts


def _publication(
    subject: _Subject, job: Job, report: _Report, state: CommentState, today: date
) -> Publication:
    """All that is said, with the decisions that the comment holds now."""
    pull, written = subject.pull, report.written
    results = None
    if written is not None:
        results = apply_config(written.results, report.config, state.decisions, today)
    return Publication(
        repository=job.repository,
        number=pull.number,
        base=pull.base.sha,
        head=pull.head.sha,
        run=subject.run,
        attempt=subject.attempt,
        run_url=subject.run_url,
        report_url=job.url if written is not None else "",
        results=results,
        broken=report.broken,
        untrusted_run=pull.from_fork,
        previous=state,
        scripts=written.scripts if written is not None else {},
        drafts=report.drafts,
    )


def _post(
    client: Client,
    subject: _Subject,
    login: str,
    options: PublishOptions,
    publication: Callable[[CommentState], Publication],
    previous: CommentState,
    failure: str,
) -> Published:
    """Post check run and comment; when one cannot be posted the other is all the same. Raises OpDiffError."""
    said = publication(previous)
    failures: list[ApiError] = []
    check_run = comment = Posted()
    if options.check_run:
        about = CheckRunSubject(said.number, said.head, said.run, said.attempt, said.run_url)
        try:
            check_run = post_check_run(client, about, check_run_body(said))
        except ApiError as error:
            failures.append(error)
    if options.pr_comment:
        try:
            comment = post_sticky_comment(
                client,
                subject.pull,
                login,
                (said.run, said.attempt),
                lambda state: comment_body(publication(state)),
                subject.workflow,
            )
        except ApiError as error:
            failures.append(error)
    if failures:
        raise OpDiffError("; ".join(filter(None, (failure, *map(str, failures)))))
    return Published(
        note=_note(said, comment, check_run),
        results=said.results,
        out=options.out if said.results is not None else None,
        broken=said.broken,
        comment_url=comment.url,
        failure=failure,
    )


def _note(said: Publication, comment: Posted, check_run: Posted) -> str:
    what = f"broken: {said.broken}" if said.results is None else said.results.result
    left = [
        f"{name} left alone: {posted.left_alone}"
        for name, posted in (("comment", comment), ("check run", check_run))
        if posted.left_alone
    ]
    return "; ".join([f"#{said.number} at {said.head[:12]}: {what}", *left])
