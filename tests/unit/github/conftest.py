from __future__ import annotations

import pytest
from fake_github.server import FakeGitHub
from fake_scene import set_up


@pytest.fixture
def scene(fake_github: FakeGitHub) -> FakeGitHub:
    set_up(fake_github)
    return fake_github
