"""The targets beside a run's own that settling may ask, each in a pool of its own that starts when it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bot.defaults import defaults_of
from bot.oracle.tensors import Party
from bot.oracle.witness_targets import WitnessTarget
from bot.targets.job import Job, JobResult, PoolTarget
from bot.targets.pool import Pool
from bot.targets.target import TargetError, parse_target
from bot.workshop import Workshop

REFERENCE: Final = f"{defaults_of('numpy').baseline}:cpu"


class WitnessPools:
    """A context manager: what it started ends with it. ``labels`` are the run's, in the order of its ``targets``.

    ``hidden`` are folders that a candidate's worker must not see.
    """

    def __init__(
        self,
        targets: Sequence[PoolTarget],
        labels: Sequence[str],
        workshop: Workshop,
        hidden: Sequence[Path],
    ) -> None:
        self._targets = dict(zip(labels, targets, strict=True))
        self._workshop = workshop
        self._hidden = tuple(hidden)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def reference(self) -> WitnessTarget | None:
        """The pinned NumPy where its environment is prepared: no witness is worth a download in the middle of a run."""
        target = parse_target(REFERENCE)
        try:
            environment = self._workshop.store.find(target.environment)
        except TargetError as problem:
            self._workshop.progress.note(f"NumPy is not asked: {problem}")
            return None
        return None if environment is None else self._asked(PoolTarget(target, environment))

    def _asked(self, target: PoolTarget) -> WitnessTarget:
        pool: list[Pool] = []

        def rerun(jobs: Iterable[Job], *, fresh: bool = False) -> Iterable[JobResult]:
            if not pool:
                pool.append(self._stack.enter_context(self._workshop.pool([target], self._hidden)))
            try:
                yield from pool[0].run(jobs, fresh=fresh)
            except TargetError as problem:
                self._workshop.progress.note(f"{target.label} is not asked: {problem}")

        build = f"{target.environment.digest}:{target.label}"
        return WitnessTarget(Party(target.label, target.environment.framework, build), rerun)
