"""NumPy's worker. Expected values come from mathematics, written out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from one_call import reason, result, results, run, start
from worker_client import WorkerClient

from bot.programs.builder import ProgramBuilder
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore

F32 = np.float32
F64 = np.float64


@pytest.fixture(scope="module")
def environment(environment_store: EnvironmentStore) -> Environment:
    return environment_store.prepare("numpy==2.4.6")


@pytest.fixture(scope="module")
def numpy(environment: Environment) -> Iterator[WorkerClient]:
    with start(environment) as worker:
        yield worker


def test_ready_states_the_facts(numpy: WorkerClient) -> None:
    assert numpy.ready["version"] == "2.4.6"
    assert numpy.ready["names"] > 1000


@pytest.mark.parametrize(
    ("fn", "args", "expected"),
    [
        ("erf", [np.array([0.0, math.inf])], [0, 1]),
        ("special.chebyshev_polynomial_v", [np.array([0.5]), np.array([2.0])], [-1]),  # 4x^2-2x-1
        ("logcumsumexp", [np.array([0.0, 0.0, math.log(2)]), 0], [0, math.log(2), math.log(4)]),
        ("masked.mean", [np.array([1.0, 2, 9])], 1.5),
        ("nn.functional.gelu", [np.array([0.0, 1.0])], [0, 0.8413447460685429]),
        ("nn.functional.huber_loss", [np.array([0.0, 3.0]), np.array([1.0, 0.0])], 1.5),
        ("nn.functional.pdist", [np.array([[0.0, 0.0], [3.0, 4.0]])], [5]),
        ("linalg.det", [np.array([[2.0, 1.0], [1.0, 3.0]])], 5),
        ("fft.rfft", [np.array([1.0, 0.0, -1.0, 0.0])], [0, 2, 0]),
        ("signal.windows.hann", [3], [0, 1, 0]),
        ("trapezoid", [np.array([1.0, 3.0, 5.0])], 6),
    ],
)
def test_values(numpy: WorkerClient, fn: str, args: list[Any], expected: Any) -> None:
    kwargs: dict[str, Any] = {}
    if fn.startswith("signal"):
        kwargs = {"dtype": {"dtype": "float64"}}
    if fn.startswith("masked"):
        builder = ProgramBuilder(fn)
        x = builder.tensor("x", args[0])
        mask = builder.tensor("mask", np.array([True, True, False]))
        builder.output(builder.call(fn, x, result=None, mask=mask))
        (outcome,) = numpy.run(builder.blob())
    else:
        outcome = run(numpy, fn, *args, **kwargs)
    assert result(outcome) == pytest.approx(np.array(expected), abs=1e-14)


def test_the_dtype_is_pytorchs(numpy: WorkerClient) -> None:
    integers = np.array([1, 4])
    assert result(run(numpy, "sqrt", integers)).dtype == F32
    assert result(run(numpy, "add", integers.astype(np.int32), np.ones(2, F32))).dtype == F32
    assert result(run(numpy, "sum", integers.astype(np.int8))).dtype == np.int64
    assert result(run(numpy, "erf", np.ones(1, np.float16))).dtype == np.float16
    assert result(run(numpy, "zeros", [2])).dtype == F32
    assert result(run(numpy, "mean", np.ones(2, F32))).dtype == F32


def test_an_array_without_dimensions_has_dimension_0(numpy: WorkerClient) -> None:
    assert result(run(numpy, "sum", np.array(3.0), 0, True)).shape == ()
    assert result(run(numpy, "cumsum", np.array(3.0), -1)).shape == ()
    empty = np.zeros((7, 0, 3, 5))
    assert result(run(numpy, "flatten", empty, 1, 2)).shape == (7, 0, 5)
    assert result(run(numpy, "flatten", empty)).shape == (0,)


def test_what_a_form_does_not_take_is_unsupported(numpy: WorkerClient) -> None:
    outcome = run(numpy, "sum", np.ones(2), unknown=1)
    assert outcome.status == "unsupported"
    assert outcome.error is not None
    assert "unknown" in outcome.error.message
    for other in (
        run(numpy, "nn.functional.dropout", np.ones(2)),  # random: training is on
        run(numpy, "mean", np.array([1, 2])),  # of integers
        run(numpy, "special.chebyshev_polynomial_t", np.ones(2), np.array([1.0, -1.0])),
        run(numpy, "nn.functional.relu", np.ones(2), inplace=True),
        run(numpy, "hash_tensor", np.ones(2)),
        run(numpy, "remainder", np.array([1]), np.array([0])),  # an error in PyTorch, 0 here
    ):
        assert other.status == "unsupported", other


def test_a_name_that_no_framework_has_is_refused(numpy: WorkerClient) -> None:
    assert run(numpy, "numpy.load", "x").status == "refused"


def test_forms_of_an_op_are_called_by_its_row(numpy: WorkerClient) -> None:
    x = np.array([1.0, -2.0])
    assert result(run(numpy, "Tensor.abs", x)).tolist() == [1, 2]
    assert result(run(numpy, "absolute", x)).tolist() == [1, 2]
    assert result(run(numpy, "Tensor.__rsub__", x, np.array([3.0, 3.0]))).tolist() == [2, 5]
    outcome = run(numpy, "Tensor.mul_", x, np.array([2.0, 3.0]))
    changed = [t.array.tolist() for t in outcome.tensors if t.role == "side-effect"]
    assert changed == [[2, -6]]


def test_running_statistics_change_in_place(numpy: WorkerClient) -> None:
    x = np.array([[0.0], [2.0]])
    outcome = run(
        numpy, "nn.functional.batch_norm", x, np.array([10.0]), np.array([10.0]), training=True
    )
    changed = {t.name: t.array.tolist() for t in outcome.tensors if t.role == "side-effect"}
    assert changed == {"x1": [pytest.approx(9.1)], "x2": [pytest.approx(9.2)]}


def test_indices_and_values(numpy: WorkerClient) -> None:
    values, indices = results(run(numpy, "sort", np.array([[3.0, 1.0, 2.0]]), 1, True))
    assert values.tolist() == [[3, 2, 1]]
    assert indices.tolist() == [[0, 2, 1]]
    assert indices.dtype == np.int64
    low, high = results(run(numpy, "aminmax", np.array([3.0, 1.0, 2.0])))
    assert (float(low), float(high)) == (1, 3)


def test_there_are_no_gradients_but_results(numpy: WorkerClient) -> None:
    builder = ProgramBuilder("exp")
    x = builder.tensor("x", np.zeros(2), requires_grad=True)
    y = builder.call("exp", x)
    builder.output(y)
    builder.backward(y, np.ones(2))
    (outcome,) = numpy.run(builder.blob())
    assert outcome.status == "unsupported"
    assert outcome.phase == "backward"
    assert [t.array.tolist() for t in outcome.tensors] == [[1, 1]]


def test_an_exception_of_numpy_is_one(numpy: WorkerClient) -> None:
    outcome = run(numpy, "add", np.ones(2), np.ones(3))
    assert outcome.status == "exception"
    assert outcome.error is not None
    assert "broadcast" in outcome.error.message
    # A dtype that a function has no loop for is coverage.
    assert run(numpy, "bitwise_and", np.ones(2), np.ones(2)).status == "unsupported"
    assert run(numpy, "linalg.det", np.eye(2, dtype=np.float16)).status == "unsupported"


def test_a_result_of_no_dimensions_can_be_written_to(numpy: WorkerClient) -> None:
    builder = ProgramBuilder("exp")
    result = builder.call("exp", builder.tensor("x", np.array(0.0)))
    builder.call("Tensor.add_", result, 1)
    builder.output(result)
    (outcome,) = numpy.run(builder.blob())
    assert outcome.by_key["output", "r0", ()].array.tolist() == 2.0


def test_modules_are_functions_with_the_programs_state(numpy: WorkerClient) -> None:
    """A linear layer; batch norm in training: mean of (1, 3) is 2, its variance 1, over n - 1 it is 2."""
    linear = ProgramBuilder("nn.Linear")
    x = linear.tensor("x", np.array([[1.0, 2.0]]))
    state = {"weight": np.array([[3.0, 4.0], [5.0, 6.0]]), "bias": np.array([10.0, 20.0])}
    module = linear.module("nn.Linear", 2, 2, state=state)
    linear.output(linear.call("nn.Module.__call__", module, x))
    norm = ProgramBuilder("nn.BatchNorm1d")
    y = norm.tensor("y", np.array([[1.0], [3.0]]))
    begin = {"running_mean": np.zeros(1), "running_var": np.ones(1), "num_batches_tracked": np.array(0)}  # fmt: skip
    module = norm.module("nn.BatchNorm1d", 1, 0.0, 0.5, affine=False, state=begin)
    norm.output(norm.call("nn.Module.__call__", module, y))
    lost = ProgramBuilder("nn.Linear")
    module = lost.call("nn.Linear", 2, 2)
    lost.output(lost.call("nn.Module.__call__", module, lost.tensor("x", np.ones((1, 2)))))
    first, second, third = numpy.run(linear.blob(), norm.blob(), lost.blob())
    assert result(first).tolist() == [[21.0, 37.0]]  # 3 + 8 + 10, 5 + 12 + 20
    assert result(second).tolist() == [[-1.0], [1.0]]
    buffers = {t.name.rpartition(".")[2]: t.array.tolist() for t in second.tensors if t.role == "buffer"}  # fmt: skip
    assert buffers == {"running_mean": [1.0], "running_var": [1.5]}
    assert "begins with numbers of its own" in reason(third)
