"""Environment: an interpreter with one build of one framework, ready to start workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Origin = Literal["release", "wheel", "interpreter", "overlay"]


@dataclass(frozen=True)
class Environment:
    """An interpreter with one build of one framework.

    ``import_paths`` go in front of the interpreter's own ``sys.path`` (an overlay's tree); ``library_paths`` make up
    ``LD_LIBRARY_PATH``; ``readable`` are the folders that a sandbox must show, read-only, for all of it to start.
    """

    spec: str  # what the user asked for: "torch==2.13.0"
    framework: str  # "torch", "oneflow", ...
    python: Path
    origin: Origin
    digest: str  # identifies recipe or content; part of cache keys
    import_paths: tuple[Path, ...] = ()
    library_paths: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()  # e.g. hunks of an overlay that did not apply
