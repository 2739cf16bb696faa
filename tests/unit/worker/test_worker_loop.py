"""The worker's loop and executor in a real process, over a framework of NumPy alone."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from worker_client import WorkerClient

from bot.programs.builder import ProgramBuilder, member
from bot.programs.program import split
from bot.worker.protocol import ProtocolError, encode_header

FAKE = Path(__file__).with_name("fake_framework.py")


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerClient]:
    with WorkerClient({"framework": "fake"}, script=FAKE) as client:
        yield client


def fresh() -> WorkerClient:
    return WorkerClient({"framework": "fake"}, script=FAKE)


def one_call(fn: str, *args: object, seed: int = 0, **kwargs: object) -> bytes:
    builder = ProgramBuilder(fn, seed=seed)
    tensors = [
        builder.tensor(f"x{number}", value) if isinstance(value, np.ndarray) else value
        for number, value in enumerate(args)
    ]
    builder.output(builder.call(fn, *tensors, result=None, **kwargs))
    return builder.blob()


def observed(outcome) -> dict[str, list]:
    return {f"{t.role} {t.name}{list(t.path)}": t.array.tolist() for t in outcome.tensors}


X = np.array([1.0, 2.0], np.float32)
Y = np.array([10.0, 20.0], np.float32)


def test_ready_says_what_it_is(worker: WorkerClient) -> None:
    assert worker.ready["type"] == "ready"
    assert worker.ready["framework"] == "fake"
    assert worker.ready["names"] == 14


def test_outputs_and_gradients_of_a_product(worker: WorkerClient) -> None:
    builder = ProgramBuilder("mul")
    x = builder.tensor("x", X, requires_grad=True)
    y = builder.tensor("y", Y, requires_grad=True)
    z = builder.tensor("z", Y, requires_grad=True)
    product = builder.call("mul", x, y)
    builder.output(product)
    builder.backward(product, np.array([1.0, 3.0], np.float32))
    del z
    (outcome,) = worker.run(builder.blob())
    assert outcome.status == "ok"
    assert outcome.phase == "backward"
    assert observed(outcome) == {
        "output r0[]": [10.0, 40.0],
        "gradient x[]": [10.0, 60.0],
        "gradient y[]": [1.0, 6.0],
    }
    assert outcome.absent == ("z",)


def test_every_result_is_observed_once(worker: WorkerClient) -> None:
    builder = ProgramBuilder("add")
    x = builder.tensor("x", X)
    same = builder.call("identity", x)
    total = builder.call("add", same, x)
    again = builder.call("identity", total)
    pair = builder.call("minmax", again)
    builder.output(member(pair, 1))
    (outcome,) = worker.run(builder.blob())
    assert observed(outcome) == {
        "intermediate r1[]": [2.0, 4.0],
        "intermediate r3[0]": 2.0,
        "output r3[1]": 4.0,
    }


def test_side_effects_on_inputs_and_their_aliases(worker: WorkerClient) -> None:
    builder = ProgramBuilder("Tensor.add_")
    x = builder.tensor("x", np.arange(6, dtype=np.float32).reshape(2, 3))
    builder.view("column", "x", [2], [3], offset=1)
    builder.tensor("bystander", X)
    builder.output(builder.call("Tensor.add_", x, 1.0))
    (outcome,) = worker.run(builder.blob())
    assert observed(outcome) == {
        "output r0[]": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        "side-effect x[]": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        "side-effect column[]": [2.0, 5.0],
    }


def test_modules_are_loaded_and_what_changes_is_said(worker: WorkerClient) -> None:
    builder = ProgramBuilder("nn.Doubler")
    module = builder.module("nn.Doubler", 2, state={"weight": np.array([3.0, 5.0], np.float32)})
    result = builder.call("nn.Module.__call__", module, builder.tensor("x", X))
    builder.output(result)
    builder.backward(result, np.ones(2, np.float32))
    (outcome,) = worker.run(builder.blob())
    assert observed(outcome) == {
        "output r1[]": [3.0, 10.0],
        "gradient r0.weight[]": [1.0, 2.0],
        "buffer r0.count[]": 1,
    }


def test_an_exception_is_an_outcome_without_addresses(worker: WorkerClient) -> None:
    builder = ProgramBuilder("fail")
    builder.call("add", builder.tensor("x", X), {"ref": "x"})
    builder.output(builder.call("fail", "no luck"))
    (outcome,) = worker.run(builder.blob())
    assert (outcome.status, outcome.phase, outcome.call) == ("exception", "forward", 1)
    assert outcome.error is not None
    assert outcome.error.type == "ValueError"
    assert outcome.error.message == "no luck at 0x0, id=0"
    assert observed(outcome) == {"intermediate r0[]": [2.0, 4.0]}


def test_long_messages_are_cut_at_2000_characters(worker: WorkerClient) -> None:
    (outcome,) = worker.run(one_call("fail", "x" * 5000))
    assert outcome.error is not None
    assert len(outcome.error.message) == 2000


@pytest.mark.parametrize("fn", ["os.system", "load", "Tensor.__class__", "add.__globals__", ""])
def test_what_is_not_in_the_table_is_refused(worker: WorkerClient, fn: str) -> None:
    (outcome,) = worker.run(one_call(fn, "echo hi"))
    assert outcome.status == "refused"
    assert outcome.call == 0


def test_a_function_as_argument_comes_from_the_table_too(worker: WorkerClient) -> None:
    good = one_call("apply", {"fn": "identity"}, 3)
    bad = one_call("apply", {"fn": "os.system"}, "echo hi")
    first, second = worker.run(good, bad)
    assert first.values == (("output", "r0", (), 3),)
    assert second.status == "refused"


def test_missing_ops_and_dtypes_are_coverage(worker: WorkerClient) -> None:
    missing, dtype = worker.run(
        one_call("only_elsewhere"), one_call("identity", X.astype(ml_dtypes.bfloat16))
    )
    assert (missing.status, missing.phase) == ("unsupported", "forward")
    assert (dtype.status, dtype.phase) == ("unsupported", "build")


def test_values_come_back_in_the_grammar(worker: WorkerClient) -> None:
    value = (1, [2.5, None, float("nan")], "text", True, -0.0, 1 + 2j)
    (outcome,) = worker.run(one_call("identity", value))
    assert [(path, value) for _, _, path, value in outcome.values] == [
        ((0,), 1),
        ((1, 0), 2.5),
        ((1, 1), None),
        ((1, 2), {"float": "nan"}),
        ((2,), "text"),
        ((3,), True),
        ((4,), {"float": "-0.0"}),
        ((5,), {"complex": [1.0, 2.0]}),
    ]


def test_the_seed_alone_decides_what_is_drawn(worker: WorkerClient) -> None:
    mess = one_call("leave_mess", X)
    drawn = one_call("draw", seed=7)
    first, _, second, other = worker.raw([drawn, mess, drawn, one_call("draw", seed=8)])
    assert first[1] == second[1]
    assert first[1] != other[1]


def test_headers_are_canonical(worker: WorkerClient) -> None:
    programs = [
        one_call("add", X, Y),
        one_call("fail", 'a "quoted"\nline \u00e9'),
        one_call("identity", [1, 2.5]),
        one_call("os.system"),
    ]
    for header, _ in worker.raw(programs):
        assert header == encode_header(json.loads(header))


def test_prints_do_not_reach_the_frames(worker: WorkerClient) -> None:
    first, second = worker.run(one_call("shout"), one_call("add", X, Y))
    assert first.values == (("output", "r0", (), "quiet"),)
    assert second.status == "ok"


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\xff\xff\xff\xff{}",
        b"\x02\x00\x00\x00[]",
        b"\x05\x00\x00\x00nope!",
        b"\x02\x00\x00\x00{}",
    ],
)
def test_a_broken_program_is_refused_and_the_loop_goes_on(
    worker: WorkerClient, blob: bytes
) -> None:
    broken, next_one = worker.run(blob, one_call("add", X, Y))
    assert broken.status == "refused"
    assert observed(next_one) == {"output r0[]": [11.0, 22.0]}


def test_references_that_lead_nowhere_are_refused(worker: WorkerClient) -> None:
    text, data = split(one_call("add", X, Y))
    program = json.loads(text)
    program["calls"][0]["args"][0] = {"ref": "nobody"}
    changed = json.dumps(program).encode()
    head = len(changed).to_bytes(4, "little") + changed
    (outcome,) = worker.run(head + b"\0" * (-len(head) % 64) + bytes(data))
    assert outcome.status == "refused"
    assert outcome.error is not None
    assert "nobody" in outcome.error.message


def test_a_tensor_outside_the_data_is_refused(worker: WorkerClient) -> None:
    blob = one_call("add", X, Y)
    (outcome,) = worker.run(blob[:-8])
    assert outcome.status == "refused"


def test_names_are_the_table(worker: WorkerClient) -> None:
    worker.send({"type": "names"})
    names = worker.receive()["names"]
    assert "add" in names
    assert names == sorted(names)


def test_outcomes_before_a_death_are_already_out() -> None:
    with fresh() as worker:
        blobs = [one_call("add", X, Y), one_call("die"), one_call("add", X, Y)]
        programs = [[number, len(blob)] for number, blob in enumerate(blobs)]
        worker.send({"type": "batch", "programs": programs}, *blobs)
        first = worker.receive()
        assert (first["id"], first["status"]) == (0, "ok")
        with pytest.raises((EOFError, ProtocolError)):
            worker.receive()
        assert worker.process.wait(30) == -signal.SIGABRT


@pytest.mark.parametrize("kind", ["trace", "gossip"])
def test_a_message_that_it_cannot_answer_ends_it_in_one_line(kind: str) -> None:
    with fresh() as worker:
        worker.send({"type": kind})
        assert worker.receive()["type"] == "failed"
        assert worker.process.wait(30) == 1


def test_stop_and_the_end_of_input_end_it_well() -> None:
    with fresh() as worker:
        assert worker.stop() == 0
    with fresh() as worker:
        worker._sink.close()
        assert worker.process.wait(30) == 0


def test_an_unknown_framework_fails_in_one_line() -> None:
    with WorkerClient({"framework": "nothing"}) as worker:
        assert worker.ready["type"] == "failed"
        assert "no framework 'nothing'" in worker.ready["reason"]
        assert worker.process.wait(30) == 1


def test_a_framework_that_is_not_installed_fails_in_one_line() -> None:
    with WorkerClient({"framework": "oneflow"}) as worker:
        assert worker.ready["type"] == "failed"
        assert "No module named 'oneflow'" in worker.ready["reason"]
        assert "\n" not in worker.ready["reason"]


def test_any_error_in_reading_a_program_is_refused_and_the_loop_goes_on(
    worker: WorkerClient,
) -> None:
    bad = one_call("identity", {"generator": "impossible"})
    refused, next_one = worker.run(bad, one_call("add", X, Y))
    assert refused.status == "refused"
    assert next_one.status == "ok"


def test_an_error_that_leaves_nothing_to_run_on_is_a_death() -> None:
    with fresh() as worker:
        blob = one_call("fail", "device lost")
        worker.send({"type": "batch", "programs": [[0, len(blob)]]}, blob)
        with pytest.raises((EOFError, ProtocolError)):
            worker.receive()
        assert worker.process.wait(30) == -signal.SIGABRT


def test_more_results_than_a_frame_holds_are_coverage(worker: WorkerClient) -> None:
    few, many = worker.run(one_call("identity", [1] * 10_000), one_call("identity", [1] * 10_001))
    assert len(few.values) == 10_000
    assert few.status == "ok"
    assert many.status == "unsupported"
    assert many.error is not None
    assert "10000 plain values" in many.error.message
