"""Repro scripts, run by real interpreters: 0 where the framework is right, 1 where the expected value is planted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from bot.oracle.finding import Finding, Kind, Mismatch
from bot.programs.builder import ProgramBuilder
from bot.programs.program import digest
from bot.report.bundle import FindingBundle, TargetOutcome
from bot.report.repro_script import repro_script
from bot.targets.environment import Environment
from bot.targets.outcome import Death, Error, Outcome, Tensor

Expected = dict[tuple[str, str], Any]
"""Role and name -> the value that is right."""


def script(
    builder: ProgramBuilder,
    framework: str,
    expected: Expected | Outcome,
    observed: Outcome | None = None,
    kind: Kind = "value",
) -> str:
    """A script that expects these values of a program."""
    blob = builder.blob()
    right = expected if isinstance(expected, Outcome) else outcome(expected)
    wrong = observed if observed is not None else outcome({})
    rows = () if isinstance(expected, Outcome) else tuple(expected)
    mismatches = tuple(
        Mismatch("d", kind, role, name, (), (("a",), ("b",)), ()) for role, name in rows
    )
    finding = Finding(
        "f",
        "op",
        kind,
        "candidate",
        ("a",),
        "strong",
        "new",
        (("a",), ("b",)),
        digest(blob),
        mismatches,
        (),
    )
    targets = (TargetOutcome("a", framework, wrong), TargetOutcome("b", "torch", right))
    return repro_script(FindingBundle(finding, blob, targets))


def outcome(values: Expected) -> Outcome:
    tensors: list[Tensor] = []
    for (role, name), value in values.items():
        array = np.asarray(value)
        tensors.append(Tensor(role, name, (), array.dtype.name, array))  # pyright: ignore[reportArgumentType]
    return Outcome("ok", phase="backward", tensors=tuple(tensors))


def run(text: str, environment: Environment, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "repro.py"
    path.write_text(text)
    variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, environment.library_paths))
    variables["PYTHONPATH"] = os.pathsep.join(map(str, environment.import_paths))
    done = subprocess.run(
        [environment.python, path], env=variables, capture_output=True, text=True, timeout=300
    )
    print(done.stdout, done.stderr)
    return done


@pytest.fixture(params=["torch", "oneflow", "old torch"])
def environment(request: pytest.FixtureRequest) -> Environment:
    name = f"{request.param.replace('old torch', 'old_torch')}_environment"
    return request.getfixturevalue(name)


def softplus(expected_at_0: float) -> tuple[ProgramBuilder, Expected]:
    """softplus with its gradient, at 0: log(2) and 1/2; at 1: log(1 + e) and 1 / (1 + 1/e)."""
    builder = ProgramBuilder("nn.functional.softplus")
    x = builder.tensor("x", np.array([0, 1], np.float32), requires_grad=True)
    result = builder.call("nn.functional.softplus", x)
    builder.output(result)
    builder.backward(result, np.array([1, 2], np.float32))
    return builder, {
        ("output", "r0"): np.array([expected_at_0, 1.3132616875182228], np.float32),
        ("gradient", "x"): np.array([0.5, 2 * 0.7310585786300049], np.float32),
    }


def test_values_and_gradients(environment: Environment, tmp_path: Path) -> None:
    builder, expected = softplus(0.6931471805599453)
    assert (
        run(script(builder, environment.framework, expected), environment, tmp_path).returncode == 0
    )
    builder, planted = softplus(0.6932)
    done = run(script(builder, environment.framework, planted), environment, tmp_path)
    assert done.returncode == 1
    assert "output r0: 1 of 2 elements differ, the first at (0,)" in done.stdout
    assert "gradient of x: as expected" in done.stdout


def test_planted_gradient(environment: Environment, tmp_path: Path) -> None:
    builder, expected = softplus(0.6931471805599453)
    expected[("gradient", "x")] = np.array([0.5, 0.73], np.float32)
    done = run(script(builder, environment.framework, expected), environment, tmp_path)
    assert done.returncode == 1
    assert "gradient of x: 1 of 2 elements differ, the first at (1,)" in done.stdout


def test_layouts(environment: Environment, tmp_path: Path) -> None:
    """A transposed view with an offset, an expanded one, and an alias changed in place: 10 x + y, then y + 1."""
    builder = ProgramBuilder("add")
    values = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    x = builder.tensor("x", values, strides=[1, 4], offset=2)
    y = builder.tensor("y", np.full((3, 2), 7, np.float32), strides=[0, 0])
    ten = builder.call("mul", x, 10.0)
    builder.output(builder.call("add", ten, y, result="sum"))
    z = builder.tensor("z", np.array([1, 2, 3], np.float32))
    builder.view("alias", "z", [2], [2])
    builder.call("Tensor.add_", z, 1.0, result="changed")
    right: Expected = {
        ("output", "sum"): values * 10 + 7,
        ("side-effect", "z"): np.array([2, 3, 4], np.float32),
        ("side-effect", "alias"): np.array([2, 4], np.float32),
    }
    text = script(builder, environment.framework, right)
    assert "as_strided" in text
    assert run(text, environment, tmp_path).returncode == 0
    right[("side-effect", "alias")] = np.array([1, 3], np.float32)
    assert run(script(builder, environment.framework, right), environment, tmp_path).returncode == 1


def test_bfloat16(environment: Environment, tmp_path: Path) -> None:
    """0.1 in bfloat16 is 205 / 2048, as float32 shows exactly."""
    builder = ProgramBuilder("Tensor.to")
    x = builder.tensor("x", np.array([0.1, -3.0], ml_dtypes.bfloat16))
    builder.output(builder.call("Tensor.to", x, {"dtype": "float32"}))
    right = np.array([205 / 2048, -3.0], np.float32)
    text = script(builder, environment.framework, {("output", "r0"): right})
    assert run(text, environment, tmp_path).returncode == 0
    text = script(
        builder, environment.framework, {("output", "r0"): np.array([0.1, -3.0], np.float32)}
    )
    assert run(text, environment, tmp_path).returncode == 1


def test_bfloat16_results(torch_environment: Environment, tmp_path: Path) -> None:
    builder = ProgramBuilder("neg")
    x = builder.tensor("x", np.array([0.1, -3.0], ml_dtypes.bfloat16))
    builder.output(builder.call("neg", x))
    right = np.array([-205 / 2048, 3.0], ml_dtypes.bfloat16)
    text = script(builder, "torch", {("output", "r0"): right})
    assert run(text, torch_environment, tmp_path).returncode == 0
    text = script(builder, "torch", {("output", "r0"): -right})
    assert run(text, torch_environment, tmp_path).returncode == 1


def test_modules(environment: Environment, tmp_path: Path) -> None:
    """A linear layer: (1 * 1 + 2 * 3) + 0.5; the weight's gradient is the input, twice."""
    builder = ProgramBuilder("nn.Linear")
    x = builder.tensor("x", np.array([[1, 2]], np.float32))
    state = {"weight": np.array([[1, 3]], np.float32), "bias": np.array([0.5], np.float32)}
    module = builder.module("nn.Linear", 2, 1, state=state)
    result = builder.call("nn.Module.__call__", module, x, result="out")
    builder.output(result)
    builder.backward(result, np.array([[2]], np.float32))
    right: Expected = {
        ("output", "out"): np.array([[7.5]], np.float32),
        ("gradient", "r0.weight"): np.array([[2, 4]], np.float32),
        ("gradient", "r0.bias"): np.array([2], np.float32),
    }
    text = script(builder, environment.framework, right)
    assert "load_state_dict" in text
    assert run(text, environment, tmp_path).returncode == 0
    right[("gradient", "r0.weight")] = np.array([[2, 5]], np.float32)
    assert run(script(builder, environment.framework, right), environment, tmp_path).returncode == 1


