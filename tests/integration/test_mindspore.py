"""MindSpore's worker. Expected values come from mathematics, written out."""

from __future__ import annotations

import math
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from one_call import arrays, program, reason, result, run, start
from worker_client import WorkerClient

from bot.programs.builder import ProgramBuilder, member
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore

F32 = np.float32
F64 = np.float64


@pytest.fixture(scope="module")
def environment(environment_store: EnvironmentStore) -> Environment:
    return environment_store.prepare("mindspore==2.10.0")


@pytest.fixture(scope="module")
def mindspore(environment: Environment) -> Iterator[WorkerClient]:
    with start(environment) as worker:
        yield worker


def test_ready_states_the_facts(mindspore: WorkerClient) -> None:
    assert mindspore.ready["version"] == "2.10.0"
    assert mindspore.ready["names"] > 900


def test_sigmoid_and_its_gradient_in_float64(mindspore: WorkerClient) -> None:
    found = arrays(run(mindspore, "sigmoid", np.array([-1, 0, 2], F64), gradient=[1, 2, 1]))
    sigmoid = [1 / (1 + math.exp(-v)) for v in (-1, 0, 2)]
    assert found["output r"].dtype == F64
    assert found["output r"] == pytest.approx(sigmoid, rel=1e-14)
    slopes = [s * (1 - s) * g for s, g in zip(sigmoid, (1, 2, 1), strict=True)]
    assert found["gradient x0"] == pytest.approx(slopes, rel=1e-14)


def test_gradients_of_both_operands(mindspore: WorkerClient) -> None:
    x, y = np.array([[1, 2], [3, 4]], F64), np.array([[5, 6], [7, 8]], F64)
    found = arrays(run(mindspore, "matmul", x, y, gradient=[[1, 0], [0, 1]]))
    assert found["output r"].tolist() == [[19, 22], [43, 50]]
    assert found["gradient x0"].tolist() == [[5, 7], [6, 8]]  # G Y^T
    assert found["gradient x1"].tolist() == [[1, 3], [2, 4]]  # X^T G


def test_gradients_of_two_outputs(mindspore: WorkerClient) -> None:
    builder = ProgramBuilder("split")
    x = builder.tensor("x", np.array([1, 2, 3, 4], F64), requires_grad=True)
    parts = builder.call("split", x, 2, result="r")
    for index, gradient in enumerate(([1, 2], [3, 4])):
        builder.output(member(parts, index))
        builder.backward(member(parts, index), np.array(gradient, F64))
    (outcome,) = mindspore.run(builder.blob())
    assert arrays(outcome)["gradient x"].tolist() == [1, 2, 3, 4]


def test_a_recording_ends_with_its_program(mindspore: WorkerClient) -> None:
    blob = program("square", np.array([3], F32), gradient=[1])
    for outcome in mindspore.run(blob, program("exp", np.zeros(1, F32)), blob):
        assert outcome.status == "ok"
        gradients = [t.array.tolist() for t in outcome.tensors if t.role == "gradient"]
        assert gradients in ([[6]], [])


def test_an_error_leaves_later_gradients_alone(mindspore: WorkerClient) -> None:
    bad = program("add", np.ones(2, F32), np.ones(3, F32), gradient=[1, 1])
    good = program("mul", np.array([2], F32), np.array([3], F32), gradient=[1])
    failed, fine = mindspore.run(bad, good)
    assert failed.status == "exception"
    assert arrays(fine)["gradient x0"].tolist() == [3]


def test_a_form_without_kernel_gives_way_and_keeps_its_gradient(mindspore: WorkerClient) -> None:
    # mint.index_add has no CPU kernel for these; its error would turn recording off.
    x, source = np.array([1, 2, 3], F64), np.array([10, 20], F64)
    outcome = run(
        mindspore, "index_add", x, 0, np.array([0, 2]), source, alpha=2, gradient=[1, 2, 4]
    )
    found = arrays(outcome)
    assert found["output r"].tolist() == [21, 2, 43]
    assert found["gradient x0"].tolist() == [1, 2, 4]
    assert found["gradient x3"].tolist() == [2, 8]


def test_dtypes_come_back_as_they_are(mindspore: WorkerClient) -> None:
    for dtype in (np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.float16, F32, F64):
        x = np.array([[1, 0, 1]], dtype)
        found = result(run(mindspore, "t", x))
        assert (found.dtype, found.tolist()) == (np.dtype(dtype), x.T.tolist())


def test_bfloat16_and_its_gradient(mindspore: WorkerClient) -> None:
    builder = ProgramBuilder("Tensor.bfloat16")
    x = builder.tensor("x", np.array([1, 2, 3], F32), requires_grad=True)
    result = builder.call("Tensor.bfloat16", x, result="r")
    builder.output(result)
    builder.backward(result, np.array([-2.25, 1, 0.5], ml_dtypes.bfloat16))
    (outcome,) = mindspore.run(builder.blob())
    found = arrays(outcome)
    assert found["output r"].astype(F32).tolist() == [1, 2, 3]
    assert found["gradient x"].tolist() == [-2.25, 1, 0.5]


