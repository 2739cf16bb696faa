"""Exit codes of the command line (design: stable)."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """0 all tested and clean; 1 not or only partly done, and usage errors; 2 findings."""

    CLEAN = 0
    INCOMPLETE = 1
    FINDINGS = 2
