"""Defaults of a check by framework."""

from __future__ import annotations

import pytest

from bot.defaults import defaults_of
from bot.errors import OpDiffError


def test_a_framework_without_defaults_says_what_to_do() -> None:
    with pytest.raises(OpDiffError) as refused:
        defaults_of("chainer")
    message = str(refused.value)
    assert "'chainer'" in message
    assert "--baseline" in message
    assert "`opdiff changes`" in message
    assert "\n" not in message
