"""The command line: commands, progress and exit codes. The work is in check.py and run.py."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.exceptions import Abort, Exit, TyperException

from bot.changes.change import Changes
from bot.changes.changes_json import to_json
from bot.changes.find import find_changes
from bot.check import OVERLAY, CheckRequest, open_changes
from bot.check import check as run_check
from bot.errors import EXPECTED_ERRORS, OpDiffError, disk_full_message
from bot.exit_codes import ExitCode
from bot.ops_table import list_ops
from bot.plan import (
    CHECK_DTYPES,
    DEFAULT_SOURCES,
    MAX_SEED,
    ChangeSource,
    Dtype,
    Plan,
    PlannedTarget,
    Source,
)
from bot.progress import Progress
from bot.replaying import print_replay, replay_finding, replay_json
from bot.report.escape import log_line
from bot.report.results import FailOn, Results, read_results
from bot.report.terminal import print_summary
from bot.run import resume as resume_run
from bot.run import run as run_plan
from bot.targets.environment_store import EnvironmentStore
from bot.targets.envs_cli import app as envs_app
from bot.targets.worker_process import WorkerDeath
from bot.worker.protocol import ProtocolError
from bot.workshop import Workshop

DEFAULT_OUT = Path("opdiff-report")
TYPER_INTERRUPTED = 130  # what typer makes of a KeyboardInterrupt

app = typer.Typer(
    name="opdiff",
    help="Differential testing of tensor ops for pull requests of deep-learning frameworks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(envs_app, name="envs")

OutOption = Annotated[
    Path, typer.Option("--out", help="Folder for the report and all that was measured.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress.")]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, max=MAX_SEED, help="Same seed, same programs.")
]
BudgetOption = Annotated[
    float | None,
    typer.Option("--budget", min=1, help="Seconds for running programs; default: no bound."),
]
RepoOption = Annotated[Path | None, typer.Option("--repo", help="Git repository of the framework.")]
BaseOption = Annotated[str | None, typer.Option("--base", help="Base revision.")]
HeadOption = Annotated[str | None, typer.Option("--head", help="Head revision.")]
PatchOption = Annotated[Path | None, typer.Option("--patch", help="A patch file, with --source.")]
SourceDirOption = Annotated[
    Path | None,
    typer.Option("--source", help="The folder that the patch applies to; it is not changed."),
]
FrameworkOption = Annotated[
    str | None, typer.Option("--framework", help="The framework of the diff; default: detected.")
]


def _split(values: list[str] | None) -> tuple[str, ...]:
    """``--device cpu,cuda --device cpu`` -> each once, in order."""
    return tuple(dict.fromkeys(part for value in values or () for part in value.split(",") if part))


def _text(path: Path | None) -> str | None:
    """A path as the plan keeps it: absolute, so that a run can be resumed from another folder."""
    return None if path is None else str(path.absolute())


def _arguments() -> tuple[str, ...]:
    return ("opdiff", *sys.argv[1:])


def _two_targets(given: list[str] | None) -> list[str]:
    if not given or len(given) < 2:
        raise OpDiffError(
            "give at least two targets: --target torch==2.13.0:cpu --target oneflow==0.9.0:cpu"
        )
    return given


def _ops(given: list[str] | None, every: bool) -> tuple[str, ...] | None:
    if bool(given) == every:
        raise OpDiffError("say what to run: --op OP (may be given often), or --all")
    if not given:
        return None
    ops = _split(given)
    if not ops:
        raise OpDiffError("--op names no op: see `opdiff ops`")
    return ops


def _sources(given: list[str] | None) -> tuple[Source, ...]:
    wanted = _split(given) or DEFAULT_SOURCES
    for source in wanted:
        if source not in DEFAULT_SOURCES:
            raise OpDiffError(
                f"source {source!r} is not one of this version: {', '.join(DEFAULT_SOURCES)}"
            )
    return tuple(source for source in DEFAULT_SOURCES if source in wanted)


def _dtypes(given: list[str] | None, every: bool) -> tuple[Dtype, ...]:
    wanted = _split(given) or (("float32",) if every else ("all",))
    for dtype in wanted:
        if dtype not in (*CHECK_DTYPES, "all"):
            raise OpDiffError(f"dtype {dtype!r} is none of {', '.join(CHECK_DTYPES)}, all")
    return tuple(dtype for dtype in CHECK_DTYPES if dtype in wanted or "all" in wanted)


@contextmanager
def open_workshop(quiet: bool) -> Generator[Workshop]:
    """What the commands work with, with this user's cache and a progress on stderr."""
    progress = Progress(Console(stderr=True, highlight=False), quiet=quiet)
    with EnvironmentStore(progress=progress.note) as store:
        yield Workshop(store, progress)


