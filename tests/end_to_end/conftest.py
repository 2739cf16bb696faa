"""Real environments, the same as the integration tests use, and the image."""

from __future__ import annotations

import pytest
from end_to_end.container_engine import Image, build_image, find_engine
from integration.conftest import environment_store as environment_store
from integration.conftest import oneflow_environment as oneflow_environment
from integration.conftest import torch_environment as torch_environment


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The project's image, built as the action builds it; skips where there is no container engine."""
    scratch = tmp_path_factory.mktemp("image")
    return build_image(find_engine(scratch), scratch)
