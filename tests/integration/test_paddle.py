"""PaddlePaddle's worker. Expected values come from mathematics, written out."""

from __future__ import annotations

import math
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from one_call import arrays, result, run, start
from worker_client import WorkerClient

from bot.programs.builder import ProgramBuilder, member
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore

F64 = np.float64


@pytest.fixture(scope="module")
def environment(environment_store: EnvironmentStore) -> Environment:
    return environment_store.prepare("paddlepaddle==3.3.1")


@pytest.fixture(scope="module")
def paddle(environment: Environment) -> Iterator[WorkerClient]:
    with start(environment) as worker:
        yield worker


def test_ready_states_the_facts(paddle: WorkerClient) -> None:
    assert paddle.ready["version"] == "3.3.1"
    assert paddle.ready["device"] == "cpu"
    assert paddle.ready["threads"] == 1
    assert paddle.ready["names"] > 900


def test_softplus_and_its_gradient(paddle: WorkerClient) -> None:
    x = np.array([-1, 0, 3], F64)
    found = arrays(run(paddle, "nn.functional.softplus", x, gradient=[1, 2, 1]))
    assert found["output r"] == pytest.approx([math.log1p(math.exp(v)) for v in x], rel=1e-12)
    slopes = [g / (1 + math.exp(-v)) for v, g in zip(x, (1, 2, 1), strict=True)]
    assert found["gradient x0"] == pytest.approx(slopes, rel=1e-12)


def test_gradients_of_two_outputs_at_once(paddle: WorkerClient) -> None:
    builder = ProgramBuilder("topk")
    x = builder.tensor("x", np.array([1.0, 5.0, 3.0]), requires_grad=True)
    largest = builder.call("topk", x, 2, result="t")
    double = builder.call("mul", x, 2.0, result="d")
    builder.output(member(largest, 0))
    builder.output(double)
    builder.backward(member(largest, 0), np.array([10.0, 20.0]))
    builder.backward(double, np.array([1.0, 1.0, 1.0]))
    (outcome,) = paddle.run(builder.blob())
    # 2 from the product everywhere, and 10 and 20 at the largest two, 5 and 3.
    assert arrays(outcome)["gradient x"].tolist() == [2.0, 12.0, 22.0]


def test_arguments_are_renamed_and_reordered(paddle: WorkerClient) -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert result(run(paddle, "sum", x, dim=1, keepdim=True)).tolist() == [[3], [7]]
    assert result(run(paddle, "transpose", x, 0, 1)).tolist() == [[1, 3], [2, 4]]
    assert result(run(paddle, "polygamma", 1, np.array([1.0]))) == pytest.approx(math.pi**2 / 6)
    index = np.array([[1, 0]])
    assert result(run(paddle, "gather", x, 0, index)).tolist() == [[3, 2]]
    # Padding begins at the last axis in PyTorch, at the first in Paddle.
    padded = result(run(paddle, "nn.functional.pad", x, [1, 0], value=9.0))
    assert padded.tolist() == [[9, 1, 2], [9, 3, 4]]


def test_a_weight_is_transposed_for_linear(paddle: WorkerClient) -> None:
    x, weight, bias = (
        np.array([[1.0, 2.0]]),
        np.array([[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]),
        np.ones(3),
    )
    found = arrays(run(paddle, "nn.functional.linear", x, weight, bias, gradient=[[1, 0, 2]]))
    assert found["output r"].tolist() == [[12, 18, 24]]  # 3 + 8 + 1, 5 + 12 + 1, 7 + 16 + 1
    assert found["gradient x0"].tolist() == [[17, 20]]  # 3 + 2 * 7, 4 + 2 * 8
    assert found["gradient x1"].tolist() == [[1, 2], [0, 0], [2, 4]]


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
     "complex128", "bfloat16", "float8_e4m3fn"],
)  # fmt: skip
def test_dtypes_come_and_go_as_they_are(paddle: WorkerClient, dtype: str) -> None:
    kind = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    for values in ([0, 1, 1], [], 1):
        x = np.array(values).astype(kind)
        builder = ProgramBuilder("clone")
        source = builder.tensor("x", x)
        builder.output(source)
        (outcome,) = paddle.run(builder.blob())
        found = result(outcome)
        assert found.dtype == x.dtype
        assert found.shape == x.shape
        assert found.tobytes() == x.tobytes()


