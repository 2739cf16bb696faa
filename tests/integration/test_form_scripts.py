"""Repro scripts of frameworks that are called by forms, run by their own interpreters: forward, gradients, in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report_scripts import Expected, run, script

from bot.programs.builder import ProgramBuilder
from bot.report.repro_code import ReproError
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore

RELEASES = {
    "numpy": "numpy==2.4.6",
    "jax": "jax==0.10.2",
    "paddle": "paddlepaddle==3.3.1",
    "mindspore": "mindspore==2.10.0",
    "megengine": "megengine==1.13.0",
}


@pytest.fixture(params=list(RELEASES))
def environment(request: pytest.FixtureRequest, environment_store: EnvironmentStore) -> Environment:
    return environment_store.prepare(RELEASES[request.param])


def gradients_of(environment: Environment) -> bool:
    return environment.framework != "numpy"


def program(environment: Environment) -> tuple[ProgramBuilder, Expected]:
    """tanh(x) * y at x = [0, ln 2], y = [2, 5]: [0, 3]; tanh' is [1, 16/25]; the gradients are those of [1, 2]."""
    builder = ProgramBuilder("mul")
    leaf = gradients_of(environment)
    x = builder.tensor("x", np.array([0, 0.6931471805599453], np.float32), requires_grad=leaf)
    y = builder.tensor("y", np.array([2, 5], np.float32), requires_grad=leaf)
    product = builder.call("mul", builder.call("tanh", x), y)
    builder.output(product)
    expected: Expected = {
        ("intermediate", "r0"): np.array([0, 0.6], np.float32),
        ("output", "r1"): np.array([0, 3], np.float32),
    }
    if leaf:
        builder.backward(product, np.array([1, 2], np.float32))
        expected["gradient", "x"] = np.array([2, 6.4], np.float32)
        expected["gradient", "y"] = np.array([0, 1.2], np.float32)
    return builder, expected


def test_right_values_and_a_planted_one(environment: Environment, tmp_path: Path) -> None:
    builder, expected = program(environment)
    text = script(builder, environment.framework, expected)
    assert run(text, environment, tmp_path).returncode == 0
    planted = ("gradient", "x") if gradients_of(environment) else ("output", "r1")
    expected[planted] = expected[planted] + np.array([0, 0.01], np.float32)
    done = run(script(builder, environment.framework, expected), environment, tmp_path)
    assert done.returncode == 1
    assert "1 of 2 elements differ, the first at (1,)" in done.stdout
    assert "intermediate r0: as expected" in done.stdout


def test_the_script_has_the_frameworks_own_call(environment: Environment) -> None:
    builder, expected = program(environment)
    text = script(builder, environment.framework, expected)
    own = {
        "numpy": "numpy.tanh(",
        "jax": "jax.vjp(",
        "paddle": "r0 = paddle.tanh(x)",
        "mindspore": "mint.tanh(x)",
        "megengine": "F.tanh(x)",
    }
    assert own[environment.framework] in text
    assert "import torch" not in text


def test_arguments_layouts_and_integers(environment: Environment, tmp_path: Path) -> None:
    """The sums of a transposed view's rows, kept as a dimension; and the largest of some integers."""
    builder = ProgramBuilder("sum")
    values = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    x = builder.tensor("x", values, strides=[1, 3])
    builder.output(builder.call("sum", x, 1, True))
    right: Expected = {("output", "r0"): np.array([[3], [7], [11]], np.float32)}
    text = script(builder, environment.framework, right)
    assert run(text, environment, tmp_path).returncode == 0
    builder = ProgramBuilder("maximum")
    i = builder.tensor("i", np.array([4, -7], np.int32))
    builder.output(builder.call("maximum", i, builder.tensor("j", np.array([3, 0], np.int32))))
    for last, status in ((0, 0), (1, 1)):
        right = {("output", "r0"): np.array([4, last], np.int32)}
        text = script(builder, environment.framework, right)
        assert run(text, environment, tmp_path).returncode == status


def test_large_tensors_are_exact_bytes(environment: Environment, tmp_path: Path) -> None:
    builder = ProgramBuilder("mul")
    values = np.random.default_rng(0).standard_normal((20, 30)).astype(np.float32)
    builder.output(builder.call("mul", builder.tensor("x", values), 2.0))
    text = script(builder, environment.framework, {("output", "r0"): values * 2})
    assert "stored(" in text
    assert run(text, environment, tmp_path).returncode == 0


def test_in_place(environment: Environment, tmp_path: Path) -> None:
    """x + 1 in place of x, where the framework changes tensors."""
    builder = ProgramBuilder("add")
    x = builder.tensor("x", np.array([1, 2], np.float32))
    builder.output(builder.call("Tensor.add_", x, 1.0))
    right: Any = {
        ("output", "r0"): np.array([2, 3], np.float32),
        ("side-effect", "x"): np.array([2, 3], np.float32),
    }
    if environment.framework == "jax":
        with pytest.raises(ReproError, match="in place"):
            script(builder, "jax", right)
        return
    text = script(builder, environment.framework, right)
    # A fault of MindSpore 2.10 on the CPU: x.add_(y) gives the sum and leaves x as it was.
    faulty = environment.framework == "mindspore"
    assert run(text, environment, tmp_path).returncode == (1 if faulty else 0)
