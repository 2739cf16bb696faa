"""``opdiff check``, ``plan``, ``merge`` and ``changes``: what a pull request changes, checked whole or in shards."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bot.changes.change import Changes
from bot.changes.changes_json import to_json
from bot.check import CheckRequest, find_subject, prepare
from bot.check import check as run_check
from bot.cli_options import (
    DEFAULT_OUT,
    BaseOption,
    BudgetOption,
    FailedProgramsOption,
    FrameworkOption,
    HeadOption,
    JsonOption,
    MutationsOption,
    OutOption,
    PatchOption,
    QuietOption,
    RepoOption,
    SourceDirOption,
    absolute,
    arguments,
    asked_devices,
    open_workshop,
    plain_console,
    print_json,
    show,
    split_commas,
)
from bot.config import MAX_BUDGET
from bot.errors import OpDiffError
from bot.github.event import AllOps, Revisions, read_event, revisions_of
from bot.github.requested import Requested, requested_runs
from bot.op_rules import check_asked, known_of
from bot.oracle.finding import is_fingerprint
from bot.plan import MAX_SEED, ChangeSource
from bot.report.escape import log_line
from bot.report.results import FailOn
from bot.shards.matrix import plan_shards
from bot.shards.merge import merge as merge_reports
from bot.shards.reports import MAX_FOLDERS
from bot.shards.split import MAX_SHARDS
from bot.subject import open_changes, read_changes
from bot.targets.checked_spec import check_candidate, check_target
from bot.targets.recipes import load_recipes
from bot.targets.target import TargetError

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Configuration file; default: .github/opdiff.yml of the base commit."
    ),
]
DeviceOption = Annotated[
    list[str] | None, typer.Option("--device", help="cpu, cuda, or both by comma.")
]
AskedOption = Annotated[
    list[str] | None,
    typer.Option("--op", help="An op beside the changed ones; by comma, may be given often."),
]
AllOption = Annotated[bool, typer.Option("--all", help="All ops instead of a diff's.")]
EventOption = Annotated[
    Path | None,
    typer.Option("--event", help="GitHub's event file, which names base, head and pull request."),
]
EventNameOption = Annotated[
    str | None, typer.Option("--event-name", help="The event's name, such as pull_request.")
]
PullRequestOption = Annotated[
    int | None, typer.Option("--pull-request", min=1, help="The pull request's number.")
]
SharedBudgetOption = Annotated[
    float | None,
    typer.Option(
        "--budget",
        min=1,
        max=MAX_BUDGET,
        help="Seconds for running programs, of all shards together.",
    ),
]


def asked_request(
    *,
    repo: Path | None,
    base: str | None,
    head: str | None,
    patch: Path | None,
    source: Path | None,
    framework: str | None,
    config: Path | None,
    op: list[str] | None,
    every: bool,
    event: Path | None,
    event_name: str | None,
    pull_request: int | None,
) -> CheckRequest:
    """What a command line asks to check; base and head that are given come before the event's. Raises OpDiffError."""
    if event is not None and not every and patch is None and not (base and head):
        revisions = _revisions(event, event_name)
        if isinstance(revisions, Revisions):
            base, head = base or revisions.base, head or revisions.head
            pull_request = pull_request or revisions.pull_request
        else:
            every = True
    if every and (base or patch or source):
        raise OpDiffError("--all checks all ops: give no --base, --patch or --source with it")
    change = _change_source(repo, base, head, patch, source, framework)
    ops = split_commas(op)
    check_asked(ops)
    return CheckRequest(
        change, config=config, ops=ops, every=every, pull_request=pull_request, arguments=arguments()
    )  # fmt: skip


def _change_source(
    repo: Path | None,
    base: str | None,
    head: str | None,
    patch: Path | None,
    source: Path | None,
    framework: str | None,
) -> ChangeSource:
    return ChangeSource(
        framework=framework,
        repository=absolute(repo),
        base=base,
        head=head,
        patch=absolute(patch),
        source=absolute(source),
    )


