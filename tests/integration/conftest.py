"""Real environments, prepared once in the user's cache and shared by every run of the tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore


def _say(line: str) -> None:
    print(line, file=sys.__stderr__, flush=True)


@pytest.fixture(scope="session")
def environment_store() -> Iterator[EnvironmentStore]:
    with EnvironmentStore(progress=_say) as store:
        yield store


@pytest.fixture(scope="session")
def torch_environment(environment_store: EnvironmentStore) -> Environment:
    return environment_store.prepare("torch==2.13.0")


@pytest.fixture(scope="session")
def oneflow_environment(environment_store: EnvironmentStore) -> Environment:
    return environment_store.prepare("oneflow==0.9.0")


@pytest.fixture(scope="session")
def old_torch_environment(environment_store: EnvironmentStore) -> Environment:
    return environment_store.prepare("torch==1.8.1")
