"""MegEngine's worker. Expected values come from mathematics, written out."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from one_call import arrays, program, result, run, start
from worker_client import WorkerClient

from bot.programs.builder import ProgramBuilder
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore

F32 = np.float32


@pytest.fixture(scope="module")
def environment(environment_store: EnvironmentStore) -> Environment:
    return environment_store.prepare("megengine==1.13.0")


@pytest.fixture(scope="module")
def megengine(environment: Environment) -> Iterator[WorkerClient]:
    with start(environment) as worker:
        yield worker


def test_ready_states_the_facts(megengine: WorkerClient) -> None:
    assert megengine.ready["version"] == "1.13.0"
    assert megengine.ready["names"] > 500


def test_sigmoid_and_its_gradient(megengine: WorkerClient) -> None:
    x = np.array([-1, 0, 2], F32)
    found = arrays(run(megengine, "sigmoid", x, gradient=[1, 2, 1]))
    sigmoid = [1 / (1 + math.exp(-v)) for v in (-1, 0, 2)]
    assert found["output r"] == pytest.approx(sigmoid, rel=1e-6)
    slopes = [s * (1 - s) * g for s, g in zip(sigmoid, (1, 2, 1), strict=True)]
    assert found["gradient x0"] == pytest.approx(slopes, rel=1e-6)


def test_gradients_of_both_operands(megengine: WorkerClient) -> None:
    x, y = np.array([[1, 2], [3, 4]], F32), np.array([[5, 6], [7, 8]], F32)
    found = arrays(run(megengine, "matmul", x, y, gradient=[[1, 0], [0, 1]]))
    assert found["output r"].tolist() == [[19, 22], [43, 50]]
    assert found["gradient x0"].tolist() == [[5, 7], [6, 8]]  # G Y^T
    assert found["gradient x1"].tolist() == [[1, 3], [2, 4]]  # X^T G


def test_a_recording_ends_with_its_program(megengine: WorkerClient) -> None:
    blob = program("square", np.array([3], F32), gradient=[1])
    for outcome in megengine.run(blob, program("exp", np.zeros(1, F32)), blob):
        assert outcome.status == "ok"
        gradients = [t.array.tolist() for t in outcome.tensors if t.role == "gradient"]
        assert gradients in ([[6]], [])


def test_a_leaf_that_is_an_output_has_its_gradient(megengine: WorkerClient) -> None:
    found = arrays(run(megengine, "Tensor.float", np.array([1, 2], F32), gradient=[3, 4]))
    assert found["gradient x0"].tolist() == [3, 4]


def test_dtypes_that_it_would_change_are_unsupported(megengine: WorkerClient) -> None:
    for x in (np.ones(2, np.float64), np.ones(2, np.int64), np.ones(2, np.complex64)):
        outcome = run(megengine, "add", x, x)
        assert outcome.status == "unsupported", x.dtype


def test_int64_is_an_index(megengine: WorkerClient) -> None:
    x = np.array([[1, 2], [3, 4]], F32)
    index = np.array([[1, 0]])
    assert result(run(megengine, "gather", x, 0, index)).tolist() == [[3, 2]]
    assert result(run(megengine, "index_select", x, 1, np.array([1]))).tolist() == [[2], [4]]
    outcome = run(megengine, "index_select", x, 0, np.array([1 << 40]))
    assert outcome.status == "unsupported"


def test_an_outcome_says_the_dtype_that_it_has(megengine: WorkerClient) -> None:
    assert result(run(megengine, "argmax", np.array([1, 3, 2], F32))).dtype == np.int32
    assert result(run(megengine, "eq", np.ones(2, F32), np.ones(2, F32))).dtype == np.bool_


def test_what_a_form_does_not_take_is_unsupported(megengine: WorkerClient) -> None:
    x = np.ones((1, 1, 4, 4), F32)
    for outcome in (
        run(megengine, "sum", x, unknown=1),
        run(megengine, "nn.functional.max_pool2d", x, 2, ceil_mode=True),
        run(megengine, "fft.fft", x),
    ):
        assert outcome.status == "unsupported", outcome


def test_in_place_forms_change_their_tensor(megengine: WorkerClient) -> None:
    outcome = run(megengine, "Tensor.add_", np.array([1, 2], F32), np.array([3, 4], F32))
    assert arrays(outcome)["side-effect x0"].tolist() == [4, 6]


def test_scatter_leaves_its_input_alone(megengine: WorkerClient) -> None:
    x, src = np.zeros((1, 3), F32), np.array([[7]], F32)
    outcome = run(megengine, "scatter", x, 1, np.array([[2]]), src)
    assert {t.role for t in outcome.tensors} == {"output"}
    assert result(outcome).tolist() == [[0, 0, 7]]


def test_momentum_is_the_share_of_the_new(megengine: WorkerClient) -> None:
    x = np.array([[0], [2]], F32)
    mean, var = np.array([10], F32), np.array([10], F32)
    outcome = run(megengine, "nn.functional.batch_norm", x, mean, var, training=True, momentum=0.25)
    found = arrays(outcome)
    assert found["side-effect x1"].tolist() == [7.75]  # 0.75 * 10 + 0.25 * 1
    assert found["side-effect x2"].tolist() == [8]  # 0.75 * 10 + 0.25 * 2


def test_convolution_and_its_gradients(megengine: WorkerClient) -> None:
    x = np.array([[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]], F32)
    w = np.array([[[[1, 0], [0, -1]]]], F32)
    found = arrays(run(megengine, "nn.functional.conv2d", x, w, gradient=[[[[1, 0], [0, 0]]]]))
    assert found["output r"].tolist() == [[[[-4, -4], [-4, -4]]]]
    assert found["gradient x1"].tolist() == [[[[1, 2], [4, 5]]]]
    assert found["gradient x0"].tolist() == [[[[1, 0, 0], [0, -1, 0], [0, 0, 0]]]]


def test_seeds_repeat(megengine: WorkerClient) -> None:
    x = np.ones(64, F32)
    blobs = [program("nn.functional.dropout", x, 0.5, seed=seed) for seed in (1, 1, 2)]
    first, again, other = [result(outcome).tolist() for outcome in megengine.run(*blobs)]
    assert first == again
    assert first != other
    assert set(first) == {0, 2}


def test_an_asynchronous_error_says_its_cause(megengine: WorkerClient) -> None:
    outcome = run(megengine, "max", np.zeros(0, F32))
    assert outcome.status == "exception"
    assert outcome.error is not None
    assert outcome.error.type == "RuntimeError"
    assert "non-zero size" in outcome.error.message
    assert "backtrace" not in outcome.error.message


def test_programs_after_an_error_run(megengine: WorkerClient) -> None:
    bad = program("add", np.ones(2, F32), np.ones(3, F32), gradient=[1, 1])
    good = program("mul", np.array([2], F32), np.array([3], F32), gradient=[1])
    failed, fine = megengine.run(bad, good)
    assert failed.status == "exception"
    assert arrays(fine)["gradient x0"].tolist() == [3]


def test_modules_speak_pytorchs_names_and_layout(megengine: WorkerClient) -> None:
    linear = ProgramBuilder("nn.Linear")
    x = linear.tensor("x", np.array([[1, 2]], F32))
    state = {"weight": np.array([[3, 4], [5, 6], [7, 8]], F32), "bias": np.ones(3, F32)}
    module = linear.module("nn.Linear", 2, 3, state=state)
    y = linear.call("nn.Module.__call__", module, x, result="y")
    linear.output(y)
    linear.backward(y, np.array([[1, 0, 2]], F32))
    conv = ProgramBuilder("nn.Conv2d")
    x = conv.tensor("x", np.array([[[[2]], [[3]]]], F32))
    state = {"weight": np.array([[[[5]]], [[[7]]]], F32), "bias": np.array([1, 2], F32)}
    module = conv.module("nn.Conv2d", 2, 2, 1, groups=2, state=state)
    y = conv.call("nn.Module.__call__", module, x, result="y")
    conv.output(y)
    conv.backward(y, np.array([[[[1]], [[1]]]], F32))
    first, second = map(arrays, megengine.run(linear.blob(), conv.blob()))
    assert first["output y"].tolist() == [[12, 18, 24]]
    assert first["gradient r0.weight"].tolist() == [[1, 2], [0, 0], [2, 4]]
    assert first["gradient r0.bias"].tolist() == [1, 0, 2]
    assert second["output y"].tolist() == [[[[11]], [[23]]]]
    assert second["gradient r0.weight"].tolist() == [[[[2]]], [[[3]]]]
    assert second["gradient r0.bias"].tolist() == [1, 1]


def test_a_batch_norm_module_keeps_the_batchs_share(megengine: WorkerClient) -> None:
    builder = ProgramBuilder("nn.BatchNorm1d")
    x = builder.tensor("x", np.array([[1], [3]], F32))
    state = {
        "weight": np.array([2], F32),
        "bias": np.array([0.5], F32),
        "running_mean": np.array([10], F32),
        "running_var": np.array([1], F32),
        "num_batches_tracked": np.array(0),
    }
    module = builder.module("nn.BatchNorm1d", 1, state=state, momentum=0.25)
    builder.output(builder.call("nn.Module.__call__", module, x, result="y"))
    (outcome,) = megengine.run(builder.blob())
    found = arrays(outcome)
    # The batch has the mean 2 and the variance 1; 1e-5 stands beside that.
    assert found["output y"].ravel() == pytest.approx([-1.5, 2.5], rel=1e-5)
    assert found["buffer r0.running_mean"].tolist() == [0.75 * 10 + 0.25 * 2]
