"""``opdiff bisect``: in which release of a framework a finding's fault came, or went."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bot.bisecting import bisect as bisect_finding
from bot.bisecting import bisection_json, print_bisection
from bot.cli_options import JsonOption, QuietOption, open_workshop, plain_console, print_json
from bot.exit_codes import ExitCode
from bot.targets.releases import ask_index


def bisect(
    finding: Annotated[Path, typer.Argument(help="A finding's folder.")],
    framework: Annotated[
        str, typer.Option("--framework", help="Whose releases to ask; one of the finding's.")
    ],
    versions: Annotated[
        str, typer.Option("--versions", help="A range, as 1.8..2.13, or a list: 1.8.1,1.9.0.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File for the answers; one that is there is gone on with."),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the first release that has a finding's fault, or no longer has it."""
    with open_workshop(quiet) as workshop:
        found = bisect_finding(finding, framework, versions, workshop, ask_index(os.environ), out)
    if as_json:
        print_json(bisection_json(found))
    else:
        print_bisection(plain_console(), found)
    raise typer.Exit(ExitCode.CLEAN if found.answered else ExitCode.INCOMPLETE)
