"""A comment whose state changes while its text stays."""

from __future__ import annotations

from bot.github.marker import read_marker, write_marker
from bot.github.state import CommentState, Decision
from bot.github.sticky_comment import with_state

DECISIONS = tuple(
    Decision(comment=n, verb="retry", author=f"author-{n}", head="a" * 40) for n in range(1, 101)
)


def test_the_text_stays() -> None:
    body = f"**Headline**\n\n```\n<!-- opdiff:1 quoted -->\n```\n\nend\n\n{write_marker(CommentState(run=1))}"
    changed = with_state(body, CommentState(run=1, decisions=DECISIONS))
    assert changed.startswith("**Headline**\n\n```\n<!-- opdiff:1 quoted -->\n```\n\nend\n\n<!-- ")
    state = read_marker(changed)
    assert state is not None
    assert state.decisions == DECISIONS


def test_a_full_comment_stays_within_githubs_limit() -> None:
    details = "\n\n".join(f"<details>{'é' * 1000}</details>" for _ in range(32))
    body = f"**Headline**\n\n{details}\n\n<sub>end</sub>\n\n{write_marker(CommentState(run=1))}"
    assert 64_000 < len(body.encode()) < 65_500
    changed = with_state(body, CommentState(run=1, decisions=DECISIONS))
    assert len(changed.encode()) < 65_536
    first, said, last, _ = changed.split("\n\n")
    assert (first, last) == ("**Headline**", "<sub>end</sub>")
    assert "whole report" in said
    state = read_marker(changed)
    assert state is not None
    assert state.decisions == DECISIONS
