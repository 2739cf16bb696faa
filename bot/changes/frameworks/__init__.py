"""The frameworks whose diffs can be read. Adding one is one file and one entry here."""

from __future__ import annotations

from typing import Final

from bot.changes.frameworks.megengine import MegEngineRules
from bot.changes.frameworks.mindspore import MindSporeRules
from bot.changes.frameworks.oneflow import OneFlowRules
from bot.changes.frameworks.paddle import PaddleRules
from bot.changes.frameworks.torch import TorchRules
from bot.changes.rules import FrameworkRules

FRAMEWORKS: Final[tuple[FrameworkRules, ...]] = (OneFlowRules(), TorchRules(), MegEngineRules(), PaddleRules(), MindSporeRules())
