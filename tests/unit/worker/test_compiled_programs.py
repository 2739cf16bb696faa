"""Programs whose calls run as one compiled function, in a real worker over a framework of NumPy alone."""

from __future__ import annotations

import numpy as np
from test_worker_loop import FAKE, X, Y, observed, one_call
from worker_client import WorkerClient

from bot.programs.builder import ProgramBuilder
from bot.worker.protocol import RETIREMENT, read_raw_frame


def compiling(how: str = "", **hello: object) -> WorkerClient:
    return WorkerClient({"framework": "fake", "options": {"compile": how}, **hello}, script=FAKE)


def chain() -> bytes:
    """(x * y + x), with its gradient at 1: y + 1 and x."""
    builder = ProgramBuilder("mul")
    x = builder.tensor("x", X, requires_grad=True)
    y = builder.tensor("y", Y, requires_grad=True)
    product = builder.call("mul", x, y)
    total = builder.call("add", product, x)
    builder.output(total)
    builder.backward(total, np.ones(2, np.float32))
    return builder.blob()


def test_outputs_intermediates_and_gradients_are_those_of_the_calls() -> None:
    with compiling() as worker:
        (outcome,) = worker.run(chain())
    assert observed(outcome) == {
        "intermediate r0[]": [10.0, 40.0],
        "output r1[]": [11.0, 42.0],
        "gradient x[]": [11.0, 21.0],
        "gradient y[]": [1.0, 2.0],
    }


def test_a_wrong_compiler_gives_a_wrong_outcome() -> None:
    with compiling("wrong") as worker:
        (outcome,) = worker.run(chain())
    assert observed(outcome)["intermediate r0[]"] == [11.0, 41.0]


def test_what_a_later_call_writes_to_is_not_shown_as_an_intermediate() -> None:
    """Nobody can see any more what it was: r0 is 5 more than it was when it was made."""
    builder = ProgramBuilder("Tensor.add_")
    x, y = builder.tensor("x", X), builder.tensor("y", Y)
    product = builder.call("mul", x, y)
    builder.call("Tensor.add_", product, 5.0)
    builder.output(builder.call("add", product, x))
    with compiling() as worker:
        (outcome,) = worker.run(builder.blob())
    assert observed(outcome) == {"intermediate r1[]": [15.0, 45.0], "output r2[]": [16.0, 47.0]}


def test_a_module_is_made_first_and_its_state_seen_after() -> None:
    builder = ProgramBuilder("nn.Doubler")
    x = builder.tensor("x", X, requires_grad=True)
    module = builder.call("nn.Doubler", 2)
    result = builder.call("nn.Module.__call__", module, x)
    builder.output(result)
    builder.backward(result, np.ones(2, np.float32))
    with compiling() as worker:
        (outcome,) = worker.run(builder.blob())
    assert observed(outcome) == {
        "output r1[]": [2.0, 4.0],
        "gradient x[]": [2.0, 2.0],
        "gradient r0.weight[]": [1.0, 2.0],
        "buffer r0.count[]": 1,
    }


def test_an_exception_names_the_call_it_came_from() -> None:
    builder = ProgramBuilder("fail")
    x = builder.tensor("x", X)
    builder.call("add", x, x)
    builder.output(builder.call("fail", "broken"))
    with compiling() as worker:
        (outcome,) = worker.run(builder.blob())
    assert (outcome.status, outcome.phase, outcome.call) == ("exception", "forward", 1)
    assert outcome.error is not None
    assert outcome.error.type == "ValueError"


def test_what_compiles_too_long_is_unsupported_and_the_next_program_runs() -> None:
    with compiling("slow", compile_seconds=0.3) as worker:
        slow, next_one = worker.run(chain(), one_call("add", X, Y))
    assert slow.status == "unsupported"
    assert slow.error is not None
    assert slow.error.message == "compile took over 0.3 s"
    assert observed(next_one) == {"output r0[]": [11.0, 22.0]}


def test_an_op_outside_the_table_is_told_as_without_a_compiler() -> None:
    with compiling() as worker:
        elsewhere, nowhere = worker.run(one_call("only_elsewhere"), one_call("os.system"))
    assert (elsewhere.status, nowhere.status) == ("unsupported", "refused")


def test_a_worn_worker_says_so_after_its_outcome_and_ends() -> None:
    with compiling("worn") as worker:
        programs = [[number, len(chain())] for number in range(2)]
        worker.send({"type": "batch", "programs": programs}, chain(), chain())
        header, _ = read_raw_frame(worker._source)
        assert b'"id":0' in header
        assert read_raw_frame(worker._source)[0] == RETIREMENT
        assert worker.process.wait(10) == 0


def test_a_spoiled_worker_leaves_the_program_that_it_cannot_begin_to_another() -> None:
    with compiling("spoiled") as worker:
        programs = [[number, len(chain())] for number in range(2)]
        worker.send({"type": "batch", "programs": programs}, chain(), chain())
        header, _ = read_raw_frame(worker._source)
        assert b'"id":0' in header
        assert b'"status":"ok"' in header
        assert read_raw_frame(worker._source)[0] == RETIREMENT
        assert worker.process.wait(10) == 0
