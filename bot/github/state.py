"""What the sticky comment remembers between pushes: findings of the last push, and people's decisions.

The state travels in the comment itself, in a hidden marker, so that no server is needed. Only a comment that the bot
itself wrote is read, and of its state only what GitHub bears out counts: see :mod:`bot.github.own_comments`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from bot.oracle.finding import FINGERPRINT, FindingStatus, Kind, Verdict

STATE_VERSION: Final = 1
MAX_SEEN: Final = 300
MAX_DECISIONS: Final = 200
MAX_REASON: Final = 300
MAX_PAST: Final = 1_000_000

Verb = Literal["run", "retry", "ignore", "accept", "wrong", "draft"]
Fingerprint = Annotated[str, Field(pattern=f"^{FINGERPRINT}$")]
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")]
OP_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.]{0,119}"
OpName = Annotated[str, Field(pattern=f"^{OP_NAME}$")]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Seen(_Model):
    """A finding of the last push, as much as it takes to say what is new, still there, and fixed since."""

    fingerprint: Fingerprint
    op: Annotated[str, Field(max_length=120)]
    kind: Kind
    verdict: Verdict
    status: FindingStatus | None = None


class Decision(_Model):
    """A command that was followed: whose, about what, and at which head of the pull request."""

    comment: int
    """The id of the comment that holds the command: the same comment is never followed twice."""
    verb: Verb
    author: Annotated[str, Field(max_length=100)]
    head: Sha
    fingerprint: Fingerprint | None = None
    reason: Annotated[str, Field(max_length=MAX_REASON)] = ""
    ops: tuple[OpName, ...] = Field(default=(), max_length=50)
    """Of ``run``: the ops to run beside the changed ones."""
    budget: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Of ``run``: seconds."""
    verdict: Verdict | None = None
    """Of ``wrong``: the verdict that was said to be wrong."""


class Earlier(_Model):
    """What the report before the comment's own had: a publish that is done again compares with the same."""

    head: Sha | None = None
    seen: tuple[Seen, ...] = Field(default=(), max_length=MAX_SEEN)
    seen_left_out: int = 0


class CommentState(_Model):
    """Everything that the sticky comment's marker holds."""

    version: Literal[1] = STATE_VERSION
    head: Sha | None = None
    """The head that the comment speaks of; null before the first report."""
    run: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """The check run's workflow run id, and which attempt: a late publish of an older run changes nothing."""
    attempt: Annotated[int, Field(ge=0, lt=2**31)] = 0
    seen: tuple[Seen, ...] = Field(default=(), max_length=MAX_SEEN)
    seen_left_out: int = 0
    """Findings beyond MAX_SEEN: of these no one can say whether they were fixed."""
    decisions: tuple[Decision, ...] = Field(default=(), max_length=MAX_DECISIONS)
    earlier: Earlier | None = None
    """Null before the second report."""
    past: dict[Verdict, Annotated[int, Field(gt=0, le=MAX_PAST)]] = {}
    """How many findings of each verdict older reports had that are in neither report now and were not said to be wrong:
    with them all verdicts that were ever given on the pull request are counted."""
