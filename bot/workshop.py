"""The workshop: what every command works with. Made once in cli.py and passed in, so that tests bring their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.programs.mutation.signature_source import signatures_of
from bot.programs.mutation.signatures import Signatures
from bot.programs.opinfo_source import PINNED_RELEASE, OpInfoSource
from bot.programs.source_cache import SourceCache
from bot.progress import Progress
from bot.targets.environment_store import EnvironmentStore
from bot.targets.job import Limits, PoolTarget
from bot.targets.launcher import open_worker
from bot.targets.pool import WORKER_DIRECTORY, Pool
from bot.targets.resolve import resolve
from bot.targets.target import parse_target
from bot.targets.worker_process import WorkerDeath
from bot.worker.protocol import ProtocolError


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Workshop:
    """Environments, limits, progress and clocks. ``clock`` counts seconds, ``now`` gives UTC."""

    store: EnvironmentStore
    progress: Progress
    limits: Limits = field(default_factory=Limits)
    worker_directory: Path = WORKER_DIRECTORY
    hello_options: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict[str, Mapping[str, Any]]
    )
    failed_programs: Path | None = None  # a folder of programs that failed in earlier runs
    remembers: bool = True  # whether this run may add to that folder
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc

    def pool(self, targets: Sequence[PoolTarget], hidden: Sequence[Path] = ()) -> Pool:
        """Workers for the targets; ``hidden`` are folders that a candidate's worker must not see."""
        return Pool(
            targets,
            self.limits,
            worker_directory=self.worker_directory,
            hello_options=self.hello_options,
            hidden=(*hidden, self.store.cache_dir / "programs"),
        )

    def signatures(self) -> Signatures:
        """What the pinned PyTorch release says of its functions' parameters; nothing where its worker fails."""
        pinned = resolve(parse_target(f"{PINNED_RELEASE}:cpu"), self.store)
        try:
            return signatures_of(
                lambda: open_worker(pinned, self.limits),
                pinned.environment.digest,
                self._programs(),
            )
        except (WorkerDeath, ProtocolError) as problem:
            self.progress.note(f"PyTorch's signatures cannot be read: {problem}")
            return Signatures()

    def _programs(self) -> SourceCache:
        prepared = self.store.prepared_dir
        return SourceCache(
            self.store.cache_dir / "programs", prepared / "programs" if prepared else None
        )

    @contextmanager
    def source(self) -> Generator[OpInfoSource]:
        """The pinned PyTorch release's own test samples. Raises TargetError when it cannot be made."""
        pinned = resolve(parse_target(f"{PINNED_RELEASE}:cpu"), self.store)
        with OpInfoSource(
            lambda: open_worker(pinned, self.limits), pinned.environment.digest, self._programs()
        ) as source:
            yield source
