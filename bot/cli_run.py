"""``opdiff run``, ``opdiff ops`` and ``opdiff replay``: ops by name, on targets by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from bot.cli_options import (
    DEFAULT_OUT,
    BudgetOption,
    FailedProgramsOption,
    JsonOption,
    MutationsOption,
    OutOption,
    QuietOption,
    SeedOption,
    arguments,
    open_workshop,
    plain_console,
    print_json,
    show,
    split_commas,
)
from bot.coverage_page import coverage_page, read_answers
from bot.errors import OpDiffError
from bot.exit_codes import ExitCode
from bot.op_coverage import measure_ops
from bot.ops_table import list_ops, release_of
from bot.plan import ALL_KINDS, CHECK_DTYPES, DEFAULT_SOURCES, Dtype, Plan, PlannedTarget, Source
from bot.replaying import print_replay, replay_finding, replay_json
from bot.run import resume as resume_run
from bot.run import run as run_plan


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
    ops = split_commas(given)
    if not ops:
        raise OpDiffError("--op names no op: see `opdiff ops`")
    return ops


def _sources(given: list[str] | None) -> tuple[Source, ...]:
    wanted = split_commas(given) or DEFAULT_SOURCES
    for source in wanted:
        if source not in DEFAULT_SOURCES:
            raise OpDiffError(
                f"source {source!r} is not one of this version: {', '.join(DEFAULT_SOURCES)}"
            )
    return tuple(source for source in DEFAULT_SOURCES if source in wanted)


def _dtypes(given: list[str] | None, every: bool) -> tuple[Dtype, ...]:
    wanted = split_commas(given) or (("float32",) if every else ("all",))
    for dtype in wanted:
        if dtype not in (*CHECK_DTYPES, "all"):
            raise OpDiffError(f"dtype {dtype!r} is none of {', '.join(CHECK_DTYPES)}, all")
    return tuple(dtype for dtype in CHECK_DTYPES if dtype in wanted or "all" in wanted)


def _kinds(given: list[str] | None) -> tuple[str, ...]:
    wanted = split_commas(given) or ALL_KINDS
    for kind in wanted:
        if kind not in ALL_KINDS:
            raise OpDiffError(f"kind {kind!r} is none of {', '.join(ALL_KINDS)}")
    return tuple(kind for kind in ALL_KINDS if kind in wanted)


ALL_SECONDS: Final = 600.0
"""For the programs of all ops, unless --budget says otherwise; judging them comes on top."""


def run(
    op: Annotated[list[str] | None, typer.Option("--op", help="An op; may be given often.")] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="All ops of the sources, for 600 seconds without --budget.",
        ),
    ] = False,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="REQUIREMENT[:DEVICE[:OPTIONS]]; at least two."),
    ] = None,
    source: Annotated[list[str] | None, typer.Option(help="opinfo, moduleinfo, mutation.")] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="dtypes by comma, or all. Default: float32; with --op: all."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Kinds of programs by comma: sample, reference, error. Default: all."),
    ] = None,
    per_op: Annotated[
        int | None,
        typer.Option(min=1, help="At most so many programs of each op and kind."),
    ] = None,
    mutations: MutationsOption = None,
    failed_programs: FailedProgramsOption = None,
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
        planned = (
            op,
            every,
            target,
            source,
            dtype,
            kind,
            per_op,
            mutations is not None,
            seed,
            budget is not None,
        )
        if any(planned):
            raise OpDiffError(
                "--resume goes on as planned: give no --op, --all, --target, --source, --dtype, --kind, --per-op, "
                "--mutations, --seed or --budget"
            )
        with open_workshop(quiet, failed_programs) as workshop:
            results = resume_run(resume, workshop, allow_paths)
        show(results, resume, as_json)
        raise typer.Exit(results.exit_code)
    plan = Plan(
        command="run",
        arguments=arguments(),
        targets=tuple(PlannedTarget(spec=spec) for spec in _two_targets(target)),
        ops=_ops(op, every),
        sources=_sources(source),
        dtypes=_dtypes(dtype, every),
        kinds=_kinds(kind),
        seed=seed,
        budget=budget if budget is not None or not every else ALL_SECONDS,
        per_op=per_op,
        mutations=mutations,
    )
    with open_workshop(quiet, failed_programs) as workshop:
        results = run_plan(plan, out, workshop)
    show(results, out, as_json)
    raise typer.Exit(results.exit_code)


def ops(
    framework: Annotated[
        str | None,
        typer.Option("--framework", help="Whose names to look up: a framework or a requirement."),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="With --framework: run every op's samples there and on PyTorch."
        ),
    ] = False,
    op: Annotated[
        list[str] | None, typer.Option("--op", help="With --measure: this op; may be given often.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="With --measure: the samples' dtype.")] = "float64",
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="With --measure: at most so many samples of each OpInfo."),
    ] = None,
    page: Annotated[
        list[Path] | None,
        typer.Option(
            help="A saved answer of --measure --json, for a page of all; may be given often."
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the ops that programs exist for and, with --framework, which of them it has, or really covers."""
    if page:
        if framework is not None or measure or op or as_json:
            raise OpDiffError("--page makes a page of saved answers: give no other option")
        typer.echo(coverage_page(read_answers(page)), nl=False)
        return
    if measure and framework is None:
        raise OpDiffError("--measure: say --framework, whose ops are to be run")
    with open_workshop(quiet) as workshop:
        if measure and framework is not None:
            spec = release_of(framework, workshop)
            table = measure_ops(workshop, spec, dtype, op or (), samples=samples)
        else:
            table = list_ops(workshop, framework)
    if as_json:
        print_json(table.to_json())
    else:
        table.print(plain_console())


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
        print_json(replay_json(shown))
    else:
        print_replay(plain_console(), shown)
    raise typer.Exit(ExitCode.FINDINGS if shown.differs else ExitCode.CLEAN)
