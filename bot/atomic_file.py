"""A file that is there whole or not at all, whatever kills the writer."""

from __future__ import annotations

import secrets
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file beside its place and rename it there. What a kill leaves is ``.NAME.*.tmp``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
