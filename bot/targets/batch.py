"""Batches: jobs encoded once for every worker, and how far ahead of the answers they may run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.targets.job import Job
from bot.worker.protocol import PREFIX, encode_header

BATCH_JOBS = 128
BATCH_BYTES = 8 << 20


@dataclass(frozen=True)
class Batch:
    """Jobs and the frame's parts, shared by all targets."""

    jobs: tuple[Job, ...]
    parts: tuple[bytes, ...]


def make_batch(jobs: Sequence[Job]) -> Batch:
    """The ``batch`` frame of some jobs: prefix and header, then the blobs as they are."""
    rows = [[job.id, len(job.blob)] for job in jobs]
    header = encode_header({"type": "batch", "programs": rows})
    size = sum(len(job.blob) for job in jobs)
    prefix = PREFIX.pack(len(header), size)
    return Batch(tuple(jobs), (prefix + header, *(job.blob for job in jobs)))
