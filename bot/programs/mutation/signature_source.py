"""Signatures of the pinned PyTorch release: asked of a worker once, then kept with the traced programs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from bot.programs.mutation.signatures import Signatures, read_signatures
from bot.programs.opinfo_source import TraceWorker
from bot.programs.program import canonical_json
from bot.programs.source_cache import SourceCache
from bot.worker.protocol import ProtocolError

SECONDS: Final = 120.0
_READER: Final = Path(__file__).resolve().parents[2] / "worker" / "op_signatures.py"


def signatures_of(
    open_worker: Callable[[], AbstractContextManager[TraceWorker]],
    environment_digest: str,
    cache: SourceCache,
) -> Signatures:
    """The signatures, from the cache or from a worker. Raises TargetError, WorkerDeath or ProtocolError."""
    reader = hashlib.blake2b(_READER.read_bytes(), digest_size=16).hexdigest()
    key = {"environment": environment_digest, "reader": reader, "request": "signatures"}
    text = cache.read_json(key)
    found = read_signatures(text) if text is not None else None
    if found is not None:
        return found
    with open_worker() as worker:
        for header, _ in worker.ask({"type": "signatures"}, until="signatures", seconds=SECONDS):
            text = canonical_json(header.get("signatures"))
            found = read_signatures(text)
            if found is not None:
                cache.write_json(key, text)
                return found
    raise ProtocolError("PyTorch's signatures do not add up")