def test_large_tensors_are_exact_bytes(environment: Environment, tmp_path: Path) -> None:
    builder = ProgramBuilder("mul")
    values = np.random.default_rng(0).standard_normal((20, 30)).astype(np.float32)
    builder.output(builder.call("mul", builder.tensor("x", values), 2.0))
    text = script(builder, environment.framework, {("output", "r0"): values * 2})
    assert "stored(" in text
    assert run(text, environment, tmp_path).returncode == 0
    planted = values * 2
    planted[3, 4] += 1
    done = run(
        script(builder, environment.framework, {("output", "r0"): planted}), environment, tmp_path
    )
    assert done.returncode == 1
    assert "1 of 600 elements differ, the first at (3, 4)" in done.stdout


def test_integers_and_bool(environment: Environment, tmp_path: Path) -> None:
    builder = ProgramBuilder("eq")
    x = builder.tensor("x", np.array([2**62 + 1, -1], np.int64))
    builder.output(builder.call("eq", x, builder.tensor("y", np.array([2**62 + 1, 0], np.int64))))
    text = script(builder, environment.framework, {("output", "r0"): np.array([True, False])})
    assert run(text, environment, tmp_path).returncode == 0
    text = script(builder, environment.framework, {("output", "r0"): np.array([True, True])})
    assert run(text, environment, tmp_path).returncode == 1


