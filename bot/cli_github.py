"""Commands of a job of GitHub Actions: ``outputs``, ``step-summary``, ``publish``, ``command`` and ``precision``. All are thin."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bot.answer import CommandOptions, answer
from bot.cli_options import JsonOption, plain_console, print_json
from bot.errors import OpDiffError
from bot.github.check_report import report_in_folder
from bot.github.outputs import output_lines
from bot.github.step_summary import step_summary as step_summary_text
from bot.precision import precision as count_precision
from bot.publish import ARTIFACT_NAME, CHECK_WORKFLOW, PublishOptions
from bot.publish import publish as publish_report
from bot.report.escape import log_line
from bot.report.repro_script import script_if_any

ReportArgument = Annotated[Path, typer.Argument(help="A report's folder.")]
ArtifactOption = Annotated[
    str, typer.Option("--artifact-name", help="The artifact that the check uploads.")
]
WorkflowOption = Annotated[
    str, typer.Option("--check-workflow", help="Path of the workflow whose runs are believed.")
]


def outputs(folder: ReportArgument) -> None:
    """Print the lines of a report for $GITHUB_OUTPUT."""
    for line in output_lines(report_in_folder(folder).results, str(folder)):
        sys.stdout.write(f"{line}\n")


def step_summary(
    folder: ReportArgument,
    report_url: Annotated[str, typer.Option(help="Where the whole report lies.")] = "",
) -> None:
    """Print a report as Markdown for $GITHUB_STEP_SUMMARY."""
    report = report_in_folder(folder)
    scripts = {bundle.finding.fingerprint: script_if_any(bundle) for bundle in report.bundles()}
    sys.stdout.write(step_summary_text(report.results, scripts, report_url))


def publish(
    out: Annotated[Path, typer.Option("--out", help="Folder for the report, written anew.")],
    report: Annotated[
        Path | None,
        typer.Option("--report", help="The check's report, where both stages are one job."),
    ] = None,
    artifact_name: ArtifactOption = ARTIFACT_NAME,
    check_workflow: WorkflowOption = CHECK_WORKFLOW,
    pr_comment: Annotated[
        bool, typer.Option("--pr-comment/--no-pr-comment", help="Keep one comment up to date.")
    ] = True,
    check_run: Annotated[
        bool, typer.Option("--check-run/--no-check-run", help="Make a check run.")
    ] = True,
) -> None:
    """Publish what the check stage found: comment and check run. The token is in OPDIFF_GITHUB_TOKEN."""
    options = PublishOptions(out, report, artifact_name, check_workflow, pr_comment, check_run)
    published = publish_report(os.environ, options)
    for line in published.output_lines():
        sys.stdout.write(f"{line}\n")
    if published.failure:
        raise OpDiffError(f"{published.note}; {published.failure}")
    sys.stderr.write(f"{log_line(published.note)}\n")


def command(
    artifact_name: ArtifactOption = ARTIFACT_NAME, check_workflow: WorkflowOption = CHECK_WORKFLOW
) -> None:
    """Follow a comment that begins with /opdiff. The token is in OPDIFF_GITHUB_TOKEN."""
    answered = answer(os.environ, CommandOptions(artifact_name, check_workflow))
    sys.stdout.write(f"{log_line(answered.note)}\n")


def precision(
    since: Annotated[
        str | None,
        typer.Option(
            metavar="YYYY-MM-DD",
            help="Only pull requests whose comment was changed from this day (UTC) on.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Count over all pull requests how often people said that a verdict is wrong. The token is in OPDIFF_GITHUB_TOKEN."""
    counted = count_precision(os.environ, since)
    if as_json:
        print_json(counted.to_json())
    else:
        counted.print(plain_console())
