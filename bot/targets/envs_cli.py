"""``opdiff envs``: list, prepare, check and remove environments."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bot.targets.environment_store import EnvironmentStore
from bot.targets.recipes import RecipeError
from bot.targets.target import TargetError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Environments: interpreters with one build of one framework, made by uv and kept in a cache.",
)

CacheDir = Annotated[
    Path | None,
    typer.Option("--cache-dir", help="Where environments are kept. Default: the user's cache."),
]
Backend = Annotated[
    str | None,
    typer.Option(
        "--torch-backend", help="uv's --torch-backend for PyTorch builds: cpu, cu126, auto..."
    ),
]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _fail(error: Exception | str) -> typer.Exit:
    for line in str(error).splitlines():
        _say(f"error: {line}")
    return typer.Exit(1)


def _store(cache_dir: Path | None, torch_backend: str | None = None) -> EnvironmentStore:
    try:
        return EnvironmentStore(cache_dir, progress=_say, torch_backend=torch_backend)
    except RecipeError as error:
        raise _fail(error) from None


@app.command("list")
def list_environments(cache_dir: CacheDir = None) -> None:
    """Print every environment that is there: its spec, version, Python and last use."""
    with _store(cache_dir) as store:
        entries = store.stored()
        for entry in entries:
            used = datetime.fromtimestamp(entry.last_use, UTC).strftime("%Y-%m-%d")
            described = entry.description
            facts = f"{described.version}  Python {described.python}" if described else "damaged"
            print(f"{entry.name}  {facts}  used {used}  {entry.folder}")
        if not entries:
            _say(f"no environments in {store.cache_dir}: opdiff envs prepare torch==2.13.0")


@app.command()
def prepare(
    names: Annotated[
        list[str],
        typer.Argument(help="Requirements (torch==2.13.0), wheels, or python=/path/to/python."),
    ],
    again: Annotated[bool, typer.Option("--again", help="Make them anew.")] = False,
    cache_dir: CacheDir = None,
    torch_backend: Backend = None,
) -> None:
    """Make environments that are not there yet."""
    failed = False
    with _store(cache_dir, torch_backend) as store:
        for name in names:
            begun = time.monotonic()
            try:
                environment = store.prepare(name, again=again)
            except TargetError as error:
                _fail(error)
                failed = True
                continue
            _say(f"{name}: ready in {time.monotonic() - begun:.1f} s")
            print(environment.python)
    if failed:
        raise typer.Exit(1)


@app.command()
def doctor(
    names: Annotated[
        list[str] | None, typer.Argument(help="Environments to check. Default: all.")
    ] = None,
    cache_dir: CacheDir = None,
    torch_backend: Backend = None,
) -> None:
    """Start each environment, import its framework, and say in one line what is wrong and what to do."""
    healthy = True
    with _store(cache_dir, torch_backend) as store:
        for diagnosis in store.doctor(names or ()):
            healthy = healthy and diagnosis.ok
            print(f"{'ok   ' if diagnosis.ok else 'WRONG'}  {diagnosis.name}: {diagnosis.says}")
            sys.stdout.flush()
    if not healthy:
        raise typer.Exit(1)


@app.command()
def prune(
    days: Annotated[
        float | None,
        typer.Option(min=0, help="Remove what was not used for so many days."),
    ] = 30.0,
    remove_all: Annotated[bool, typer.Option("--all", help="Remove everything.")] = False,
    cache_dir: CacheDir = None,
) -> None:
    """Remove environments and overlays that are not used, and what killed installs left behind."""
    with _store(cache_dir) as store:
        removed = store.prune(None if remove_all else days)
        for name in removed:
            print(f"removed {name}")
        if not removed:
            _say("nothing to remove")


@app.command()
def path(
    name: Annotated[str, typer.Argument(help="A requirement, as in torch==2.13.0.")],
    cache_dir: CacheDir = None,
    torch_backend: Backend = None,
) -> None:
    """Print the site-packages folder of an environment that is there."""
    with _store(cache_dir, torch_backend) as store:
        try:
            environment = store.find(name)
            if environment is None:
                raise TargetError(f"{name} is not prepared: opdiff envs prepare '{name}'")
            print(store.site_packages(environment))
        except TargetError as error:
            raise _fail(error) from None
