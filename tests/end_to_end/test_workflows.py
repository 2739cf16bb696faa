"""From a fork's pull request with a planted fault to a comment that says it is fixed: the README's workflows, whole.

act runs them on this host, in place on the environments that are prepared here, and in the image that is built here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from end_to_end.container_engine import Image
from fake_github.server import FakeGitHub
from workflow_scene import Host, Scene, from_fault_to_fix

from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore


@pytest.fixture(scope="session")
def act_is_there() -> None:
    if not Path(sys.executable).with_name("act").is_file():
        pytest.skip("act is not installed beside this Python (make install)")


@pytest.fixture(scope="session")
def sources(
    environment_store: EnvironmentStore,
    oneflow_environment: Environment,
    torch_environment: Environment,
    act_is_there: None,
) -> Path:
    """The released OneFlow's Python files."""
    return environment_store.site_packages(oneflow_environment)


def test_in_place(tmp_path: Path, fake_github: FakeGitHub, sources: Path) -> None:
    """As in a container job whose image is this host."""
    commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    variables = {
        "OPDIFF_IN_IMAGE": "1",
        "PATH": commands,
        "XDG_CACHE_HOME": cache,
        "OMP_NUM_THREADS": "1",
    }
    from_fault_to_fix(Scene(tmp_path, fake_github, sources, Host(variables)))


@pytest.mark.timeout(1800)  # the first build of a machine
def test_in_containers(
    tmp_path: Path, fake_github: FakeGitHub, sources: Path, image: Image
) -> None:
    """As on a runner with a container engine: every step of OpDiff in a container of its own."""
    variables = {
        "OPDIFF_API_NETWORK": "host",  # the fake server listens on this host's loopback
        "OPDIFF_CHECK_NETWORK": "none",
        "OPDIFF_ENGINE_OPTIONS": " ".join(image.prepared_options),
        "CONTAINERS_CONF": image.engine.environment.get("CONTAINERS_CONF", ""),
    }
    from_fault_to_fix(Scene(tmp_path, fake_github, sources, Host(variables, image.name)))
