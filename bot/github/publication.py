"""What is published: one value from which comment, check run and step summary are written, and what became of it.

The publish stage gathers it from the API and from an artifact that it does not trust; the writers
(:mod:`bot.github.comment_body`, :mod:`bot.github.check_run_body`, :mod:`bot.github.step_summary`) are pure functions of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.github.state import CommentState
from bot.report.results import Results


@dataclass(frozen=True)
class Publication:
    """All that comment, check run and step summary say. Texts are untrusted unless said otherwise: escape them.

    ``results`` is None when the run is broken; ``broken`` then says why in one line. ``untrusted_run`` is true where
    the pull request comes from a fork, which can edit the workflow that made the results.
    """

    repository: str  # owner/name, from the API
    number: int  # the pull request
    base: str  # commit SHAs, from the API
    head: str
    run: int  # workflow run id and attempt of the check stage
    attempt: int
    run_url: str  # the check stage's run, from the API
    report_url: str  # where the whole report lies: the publish stage's own run or artifact
    results: Results | None
    broken: str = ""
    untrusted_run: bool = True
    previous: CommentState | None = None  # what the sticky comment held before
    scripts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Fingerprint -> the repro script's source, written anew by the publish stage from the validated program."""
    drafts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Fingerprint -> address of a prefilled new-issue page upstream (at most 8,191 bytes)."""


@dataclass(frozen=True)
class Posted:
    """What became of a comment or check run: its address, and why it was left alone where it was."""

    url: str = ""
    left_alone: str = ""
