"""SourceCache: what tracing one request gave, kept on disk, and read back as hostile data.

A file is the tracer's own stream of frames: ``program`` frames with their blobs, then one ``traced`` frame. It is
there whole or not at all, and anything in it that does not add up makes it as good as not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from bot.atomic_file import write_atomically
from bot.programs.program import ProgramError, canonical_json, decode, digest
from bot.programs.source import SourceCounts, SourcedProgram
from bot.worker.protocol import ProtocolError, encode_header, read_frame, write_frame

MAX_KEPT_BYTES = 8 << 20
"""A request with more data than this is traced again each time: large inputs are made as fast as they are read."""
MAX_FILE_BYTES = 16 << 20
MAX_TOTAL_BYTES = 2 << 30


@dataclass(frozen=True)
class Traced:
    """What one request gave, complete."""

    programs: tuple[SourcedProgram, ...]
    cases: int
    expressed: int
    skipped: dict[str, int] = field(default_factory=dict[str, int])

    def counts(self) -> SourceCounts:
        """The counts, with every program counted."""
        return SourceCounts(self.cases, len(self.programs), self.expressed, dict(self.skipped))


class SourceCache:
    """Files below ``folder`` by key. Every failure to read or write is a miss, never an error.

    What is not there is looked for in ``prepared``, a folder of the same kind that is never written to.
    """

    def __init__(self, folder: Path, prepared: Path | None = None) -> None:
        self._folder = folder
        self._places = (folder,) if prepared is None else (folder, prepared)

    def read(self, key: dict[str, Any]) -> Traced | None:
        """The stored answer to a request, every program validated; None when there is none to be trusted."""
        for place in self._places:
            traced = _read_traced(place / _name(key))
            if traced is not None:
                return traced
        return None

    def write(self, key: dict[str, Any], traced: Traced) -> None:
        """Keep an answer, unless it is too large."""
        if sum(len(program.blob) for program in traced.programs) > MAX_KEPT_BYTES:
            return
        stream = io.BytesIO()
        for program in traced.programs:
            header = {"type": "program", "digest": program.digest, "op": program.op}
            write_frame(stream, encode_header(header), program.blob)
        end = {
            "type": "traced",
            "counts": {"cases": traced.cases, "expressed": traced.expressed},
            "skipped": traced.skipped,
        }
        write_frame(stream, encode_header(end))
        with contextlib.suppress(OSError):
            write_atomically(self._folder / _name(key), stream.getvalue())

    def read_json(self, key: dict[str, Any]) -> bytes | None:
        """Stored JSON text that is no stream of programs (a listing), at most 16 MiB."""
        found = (_read_regular(place / _name(key)) for place in self._places)
        return next((data for data in found if data is not None), None)

    def write_json(self, key: dict[str, Any], text: bytes) -> None:
        """Keep JSON text under a key."""
        with contextlib.suppress(OSError):
            write_atomically(self._folder / _name(key), text)

    def prune(self, max_bytes: int = MAX_TOTAL_BYTES) -> int:
        """Remove the files that were used longest ago until the rest fit; how many were removed."""
        files: list[tuple[float, int, Path]] = []
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                with contextlib.suppress(OSError):
                    status = path.stat()
                    files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        removed = 0
        for _, size, path in sorted(files):
            if total <= max_bytes:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                removed += 1
                total -= size
        return removed


def _name(key: dict[str, Any]) -> str:
    return hashlib.blake2b(canonical_json(key), digest_size=20).hexdigest() + ".frames"


def _read_traced(path: Path) -> Traced | None:
    data = _read_regular(path)
    if data is None:
        return None
    try:
        traced = parse_stream(io.BytesIO(data))
    except (ProtocolError, ProgramError, EOFError):
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return traced


def parse_stream(stream: BinaryIO) -> Traced:
    """A stored stream, every part checked. Raises ProtocolError, ProgramError or EOFError."""
    programs: list[SourcedProgram] = []
    for header, payload in _frames(stream):
        kind = header.get("type")
        if kind == "program":
            program, _ = decode(payload)
            programs.append(SourcedProgram(payload, digest(payload), program.op))
        elif kind == "traced":
            if stream.read(1):
                raise ProtocolError("bytes after the end of a stream")
            counts = header.get("counts")
            return Traced(
                tuple(programs),
                count_of(counts, "cases"),
                count_of(counts, "expressed"),
                skipped_of(header),
            )
        else:
            raise ProtocolError("a frame that is neither a program nor the end")
    raise EOFError


def _frames(stream: BinaryIO) -> Iterator[tuple[dict[str, Any], bytes]]:
    while True:
        yield read_frame(stream, MAX_FILE_BYTES)


def count_of(counts: object, name: str) -> int:
    """A count out of a worker's or a file's words. Raises ProtocolError unless it is a non-negative int."""
    value = cast("dict[str, object]", counts).get(name) if isinstance(counts, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ProtocolError(f"the count {name!r} is not a number")
    return value


def skipped_of(header: dict[str, Any]) -> dict[str, int]:
    """The reasons for skipping, with their counts. Raises ProtocolError when they are none."""
    skipped = header.get("skipped")
    if not isinstance(skipped, dict):
        raise ProtocolError("the reasons for skipping are not an object")
    reasons = cast("dict[str, object]", skipped)
    cut: Counter[str] = Counter()
    for reason in reasons:
        cut[reason[:200]] += count_of(reasons, reason)
    return dict(cut)


def _read_regular(path: Path) -> bytes | None:
    """A regular file's bytes; None for anything else, a pipe that would never end included, and over the bound."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= MAX_FILE_BYTES else None
