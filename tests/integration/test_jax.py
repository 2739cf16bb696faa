"""JAX's worker. Expected values come from mathematics, written out."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from one_call import arrays, start
from worker_client import WorkerClient

from bot.programs.builder import ProgramBuilder
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore
from bot.targets.outcome import Outcome

F32 = np.float32


@pytest.fixture(scope="module")
def environment(environment_store: EnvironmentStore) -> Environment:
    return environment_store.prepare("jax==0.10.2")


@pytest.fixture(scope="module")
def eager(environment: Environment) -> Iterator[WorkerClient]:
    with start(environment) as worker:
        yield worker


@pytest.fixture(scope="module")
def compiled(environment: Environment) -> Iterator[WorkerClient]:
    with start(environment, options={"compile": ""}) as worker:
        yield worker


@pytest.fixture(params=["eager", "compiled"])
def worker(request: pytest.FixtureRequest) -> WorkerClient:
    return request.getfixturevalue(request.param)


def program(fn: str, *args: Any, gradient: Any = None, seed: int = 0, **kwargs: Any) -> bytes:
    """One call; with ``gradient`` every float argument is a leaf and the result gets that gradient."""
    builder = ProgramBuilder(fn, seed=seed)
    tensors = [
        builder.tensor(
            f"x{number}", value, requires_grad=gradient is not None and value.dtype.kind in "fcV"
        )
        if isinstance(value, np.ndarray)
        else value
        for number, value in enumerate(args)
    ]
    result = builder.call(fn, *tensors, **kwargs)
    builder.output(result)
    if gradient is not None:
        builder.backward(result, gradient)
    return builder.blob()


def run(worker: WorkerClient, blob: bytes) -> Outcome:
    (outcome,) = worker.run(blob)
    return outcome


def test_ready_states_the_facts(eager: WorkerClient) -> None:
    assert eager.ready["version"] == "0.10.2"
    assert eager.ready["threads"] == 1
    assert eager.ready["names"] > 900


def test_softplus_and_its_gradient(worker: WorkerClient) -> None:
    x = np.array([-1, 0, 3], F32)
    found = arrays(
        run(worker, program("nn.functional.softplus", x, gradient=np.array([1, 2, 1], F32)))
    )
    expected = [math.log1p(math.exp(v)) for v in (-1, 0, 3)]
    np.testing.assert_allclose(found["output r0"], expected, rtol=2e-6)
    slopes = [1 / (1 + math.exp(-v)) for v in (-1, 0, 3)]
    np.testing.assert_allclose(found["gradient x0"], np.multiply(slopes, [1, 2, 1]), rtol=2e-6)


@pytest.mark.parametrize(
    ("fn", "value", "slope"),
    [
        # PyTorch's gradient of a holomorphic f is g conj(f'(z)).
        ("exp", cmath.exp(0.5 + 1j), cmath.exp(0.5 - 1j)),
        ("square", (0.5 + 1j) ** 2, 2 * (0.5 - 1j)),
        # conj(z) is not: with L = Re(conj(g) w) and w = conj(z), dL/dx + i dL/dy is conj(g).
        ("conj_physical", 0.5 - 1j, None),
    ],
)
def test_complex_gradients_are_conjugate(
    worker: WorkerClient, fn: str, value: complex, slope: complex | None
) -> None:
    g = 2 - 3j
    found = arrays(run(worker, program(fn, np.array([0.5 + 1j]), gradient=np.array([g]))))
    np.testing.assert_allclose(found["output r0"], [value], rtol=1e-12)
    expected = g.conjugate() if slope is None else g * slope
    np.testing.assert_allclose(found["gradient x0"], [expected], rtol=1e-12)


def test_the_gradient_of_a_squared_modulus(worker: WorkerClient) -> None:
    """L = |z|^2 = x^2 + y^2: dL/dx + i dL/dy = 2 z, through a real result; and of real(z): 1, of imag(z): i."""
    z = np.array([3 - 4j, 0.5 + 1j])
    builder = ProgramBuilder("abs")
    leaf = builder.tensor("z", z, requires_grad=True)
    result = builder.call("square", builder.call("abs", leaf))
    builder.output(result)
    builder.backward(result, np.ones(2))
    found = arrays(run(worker, builder.blob()))
    np.testing.assert_allclose(found["output r1"], [25, 1.25], rtol=1e-12)
    np.testing.assert_allclose(found["gradient z"], 2 * z, rtol=1e-12)
    for fn, expected in (("real", 1), ("imag", 1j)):
        found = arrays(run(worker, program(fn, z, gradient=np.ones(2))))
        np.testing.assert_allclose(found["gradient x0"], [expected, expected], rtol=1e-12)


def test_several_calls_and_outputs_without_a_gradient(worker: WorkerClient) -> None:
    """y = max(x, dim 1).values squared: dy/dx is 2 x at each row's maximum; the indices are integers."""
    builder = ProgramBuilder("max")
    x = builder.tensor("x", np.array([[1.0, 5.0, 2.0], [7.0, 0.0, 6.0]]), requires_grad=True)
    found = builder.call("max", x, 1)
    builder.output(found)
    result = builder.call("square", {"ref": found["ref"], "path": [0]})
    builder.output(result)
    builder.backward(result, np.array([1.0, 10.0]))
    outcome = run(worker, builder.blob())
    assert outcome.status == "ok", outcome
    by_place = {(t.role, t.name, tuple(t.path)): t.array.tolist() for t in outcome.tensors}
    assert by_place[("output", "r0", (1,))] == [1, 0]
    assert by_place[("output", "r1", ())] == [25, 49]
    assert by_place[("gradient", "x", ())] == [[0, 10, 0], [140, 0, 0]]


