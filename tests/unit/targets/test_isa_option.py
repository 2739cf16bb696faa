"""The instruction set that a worker is kept to is told to its libraries before they start."""

from pathlib import Path

import pytest

from bot.targets.environment import Environment
from bot.targets.job import Limits, PoolTarget
from bot.targets.launch import RESOURCE_LIMITS, Launcher
from bot.targets.target import parse_target


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {}),
        (":threads=2", {}),
        (":isa=default", {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}),
        (":threads=2,isa=avx2", {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}),
        (":isa=sse9", {}),
    ],
)
def test_variables_of_the_option(options: str, expected: dict[str, str]) -> None:
    target = parse_target(f"torch==2.13.0:cpu{options}")
    environment = Environment(target.environment, "torch", Path("/opt/python"), "release", "")
    launcher = Launcher(
        PoolTarget(target, environment), Limits(), Path("/worker"), {"ONEDNN_MAX_CPU_ISA": "AVX"}
    )
    launch = launcher.launch(3, 4)
    assert launch.scratch is not None
    launch.scratch.rmdir()
    assert launch.limits == RESOURCE_LIMITS
    found = {
        k: v
        for k, v in launch.environment.items()
        if k in {"ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"}
    }
    assert found == expected
