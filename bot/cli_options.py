"""Options that commands share, and how their values are read."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bot.config import MAX_BUDGET, known_device
from bot.errors import OpDiffError
from bot.plan import MAX_SEED
from bot.progress import Progress
from bot.report.results import Results, read_results
from bot.report.terminal import print_summary
from bot.targets.environment_store import EnvironmentStore
from bot.workshop import Workshop

DEFAULT_OUT: Final = Path("opdiff-report")

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
    typer.Option(
        "--budget", min=1, max=MAX_BUDGET, help="Seconds for running programs; default: no bound."
    ),
]
MutationsOption = Annotated[
    int | None,
    typer.Option(
        "--mutations",
        min=0,
        help="Mutants of each op, 0 for none; default: 200, in a run as many as a budget allows.",
    ),
]
FailedProgramsOption = Annotated[
    Path | None,
    typer.Option(
        "--failed-programs",
        help="Folder of programs that failed in earlier runs: replayed first, and kept up to date.",
    ),
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


def split_commas(values: list[str] | None) -> tuple[str, ...]:
    """``--device cpu,cuda --device cpu`` -> each once, in order."""
    return tuple(dict.fromkeys(part for value in values or () for part in value.split(",") if part))


def asked_devices(values: list[str] | None) -> tuple[str, ...]:
    """``--device``'s devices, each once. Raises OpDiffError for one that is not known."""
    devices = split_commas(values)
    for device in devices:
        try:
            known_device(device)
        except ValueError as error:
            raise OpDiffError(f"--device: {error}") from error
    return devices


def absolute(path: Path | None) -> str | None:
    """A path as the plan keeps it: absolute, so that a run can be resumed from another folder."""
    return None if path is None else str(path.absolute())


def arguments() -> tuple[str, ...]:
    """The command line, for the report."""
    return ("opdiff", *sys.argv[1:])


@contextmanager
def open_workshop(
    quiet: bool, failed_programs: Path | None = None, remembers: bool = True
) -> Generator[Workshop]:
    """What the commands work with, with this user's cache and a progress on stderr."""
    progress = Progress(Console(stderr=True, highlight=False), quiet=quiet)
    with EnvironmentStore(progress=progress.note) as store:
        yield Workshop(store, progress, failed_programs=failed_programs, remembers=remembers)


def print_json(document: Any) -> None:
    """A JSON document on stdout."""
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def plain_console() -> Console:
    """Stdout for people: no wrapping, no emoji codes."""
    return Console(highlight=False, soft_wrap=True, emoji=False)


def show(results: Results, folder: Path, as_json: bool) -> None:
    """A run's results on stdout: JSON, or a summary."""
    if as_json:
        sys.stdout.write((folder / "results.json").read_text(encoding="utf-8"))
    else:
        written = read_results(folder / "results.json")
        print_summary(plain_console(), written, folder / "report.md")
