"""``opdiff publish`` in a process of its own, which begins as a copy of one that has everything imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from bot.cli import main


def start_publish(environment: Mapping[str, str], out: Path) -> ForkServerProcess:
    """The command with nothing but a job's environment. Its ``exitcode`` tells how it ended, after ``join``."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    home = {name: os.environ[name] for name in ("PATH", "HOME")}
    process = context.Process(target=_publish, args=(home | dict(environment), str(out)))
    process.start()
    return process


def _publish(environment: Mapping[str, str], out: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    sys.argv = ["opdiff", "publish", "--out", out]
    main()