def _revisions(event: Path, event_name: str | None) -> Revisions | AllOps:
    if event_name is None:
        raise OpDiffError("--event needs --event-name: GitHub's runner has it in GITHUB_EVENT_NAME")
    return revisions_of(event_name, read_event(event))


def check(
    repo: RepoOption = None,
    base: BaseOption = None,
    head: HeadOption = None,
    patch: PatchOption = None,
    source: SourceDirOption = None,
    framework: FrameworkOption = None,
    candidate: Annotated[
        str | None,
        typer.Option(
            help="overlay, a requirement, a wheel's path or glob, or python=/path; default: overlay."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="The same framework without the change; default: its release."),
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="A target to compare with; default: by framework.")
    ] = None,
    device: DeviceOption = None,
    mutations: MutationsOption = None,
    failed_programs: FailedProgramsOption = None,
    budget: BudgetOption = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=MAX_SEED, help="Same seed, same programs.")
    ] = None,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(help="Which findings make the exit code 2; default: candidate."),
    ] = None,
    config: ConfigOption = None,
    shard: Annotated[
        str, typer.Option(help="This run's share of the ops, such as 2/4: see opdiff plan.")
    ] = "",
    op: AskedOption = None,
    every: AllOption = False,
    event: EventOption = None,
    event_name: EventNameOption = None,
    pull_request: PullRequestOption = None,
    prepare_only: Annotated[
        bool,
        typer.Option(
            "--prepare-only",
            help="Make the environments that the check needs, and run nothing: it can then do without a network.",
        ),
    ] = False,
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check a pull request: run the ops that it changes on candidate, baseline and peers."""
    asked = asked_devices(device)
    _check_specs(candidate, baseline, peer or ())
    request = replace(
        asked_request(
            repo=repo, base=base, head=head, patch=patch, source=source, framework=framework,
            config=config, op=op, every=every, event=event, event_name=event_name,
            pull_request=pull_request,
        ),
        candidate=candidate, baseline=baseline, peers=tuple(peer or ()), budget=budget, seed=seed,
        fail_on=fail_on, shard=shard, mutations=mutations,
    )  # fmt: skip
    subject = find_subject(request)
    devices = asked or subject.config.devices or ("cpu",)
    # Whatever is checked in a pull request's run, its code is not the default branch's.
    remembers = not (event_name or "").startswith("pull_request")
    codes: list[int] = []
    folders: list[Path] = []
    for name in devices:
        of_device = replace(request, device=name)
        with open_workshop(quiet, failed_programs, remembers) as workshop:
            if prepare_only:
                prepare(of_device, workshop, subject)
                continue
            folder = out if len(devices) == 1 else out / name
            results = run_check(of_device, folder, workshop, subject)
        folders.append(folder)
        codes.append(results.exit_code)
        if not as_json or len(devices) == 1:
            show(results, folder, as_json)
    if as_json and len(devices) > 1:  # one document all the same: a list, by device
        print_json([json.loads((folder / "results.json").read_bytes()) for folder in folders])
    raise typer.Exit(max(codes, default=0))


def _check_specs(candidate: str | None, baseline: str | None, peers: Sequence[str]) -> None:
    """Refuse specs that can never be made, before the diff is read. Raises OpDiffError."""
    recipes = load_recipes()
    checks = [("--candidate", check_candidate, candidate), ("--baseline", check_target, baseline)]
    checks += [("--peer", check_target, one) for one in peers]
    for option, check_spec, spec in checks:
        if spec is None:
            continue
        try:
            check_spec(spec, recipes)
        except TargetError as error:
            raise OpDiffError(f"{option}: {error}") from None


def plan(
    repo: RepoOption = None,
    base: BaseOption = None,
    head: HeadOption = None,
    patch: PatchOption = None,
    source: SourceDirOption = None,
    framework: FrameworkOption = None,
    config: ConfigOption = None,
    device: DeviceOption = None,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards", min=1, max=MAX_SHARDS, help="Jobs for each device; no more than ops."
        ),
    ] = None,
    budget: SharedBudgetOption = None,
    op: AskedOption = None,
    every: AllOption = False,
    event: EventOption = None,
    event_name: EventNameOption = None,
    pull_request: PullRequestOption = None,
    as_json: JsonOption = False,
    github_output: Annotated[
        bool, typer.Option("--github-output", help="Print lines for $GITHUB_OUTPUT only.")
    ] = False,
) -> None:
    """Split a check into jobs of about equal cost: a matrix. Reads the diff, runs nothing."""
    devices = asked_devices(device)
    request = asked_request(
        repo=repo, base=base, head=head, patch=patch, source=source, framework=framework,
        config=config, op=op, every=every, event=event, event_name=event_name,
        pull_request=pull_request,
    )  # fmt: skip
    requested = _requested(request) if event is not None else Requested()
    known, unknown = known_of(requested.ops)
    asked = tuple(dict.fromkeys((*request.ops, *known)))
    said = [note for note in (requested.note, *unknown) if note]
    subject = find_subject(replace(request, ops=asked))
    planned = plan_shards(
        subject,
        devices=devices,
        shards=shards,
        budget=requested.budget or budget,
        asked=asked,
        pull_request=request.pull_request,
        notes=said,
        accepted=requested.accepted,
    )
    if github_output:
        sys.stdout.write("".join(f"{line}\n" for line in planned.output_lines()))
        for note in said:
            Console(stderr=True, highlight=False).print(escape(log_line(note)))
    elif as_json:
        print_json(planned.to_json())
    else:
        planned.print(plain_console())


def _requested(request: CheckRequest) -> Requested:
    """What people asked for in comments on the pull request that the event is of."""
    if request.pull_request is None or not request.change.head:
        return Requested()
    return requested_runs(os.environ, request.pull_request, request.change.head)


def merge(
    folder: Annotated[
        list[Path],
        typer.Argument(help="Report folders of the shards, or folders that hold these."),
    ],
    expected: Annotated[
        int, typer.Option("--expected", min=1, max=MAX_FOLDERS, help="How many shards there were.")
    ],
    fail_on: Annotated[
        FailOn | None,
        typer.Option(help="Which findings make the exit code 2; default: the configuration's."),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept", help="Fingerprints of findings that are an expected change, by comma."
        ),
    ] = None,
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
) -> None:
    """Merge the reports of shards into one, and say which are lost or broken."""
    accepted = tuple(part.strip() for part in split_commas(accept) if part.strip())
    for fingerprint in accepted:
        if not is_fingerprint(fingerprint):
            raise OpDiffError(
                f"--accept {fingerprint[:80]!a} is no finding's fingerprint, as reports show it: 8 to 64 of 0-9 and a-f"
            )
    results = merge_reports(folder, expected, out, fail_on, accepted)
    show(results, out, as_json)
    raise typer.Exit(results.exit_code)


def changes(
    repo: RepoOption = None,
    base: BaseOption = None,
    head: HeadOption = None,
    patch: PatchOption = None,
    source: SourceDirOption = None,
    framework: FrameworkOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the ops that a diff changes, with the path that proves each."""
    changeset = open_changes(_change_source(repo, base, head, patch, source, framework))
    found = read_changes(changeset, framework)
    if as_json:
        print_json(to_json(found))
    else:
        print_changes(plain_console(), found)


def print_changes(console: Console, found: Changes) -> None:
    """Ops with their paths, then autotest files, what could not be mapped, and notes."""
    console.print(f"{escape(found.framework)}: {len(found.ops)} changed ops")
    for op in found.ops:
        console.print(
            f"[bold]{escape(log_line(op.op))}[/bold] ({op.how}): {escape(log_line(', '.join(op.aliases)))}"
        )
        for step in op.path:
            console.print(f"    {escape(log_line(step))}")
    for test in found.tests:
        console.print(f"autotest file: {escape(log_line(test))}")
    for entry in found.unmapped:
        console.print(f"unmapped: {escape(log_line(entry.file))}: {escape(log_line(entry.why))}")
    for note in found.notes:
        console.print(f"note: {escape(log_line(note))}")
    if found.left_out:
        console.print(f"left out: {escape(log_line(', '.join(found.left_out)))}")