def _print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _show(results: Results, folder: Path, as_json: bool) -> None:
    if as_json:
        sys.stdout.write((folder / "results.json").read_text(encoding="utf-8"))
    else:
        written = read_results(folder / "results.json")
        print_summary(
            Console(highlight=False, soft_wrap=True, emoji=False), written, folder / "report.md"
        )


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


@app.command()
def check(
    repo: RepoOption = None,
    base: BaseOption = None,
    head: HeadOption = None,
    patch: PatchOption = None,
    source: SourceDirOption = None,
    framework: FrameworkOption = None,
    candidate: Annotated[
        str, typer.Option(help="overlay, a requirement, a wheel's path or glob, or python=/path.")
    ] = OVERLAY,
    baseline: Annotated[
        str | None,
        typer.Option(help="The same framework without the change; default: its release."),
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="A target to compare with; default: by framework.")
    ] = None,
    device: Annotated[list[str] | None, typer.Option(help="cpu, cuda, or both by comma.")] = None,
    budget: BudgetOption = None,
    seed: SeedOption = 0,
    fail_on: Annotated[
        FailOn, typer.Option(help="Which findings make the exit code 2.")
    ] = "candidate",
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check a pull request: run the ops that it changes on candidate, baseline and peers."""
    change = ChangeSource(
        framework=framework,
        repository=_text(repo),
        base=base,
        head=head,
        patch=_text(patch),
        source=_text(source),
    )
    devices = _split(device) or ("cpu",)
    codes: list[int] = []
    folders: list[Path] = []
    for name in devices:
        request = CheckRequest(
            change=change,
            candidate=candidate,
            baseline=baseline,
            peers=tuple(peer or ()),
            device=name,
            budget=budget,
            seed=seed,
            fail_on=fail_on,
            arguments=_arguments(),
        )
        folder = out if len(devices) == 1 else out / name
        with open_workshop(quiet) as workshop:
            results = run_check(request, folder, workshop)
        folders.append(folder)
        codes.append(results.exit_code)
        if not as_json or len(devices) == 1:
            _show(results, folder, as_json)
    if as_json and len(devices) > 1:  # one document all the same: a list, by device
        _print_json([json.loads((folder / "results.json").read_bytes()) for folder in folders])
    raise typer.Exit(max(codes))


@app.command()
def run(
    op: Annotated[list[str] | None, typer.Option("--op", help="An op; may be given often.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All ops of the sources.")] = False,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="REQUIREMENT[:DEVICE[:OPTIONS]]; at least two."),
    ] = None,
    source: Annotated[list[str] | None, typer.Option(help="opinfo, moduleinfo.")] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="dtypes by comma, or all. Default: float32; with --op: all."),
    ] = None,
    budget: BudgetOption = None,
    seed: SeedOption = 0,
    out: OutOption = DEFAULT_OUT,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the interrupted run in this folder, as it was planned."),
    ] = None,
    allow_paths: Annotated[
        bool,
        typer.Option(
            "--allow-paths",
            help="With --resume: the folder is my own, it may name interpreters and wheels by path.",
        ),
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run ops on two or more targets and report where they differ."""
    if resume is not None:
        if op or every or target or source or dtype or seed or budget is not None:
            raise OpDiffError(
                "--resume goes on as planned: give no --op, --all, --target, --source, --dtype, --seed or --budget"
            )
        with open_workshop(quiet) as workshop:
            results = resume_run(resume, workshop, allow_paths)
        _show(results, resume, as_json)
        raise typer.Exit(results.exit_code)
    plan = Plan(
        command="run",
        arguments=_arguments(),
        targets=tuple(PlannedTarget(spec=spec) for spec in _two_targets(target)),
        ops=_ops(op, every),
        sources=_sources(source),
        dtypes=_dtypes(dtype, every),
        seed=seed,
        budget=budget,
    )
    with open_workshop(quiet) as workshop:
        results = run_plan(plan, out, workshop)
    _show(results, out, as_json)
    raise typer.Exit(results.exit_code)


