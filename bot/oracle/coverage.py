"""Coverage: per op group and target, what ran, what was compared, and why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bot.oracle.roles import Role

RAN = frozenset(("ok", "exception"))
DIED = frozenset(("crash", "hang", "memory"))
NOT_OFFERED = frozenset(("unsupported", "refused"))


@dataclass
class TargetCoverage:
    """One op group on one target: programs by how they ended."""

    statuses: Counter[str] = field(default_factory=Counter[str])
    compared: int = 0  # programs whose outcome was compared with another target's

    @property
    def ran(self) -> int:
        """Programs with a result or an exception of the op's own, and those the target died on."""
        return self._of(RAN | DIED)

    @property
    def unsupported(self) -> int:
        """Programs whose op, argument or dtype the framework does not have."""
        return self._of(NOT_OFFERED)

    @property
    def died(self) -> int:
        """Programs on which the target crashed, hung or filled its memory."""
        return self._of(DIED)

    def _of(self, statuses: Iterable[str]) -> int:
        return sum(self.statuses[status] for status in statuses)


@dataclass
class OpCoverage:
    """One op group: programs, those compared between two targets at least, and each target's part."""

    programs: int = 0
    compared: int = 0
    tested: int = 0  # programs that ran on the candidate and on another target
    targets: list[TargetCoverage] = field(default_factory=list[TargetCoverage])
    reasons: Counter[str] = field(default_factory=Counter[str])  # why something was not compared


@dataclass(frozen=True)
class Tested:
    """Whether an op was tested: ran on the candidate and on one other side at least; ``reason`` when it wasn't."""

    tested: bool
    programs: int
    reason: str = ""


class Coverage:
    """Coverage of a run, counted program by program. ``roles`` and ``labels`` are in the order of the targets."""

    def __init__(self, labels: Sequence[str], roles: Sequence[Role]) -> None:
        self.labels = tuple(labels)
        self.roles = tuple(roles)
        self.ops: dict[str, OpCoverage] = {}

    def add(
        self, op: str, statuses: Sequence[str], compared: bool, not_compared: Mapping[str, int]
    ) -> None:
        """Count one program: each target's status, whether anything was compared, and the reasons against."""
        entry = self.ops.setdefault(op, OpCoverage(targets=[TargetCoverage() for _ in self.labels]))
        entry.programs += 1
        entry.compared += compared
        entry.reasons.update(not_compared)
        for target, status in zip(entry.targets, statuses, strict=True):
            target.statuses[status] += 1
            target.compared += compared and status not in NOT_OFFERED
        ran = [status in RAN or status in DIED for status in statuses]
        candidates = [i for i, role in enumerate(self.roles) if role == "candidate"]
        entry.tested += sum(ran) > 1 and all(ran[i] for i in candidates)

    def tested(self, op: str) -> Tested:
        """Whether an op was tested, and if not why: the most frequent reason, the first by name among equals."""
        entry = self.ops.get(op)
        if entry is None or not entry.programs:
            return Tested(False, 0, "no program calls it")
        if entry.tested:
            return Tested(True, entry.tested)
        reason = min(entry.reasons, key=lambda text: (-entry.reasons[text], text), default="")
        return Tested(False, 0, reason or "it ran on no two targets")
