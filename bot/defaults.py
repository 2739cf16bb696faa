"""Defaults of a check by framework: the baseline, and the peers to compare with."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict

from bot.errors import OpDiffError

FILE = Path(__file__).with_name("defaults.yml")


class FrameworkDefaults(BaseModel):
    """A framework's released baseline and its peers, as environment specs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    baseline: str
    peers: tuple[str, ...]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    frameworks: dict[str, FrameworkDefaults]


def defaults_of(framework: str) -> FrameworkDefaults:
    """A framework's defaults. Raises OpDiffError when there are none: then the user must say, or only read."""
    known = _File.model_validate(yaml.safe_load(FILE.read_text(encoding="utf-8"))).frameworks
    if framework not in known:
        raise OpDiffError(
            f"no default baseline and peers for {framework!r}, only for {', '.join(known)}: give --baseline and --peer, "
            "or see which ops the diff changes, without running them, with `opdiff changes`"
        )
    return known[framework]
