"""Real environments, the same as the integration tests use."""

from __future__ import annotations

from integration.conftest import environment_store as environment_store
from integration.conftest import oneflow_environment as oneflow_environment
from integration.conftest import torch_environment as torch_environment
