"""Players: the targets of a run with the part that each one has in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from packaging.version import InvalidVersion, Version

from bot.oracle.tensors import Party

Role = Literal["candidate", "baseline", "peer"]


@dataclass(frozen=True)
class Player:
    """A target: its label, its framework, and whether it is the candidate, its baseline or a peer."""

    label: str
    framework: str
    role: Role

    @property
    def without_version(self) -> str:
        """Framework, device and options, and the role of a candidate or baseline: what stays from push to push."""
        environment, _, rest = self.label.partition(":")
        if environment.startswith("python="):
            rest = self.label.rpartition('":')[2] if '"' in self.label else rest
        part = "" if self.role == "peer" else f"@{self.role}"
        return f"{self.framework}{part}:{rest}"


def players(parties: Sequence[Party], roles: Sequence[Role]) -> dict[str, Player]:
    """Players by label, in the targets' order. Raises ValueError for other than at most one candidate and baseline."""
    made = {
        party.label: Player(party.label, party.framework, role)
        for party, role in zip(parties, roles, strict=True)
    }
    for role in ("candidate", "baseline"):
        if sum(player.role == role for player in made.values()) > 1:
            raise ValueError(f"there is more than one {role}")
    return made


def held_to(
    labels: Sequence[str],
    roles: Sequence[Role],
    frameworks: Sequence[str],
    versions: Sequence[str],
) -> tuple[str, ...]:
    """Whose support each target must keep, by label, for :class:`bot.oracle.compare.Comparator`; "" for nobody's.

    A candidate is held to its baseline when they are of one release: when their versions are equal up to what follows
    the release's number (``2.13.0a0+git1234`` and ``2.13.0+cpu``). A candidate may support more than its baseline.
    """
    releases = [
        (framework, _release_number(version))
        for framework, version in zip(frameworks, versions, strict=True)
    ]
    baselines = {
        release: label
        for label, role, release in zip(labels, roles, releases, strict=True)
        if role == "baseline"
    }
    return tuple(
        baselines.get(release, "") if role == "candidate" else ""
        for role, release in zip(roles, releases, strict=True)
    )


def _release_number(version: str) -> str:
    try:
        return Version(version).base_version
    except InvalidVersion:
        return version
