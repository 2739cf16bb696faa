"""The check stage's report, fetched and read back as hostile data, and held against what the API says."""

from __future__ import annotations

import re
from pathlib import Path

from bot.errors import OpDiffError
from bot.github.artifact import ArtifactError, ArtifactLimits, read_zip
from bot.github.artifact_download import DownloadError, NoArtifactError, download_artifact
from bot.github.client import ApiModel, Client, NotFoundError
from bot.github.head_runs import head_runs
from bot.github.pull_request import PullRequest
from bot.github.workflow_run import (
    CheckStageRun,
    NothingToPublishError,
    RunRow,
    has_skipped_job,
)
from bot.report.escape import visible
from bot.report.files import FileError
from bot.report.folder_files import read_folder
from bot.report.read_back import ReportError, RunReport, is_read, read_run
from bot.report.results import Results


class BrokenReportError(OpDiffError):
    """The check left no report that can be shown; the message is one line for the comment."""


class NoReportError(BrokenReportError):
    """The check left nothing under the artifact's name."""


def fetch_report(client: Client, run: RunRow, artifact_name: str) -> RunReport:
    """The report in a run's artifact, from memory. Raises BrokenReportError, ApiError."""
    limits = ArtifactLimits()
    try:
        raw = download_artifact(client, run, artifact_name, limits.archive)
        return read_run(read_zip(raw, limits, is_read))
    except NoArtifactError as error:
        raise NoReportError(str(error)) from None
    except DownloadError as error:
        raise BrokenReportError(str(error)) from None
    except (ArtifactError, ReportError, FileError) as error:
        raise BrokenReportError(f"the artifact cannot be used: {error}") from None


def report_in_folder(folder: Path) -> RunReport:
    """The report that the check wrote below ``folder``. Raises BrokenReportError."""
    try:
        return read_run(read_folder(folder))
    except (ReportError, FileError, OSError) as error:
        raise BrokenReportError(f"the check left no report that can be used: {error}") from None


def report_of_run(
    client: Client, run: CheckStageRun, pull: PullRequest, artifact_name: str
) -> RunReport:
    """What a finished check run says of a pull request.

    A run whose shard hit its time limit counts as cancelled, and its merge has named the shard all the same. Raises
    BrokenReportError, ApiError, and NothingToPublishError for a run that gave way to a later one of the same commit or
    whose check was skipped.
    """
    if run.unreported:
        later = _later_run(client, run, pull)
        if later is not None:
            raise NothingToPublishError(
                f"{run.unreported}, and run {later} of the same commit came after it"
            )
    try:
        return fetch_report(client, run.row, artifact_name)
    except NoReportError as error:
        if run.unreported:
            raise BrokenReportError(run.unreported) from None
        # Other jobs of the workflow succeeded: the check's own, skipped, would have ended it as "skipped".
        if run.row.conclusion == "success" and has_skipped_job(client, run.row):
            raise NothingToPublishError(
                f"run {run.row.id} skipped its check (a draft, or no label), and {error}"
            ) from None
        raise


def _later_run(client: Client, run: CheckStageRun, pull: PullRequest) -> int | None:
    """The newest run of the same workflow for the same head that was begun after this one and was not skipped."""
    runs = head_runs(client, pull, run.row.workflow)
    later = [
        row.id
        for row in (runs.rows if runs else ())
        if row.id > run.row.id and row.conclusion != "skipped"
    ]
    return max(later, default=None)


def check_belongs(client: Client, results: Results, pull: PullRequest) -> None:
    """Hold a report's claims against the API. Raises BrokenReportError for another pull request, head or base.

    The base branch goes on while a check runs, so that its claimed base may also be an older commit of it: the diff is
    then the same or larger, never smaller.
    """
    claimed = results.changes
    if claimed is None or not claimed.head or claimed.pull_request is None:
        raise BrokenReportError(
            "the run's report does not say which commit and pull request it is about"
        )
    if claimed.pull_request != pull.number or claimed.head != pull.head.sha:
        raise BrokenReportError(
            f"the run's report does not belong to this pull request: it claims to be about #{claimed.pull_request} "
            f"at {visible(claimed.head, 12)}"
        )
    if claimed.base != pull.base.sha and not _is_before(client, claimed.base, pull.base.sha):
        raise BrokenReportError(
            f"the run's report is against {visible(claimed.base, 12)}, which is no commit of the base branch at "
            f"{pull.base.sha[:12]}: run the check again"
        )


class _Comparison(ApiModel):
    status: str


def _is_before(client: Client, old: str, new: str) -> bool:
    """Whether commit ``old`` is an ancestor of ``new``."""
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", old):
        return False
    page = {"per_page": 1, "page": 2}  # the files come with the first page
    try:
        status = client.get(_Comparison, client.path("compare", f"{old}...{new}"), page).status
    except NotFoundError:
        return False
    return status == "ahead"