def test_dtypes_are_pytorchs(worker: WorkerClient) -> None:
    """With 64 bits on JAX alone would say float64 for each of these but the last two."""
    three = np.array([1, 2, 3], np.int64)
    cases = [
        (program("sin", three), "float32"),
        (program("div", three, three), "float32"),
        (program("mul", three, 0.5), "float32"),
        (program("zeros", 2), "float32"),
        (program("add", np.ones(2, F32), np.ones((), np.float64)), "float32"),
        (program("sum", np.ones(2, np.int32)), "int64"),
        (program("add", np.ones(2), np.ones(2, F32)), "float64"),
    ]
    for blob, dtype in cases:
        (tensor,) = run(worker, blob).tensors
        assert tensor.dtype == dtype


def test_small_floats(worker: WorkerClient) -> None:
    """1 + 2^-7 is the next bfloat16 after 1; 1 + 2^-9 rounds to 1."""
    x = np.array([1, 1], ml_dtypes.bfloat16)
    y = np.array([2**-7, 2**-9], ml_dtypes.bfloat16)
    found = arrays(run(worker, program("add", x, y, gradient=np.ones(2, ml_dtypes.bfloat16))))
    assert found["output r0"].astype(F32).tolist() == [1 + 2**-7, 1]
    assert found["gradient x1"].astype(F32).tolist() == [1, 1]


def test_in_place_ops_repoint_an_input(worker: WorkerClient) -> None:
    builder = ProgramBuilder("Tensor.add_")
    x = builder.tensor("x", np.array([1, 2], F32))
    builder.output(builder.call("Tensor.add_", x, 10.0))
    builder.output(builder.call("mul", x, 2.0))
    found = {name: array.tolist() for name, array in arrays(run(worker, builder.blob())).items()}
    assert found == {"output r0": [11, 12], "output r1": [22, 24], "side-effect x": [11, 12]}


def test_in_place_ops_on_views_are_refused(eager: WorkerClient) -> None:
    builder = ProgramBuilder("Tensor.add_")
    x = builder.tensor("x", np.ones((2, 2), F32))
    builder.output(builder.call("Tensor.add_", builder.call("select", x, 0, 1), 1.0))
    outcome = run(eager, builder.blob())
    assert outcome.status == "unsupported"
    assert "no views" in str(outcome.error)


