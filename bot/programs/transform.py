"""Programs made of programs: in another precision, without gradients. Pure functions from blob to blob."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from bot.programs.program import (
    ALIGNMENT,
    Program,
    ProgramError,
    Storage,
    TensorSpec,
    Value,
    decode,
    encode,
)

WIDER: Mapping[str, Mapping[str, str]] = {
    "float64": {
        "float16": "float64",
        "bfloat16": "float64",
        "float32": "float64",
        "complex32": "complex128",
        "complex64": "complex128",
    },
}
"""Target dtype -> which dtypes become which. Every float and complex number of these is exact in the wider dtype."""

_COMPONENT: Mapping[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "complex32": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "complex64": np.dtype(np.float32),
}
"""What a dtype's elements are made of: a complex number is two floats."""


def with_dtype(blob: bytes, dtype: str = "float64") -> bytes:
    """The same program in a wider precision: inputs, gradients, module state and dtype arguments.

    ``dtype`` is a key of :data:`WIDER`. Values are the same numbers, exactly; shapes, strides (in elements) and
    aliasing stay. A ``{"dtype": ..}`` argument changes where it names a dtype that the program's tensors had.
    Raises ProgramError when tensors of both widened and other dtypes share a storage, or the blob is no program.
    """
    mapping = WIDER.get(dtype)
    if mapping is None:
        raise ProgramError(f"no program can be written in {dtype!r}; known is {', '.join(WIDER)}")
    program, data = decode(blob)
    parts: list[bytes] = []
    for index, storage in enumerate(program.storages):
        raw = bytes(data[storage.offset : storage.offset + storage.nbytes])
        users = {tensor.dtype for tensor in program.tensors if tensor.storage == index}
        parts.append(_widen(raw, users, mapping, index))
    tensors = [
        tensor.model_copy(update={"dtype": mapping.get(tensor.dtype, tensor.dtype)})
        for tensor in program.tensors
    ]
    present = {tensor.dtype for tensor in program.tensors}
    renamed = {old: new for old, new in mapping.items() if old in present}
    calls = [
        call.model_copy(
            update={
                "args": [_rename(value, renamed) for value in call.args],
                "kwargs": {key: _rename(value, renamed) for key, value in call.kwargs.items()},
            }
        )
        for call in program.calls
    ]
    return _rebuilt(program.model_copy(update={"calls": calls}), tensors, parts)


def without_gradients(blob: bytes) -> bytes:
    """The same program without its backward part: no gradients, no leaf that requires one.

    Raises ProgramError when the blob is no program.
    """
    program, data = decode(blob)
    gradients = {entry.gradient for entry in program.backward}
    kept = [tensor for tensor in program.tensors if tensor.name not in gradients]
    used = sorted({tensor.storage for tensor in kept})
    place = {old: new for new, old in enumerate(used)}
    tensors = [
        tensor.model_copy(update={"storage": place[tensor.storage], "requires_grad": False})
        for tensor in kept
    ]
    storages = [program.storages[index] for index in used]
    parts = [bytes(data[s.offset : s.offset + s.nbytes]) for s in storages]
    return _rebuilt(program.model_copy(update={"backward": []}), tensors, parts)


def _rebuilt(program: Program, tensors: list[TensorSpec], parts: Iterable[bytes]) -> bytes:
    storages: list[Storage] = []
    data = bytearray()
    for part in parts:
        data.extend(bytes(-len(data) % ALIGNMENT))
        storages.append(Storage(offset=len(data), nbytes=len(part)))
        data.extend(part)
    return encode(
        program.model_copy(update={"tensors": tensors, "storages": storages}), bytes(data)
    )


def _widen(raw: bytes, users: set[str], mapping: Mapping[str, str], index: int) -> bytes:
    """A storage's bytes with every number in the wider dtype; as they are when nobody's dtype changes."""
    changing = users & set(mapping)
    if not changing:
        return raw
    components = {_COMPONENT[name] for name in changing}
    if changing != users or len(components) > 1:
        shared = ", ".join(sorted(users))
        raise ProgramError(
            f"storage {index} is shared by tensors of {shared}: it cannot be widened as a whole"
        )
    (component,) = components
    usable = len(raw) - len(raw) % component.itemsize
    narrow: npt.NDArray[Any] = np.frombuffer(raw[:usable], component)
    return narrow.astype(np.float64).tobytes()


def _rename(value: Value, renamed: Mapping[str, str]) -> Value:
    if isinstance(value, list):
        return [_rename(item, renamed) for item in cast("list[Value]", value)]
    if not isinstance(value, dict):
        return value
    entry = cast("dict[str, Value]", value)
    if set(entry) == {"dtype"}:
        return {"dtype": renamed.get(entry["dtype"], entry["dtype"])}
    return {key: _rename(item, renamed) for key, item in entry.items()}
