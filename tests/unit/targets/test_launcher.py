"""What a worker is told when it starts."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.targets.environment import Environment
from bot.targets.job import Limits, PoolTarget
from bot.targets.launch import worker_variables
from bot.targets.launcher import make_hello
from bot.targets.target import TargetError, parse_target


def test_the_option_that_says_which_framework_is_not_passed_on() -> None:
    target = parse_target("python=/opt/both/bin/python:cpu:framework=oneflow,threads=2")
    environment = Environment(
        target.environment, "oneflow", Path("/opt/both/bin/python"), "interpreter", ""
    )
    hello = make_hello(PoolTarget(target, environment), Limits(), {})
    assert hello["framework"] == "oneflow"
    assert hello["options"] == {"threads": "2"}


@pytest.mark.parametrize("field", ["import_paths", "library_paths"])
def test_a_folder_that_no_path_list_can_hold_is_refused(field: str) -> None:
    """PYTHONPATH would lead past the overlay, and the release would be measured as the candidate."""
    plain = Environment("torch@pr", "torch", Path("/opt/bin/python"), "overlay", "")
    environment = replace(plain, **{field: (Path("/cache/a:b/overlay"),)})
    with pytest.raises(TargetError, match="/cache/a:b/overlay holds a ':'"):
        worker_variables(environment, "cpu", 1, {})