def test_random_ops_repeat_by_seed(worker: WorkerClient) -> None:
    draws = [arrays(run(worker, program("rand", 4, seed=seed)))["output r0"] for seed in (1, 1, 2)]
    assert draws[0].tolist() == draws[1].tolist() != draws[2].tolist()
    assert ((draws[0] >= 0) & (draws[0] < 1)).all()


def test_the_gradient_of_a_random_op_is_that_of_its_own_draw(worker: WorkerClient) -> None:
    """Dropout of ones: what was kept is 2, and its slope is 2 too; what was dropped has neither."""
    x = np.ones(64)
    for seed in (1, 2):
        blob = program("nn.functional.dropout", x, 0.5, gradient=np.ones(64), seed=seed)
        found = arrays(run(worker, blob))
        assert set(found["output r0"].tolist()) == {0, 2}
        assert found["gradient x0"].tolist() == found["output r0"].tolist()


def test_values_that_a_compiler_does_not_see(eager: WorkerClient, compiled: WorkerClient) -> None:
    """How many elements a mask selects depends on values: op by op fine, gradient included, and no jit."""
    x = np.array([1.0, 2.0, 3.0])
    blob = program("masked_select", x, np.array([True, False, True]), gradient=np.array([5.0, 7.0]))
    found = arrays(run(eager, blob))
    assert found["output r0"].tolist() == [1, 3]
    assert found["gradient x0"].tolist() == [5, 0, 7]
    assert run(compiled, blob).status == "unsupported"


@pytest.mark.parametrize(
    ("blob", "says"),
    [
        (program("nn.functional.gelu", np.ones(2, F32), approximate="erf"), "gelu"),
        (program("linalg.lu", np.eye(2), pivot=False), "linalg.lu"),
        (program("special.airy_ai", np.ones(2)), "special.airy_ai"),
        (program("sum", np.ones(2), out=None, dims=1), "dims"),
    ],
)
def test_what_is_not_supported_says_why(eager: WorkerClient, blob: bytes, says: str) -> None:
    outcome = run(eager, blob)
    assert outcome.status == "unsupported"
    assert says in str(outcome.error)


def test_unknown_options_and_devices_are_refused(environment: Environment) -> None:
    for hello, says in (
        ({"options": {"fast": "1"}}, "fast"),
        ({"device": "tpu"}, "tpu"),
        ({"device": "cuda"}, "cuda"),
    ):
        with start(environment, **hello) as worker:
            assert worker.ready["type"] == "failed"
            assert says in worker.ready["reason"]


def test_a_modules_parameters_get_gradients(eager: WorkerClient, compiled: WorkerClient) -> None:
    """y = x W^T + b: gradients g W, g^T x and the sum of g."""
    builder = ProgramBuilder("nn.Linear")
    x = builder.tensor("x", np.array([[1.0, 2.0], [3.0, 4.0]], F32), requires_grad=True)
    state = {"weight": np.array([[3.0, 4.0]], F32), "bias": np.array([10.0], F32)}
    module = builder.module("nn.Linear", 2, 1, state=state)
    result = builder.call("nn.Module.__call__", module, x, result="y")
    builder.output(result)
    builder.backward(result, np.array([[1.0], [2.0]], F32))
    (outcome,) = eager.run(builder.blob())
    found = arrays(outcome)
    assert found["output y"].tolist() == [[21.0], [35.0]]
    assert found["gradient x"].tolist() == [[3.0, 4.0], [6.0, 8.0]]
    names = {name.rpartition(".")[2]: array.tolist() for name, array in found.items()}
    assert names["weight"] == [[7.0, 10.0]]
    assert names["bias"] == [3.0]
    (refused,) = compiled.run(builder.blob())
    assert refused.status == "unsupported"