def test_bfloat16_is_computed_in_bfloat16(paddle: WorkerClient) -> None:
    x = np.array([1.0, 1.0], ml_dtypes.bfloat16)
    found = result(run(paddle, "mul", x, np.array([1.0, 3.0], ml_dtypes.bfloat16)))
    assert found.dtype == ml_dtypes.bfloat16
    assert found.astype(F64).tolist() == [1, 3]


def test_layouts_are_exact_and_storages_shared(paddle: WorkerClient) -> None:
    builder = ProgramBuilder("Tensor.zero_")
    base = builder.tensor("base", np.arange(6.0))
    builder.view("odd", of="base", shape=[2], strides=[2], offset=1)
    builder.output(builder.call("Tensor.zero_", {"ref": "odd"}))
    (outcome,) = paddle.run(builder.blob())
    found = arrays(outcome)
    assert base == {"ref": "base"}
    assert found["side-effect base"].tolist() == [0, 0, 2, 0, 4, 5]


def test_a_transposed_input_is_read_as_it_lies(paddle: WorkerClient) -> None:
    builder = ProgramBuilder("mv")
    matrix = builder.tensor("m", np.array([[1.0, 2.0], [3.0, 4.0]]), strides=[1, 2])
    builder.output(builder.call("mv", matrix, builder.tensor("v", np.array([1.0, 10.0]))))
    (outcome,) = paddle.run(builder.blob())
    assert result(outcome).tolist() == [21, 43]


def test_in_place_changes_the_input(paddle: WorkerClient) -> None:
    builder = ProgramBuilder("add")
    x = builder.tensor("x", np.array([1.0, 2.0]))
    builder.output(builder.call("Tensor.add_", x, 5.0))
    (outcome,) = paddle.run(builder.blob())
    found = arrays(outcome)
    assert found["side-effect x"].tolist() == [6, 7]


def test_in_place_has_its_gradient(paddle: WorkerClient) -> None:
    builder = ProgramBuilder("exp")
    x = builder.tensor("x", np.array([0.0, 1.0]), requires_grad=True)
    y = builder.call("mul", x, 2.0, result="y")
    z = builder.call("Tensor.exp_", y, result="z")
    builder.output(z)
    builder.backward(z, np.array([1.0, 1.0]))
    (outcome,) = paddle.run(builder.blob())
    # d exp(2x) = 2 exp(2x)
    assert arrays(outcome)["gradient x"] == pytest.approx([2.0, 2 * math.e**2], rel=1e-12)


def test_what_a_form_does_not_take_is_unsupported(paddle: WorkerClient) -> None:
    x = np.array([[1.0, 2.0]])
    for fn, args, kwargs, reason in (
        ("sum", (x,), {"nonsense": 1}, "nonsense"),
        ("erfc", (x,), {}, "paddle has no erfc"),
        ("nn.functional.max_pool2d", (x, 2), {"dilation": 2}, "dilation=2"),
    ):
        outcome = run(paddle, fn, *args, **kwargs)
        assert outcome.status == "unsupported"
        assert outcome.error is not None
        assert reason in outcome.error.message


def test_a_dtype_without_a_kernel_is_unsupported(paddle: WorkerClient) -> None:
    outcome = run(paddle, "bitwise_and", np.array([1.0]), np.array([1.0]))
    assert outcome.status == "unsupported"
    assert outcome.error is not None
    assert "is not registered" in outcome.error.message


def test_a_wrong_shape_is_an_exception_that_names_no_build_path(paddle: WorkerClient) -> None:
    outcome = run(paddle, "matmul", np.ones((2, 3)), np.ones((2, 3)))
    assert outcome.status == "exception"
    assert outcome.error is not None
    assert "must be equal" in outcome.error.message
    assert "/paddle/" not in outcome.error.message


