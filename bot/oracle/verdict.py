"""Who is wrong: one decision table over all evidence (``decisions.yml``), and the status against the baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from bot.oracle.finding import Confidence, FindingStatus, Verdict
from bot.oracle.roles import Player

TABLE = Path(__file__).with_name("decisions.yml")

Repeat = Literal["stable", "unstable", "unrepeated"]
Position = Literal[
    "candidate-alone",  # baseline and an independent peer agree against the candidate
    "candidate-apart",  # candidate and baseline differ, and no independent peer says anything
    "candidate-with-peer",  # candidate and an independent peer agree against the baseline
    "all-apart",  # candidate and baseline differ, and independent peers don't settle it
    "together",  # candidate and baseline agree against a peer
    "peers",  # no candidate and baseline to compare
]
Strength = Literal["none", "weak", "strong"]
Slopes = Literal["none", "weak", "strong", "within", "no slope"]
Refusal = Literal["none", "bound", "free"]
"""Of a refusal across frameworks: who refuses documents the interface of one that does not, or has one of its own."""
Against = Literal["nobody", "candidate", "baseline", "others"]
Blame = Literal[
    "nobody", "unstable", "dead", "float64", "slopes", "reference", "paths", "candidate", "baseline", "minority", "accepting",
    "refusing",
]  # fmt: skip
Sides = Sequence[Collection[str]]


@dataclass(frozen=True)
class Facts:
    """All evidence on a finding, in the words of the decision table."""

    repeat: Repeat = "stable"
    death: bool = False
    position: Position = "peers"
    float64: Strength = "none"
    float64_against: Against = "nobody"
    slopes: Slopes = "none"  # what finite differences say of a gradient
    reference: Strength = "none"  # what NumPy says of values
    paths: Strength = "none"  # what other paths of a framework say of it
    overflow: bool = False  # what overflowed on the way may be infinite or NaN
    vote: bool = False  # independent frameworks have a majority
    documented_error: bool = False  # some accept what PyTorch documents to raise
    refusal: Refusal = "none"  # who refuses what another one takes


class Decision(BaseModel):
    """A row: what must hold (a field that is left out may be anything), and what follows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    repeat: tuple[Repeat, ...] | None = None
    death: bool | None = None
    position: tuple[Position, ...] | None = None
    float64: tuple[Strength, ...] | None = None
    float64_against: tuple[Against, ...] | None = None
    slopes: tuple[Slopes, ...] | None = None
    reference: tuple[Strength, ...] | None = None
    paths: tuple[Strength, ...] | None = None
    overflow: bool | None = None
    vote: bool | None = None
    documented_error: bool | None = None
    refusal: tuple[Refusal, ...] | None = None
    verdict: Literal["flaky", "undecided", "convention"] | None = None  # None: by who is blamed
    blame: Blame
    confidence: Confidence
    why: str

    def holds(self, facts: Facts) -> bool:
        """Whether the facts satisfy every condition of this row."""
        return (
            (self.repeat is None or facts.repeat in self.repeat)
            and (self.death is None or facts.death == self.death)
            and (self.position is None or facts.position in self.position)
            and (self.float64 is None or facts.float64 in self.float64)
            and (self.float64_against is None or facts.float64_against in self.float64_against)
            and (self.slopes is None or facts.slopes in self.slopes)
            and (self.reference is None or facts.reference in self.reference)
            and (self.paths is None or facts.paths in self.paths)
            and self.overflow in (None, facts.overflow)
            and (self.vote is None or facts.vote == self.vote)
            and self.documented_error in (None, facts.documented_error)
            and (self.refusal is None or facts.refusal in self.refusal)
        )


class _Table(BaseModel):
    decisions: list[Decision]


@cache
def load_decisions(path: Path = TABLE) -> tuple[Decision, ...]:
    """Read and validate the table. Raises pydantic's ValidationError for a row that does not add up."""
    return tuple(_Table.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).decisions)


def decide(facts: Facts) -> Decision:
    """The first row that holds; the last one always does."""
    return next(row for row in load_decisions() if row.holds(facts))


def verdict_on(blamed: Collection[str], players: Mapping[str, Player]) -> Verdict:
    """The verdict that names the blamed: ``candidate``, ``upstream``, ``both``, or ``undecided`` for nobody."""
    if not blamed:
        return "undecided"
    candidate = find(players, "candidate")
    if candidate is None:
        frameworks = {players[label].framework for label in blamed}
        return "both" if len(frameworks) > 1 and len(blamed) == len(players) else "upstream"
    if candidate.label not in blamed:
        return "upstream"
    foreign = any(players[label].framework != candidate.framework for label in blamed)
    return "both" if foreign else "candidate"


def find(players: Mapping[str, Player], role: str) -> Player | None:
    """The player of this role, if there is one."""
    return next((player for player in players.values() if player.role == role), None)


def side_of(label: str, sides: Sides) -> Collection[str] | None:
    """The side that a target is on."""
    return next((side for side in sides if label in side), None)


def position(sides: Sides, players: Mapping[str, Player]) -> Position:
    """Where the sides put candidate, baseline and independent peers."""
    candidate, baseline = find(players, "candidate"), find(players, "baseline")
    if candidate is None or baseline is None:
        return "peers"
    with_candidate = side_of(candidate.label, sides)
    with_baseline = side_of(baseline.label, sides)
    if with_candidate is None or with_baseline is None:
        return "peers"
    if with_candidate is with_baseline:
        return "together"

    def has_independent(side: Collection[str]) -> bool:
        return any(players[label].framework != candidate.framework for label in side)

    if not any(has_independent(side) for side in sides):
        return "candidate-apart"
    if has_independent(with_candidate) == has_independent(with_baseline):
        return "all-apart"
    return "candidate-with-peer" if has_independent(with_candidate) else "candidate-alone"


def minority(sides: Sides, players: Mapping[str, Player]) -> tuple[str, ...]:
    """The targets outside the one side that holds at least two frameworks and more than any other; () without one.

    Builds of one framework have one voice.
    """
    voices = [len({players[label].framework for label in side}) for side in sides]
    most = max(voices, default=0)
    if most < 2 or voices.count(most) > 1:
        return ()
    winner = voices.index(most)
    return tuple(label for i, side in enumerate(sides) if i != winner for label in side)


def against(blamed: Collection[str], players: Mapping[str, Player]) -> Against:
    """Whom a witness speaks against, by role: the candidate (with whomever else), the baseline, or only others."""
    roles = {players[label].role for label in blamed}
    if "candidate" in roles and "baseline" not in roles:
        return "candidate"
    if "baseline" in roles and "candidate" not in roles:
        return "baseline"
    return "others" if roles else "nobody"


def status_of(
    sides: Sides, blamed: Collection[str], players: Mapping[str, Player]
) -> FindingStatus | None:
    """The status against the baseline; None without a baseline.

    What the candidate has no part in, or shares with the baseline, is ``known``.
    """
    candidate, baseline = find(players, "candidate"), find(players, "baseline")
    if candidate is None or baseline is None:
        return None
    with_candidate = side_of(candidate.label, sides)
    with_baseline = side_of(baseline.label, sides)
    candidate_blamed, baseline_blamed = candidate.label in blamed, baseline.label in blamed
    if with_candidate is None or (
        with_candidate is with_baseline and candidate_blamed == baseline_blamed
    ):
        return "known"
    if candidate_blamed and not baseline_blamed:
        return "new"
    if baseline_blamed and not candidate_blamed:
        return "fixed"
    return "changed"
