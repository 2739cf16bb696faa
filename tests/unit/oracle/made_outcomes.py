"""Outcomes as a worker would send them, from arrays: for the oracle's tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bot.programs.builder import ProgramBuilder, dtype_name
from bot.programs.program import Origin, digest
from bot.programs.source import SourcedProgram
from bot.targets.outcome import Death, RawOutcome, dead
from bot.worker.protocol import encode_header

LABELS = ("oneflow==0.9.0:cpu", "torch==2.13.0:cpu")
FRAMEWORKS = ("oneflow", "torch")


def outcome(
    *tensors: tuple[str, str, Any],
    status: str = "ok",
    phase: str = "backward",
    call: int | None = None,
    error: tuple[str, str] | None = None,
    values: Sequence[tuple[str, str, list[int], Any]] = (),
    absent: Sequence[str] = (),
    id: int = 7,
) -> RawOutcome:
    """``tensors``: (role, name or name[i], array)."""
    rows: list[Any] = []
    payload = b""
    for role, name, values_of in tensors:
        array = np.asarray(values_of)
        base, *path = name.replace("]", "").split("[")
        rows.append(
            [role, base, [int(i) for i in path], dtype_name(array.dtype), list(array.shape)]
        )
        payload += np.ascontiguousarray(array).tobytes()
    header = {
        "type": "outcome",
        "id": id,
        "status": status,
        "phase": phase,
        "call": call,
        "error": None if error is None else {"type": error[0], "message": error[1]},
        "tensors": rows,
        "values": [list(value) for value in values],
        "absent": list(absent),
    }
    return RawOutcome(encode_header(header), payload)


def out(array: Any, dtype: Any = np.float32) -> RawOutcome:
    """An outcome with one output."""
    return outcome(("output", "r0", np.asarray(array, dtype)))


def raised(
    kind: str = "RuntimeError", message: str = "no", phase: str = "forward", call: int = 0
) -> RawOutcome:
    """An outcome that ended in an exception."""
    return outcome(status="exception", phase=phase, call=call, error=(kind, message))


def crashed(signal: str = "SIGABRT", words: str = "Check failed: x > 0") -> RawOutcome:
    """An outcome whose worker died."""
    return dead("crash", Death(signal, words, True))


def program(
    op: str = "exp",
    x: Any = (1.0, 2.0, 3.0),
    dtype: Any = np.float32,
    origin: Origin | None = None,
    seed: int = 0,
    kwargs: dict[str, Any] | None = None,
) -> SourcedProgram:
    """One call of ``op`` on one input x."""
    builder = ProgramBuilder(op, seed=seed, origin=origin)
    builder.tensor("x", np.asarray(x, dtype), requires_grad=np.dtype(dtype).kind in "fc")
    builder.output(builder.call(op, {"ref": "x"}, **(kwargs or {})))
    blob = builder.blob()
    return SourcedProgram(blob, digest(blob), op)