def test_exception_or_none(environment: Environment, tmp_path: Path) -> None:
    """Shapes that do not broadcast are refused; ones that do are not."""
    raised = Outcome("exception", call=0, error=Error("RuntimeError", "shapes"))
    fine = Outcome("ok")
    for shape, refused in (([3], True), ([2], False)):
        builder = ProgramBuilder("add")
        x = builder.tensor("x", np.zeros(2, np.float32))
        builder.call("add", x, builder.tensor("y", np.zeros(shape, np.float32)))
        refuses = script(builder, environment.framework, fine, raised, "refuses")
        accepts = script(builder, environment.framework, raised, fine, "accepts")
        assert run(refuses, environment, tmp_path).returncode == int(refused)
        assert run(accepts, environment, tmp_path).returncode == int(not refused)


def test_nondeterminism(environment: Environment, tmp_path: Path) -> None:
    builder = ProgramBuilder("mul")
    builder.output(builder.call("mul", builder.tensor("x", np.ones(4, np.float32)), 2.0))
    text = script(
        builder,
        environment.framework,
        {("output", "r0"): np.ones(4, np.float32)},
        kind="nondeterminism",
    )
    assert run(text, environment, tmp_path).returncode == 0


def division_by_zero() -> ProgramBuilder:
    builder = ProgramBuilder("floor_divide")
    x = builder.tensor("x", np.array([1, 2], np.int32))
    builder.call("floor_divide", x, builder.tensor("y", np.array([0, 1], np.int32)))
    return builder


DIED = Outcome("crash", death=Death("SIGFPE", "", True))


def test_crash_of_oneflow(oneflow_environment: Environment, tmp_path: Path) -> None:
    """OneFlow 0.9.0 dies of SIGFPE in an integer division by zero."""
    text = script(division_by_zero(), "oneflow", Outcome("ok"), DIED, "crash")
    done = run(text, oneflow_environment, tmp_path)
    assert done.returncode == 1
    assert "died of SIGFPE" in done.stdout


def test_no_crash_of_torch(torch_environment: Environment, tmp_path: Path) -> None:
    """PyTorch raises where OneFlow dies."""
    text = script(division_by_zero(), "torch", Outcome("ok"), DIED, "crash")
    assert run(text, torch_environment, tmp_path).returncode == 0


def test_conj_and_neg_bits(torch_environment: Environment, tmp_path: Path) -> None:
    builder = ProgramBuilder("mul")
    x = builder.tensor("x", np.array([1 + 2j, 3 - 1j], np.complex64), conj=True)
    y = builder.tensor("y", np.array([1.0, 2.0], np.float32), neg=True)
    builder.output(builder.call("mul", x, y))
    right = np.array([1 + 2j, 6 - 2j], np.complex64)
    text = script(builder, "torch", {("output", "r0"): right})
    assert ".conj()" in text
    assert "_neg_view" in text
    assert run(text, torch_environment, tmp_path).returncode == 0
    text = script(builder, "torch", {("output", "r0"): right.conj()})
    assert run(text, torch_environment, tmp_path).returncode == 1


def test_float64_module_state_keeps_its_dtype(
    torch_environment: Environment, tmp_path: Path
) -> None:
    builder = ProgramBuilder("nn.Linear")
    x = builder.tensor("x", np.array([[1.0]]))
    module = builder.module("nn.Linear", 1, 1, bias=False, state={"weight": np.array([[0.1]])})
    builder.output(builder.call("nn.Module.__call__", module, x, result="out"))
    text = script(builder, "torch", {("output", "out"): np.array([[0.1]])})
    assert run(text, torch_environment, tmp_path).returncode == 0
