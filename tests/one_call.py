"""Programs of one call, run by a framework's own worker: what the tests of frameworks have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from worker_client import WorkerClient

from bot.programs.builder import ProgramBuilder
from bot.targets.environment import Environment
from bot.targets.op_mapping import load_op_mapping
from bot.targets.outcome import Outcome


def start(environment: Environment, **hello: object) -> WorkerClient:
    """A worker of this environment, with its framework's own op mapping."""
    variables = {}
    if environment.library_paths:
        variables["LD_LIBRARY_PATH"] = ":".join(map(str, environment.library_paths))
    mapping = load_op_mapping(environment.framework).message()
    fields = {"framework": environment.framework, "mapping": mapping, **hello}
    return WorkerClient(fields, python=environment.python, environment=variables)


def program(fn: str, *args: Any, gradient: Any = None, seed: int = 0, **kwargs: Any) -> bytes:
    """One call, whose arrays are the inputs ``x0``, ``x1``, ...

    With ``gradient`` every float array is a leaf, and the result ``r`` gets that gradient, in the first array's dtype.
    """
    builder = ProgramBuilder(fn, seed=seed)
    dtypes = [value.dtype for value in args if isinstance(value, np.ndarray)]
    tensors = [
        builder.tensor(
            f"x{number}", value, requires_grad=gradient is not None and value.dtype.kind == "f"
        )
        if isinstance(value, np.ndarray)
        else value
        for number, value in enumerate(args)
    ]
    result = builder.call(fn, *tensors, result=None if gradient is None else "r", **kwargs)
    builder.output(result)
    if gradient is not None:
        builder.backward(result, np.array(gradient, dtypes[0]))
    return builder.blob()


def run(worker: WorkerClient, fn: str, *args: Any, **kwargs: Any) -> Outcome:
    """What a worker makes of a program of one call."""
    (outcome,) = worker.run(program(fn, *args, **kwargs))
    return outcome


def arrays(outcome: Outcome) -> dict[str, np.ndarray]:
    """All tensors of an outcome that must be there, by role and name."""
    assert outcome.status == "ok", outcome
    return {f"{tensor.role} {tensor.name}": tensor.array for tensor in outcome.tensors}


def results(outcome: Outcome) -> list[np.ndarray]:
    """The outputs of an outcome that must have some."""
    assert outcome.status == "ok", outcome
    return [tensor.array for tensor in outcome.tensors if tensor.role == "output"]


def result(outcome: Outcome) -> np.ndarray:
    """The only output."""
    (array,) = results(outcome)
    return array


def reason(outcome: Outcome) -> str:
    """Why a program is unsupported, which it must be."""
    assert outcome.status == "unsupported", outcome
    assert outcome.error is not None
    return outcome.error.message
