"""What a worker is told when it starts."""

from pathlib import Path

from bot.targets.environment import Environment
from bot.targets.job import Limits, PoolTarget
from bot.targets.launcher import make_hello
from bot.targets.target import parse_target


def test_the_option_that_says_which_framework_is_not_passed_on() -> None:
    target = parse_target("python=/opt/both/bin/python:cpu:framework=oneflow,threads=2")
    environment = Environment(
        target.environment, "oneflow", Path("/opt/both/bin/python"), "interpreter", ""
    )
    hello = make_hello(PoolTarget(target, environment), Limits(), {})
    assert hello["framework"] == "oneflow"
    assert hello["options"] == {"threads": "2"}
