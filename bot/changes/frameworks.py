"""The frameworks whose diffs can be read. Adding one is one file and one entry here."""

from __future__ import annotations

from typing import Final

from bot.changes.oneflow import OneFlowRules
from bot.changes.rules import FrameworkRules
from bot.changes.torch import TorchRules

FRAMEWORKS: Final[tuple[FrameworkRules, ...]] = (OneFlowRules(), TorchRules())
