"""The fast paths: most programs agree, and are done with here in microseconds without parsing JSON.

A worker's header is canonical JSON, so equal headers mean the same status, tensors, shapes and dtypes. Headers repeat
from program to program but for their ``id``, which is cut out; what a header says is parsed once and kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bot.oracle.counts import ROLE_FIELD, Counts, TargetStatus
from bot.oracle.signature import first_line
from bot.oracle.tolerance import ASSERT_CLOSE, base_dtype
from bot.programs.dtypes import DTYPES
from bot.targets.outcome import UNREADABLE, RawOutcome
from bot.worker.protocol import ProtocolError, decode_header

MAX_CACHED: Final = 50_000  # headers
MAX_CACHED_HEADER: Final = 8_192  # bytes
_ID: Final = b',"id":'
# Strictly inside the bound of the exact rules, which rounding here must not overstep.
_MARGIN: Final = 0.999

_PART_DTYPE: dict[str, np.dtype[Any]] = {
    "complex32": np.dtype(np.float16),
    "complex64": np.dtype(np.float32),
    "complex128": np.dtype(np.float64),
}


@dataclass(frozen=True)
class Segment:
    """A run of payload bytes of one dtype. ``rtol`` is None where bytes must be equal."""

    start: int
    stop: int
    dtype: np.dtype[Any]
    rtol: float | None
    atol: float


@dataclass(frozen=True)
class Layout:
    """What a header says of its payload, and what it means when every target sends this header and agrees."""

    nbytes: int
    segments: tuple[Segment, ...]
    counts: Counts
    status: TargetStatus
    comparable: bool  # "ok" or "exception": there is something to compare


class Layouts:
    """Parsed headers by their bytes, bounded."""

    def __init__(self) -> None:
        self._known: dict[bytes, Layout] = {}

    def of(self, anonymous: bytes, header: bytes) -> Layout:
        """The layout of a header, given also without its id. Raises ProtocolError."""
        layout = self._known.get(anonymous)
        if layout is not None:
            return layout
        layout = read_layout(header)
        if len(anonymous) <= MAX_CACHED_HEADER:
            if len(self._known) >= MAX_CACHED:
                self._known.clear()
            self._known[anonymous] = layout
        return layout


def without_id(header: bytes) -> bytes:
    """A header's bytes without the program's id, which differs from batch to batch.

    Within JSON's strings a quote is escaped, so these bytes stand for the key alone.
    """
    head, found, tail = header.partition(_ID)
    return head + tail.partition(b",")[2] if found else header


def read_layout(header: bytes) -> Layout:
    """Parse a header. Raises ProtocolError when it does not add up."""
    fields = decode_header(header)
    try:
        rows = [
            (str(role), str(dtype), [int(n) for n in shape])
            for role, _, _, dtype, shape in fields["tensors"]
        ]
        status = fields["status"]
        error = fields["error"]
        reason = "" if error is None else first_line(f"{error['type']}: {error['message']}")
        roles = dict.fromkeys(ROLE_FIELD.values(), 0)
        elements = at = 0
        segments: list[Segment] = []
        for role, dtype, shape in rows:
            roles[ROLE_FIELD[role]] += 1
            size = math.prod(shape)
            elements += size
            _append(segments, dtype, at, at + size * DTYPES[dtype].itemsize)
            at += size * DTYPES[dtype].itemsize
        comparable = status in ("ok", "exception")
        counts = (
            Counts(
                compared=1,
                values=len(fields["values"]),
                exceptions=int(status == "exception"),
                elements=elements,
                outputs=roles["outputs"],
                intermediates=roles["intermediates"],
                gradients=roles["gradients"],
                side_effects=roles["side_effects"],
                parameters=roles["parameters"],
                buffers=roles["buffers"],
            )
            if comparable
            else Counts()
        )
    except UNREADABLE as problem:
        raise ProtocolError(f"an outcome that does not add up: {problem!r}"[:300]) from None
    return Layout(at, tuple(segments), counts, TargetStatus(status, reason), comparable)


def _append(segments: list[Segment], dtype: str, start: int, stop: int) -> None:
    """Add a tensor's bytes, merged with those before where the dtype is the same."""
    if start == stop:
        return
    rtol, atol = ASSERT_CLOSE.get(base_dtype(dtype), (None, 0.0))
    real = _PART_DTYPE.get(dtype, DTYPES[dtype])
    if segments and segments[-1].dtype == real and segments[-1].rtol == rtol:
        start = segments.pop().start
    segments.append(Segment(start, stop, real, rtol, atol))


def within_base_tolerance(layout: Layout, outcomes: Sequence[RawOutcome]) -> bool:
    """Whether every payload agrees with the first one in all its segments within the dtypes' base tolerance.

    True only where the exact rules would say the same; False means that they must look.
    """
    first = outcomes[0].payload
    for other in outcomes[1:]:
        if other.payload == first:
            continue
        if len(other.payload) != len(first) or len(first) != layout.nbytes:
            return False
        for segment in layout.segments:
            if not _segment_agrees(segment, first, other.payload):
                return False
    return True


def _segment_agrees(segment: Segment, first: bytes, second: bytes) -> bool:
    start, stop = segment.start, segment.stop
    if segment.rtol is None:
        return first[start:stop] == second[start:stop]
    count = (stop - start) // segment.dtype.itemsize
    a = np.frombuffer(first, segment.dtype, count, start)
    b = np.frombuffer(second, segment.dtype, count, start)
    if segment.dtype.itemsize == 2:
        a, b = a.astype(np.float32), b.astype(np.float32)
    with np.errstate(all="ignore"):
        distance = np.subtract(a, b)
        np.abs(distance, out=distance)
        limit = np.abs(b)
        limit *= segment.rtol * _MARGIN
        limit += segment.atol * _MARGIN
        # Not every element may pass that is infinite on one side: an infinite limit would let it.
        passed = (distance <= limit) & (limit != np.inf)
    if passed.all():
        return True
    rest = ~passed
    a, b = a[rest], b[rest]
    return bool(np.all((a == b) | (np.isnan(a) & np.isnan(b))))
