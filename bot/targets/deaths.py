"""What is known of a target's deaths: which are alike, and which groups of programs had better run last."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from bot.targets.worker_process import WorkerDeath

ALIKE = 3
"""After so many confirmed deaths that are alike, the rest of the group runs last and needs no second run."""

Likeness = tuple[str, str, str]

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_STACK_LINE = re.compile(
    r"^\s*(@|\*\*\*|#\d+|File \"|Fatal Python error|Current thread|Extension modules)"
)


def likeness(group: str, death: WorkerDeath) -> Likeness:
    """Group, signal and the last line that is a message, its numbers and addresses left out."""
    lines = [
        line.strip()
        for line in death.last_words.splitlines()
        if line.strip() and not _STACK_LINE.match(line)
    ]
    message = _NUMBER.sub("#", _ADDRESS.sub("@", lines[-1])) if lines else ""
    return group, death.signal, message[:300]


@dataclass
class DeathRecord:
    """One target's confirmed deaths by likeness."""

    _confirmed: Counter[Likeness] = field(default_factory=Counter[Likeness])
    _deferred: set[str] = field(default_factory=set[str])

    def confirm(self, group: str, death: WorkerDeath) -> None:
        """Count a death that happened again alone in a fresh worker."""
        kind = likeness(group, death)
        self._confirmed[kind] += 1
        if group and self._confirmed[kind] >= ALIKE:
            self._deferred.add(group)

    def is_known(self, group: str, death: WorkerDeath) -> bool:
        """Whether so many deaths like this one were confirmed that its likeness is confirmation enough."""
        return bool(group) and self._confirmed[likeness(group, death)] >= ALIKE

    def runs_last(self, group: str) -> bool:
        """Whether the group's remaining programs are to run at the end."""
        return group in self._deferred

    @property
    def deferring(self) -> bool:
        """Whether any group runs last."""
        return bool(self._deferred)
