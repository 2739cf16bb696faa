"""Progress: plain lines where nobody watches, a live line on a terminal, nothing on stdout."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bot.progress import PLAIN_INTERVAL_SECONDS, Progress, RunProgress, describe


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def plain(**options: bool) -> tuple[Progress, io.StringIO, Clock]:
    out, clock = io.StringIO(), Clock()
    console = Console(file=out, force_terminal=False, highlight=False, width=80)
    return Progress(console, clock=clock, **options), out, clock


def test_what_a_run_shows() -> None:
    run = RunProgress(started=90, total=2_000, done=1_200, mismatching=4, deaths=1, op="add")
    assert describe(run, now=94) == (
        "1,200 of 2,000 programs, 300/s, 4 mismatching, 1 death, at add"
    )
    quiet = RunProgress(started=90, done=2, deaths=2)
    assert describe(quiet, now=91) == "2 programs, 2/s, 0 mismatching, 2 deaths"
    assert describe(RunProgress(started=90), now=90) == "0 programs, 0/s, 0 mismatching"


def test_every_message_is_one_plain_line() -> None:
    progress, out, _ = plain()
    path = "/a/" + "very-long-name/" * 20
    progress.step(f"running {path}")
    progress.note(path)
    progress.warn(path)
    assert out.getvalue() == f"== running {path}\n   {path}\n!! {path}\n"


def test_text_is_no_markup() -> None:
    progress, out, _ = plain()
    for say in (progress.step, progress.note, progress.warn):
        say("[red]x[/red] [/] :smile:")
    progress.finish(RunProgress(started=100, done=1, op="[bold]op"))
    assert out.getvalue().count("[red]x[/red] [/] :smile:") == 3
    assert "at [bold]op" in out.getvalue()


def test_what_comes_from_outside_stays_text_of_one_line() -> None:
    """Neither a terminal's escape sequence nor a second line, which could be a workflow command."""
    progress, out, _ = plain()
    progress.step("a\nb\x1b[2J")
    progress.note("::error::x")
    assert out.getvalue().splitlines()[0] == "== a\\nb\\x1b[2J"
    assert not any(line.lstrip().startswith("::") for line in out.getvalue().splitlines())
    assert len(out.getvalue().splitlines()) == 2


def test_plain_updates_are_seldom() -> None:
    progress, out, clock = plain()
    run = RunProgress(started=100)
    for _ in range(1_000):
        clock.now += PLAIN_INTERVAL_SECONDS / 400
        run.done += 1
        progress.update(run)
    assert len(out.getvalue().splitlines()) == 3  # at once, after 10 s and after 20 s
    assert "\x1b" not in out.getvalue()
    progress.finish(run)
    assert out.getvalue().splitlines()[-1].startswith("   1,000 programs, 40/s")


def test_quiet_says_only_warnings() -> None:
    progress, out, _ = plain(quiet=True)
    progress.step("a")
    progress.note("b")
    progress.update(RunProgress(started=0))
    progress.finish(RunProgress(started=0))
    assert out.getvalue() == ""
    progress.warn("c")
    assert out.getvalue() == "!! c\n"


def test_nothing_goes_to_stdout_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.step("a")
    progress.finish(RunProgress(started=0))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("== a\n")


def test_the_live_line_ends_with_the_next_step() -> None:
    out, clock = io.StringIO(), Clock()
    progress = Progress(Console(file=out, force_terminal=True, width=80), clock=clock)
    run = RunProgress(started=100, done=5)
    progress.update(run)
    assert progress._status is not None
    progress.finish(run)
    assert progress._status is None
    assert "5 programs" in out.getvalue()
