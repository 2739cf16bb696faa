"""The worker over real frameworks. Expected values come from mathematics, written out or by NumPy in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import psutil
import pytest
from one_call import start
from worker_client import WorkerClient

from bot.programs.builder import ProgramBuilder, member
from bot.targets.environment import Environment
from bot.targets.outcome import Outcome

F32 = np.float32


@pytest.fixture(scope="module")
def torch(torch_environment: Environment) -> Iterator[WorkerClient]:
    with start(torch_environment) as worker:
        yield worker


@pytest.fixture(scope="module")
def old_torch(old_torch_environment: Environment) -> Iterator[WorkerClient]:
    with start(old_torch_environment) as worker:
        yield worker


@pytest.fixture(scope="module")
def oneflow(oneflow_environment: Environment) -> Iterator[WorkerClient]:
    with start(oneflow_environment) as worker:
        yield worker


@pytest.fixture(params=["torch", "old_torch", "oneflow"])
def worker(request: pytest.FixtureRequest) -> WorkerClient:
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["torch", "old_torch"])
def any_torch(request: pytest.FixtureRequest) -> WorkerClient:
    return request.getfixturevalue(request.param)


def call(fn: str, *args: Any, seed: int = 0, **kwargs: Any) -> bytes:
    builder = ProgramBuilder(fn, seed=seed)
    tensors = [
        builder.tensor(f"x{number}", value) if isinstance(value, np.ndarray) else value
        for number, value in enumerate(args)
    ]
    builder.output(builder.call(fn, *tensors, result=None, **kwargs))
    return builder.blob()


def only(outcome: Outcome) -> np.ndarray:
    assert outcome.status == "ok", outcome
    (tensor,) = outcome.tensors
    return tensor.array


def observed(outcome: Outcome) -> dict[str, Any]:
    return {f"{t.role} {t.name}": t.array.tolist() for t in outcome.tensors}


def test_ready_states_the_facts(torch: WorkerClient, oneflow: WorkerClient) -> None:
    assert torch.ready["version"].startswith("2.13.0")
    assert torch.ready["threads"] == 1
    assert torch.ready["capability"]
    assert torch.ready["names"] > 1500
    assert oneflow.ready["version"] == "0.9.0"
    assert oneflow.ready["names"] > 600


def test_oneflow_works_on_the_calling_thread_alone(oneflow_environment: Environment) -> None:
    """Its scheduler would poll all the while: then other threads work about as long as the main one."""
    builder = ProgramBuilder("exp")
    x = builder.tensor("x", np.ones(7, F32), requires_grad=True)
    y = builder.call("exp", x)
    builder.output(y)
    builder.backward(y, np.ones(7, F32))
    blob = builder.blob()
    with start(oneflow_environment) as worker:
        process = psutil.Process(worker.process.pid)
        before = {thread.id: thread.user_time for thread in process.threads()}
        for _ in range(10):
            worker.run(*[blob] * 100)
        worked = {
            thread.id: thread.user_time - before.get(thread.id, 0.0) for thread in process.threads()
        }
        main = worked.pop(process.pid)
        assert main >= 0.05
        assert sum(worked.values()) <= 0.1 * main
        assert worker.stop() == 0
        assert worker.process.stderr is not None
        assert b"closed" not in worker.process.stderr.read()


def test_results_with_other_layouts_are_read_as_they_are(worker: WorkerClient) -> None:
    x = np.arange(6, dtype=F32).reshape(2, 3)
    builder = ProgramBuilder("t")
    source = builder.tensor("x", x)
    for name, fn, args in (
        ("transposed", "t", ()),
        ("narrowed", "narrow", (1, 1, 2)),
        ("last row", "narrow", (0, 1, 1)),
        ("row of none", "narrow", (0, 0, 0)),
    ):
        builder.output(builder.call(fn, source, *args, result=name))
    (outcome,) = worker.run(builder.blob())
    assert outcome.status == "ok", outcome
    assert observed(outcome) == {
        "output transposed": [[0, 3], [1, 4], [2, 5]],
        "output narrowed": [[1, 2], [4, 5]],
        "output last row": [[3, 4, 5]],
        "output row of none": [],
    }


def test_softplus_and_its_gradient(worker: WorkerClient) -> None:
    builder = ProgramBuilder("nn.functional.softplus")
    x = builder.tensor("x", np.array([-1, 0, 3], F32), requires_grad=True)
    y = builder.call("nn.functional.softplus", x)
    builder.output(y)
    builder.backward(y, np.array([1, 2, 1], F32))
    (outcome,) = worker.run(builder.blob())
    value, gradient = outcome.tensors
    expected = [math.log1p(math.exp(v)) for v in (-1, 0, 3)]
    np.testing.assert_allclose(value.array, expected, rtol=2e-6)
    slopes = [1 / (1 + math.exp(-v)) for v in (-1, 0, 3)]
    np.testing.assert_allclose(gradient.array, np.multiply(slopes, [1, 2, 1]), rtol=2e-6)
    assert gradient.key == ("gradient", "x", ())


def test_layouts_are_exact(worker: WorkerClient) -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], F32)
    builder = ProgramBuilder("Tensor.stride")
    names = {
        "transposed": builder.tensor("transposed", x, strides=[1, 2]),
        "offset": builder.tensor("offset", x, strides=[3, 1], offset=5),
        "gaps": builder.tensor("gaps", x, strides=[8, 2], offset=1),
        "expanded": builder.tensor("expanded", np.array([[7, 7], [9, 9]], F32), strides=[1, 0]),
    }
    for name, tensor in names.items():
        builder.output(builder.call("Tensor.stride", tensor, result=f"stride of {name}"))
        builder.output(builder.call("mul", tensor, 2.0, result=name + " doubled"))
    (outcome,) = worker.run(builder.blob())
    assert outcome.status == "ok", outcome
    strides: dict[str, list[int]] = {}
    for _, name, _, value in outcome.values:
        strides.setdefault(name, []).append(value)
    assert strides == {
        "stride of transposed": [1, 2],
        "stride of offset": [3, 1],
        "stride of gaps": [8, 2],
        "stride of expanded": [1, 0],
    }
    doubled = [[2, 4, 6], [8, 10, 12]]
    assert observed(outcome) == {
        "output transposed doubled": doubled,
        "output offset doubled": doubled,
        "output gaps doubled": doubled,
        "output expanded doubled": [[14, 14], [18, 18]],
    }


def test_aliases_and_side_effects(worker: WorkerClient) -> None:
    builder = ProgramBuilder("Tensor.add_")
    x = builder.tensor("x", np.arange(6, dtype=F32).reshape(2, 3))
    column = builder.view("column", "x", [2], [3], offset=1)
    builder.tensor("bystander", np.ones(2, F32))
    builder.output(builder.call("Tensor.add_", column, 10.0))
    builder.output(builder.call("mul", x, 1.0))
    (outcome,) = worker.run(builder.blob())
    changed = [[0, 11, 2], [3, 14, 5]]
    assert observed(outcome) == {
        "output r0": [11, 14],
        "output r1": changed,
        "side-effect x": changed,
        "side-effect column": [11, 14],
    }


def test_changed_shapes_are_side_effects(any_torch: WorkerClient) -> None:
    builder = ProgramBuilder("Tensor.t_")
    builder.output(
        builder.call("Tensor.t_", builder.tensor("x", np.arange(6, dtype=F32).reshape(2, 3)))
    )
    (outcome,) = any_torch.run(builder.blob())
    assert observed(outcome)["side-effect x"] == [[0, 3], [1, 4], [2, 5]]


def test_conj_and_neg_bits(torch: WorkerClient, old_torch: WorkerClient) -> None:
    builder = ProgramBuilder("Tensor.is_conj")
    x = builder.tensor("x", np.array([1 + 2j, 3 - 4j], np.complex64), conj=True)
    y = builder.tensor("y", np.array([5.0, -6.0], F32), neg=True)
    for name, tensor in (("conj", x), ("neg", y)):
        builder.output(builder.call(f"Tensor.is_{name}", tensor, result=f"{name} bit"))
        builder.output(builder.call("mul", tensor, 2, result=name))
    new, old = torch.run(builder.blob())[0], old_torch.run(builder.blob())[0]
    assert [value for _, _, _, value in new.values] == [True, True]
    assert new.tensors[0].array.tolist() == [2 + 4j, 6 - 8j]
    assert new.tensors[1].array.tolist() == [10.0, -12.0]
    assert old.status == "unsupported"


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64",
     "complex128", "bfloat16"],
)  # fmt: skip
def test_every_dtype_comes_back_bit_for_bit(any_torch: WorkerClient, dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = np.array([0, 1, 1, 0, 1], kind)
    array = only(any_torch.run(call("clone", x))[0])
    assert array.dtype == x.dtype
    assert array.tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_eight_bit_floats(torch: WorkerClient, old_torch: WorkerClient, dtype: str) -> None:
    x = np.array([0.5, -2.0], getattr(ml_dtypes, dtype))
    assert only(torch.run(call("clone", x))[0]).tobytes() == x.tobytes()
    assert old_torch.run(call("clone", x))[0].status == "unsupported"


def test_oneflow_takes_bfloat16_exactly(oneflow: WorkerClient) -> None:
    x = np.array([1.5, -3.25, 0.0, np.inf], ml_dtypes.bfloat16)
    array = only(oneflow.run(call("Tensor.to", x, {"dtype": "float32"}))[0])
    assert array.tolist() == [1.5, -3.25, 0.0, math.inf]


def test_empty_and_zero_dimensional_tensors(worker: WorkerClient) -> None:
    scalar, empty = worker.run(
        call("mul", np.array(3.0, F32), 2.0), call("mul", np.ones((0, 3), F32), 2.0)
    )
    assert only(scalar).shape == ()
    assert only(scalar) == 6.0
    assert only(empty).shape == (0, 3)


def test_modules_with_state(worker: WorkerClient) -> None:
    weight = np.array([[1, 2], [3, 4], [5, 6]], F32)
    builder = ProgramBuilder("nn.Linear")
    state = {"weight": weight, "bias": np.array([1, 1, 1], F32)}
    layer = builder.module("nn.Linear", 2, 3, state=state)
    x = builder.tensor("x", np.array([[1, -1]], F32), requires_grad=True)
    y = builder.call("nn.Module.__call__", layer, x)
    builder.output(y)
    builder.backward(y, np.array([[1, 0, 2]], F32))
    (outcome,) = worker.run(builder.blob())
    assert observed(outcome) == {
        "output r1": [[0, 0, 0]],  # x W' + b = [1 - 2, 3 - 4, 5 - 6] + 1
        "gradient x": [[11, 14]],  # g W = [1, 2] + 2 [5, 6]
        "gradient r0.weight": [[1, -1], [0, 0], [2, -2]],  # g' x
        "gradient r0.bias": [1, 0, 2],
    }


def test_buffers_that_change_are_said(worker: WorkerClient) -> None:
    builder = ProgramBuilder("nn.BatchNorm1d")
    zeros, ones = np.zeros(1, F32), np.ones(1, F32)
    state = {"weight": ones, "bias": zeros, "running_mean": zeros, "running_var": ones}
    norm = builder.module("nn.BatchNorm1d", 1, state=state)
    x = builder.tensor("x", np.array([[1], [3], [5]], F32))
    builder.output(builder.call("nn.Module.__call__", norm, x))
    (outcome,) = worker.run(builder.blob())
    changed = {t.name: t.array for t in outcome.tensors if t.role == "buffer"}
    np.testing.assert_allclose(changed["r0.running_mean"], [0.3], rtol=1e-6)  # 0.1 * mean 3
    np.testing.assert_allclose(changed["r0.running_var"], [1.3], rtol=1e-6)  # 0.9 + 0.1 * 4
    assert not [t for t in outcome.tensors if t.role in ("side-effect", "parameter")]


def test_nested_results_by_path(worker: WorkerClient) -> None:
    builder = ProgramBuilder("max")
    x = builder.tensor("x", np.array([[1, 5, 2], [7, 0, 3]], F32))
    largest = builder.call("max", x, 1)
    builder.output(member(largest, 0))
    builder.output(builder.call("add", member(largest, 1), 1))
    (outcome,) = worker.run(builder.blob())
    assert observed(outcome) == {
        "intermediate r0": [1, 0],
        "output r0": [5, 7],
        "output r1": [2, 1],
    }


def test_leaves_without_gradient_are_absent(worker: WorkerClient) -> None:
    builder = ProgramBuilder("mul")
    x = builder.tensor("x", np.array([1, 2], F32), requires_grad=True)
    builder.tensor("unused", np.array([1, 2], F32), requires_grad=True)
    y = builder.call("mul", x, x)
    builder.output(y)
    builder.backward(y, np.ones(2, F32))
    (outcome,) = worker.run(builder.blob())
    assert observed(outcome)["gradient x"] == [2, 4]
    assert outcome.absent == ("unused",)


def test_exceptions_say_where(worker: WorkerClient) -> None:
    builder = ProgramBuilder("matmul")
    x = builder.tensor("x", np.ones((2, 3), F32))
    builder.call("mul", x, 2.0)
    builder.output(builder.call("matmul", x, x))
    (outcome,) = worker.run(builder.blob())
    assert (outcome.status, outcome.phase, outcome.call) == ("exception", "forward", 1)
    assert outcome.error is not None
    assert "\x1b" not in outcome.error.message
    assert observed(outcome) == {"intermediate r0": [[2, 2, 2], [2, 2, 2]]}


@pytest.mark.parametrize(
    "fn",
    ["os.system", "load", "hub.load", "save", "jit.script", "compile", "Tensor.__class__",
     "Tensor.share_memory_", "Tensor.apply_", "Tensor.numpy", "Tensor.__reduce_ex__", "from_file",
     "set_default_dtype", "manual_seed", "nn.functional.has_torch_function", "nn.DataParallel",
     "__builtins__", "classes", "ops.aten.add"],
)  # fmt: skip
def test_what_is_no_tensor_op_is_refused(worker: WorkerClient, fn: str) -> None:
    (outcome,) = worker.run(call(fn, "/etc/passwd"))
    assert outcome.status == "refused"


def test_missing_ops_arguments_and_kernels_are_coverage(
    old_torch: WorkerClient, oneflow: WorkerClient
) -> None:
    x = np.array([1.0, 2.0], F32)
    op, kernel = old_torch.run(
        call("linalg.vecdot", x, x),
        call("nn.functional.softplus", x.astype(np.float16)),
    )
    assert (op.status, kernel.status) == ("unsupported", "unsupported")
    programs = {
        "no such op": call("special.airy_ai", x),
        "no such dtype": call("clone", x.astype(np.complex64)),
        "no such kernel": call("exp", x.astype(np.float16)),
        "no such argument": call("div", x, x, rounding_mode="floor"),
        "no effect": call("nn.functional.relu6", x, inplace=True),
        "another meaning": call("Tensor.where", x, np.array([True, False]), x),
        "another overload": call("std", x, False),
        "a tensor for a number": call(
            "masked_fill", x, np.array([True, False]), np.array(1.5, F32)
        ),
    }
    for name, outcome in zip(programs, oneflow.run(*programs.values()), strict=True):
        assert outcome.status == "unsupported", name
        assert outcome.error is not None


def test_a_tensor_as_a_limit_is_no_number_on_oneflow(oneflow: WorkerClient) -> None:
    """A one-element tensor read as a number would lose its gradient: d max(x, m)/dm is 1 where x < m."""
    builder = ProgramBuilder("clamp_min")
    x = builder.tensor("x", np.array([1.0, 2.0], F32))
    limit = builder.tensor("m", np.array(1.5, F32), requires_grad=True)
    result = builder.call("clamp_min", x, limit)
    builder.output(result)
    builder.backward(result, np.array([3.0, 5.0], F32))
    (outcome,) = oneflow.run(builder.blob())
    assert observed(outcome) == {"output r0": [1.5, 2.0], "gradient m": 3.0}


def test_oneflow_as_strided_counts_from_the_storage(oneflow: WorkerClient) -> None:
    builder = ProgramBuilder("as_strided")
    whole = builder.tensor("whole", np.arange(4, dtype=F32))
    builder.output(builder.call("as_strided", whole, [2], [2], 1))
    inner = ProgramBuilder("as_strided")
    window = inner.tensor("window", np.arange(4, dtype=F32), strides=[1], offset=2)
    inner.output(inner.call("as_strided", window, [2], [1], 0))
    first, second = oneflow.run(builder.blob(), inner.blob())
    assert only(first).tolist() == [1, 3]
    assert second.status == "unsupported"


def test_oneflow_without_a_gradient_is_coverage(oneflow: WorkerClient) -> None:
    builder = ProgramBuilder("erfinv")
    x = builder.tensor("x", np.array([0.25], F32), requires_grad=True)
    y = builder.call("erfinv", x)
    builder.output(y)
    builder.backward(y, np.ones(1, F32))
    (outcome,) = oneflow.run(builder.blob())
    assert outcome.status == "unsupported"


def test_oneflow_gets_arguments_in_its_own_order(oneflow: WorkerClient) -> None:
    x, y = np.array([1.0], F32), np.array([1.1], F32)
    # |1 - 1.1| <= atol + rtol * 1.1 holds for (rtol, atol) = (0, 0.2), not for (0.05, 0).
    close, far = oneflow.run(call("isclose", x, y, 0.0, 0.2), call("isclose", x, y, 0.05, 0.0))
    assert only(close).tolist() == [True]
    assert only(far).tolist() == [False]
    pooled = oneflow.run(
        call("nn.functional.max_pool1d", np.array([[[3.0, 1.0, 2.0]]], F32), 2, 2, 0, 1, True)
    )[0]
    assert only(pooled).tolist() == [[[3.0, 2.0]]]  # the sixth argument is ceil_mode
    leaky = oneflow.run(call("nn.functional.leaky_relu", np.array([-2.0, 2.0], F32)))[0]
    np.testing.assert_allclose(only(leaky), [-0.02, 2.0], rtol=1e-6)


def test_the_seed_decides_and_nothing_leaks(worker: WorkerClient) -> None:
    draw = call("rand", 4, seed=5)
    between = [
        call("randn", 3, seed=9),
        call("matmul", np.ones((2, 3), F32), np.ones((2, 3), F32)),  # raises
        call("nn.functional.dropout", np.ones(50, F32), 0.5, seed=1),
        call("tensor", [1.5]),  # float32 is still the default
    ]
    first, *rest, second, other = worker.raw([draw, *between, draw, call("rand", 4, seed=6)])
    assert first[1] == second[1]
    assert first[1] != other[1]
    assert worker.run(between[-1])[0].tensors[0].dtype == "float32"
    again = worker.raw([draw, *between, draw])
    assert [payload for _, payload in again[:-1]] == [first[1], *(payload for _, payload in rest)]


def test_equal_programs_give_equal_frames_in_two_processes(
    torch: WorkerClient, torch_environment: Environment
) -> None:
    programs = [
        call("softmax", np.linspace(-1, 1, 12, dtype=F32).reshape(3, 4), 1),
        call("matmul", np.ones((2, 3), F32), np.ones((2, 3), F32)),
        call("bernoulli", np.full(20, 0.5, F32), seed=3),
        call("sort", np.array([3, 1, 2], F32)),
    ]
    with start(torch_environment) as other:
        assert other.raw(programs) == torch.raw(programs)


def test_unknown_options_and_devices_fail_in_one_line(torch_environment: Environment) -> None:
    for hello, says in (
        ({"options": {"warp": "9"}}, "no target option warp"),
        ({"options": {"isa": "sse9"}}, "option isa is one of default, avx2, not 'sse9'"),
        ({"device": "tpu"}, "no device 'tpu'"),
    ):
        with start(torch_environment, **hello) as worker:
            assert worker.ready["type"] == "failed"
            assert says in worker.ready["reason"]


def test_threads_can_be_chosen(torch_environment: Environment) -> None:
    with start(torch_environment, options={"threads": "2"}) as worker:
        assert worker.ready["threads"] == 2


def test_backward_from_what_has_no_gradient_raises(any_torch: WorkerClient) -> None:
    builder = ProgramBuilder("mul")
    y = builder.call("mul", builder.tensor("x", np.ones(2, F32)), 2.0)
    builder.output(y)
    builder.backward(y, np.ones(2, F32))
    (outcome,) = any_torch.run(builder.blob())
    assert (outcome.status, outcome.phase) == ("exception", "backward")
    assert observed(outcome) == {"output r0": [2, 2]}


def test_a_gradient_of_another_shape_begins_no_backward(worker: WorkerClient) -> None:
    builder = ProgramBuilder("mul")
    y = builder.call("mul", builder.tensor("x", np.ones(2, F32), requires_grad=True), 2.0)
    builder.output(y)
    builder.backward(y, np.ones(3, F32))
    (outcome,) = worker.run(builder.blob())
    assert (outcome.status, outcome.phase) == ("ok", "forward")  # bot/targets/outcome.py, `phase`
    assert observed(outcome) == {"output r0": [2, 2]}


def test_backward_from_two_outputs_adds_up(worker: WorkerClient) -> None:
    builder = ProgramBuilder("mul")
    x = builder.tensor("x", np.array([1, 2], F32), requires_grad=True)
    for factor in (2.0, 3.0):
        y = builder.call("mul", x, factor)
        builder.output(y)
        builder.backward(y, np.array([1, 10], F32))
    (outcome,) = worker.run(builder.blob())
    assert observed(outcome)["gradient x"] == [5, 50]
