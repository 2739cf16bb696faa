"""The frameworks whose diffs can be read. Adding one is one file and one entry here."""

from __future__ import annotations

from typing import Final

from bot.changes.frameworks.megengine.rules import MegEngineRules
from bot.changes.frameworks.mindspore.rules import MindSporeRules
from bot.changes.frameworks.oneflow.rules import OneFlowRules
from bot.changes.frameworks.paddle.rules import PaddleRules
from bot.changes.frameworks.torch.rules import TorchRules
from bot.changes.rules import FrameworkRules

FRAMEWORKS: Final[tuple[FrameworkRules, ...]] = (
    OneFlowRules(),
    TorchRules(),
    MegEngineRules(),
    PaddleRules(),
    MindSporeRules(),
)
