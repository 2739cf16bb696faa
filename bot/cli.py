"""The command line: which commands there are, and how each ends. The commands are in ``cli_*.py`` and ``*_cli.py``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.exceptions import Abort, Exit, TyperException

from bot.cli_bisect import bisect
from bot.cli_check import changes, check, merge, plan
from bot.cli_github import command, outputs, precision, publish, step_summary
from bot.cli_run import ops, replay, run
from bot.errors import (
    EXPECTED_ERRORS,
    InterruptedRunError,
    disk_full_message,
    file_error_message,
)
from bot.exit_codes import ExitCode
from bot.report.escape import log_line
from bot.targets.envs_cli import app as envs_app
from bot.targets.worker_process import WorkerDeath
from bot.worker.protocol import ProtocolError

TYPER_INTERRUPTED = 130  # what typer makes of a KeyboardInterrupt

app = typer.Typer(
    name="opdiff",
    help="Differential testing of tensor ops for pull requests of deep-learning frameworks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for _command in (
    check,
    plan,
    merge,
    changes,
    run,
    ops,
    replay,
    bisect,
    outputs,
    step_summary,
    publish,
    command,
    precision,
):
    app.command()(_command)
app.add_typer(envs_app, name="envs")


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
    except InterruptedRunError as stop:
        error.print(escape(_one_line(stop)))
        return ExitCode.INCOMPLETE
    except EXPECTED_ERRORS as problem:
        error.print(f"error: {escape(_one_line(problem))}")
        return ExitCode.INCOMPLETE
    except (WorkerDeath, ProtocolError) as problem:
        error.print(f"error: a worker gave no answer: {escape(_one_line(problem))}")
        return ExitCode.INCOMPLETE
    except OSError as problem:
        error.print(
            f"error: {escape(log_line(disk_full_message(problem, 'the run folder') or file_error_message(problem)))}"
        )
        return ExitCode.INCOMPLETE
    if code == TYPER_INTERRUPTED:
        error.print("interrupted")
        return ExitCode.INCOMPLETE
    return code if isinstance(code, int) else ExitCode.CLEAN


def _one_line(problem: Exception) -> str:
    return log_line(" ".join(str(problem).split())) or type(problem).__name__