@app.command()
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
    changeset = open_changes(
        ChangeSource(
            repository=_text(repo), base=base, head=head, patch=_text(patch), source=_text(source)
        )
    )
    found = find_changes(changeset, framework)
    if as_json:
        _print_json(to_json(found))
    else:
        print_changes(Console(highlight=False, soft_wrap=True, emoji=False), found)


@app.command()
def ops(
    framework: Annotated[
        str | None,
        typer.Option("--framework", help="Whose names to look up: a framework or a requirement."),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the ops that programs exist for and, with --framework, which of them it has."""
    with open_workshop(quiet) as workshop:
        table = list_ops(workshop, framework)
    if as_json:
        _print_json(table.to_json())
    else:
        table.print(Console(highlight=False, soft_wrap=True, emoji=False))


@app.command()
def replay(
    finding: Annotated[Path, typer.Argument(help="A finding's folder.")],
    candidate: Annotated[
        str | None,
        typer.Option(help="What to use for the candidate: a wheel, a requirement or python=/path."),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run one finding's program again on its targets and say whether it still differs (exit code 2) or not (0)."""
    with open_workshop(quiet) as workshop:
        shown = replay_finding(finding, workshop, candidate)
    if as_json:
        _print_json(replay_json(shown))
    else:
        print_replay(Console(highlight=False, soft_wrap=True, emoji=False), shown)
    raise typer.Exit(ExitCode.FINDINGS if shown.differs else ExitCode.CLEAN)


def main() -> None:
    """The ``opdiff`` command: one line and exit code 1 for anything a user can get wrong."""
    # SIGTERM (a cancelled CI job) ends like Ctrl-C: workers are stopped, and the journal is whole.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(_exit_code(lambda: app(standalone_mode=False)))


def _exit_code(command: Callable[[], Any]) -> int:
    error = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
    try:
        code = command()  # outside standalone mode, typer returns an Exit's code instead of raising
    except Exit as stop:
        return stop.exit_code
    except TyperException as problem:
        said = " ".join(problem.format_message().split())
        if said:  # without a command there is nothing to say: typer has shown the help
            error.print(f"error: {escape(log_line(said))} (opdiff --help tells more)")
        return ExitCode.INCOMPLETE
    except (KeyboardInterrupt, Abort):
        code = TYPER_INTERRUPTED
    except EXPECTED_ERRORS as problem:
        error.print(f"error: {escape(_one_line(problem))}")
        return ExitCode.INCOMPLETE
    except (WorkerDeath, ProtocolError) as problem:
        error.print(f"error: a worker gave no answer: {escape(_one_line(problem))}")
        return ExitCode.INCOMPLETE
    except OSError as problem:
        error.print(
            f"error: {escape(disk_full_message(problem, 'the run folder') or _one_line(problem))}"
        )
        return ExitCode.INCOMPLETE
    if code == TYPER_INTERRUPTED:
        error.print("interrupted; what was measured is kept: go on with opdiff run --resume DIR")
        return ExitCode.INCOMPLETE
    return code if isinstance(code, int) else ExitCode.CLEAN


def _one_line(problem: Exception) -> str:
    return log_line(" ".join(str(problem).split())) or type(problem).__name__
