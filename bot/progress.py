"""Progress for people: a live line on a terminal, plain lines otherwise; always on stderr.

Only stderr is written to, so that ``--json`` leaves nothing but JSON on stdout.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from bot.report.escape import log_line

PLAIN_INTERVAL_SECONDS = 10.0
LIVE_INTERVAL_SECONDS = 0.2


@dataclass
class RunProgress:
    """What the live line shows while programs run."""

    started: float
    total: int | None = None  # programs, when known
    done: int = 0
    mismatching: int = 0
    deaths: int = 0
    op: str = ""


@dataclass
class Progress:
    """Says what is going on. ``clock`` gives seconds and is passed in for tests."""

    console: Console = field(default_factory=lambda: Console(stderr=True))
    quiet: bool = False
    clock: Callable[[], float] = time.monotonic
    _status: Status | None = None
    _last: float = float("-inf")

    def step(self, text: str) -> None:
        """A new step of the story: one line."""
        if not self.quiet:
            self._stop_live()
            self._line("[bold]==[/bold]", text)

    def note(self, text: str) -> None:
        """A line that belongs to the present step."""
        if not self.quiet:
            self._line("  ", text)

    def warn(self, text: str) -> None:
        """Something the user should know; shown even when quiet."""
        self._line("[yellow]!![/yellow]", text)

    def update(self, run: RunProgress) -> None:
        """Show how far the programs are; cheap enough to call for every one."""
        now = self.clock()
        live = self.console.is_terminal
        if self.quiet or now - self._last < (
            LIVE_INTERVAL_SECONDS if live else PLAIN_INTERVAL_SECONDS
        ):
            return
        self._last = now
        text = describe(run, now)
        if not live:
            self._line("  ", text)
            return
        if self._status is None:
            self._status = self.console.status(escape(text))
            self._status.start()
        self._status.update(escape(text))

    def finish(self, run: RunProgress) -> None:
        """The last word on the programs."""
        self._stop_live()
        if not self.quiet:
            self.note(describe(run, self.clock()))

    def _line(self, mark: str, text: str) -> None:
        """One line, whatever the text holds: it may come from a diff or a worker."""
        shown = escape(log_line(text))
        self.console.print(f"{mark} {shown}", highlight=False, emoji=False, soft_wrap=True)

    def _stop_live(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def describe(run: RunProgress, now: float) -> str:
    """``1,200 programs, 310/s, 4 mismatching, 1 death, at nn.functional.softplus``."""
    seconds = max(now - run.started, 1e-9)
    of = f" of {run.total:,}" if run.total else ""
    parts = [f"{run.done:,}{of} programs", f"{run.done / seconds:,.0f}/s"]
    parts.append(f"{run.mismatching:,} mismatching")
    if run.deaths:
        parts.append(f"{run.deaths:,} death{'s' if run.deaths != 1 else ''}")
    if run.op:
        parts.append(f"at {run.op}")
    return ", ".join(parts)
