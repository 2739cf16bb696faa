"""The targets beside a run's own that settling may ask, each in a pool of its own that starts when it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Final, Self

from bot.defaults import defaults_of
from bot.oracle.path_options import is_compiled, other_paths
from bot.oracle.tensors import Party
from bot.oracle.witness_targets import WitnessTarget
from bot.targets.job import Job, JobResult, Limits, PoolTarget
from bot.targets.pool import Pool
from bot.targets.target import TargetError, parse_target
from bot.workshop import Workshop

REFERENCE: Final = f"{defaults_of('numpy').baseline}:cpu"
SECONDS: Final = 20.0
SHORT: Final = Limits(program_seconds=5.0, compile_seconds=15.0, start_seconds=20.0)


class WitnessPools:
    """A context manager: what it started ends with it. ``labels`` are the run's, in the order of its ``targets``.

    ``hidden`` are folders that a candidate's worker must not see. ``seconds`` bound what one target is asked at once, its
    start included: what it has not answered by then it does not answer.
    """

    def __init__(
        self,
        targets: Sequence[PoolTarget],
        labels: Sequence[str],
        workshop: Workshop,
        hidden: Sequence[Path],
        seconds: float = SECONDS,
    ) -> None:
        self._targets = dict(zip(labels, targets, strict=True))
        self._workshop = replace(workshop, limits=_short(workshop.limits))
        self._hidden = tuple(hidden)
        self._seconds = seconds
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
        return None if environment is None else self._asked(PoolTarget(target, environment), [])

    def paths(self, label: str) -> Iterator[WitnessTarget]:
        """One of the run's targets on the other paths of its framework, one process at a time."""
        plain = self._targets[label]
        for target in other_paths(plain.target, plain.environment.framework):
            pools: list[Pool] = []
            yield self._asked(replace(plain, target=target), pools)
            for pool in pools:
                pool.close()

    def _asked(self, target: PoolTarget, pools: list[Pool]) -> WitnessTarget:
        """A target whose pool is made, and put into ``pools``, when the first job comes."""

        def rerun(jobs: Iterable[Job], *, fresh: bool = False) -> Iterable[JobResult]:
            if not pools:
                pools.append(self._stack.enter_context(self._workshop.pool([target], self._hidden)))
            timer = Timer(self._seconds, pools[0].stop)
            timer.start()
            try:
                yield from pools[0].run(jobs, fresh=fresh)
            except TargetError as problem:
                self._workshop.progress.note(f"{target.label} is not asked: {problem}")
            finally:
                timer.cancel()

        build = f"{target.environment.digest}:{target.label}"
        framework, compiles = target.environment.framework, is_compiled(target.target)
        return WitnessTarget(Party(target.label, framework, build, compiles=compiles), rerun)


def _short(limits: Limits) -> Limits:
    """The same limits, with less time: a witness that is slow is one that says nothing."""
    return replace(
        limits,
        program_seconds=min(limits.program_seconds, SHORT.program_seconds),
        compile_seconds=min(limits.compile_seconds, SHORT.compile_seconds),
        start_seconds=min(limits.start_seconds, SHORT.start_seconds),
    )