def test_shapes_without_elements_or_axes(mindspore: WorkerClient) -> None:
    assert result(run(mindspore, "exp", np.zeros((0, 3), F64))).shape == (0, 3)
    assert result(run(mindspore, "exp", np.array(0, F64))).shape == ()


def test_what_a_form_does_not_take_is_unsupported(mindspore: WorkerClient) -> None:
    x = np.ones((2, 3), F32)
    assert "unknown" in reason(run(mindspore, "sum", x, unknown=1))
    assert "n=2" in reason(run(mindspore, "diff", x, 2))


def test_what_the_cpu_lacks_is_unsupported(mindspore: WorkerClient) -> None:
    kernel = reason(run(mindspore, "quantile", np.ones((2, 3), F32), 0.5))
    assert "Unsupported op [Quantile] on CPU" in kernel
    dtype = reason(run(mindspore, "lerp", np.ones(2, F64), np.ones(2, F64), 0.5))
    assert "Float64" in dtype
    for message in (kernel, dtype):
        assert "Call Stack" not in message
        assert "node:" not in message


def test_an_errors_message_says_the_cause_alone(mindspore: WorkerClient) -> None:
    outcome = run(mindspore, "bmm", np.ones((1, 2, 3), F64), np.ones((1, 2, 3), F64))
    assert outcome.status == "exception"
    assert outcome.error is not None
    assert outcome.error.type == "ValueError"
    assert outcome.error.message.startswith(
        "For BatchMatMulExt, the row of the input 'y' should be"
    )
    assert ".cc" not in outcome.error.message
    assert "---" not in outcome.error.message


def test_indices_are_int64_as_in_pytorch(mindspore: WorkerClient) -> None:
    outcome = run(mindspore, "topk", np.array([1, 5, 3], F32), 2)
    assert [(t.array.tolist(), str(t.array.dtype)) for t in outcome.tensors] == [
        ([5, 3], "float32"),
        ([1, 2], "int64"),
    ]


def test_in_place_forms_change_their_tensor(mindspore: WorkerClient) -> None:
    outcome = run(mindspore, "Tensor.mul_", np.array([1, 2], F32), np.array([3, 4], F32))
    assert arrays(outcome)["side-effect x0"].tolist() == [3, 8]


def test_an_in_place_result_of_another_dtype_is_unsupported(mindspore: WorkerClient) -> None:
    outcome = run(mindspore, "Tensor.mul_", np.array([1, 2]), np.array([3, 4], F32))
    assert outcome.status == "unsupported"


def test_the_gradient_through_a_call_in_place_is_that_at_its_input(mindspore: WorkerClient) -> None:
    """MindSpore keeps the input of abs for backward, which the result must not overwrite: d|x|/dx is -1 at -3."""
    builder = ProgramBuilder("abs")
    x = builder.tensor("x", np.array([-3, 2], F32), requires_grad=True)
    copy = builder.call("clone", x)
    magnitude = builder.call("Tensor.abs_", copy)
    builder.output(magnitude)
    builder.backward(magnitude, np.ones(2, F32))
    (outcome,) = mindspore.run(builder.blob())
    assert arrays(outcome)["gradient x"].tolist() == [-1, 1]


def test_in_place_addition_gives_the_sum(mindspore: WorkerClient) -> None:
    # MindSpore 2.10's own add_ leaves its tensor as it was on the CPU, which is the outcome's to tell.
    outcome = run(mindspore, "Tensor.add_", np.array([1, 2], F32), np.array([3, 4], F32))
    assert result(outcome).tolist() == [4, 6]


def test_convolution_and_its_gradients(mindspore: WorkerClient) -> None:
    x = np.array([[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]], F32)
    w = np.array([[[[1, 0], [0, -1]]]], F32)
    found = arrays(run(mindspore, "nn.functional.conv2d", x, w, gradient=[[[[1, 0], [0, 0]]]]))
    assert found["output r"].tolist() == [[[[-4, -4], [-4, -4]]]]
    assert found["gradient x1"].tolist() == [[[[1, 2], [4, 5]]]]
    assert found["gradient x0"].tolist() == [[[[1, 0, 0], [0, -1, 0], [0, 0, 0]]]]


def test_seeds_repeat(mindspore: WorkerClient) -> None:
    x = np.ones(64, F32)
    blobs = [program("nn.functional.dropout", x, 0.5, seed=seed) for seed in (1, 1, 2)]
    first, again, other = [result(outcome).tolist() for outcome in mindspore.run(*blobs)]
    assert first == again
    assert first != other
    assert set(first) == {0, 2}


def test_an_unknown_device_does_not_start(environment: Environment) -> None:
    worker = WorkerClient({"framework": "mindspore", "device": "cuda"}, python=environment.python)
    with worker:
        assert worker.ready["type"] == "failed"
        assert "cpu only" in worker.ready["reason"]