def test_a_result_that_has_no_gradient_is_unsupported_but_seen(paddle: WorkerClient) -> None:
    outcome = run(paddle, "nextafter", np.array([1.0]), np.array([2.0]), gradient=[1])
    assert (outcome.status, outcome.phase) == ("unsupported", "backward")
    (tensor,) = [t for t in outcome.tensors if t.role == "output"]
    assert tensor.array.tolist() == [1 + 2.0**-52]


def test_a_seed_repeats_what_is_drawn(paddle: WorkerClient) -> None:
    first, other, again = (result(run(paddle, "rand", 4, seed=seed)).tolist() for seed in (7, 8, 7))
    assert first == again
    assert first != other
    assert all(0 <= value < 1 for value in first)


def test_a_linear_module_speaks_pytorchs_names_and_layout(paddle: WorkerClient) -> None:
    builder = ProgramBuilder("nn.Linear")
    x = builder.tensor("x", np.array([[1.0, 2.0]]))
    state = {"weight": np.array([[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]), "bias": np.ones(3)}
    module = builder.module("nn.Linear", 2, 3, state=state)
    y = builder.call("nn.Module.__call__", module, x, result="y")
    builder.output(y)
    builder.backward(y, np.array([[1.0, 0.0, 2.0]]))
    (outcome,) = paddle.run(builder.blob())
    found = arrays(outcome)
    assert found["output y"].tolist() == [[12, 18, 24]]
    assert found["gradient r0.weight"].tolist() == [[1, 2], [0, 0], [2, 4]]
    assert found["gradient r0.bias"].tolist() == [1, 0, 2]


def test_batch_norm_keeps_pytorchs_share_of_the_batch(paddle: WorkerClient) -> None:
    builder = ProgramBuilder("nn.BatchNorm1d")
    x = builder.tensor("x", np.array([[1.0], [3.0]]))
    state = {
        "weight": np.array([2.0]),
        "bias": np.array([0.5]),
        "running_mean": np.array([10.0]),
        "running_var": np.array([1.0]),
        "num_batches_tracked": np.array(0),
    }
    module = builder.module("nn.BatchNorm1d", 1, state=state, momentum=0.25)
    builder.output(builder.call("nn.Module.__call__", module, x, result="y"))
    (outcome,) = paddle.run(builder.blob())
    found = arrays(outcome)
    # The batch has the mean 2 and the variance 1; 1e-5 stands beside that.
    assert found["output y"].ravel() == pytest.approx([-1.5, 2.5], rel=1e-5)
    assert found["buffer r0.running_mean"].tolist() == [0.75 * 10 + 0.25 * 2]


def test_evaluation_mode_uses_the_running_statistics(paddle: WorkerClient) -> None:
    builder = ProgramBuilder("nn.BatchNorm1d")
    x = builder.tensor("x", np.array([[12.0], [8.0]]))
    state = {"running_mean": np.array([10.0]), "running_var": np.array([4.0])}
    module = builder.module("nn.BatchNorm1d", 1, state=state, affine=False, eps=0.0)
    builder.call("nn.Module.eval", module)
    builder.output(builder.call("nn.Module.__call__", module, x, result="y"))
    (outcome,) = paddle.run(builder.blob())
    assert result(outcome).ravel().tolist() == [1, -1]


def test_an_option_or_device_that_is_not_there_stops_the_start(environment: Environment) -> None:
    for hello, reason in (
        ({"options": {"speed": "1"}}, "no target option speed"),
        ({"device": "cuda"}, "CPU build"),
        ({"device": "tpu"}, "no device 'tpu'"),
    ):
        fields = {"framework": "paddle", "mapping": {}, **hello}
        with WorkerClient(fields, python=environment.python) as worker:
            assert worker.ready["type"] == "failed"
            assert reason in worker.ready["reason"]
