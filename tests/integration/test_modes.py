"""Modes over real frameworks: values and gradients by mathematics, and a compiler's fault is seen."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_call import start
from worker_client import WORKER, WorkerClient

from bot.oracle.compare import Comparator
from bot.programs.builder import ProgramBuilder, member
from bot.programs.program import digest
from bot.programs.source import SourcedProgram
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore
from bot.targets.outcome import Outcome, RawOutcome

PLANTED = Path(__file__).parents[2] / "benchmarks" / "planted_worker"
X = np.array([[0.5, 1.0], [-1.0, 2.0]], np.float32)
W = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def in_mode(environment: Environment, **options: str) -> WorkerClient:
    return start(environment, options=options, compile_seconds=120)


@pytest.fixture(scope="module")
def compiled(torch_environment: Environment) -> Iterator[WorkerClient]:
    with in_mode(torch_environment, compile="aot_eager") as worker:
        yield worker


@pytest.fixture(scope="module")
def script(torch_environment: Environment) -> Iterator[WorkerClient]:
    with in_mode(torch_environment, script="") as worker:
        yield worker


@pytest.fixture(scope="module")
def traced(torch_environment: Environment) -> Iterator[WorkerClient]:
    with in_mode(torch_environment, script="trace") as worker:
        yield worker


@pytest.fixture(scope="module")
def graph(oneflow_environment: Environment) -> Iterator[WorkerClient]:
    with in_mode(oneflow_environment, graph="") as worker:
        yield worker


@pytest.fixture(scope="module")
def jax(environment_store: EnvironmentStore) -> Iterator[WorkerClient]:
    with in_mode(environment_store.prepare("jax==0.10.2"), compile="") as worker:
        yield worker


@pytest.fixture(scope="module")
def paddle(environment_store: EnvironmentStore) -> Iterator[WorkerClient]:
    with in_mode(environment_store.prepare("paddlepaddle==3.3.1"), to_static="") as worker:
        yield worker


@pytest.fixture(scope="module")
def megengine(environment_store: EnvironmentStore) -> Iterator[WorkerClient]:
    with in_mode(environment_store.prepare("megengine==1.13.0"), trace="") as worker:
        yield worker


@pytest.fixture(scope="module")
def mindspore(environment_store: EnvironmentStore) -> Iterator[WorkerClient]:
    with in_mode(environment_store.prepare("mindspore==2.10.0"), jit="") as worker:
        yield worker


@pytest.fixture(
    params=["compiled", "script", "traced", "graph", "jax", "paddle", "megengine", "mindspore"]
)
def worker(request: pytest.FixtureRequest) -> WorkerClient:
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["compiled", "graph"])
def whole(request: pytest.FixtureRequest) -> WorkerClient:
    return request.getfixturevalue(request.param)


def chain(values: np.ndarray = X, weights: np.ndarray = W) -> bytes:
    """y = exp(x) * x, summed with the weights in backward: dy/dx = (1 + x) * exp(x) * w."""
    builder = ProgramBuilder("exp")
    x = builder.tensor("x", values, requires_grad=True)
    result = builder.call("mul", builder.call("exp", x), x)
    builder.output(result)
    builder.backward(result, weights)
    return builder.blob()


def tensors(outcome: Outcome) -> dict[str, np.ndarray]:
    assert outcome.status == "ok", outcome
    return {f"{t.role} {t.name}": t.array for t in outcome.tensors}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_chain_of_calls_and_its_gradient(worker: WorkerClient, dtype: Any) -> None:
    assert worker.ready["compiles"] is True
    if dtype is np.float64 and worker.ready["framework"] == "megengine":
        pytest.skip("MegEngine has no float64")
    (outcome,) = worker.run(chain(X.astype(dtype), W.astype(dtype)))
    found = tensors(outcome)
    x = X.astype(np.float64)
    tolerance = 1e-6 if dtype is np.float32 else 1e-12
    if dtype is np.float32 and worker.ready["framework"] == "mindspore":
        tolerance = 4e-6  # its exp is accurate to 1.7e-6 at -1, eager and compiled alike
    assert found["output r1"].dtype == found["gradient x"].dtype == dtype
    np.testing.assert_allclose(found["intermediate r0"], np.exp(x), rtol=tolerance)
    np.testing.assert_allclose(found["output r1"], np.exp(x) * x, rtol=tolerance)
    expected = (1 + x) * np.exp(x) * W
    np.testing.assert_allclose(found["gradient x"], expected, rtol=tolerance, atol=tolerance)


def test_mindspore_calls_the_form_that_has_a_kernel(mindspore: WorkerClient) -> None:
    """mint.topk has no kernel on the CPU, ops.topk has: which one it is shows only when the graph would be compiled."""
    builder = ProgramBuilder("topk")
    x = builder.tensor("x", X, requires_grad=True)
    largest = builder.call("topk", builder.call("mul", x, x), 1)
    builder.output(largest)
    builder.backward(member(largest, 0), np.array([[3.0], [5.0]], np.float32))
    (outcome,) = mindspore.run(builder.blob())
    assert outcome.status == "ok", outcome
    values, indices = (t.array.tolist() for t in outcome.tensors if t.role == "output")
    assert (values, indices) == ([[1.0], [4.0]], [[1], [1]])
    # Squares are 0.25, 1 and 1, 4: the largest ones are of 1.0 and 2.0, and 2 x g is 6 and 20.
    assert tensors(outcome)["gradient x"].tolist() == [[0.0, 6.0], [0.0, 20.0]]


def test_mindspore_refuses_writes_and_retires_after_an_error(
    environment_store: EnvironmentStore,
) -> None:
    """A trace that stopped half-way is left in the process, which must not run what follows."""
    wrong = ProgramBuilder("matmul")
    three = wrong.tensor("y", np.ones((3, 3), np.float32))
    wrong.output(wrong.call("matmul", wrong.tensor("x", X), three))
    written = ProgramBuilder("Tensor.mul_")
    written.output(written.call("Tensor.mul_", written.tensor("x", X), 2.0))
    with in_mode(environment_store.prepare("mindspore==2.10.0"), jit="") as worker:
        refused, raised, after = worker.raw([written.blob(), wrong.blob(), chain()])
    assert b"does not write to its inputs" in refused[0]
    assert b'"status":"exception"' in raised[0]
    assert after[0] == b'{"type":"retired"}'


def test_two_outputs_of_one_call_each_with_a_gradient(whole: WorkerClient) -> None:
    """x split in two columns, squared and doubled: 2 x w and 2 w."""
    builder = ProgramBuilder("split")
    x = builder.tensor("x", X, requires_grad=True)
    parts = builder.call("split", x, 1, 1)
    square = builder.call("mul", member(parts, 0), member(parts, 0))
    double = builder.call("add", member(parts, 1), member(parts, 1))
    for output, weight in ((square, W[:, :1]), (double, W[:, 1:])):
        builder.output(output)
        builder.backward(output, weight)
    (outcome,) = whole.run(builder.blob())
    found = tensors(outcome)
    assert found["output r1"].tolist() == [[0.25], [1.0]]
    assert found["output r2"].tolist() == [[2.0], [4.0]]
    # 2 * 0.5 * 1, 2 * 2; 2 * -1 * 3, 2 * 4
    assert found["gradient x"].tolist() == [[1.0, 4.0], [-6.0, 8.0]]


def test_a_module_with_parameters_and_buffers(whole: WorkerClient) -> None:
    """A linear layer: gradients w.T @ g, g.T @ x and the sum of g. Batch norm: 0.9 * 0 + 0.1 * mean."""
    builder = ProgramBuilder("nn.Linear")
    x = builder.tensor("x", X, requires_grad=True)
    weight = np.array([[2.0, 0.0], [0.0, 3.0]], np.float32)
    bias = np.array([1.0, -1.0], np.float32)
    module = builder.module("nn.Linear", 2, 2, state={"weight": weight, "bias": bias})
    result = builder.call("nn.Module.__call__", module, x)
    builder.output(result)
    builder.backward(result, W)
    norm = ProgramBuilder("nn.BatchNorm1d")
    y = norm.tensor("x", X)
    norm.output(norm.call("nn.Module.__call__", norm.call("nn.BatchNorm1d", 2), y))
    linear, normed = map(tensors, whole.run(builder.blob(), norm.blob()))
    assert linear["output r1"].tolist() == [[2.0, 2.0], [-1.0, 5.0]]
    assert linear["gradient x"].tolist() == (W @ weight).tolist()
    assert linear["gradient r0.weight"].tolist() == (W.T @ X).tolist()
    assert linear["gradient r0.bias"].tolist() == [4.0, 6.0]
    np.testing.assert_allclose(normed["buffer r0.running_mean"], [-0.025, 0.15], rtol=1e-6)


def test_an_in_place_op_on_an_input(compiled: WorkerClient, graph: WorkerClient) -> None:
    builder = ProgramBuilder("Tensor.mul_")
    builder.output(builder.call("Tensor.mul_", builder.tensor("x", X), 2.0))
    found = tensors(compiled.run(builder.blob())[0])
    assert found["side-effect x"].tolist() == found["output r0"].tolist() == (2 * X).tolist()
    (refused,) = graph.run(builder.blob())
    assert refused.status == "unsupported"
    assert refused.error is not None
    assert "does not write to its inputs" in refused.error.message


def test_the_ops_own_exception_is_told_not_the_compilers(compiled: WorkerClient) -> None:
    builder = ProgramBuilder("matmul")
    three = builder.tensor("y", np.ones((3, 3), np.float32))
    builder.output(builder.call("matmul", builder.tensor("x", X), three))
    (outcome,) = compiled.run(builder.blob())
    assert (outcome.status, outcome.call) == ("exception", 0)
    assert outcome.error is not None
    assert outcome.error.type == "RuntimeError"
    assert "[2, 2] X [3, 3]" in outcome.error.message


def test_a_graph_break_is_coverage(compiled: WorkerClient) -> None:
    builder = ProgramBuilder("equal")
    x = builder.tensor("x", X)
    builder.output(builder.call("equal", x, x))
    (outcome,) = compiled.run(builder.blob())
    assert outcome.status == "unsupported"
    assert outcome.error is not None
    assert outcome.error.message.startswith("torch.compile breaks the graph: ")


def test_one_program_changes_nothing_for_the_next(whole: WorkerClient) -> None:
    first, second = ([t.array.tolist() for t in o.tensors] for o in whole.run(chain(), chain()))
    assert first == second
    other = np.array([[3.0, 0.0, 1.0]], np.float32)
    found = tensors(whole.run(chain(other, np.ones_like(other)))[0])
    np.testing.assert_allclose(found["output r1"], [[3 * math.exp(3), 0.0, math.e]], rtol=1e-6)


def test_random_numbers_repeat_and_are_those_without_a_compiler(
    torch_environment: Environment, compiled: WorkerClient
) -> None:
    builder = ProgramBuilder("nn.functional.dropout", seed=7)
    builder.output(
        builder.call("nn.functional.dropout", builder.tensor("x", np.ones(64, np.float32)))
    )
    once, twice = compiled.run(builder.blob(), builder.blob())
    with start(torch_environment) as eager:
        (without,) = eager.run(builder.blob())
    assert compiled.ready["same_random"] is True
    kept = tensors(once)["output r0"]
    assert set(kept.tolist()) == {0.0, 2.0}
    assert kept.tolist() == tensors(twice)["output r0"].tolist()
    assert kept.tolist() == tensors(without)["output r0"].tolist()


def test_channels_last_changes_the_layout_and_not_the_values(
    torch_environment: Environment,
) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 2, 2, 4)
    strides = ProgramBuilder("Tensor.stride")
    strides.output(strides.call("Tensor.stride", strides.tensor("x", x)))
    pooled = ProgramBuilder("nn.functional.max_pool2d")
    pooled.output(pooled.call("nn.functional.max_pool2d", pooled.tensor("x", x), 2))
    with start(torch_environment, options={"channels_last": ""}) as worker:
        layout, result = worker.run(strides.blob(), pooled.blob())
    assert [value for *_, value in layout.values] == [16, 1, 8, 2]
    assert tensors(result) == {
        "output r0": pytest.approx(np.array([[[[5.0, 7.0]], [[13.0, 15.0]]]]))
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compile": "nonsense"}, "no compile=nonsense; known are inductor, aot_eager, eager"),
        ({"compile": "eager", "script": ""}, "one of compile and script"),
    ],
)
def test_a_mode_that_cannot_be_is_one_line(
    torch_environment: Environment, options: dict[str, str], said: str
) -> None:
    with start(torch_environment, options=options) as worker:
        assert worker.ready["type"] == "failed"
        assert said in worker.ready["reason"]


def test_an_old_release_says_that_it_has_no_compiler(old_torch_environment: Environment) -> None:
    with start(old_torch_environment, options={"compile": ""}) as worker:
        assert "has no torch.compile" in worker.ready["reason"]


def test_a_planted_fault_of_the_compiler_is_seen(
    torch_environment: Environment, tmp_path: Path
) -> None:
    shutil.copytree(PLANTED, tmp_path / "worker")
    fault = {"fn": "mul", "kind": "value", "shape": None, "position": 0.0}
    faults = {"worker": str(WORKER), "faults": [fault]}
    (tmp_path / "worker" / "faults.json").write_text(json.dumps(faults))
    options = {"compile": "aot_eager", "planted": ""}
    hello = {"framework": "torch", "mapping": {}, "compile_seconds": 120}
    labels = ("eager", "compiled")
    builder = ProgramBuilder("mul")
    builder.output(builder.call("mul", builder.tensor("x", X), builder.tensor("y", W)))
    blob = builder.blob()
    python = torch_environment.python
    with (
        start(torch_environment) as eager,
        WorkerClient({**hello, "options": options}, python, tmp_path / "worker") as faulty,
    ):
        outcomes = [RawOutcome(*worker.raw([blob])[0]) for worker in (eager, faulty)]
    comparator = Comparator(labels, ("torch", "torch"), compiles=(False, True))
    comparison = comparator.compare(SourcedProgram(blob, digest(blob), "mul"), outcomes)
    (mismatch,) = comparison.mismatches
    assert (mismatch.kind, mismatch.name) == ("value", "r0")
    assert mismatch.difference is not None
    assert mismatch.difference.differing == 1
