"""What a worker may rely on when it is given a program: names, references and byte ranges that add up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from typing import Any, cast

from bot.programs.program import ALIGNMENT, FORMAT_VERSION, Program, ProgramError, TensorSpec, Value

ITEM_BYTES: dict[str, int] = {
    "bool": 1, "int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4,
    "float32": 4, "complex32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""Canonical dtype name -> bytes per element."""

MAX_DEPTH = 16
MAX_RANK = 256  # error inputs have some more than the 64 that NumPy and PyTorch can reduce
MAX_TENSOR_BYTES = 1 << 30
"""The most that a tensor's elements may take when each is written out: a stride of 0 makes any number of them."""

NEGATABLE = frozenset("float16 bfloat16 float32 float64 complex32 complex64 complex128".split())
"""The dtypes that can have a neg bit; those with a conj bit are the complex ones."""


def check_program(program: Program, data_bytes: int) -> None:
    """Raise ProgramError unless every storage, tensor and reference of the program adds up."""
    if program.version != FORMAT_VERSION:
        raise ProgramError(
            f"program format {program.version} is not the one read here ({FORMAT_VERSION})"
        )
    for storage in program.storages:
        if storage.offset % ALIGNMENT or storage.offset + storage.nbytes > data_bytes:
            raise ProgramError(f"a storage at {storage.offset} is misaligned or outside the data")
    known: set[str] = set()
    for tensor in program.tensors:
        _check_tensor(tensor, program)
        _define(tensor.name, known)
    tensors = frozenset(known)
    for call in program.calls:
        for reference in references([*call.args, *call.kwargs.values()]):
            _require(reference, known, call.fn)
        _define(call.result, known)
    for output in program.outputs:
        for reference in references([output]):
            _require(reference, known, "outputs")
    for entry in program.backward:
        for reference in references([entry.output]):
            _require(reference, known, "backward")
        if entry.gradient is not None:
            _require(entry.gradient, tensors, "backward's gradient")
    for module, names in program.state.items():
        _require(module, known - tensors, "state")
        for tensor in names.values():
            _require(tensor, tensors, "state")


def references(values: list[Value], depth: int = 0) -> Iterator[str]:
    """Every name that a ``{"ref": ..}`` within the values points to.

    Raises ProgramError when they are nested too deep, or hold a number that JSON does not have.
    """
    if depth > MAX_DEPTH:
        raise ProgramError(f"values nested more than {MAX_DEPTH} deep")
    for value in values:
        if isinstance(value, list):
            yield from references(cast("list[Value]", value), depth + 1)
        elif isinstance(value, dict):
            entry = cast("dict[str, Any]", value)
            if "ref" in entry:
                yield str(entry["ref"])
            for inner in entry.values():
                nested = cast("list[Value]", inner) if isinstance(inner, list) else [inner]
                yield from references(nested, depth + 1)
        elif isinstance(value, float) and not math.isfinite(value):
            raise ProgramError(f"{value} is no number of JSON: it is written as text")


def _define(name: str, known: set[str]) -> None:
    if name in known:
        raise ProgramError(f"the name {name!r} is defined twice")
    known.add(name)


def _require(name: str, known: Set[str], where: str) -> None:
    if name not in known:
        raise ProgramError(
            f"{where} refers to {name!r}, which is not there, or not defined before it"
        )


def _check_tensor(tensor: TensorSpec, program: Program) -> None:
    size = ITEM_BYTES.get(tensor.dtype)
    if size is None:
        raise ProgramError(f"tensor {tensor.name!r} has the unknown dtype {tensor.dtype!r}")
    if not 0 <= tensor.storage < len(program.storages):
        raise ProgramError(f"tensor {tensor.name!r} names a storage that is not there")
    _check_layout(tensor, size, program.storages[tensor.storage].nbytes)
    conjugated = tensor.conj and not tensor.dtype.startswith("complex")
    if conjugated or (tensor.neg and tensor.dtype not in NEGATABLE):
        raise ProgramError(f"tensor {tensor.name!r} has a bit that {tensor.dtype} cannot have")


def _check_layout(tensor: TensorSpec, size: int, nbytes: int) -> None:
    """``size`` is one element's, ``nbytes`` the storage's."""
    if len(tensor.shape) != len(tensor.strides) or tensor.offset < 0:
        raise ProgramError(f"tensor {tensor.name!r} has strides that do not fit its shape")
    if any(length < 0 for length in tensor.shape) or any(stride < 0 for stride in tensor.strides):
        raise ProgramError(f"tensor {tensor.name!r} has a negative size or stride")
    # A length of 0 counts as 1: NumPy bounds the product of the others all the same.
    elements = math.prod(max(length, 1) for length in tensor.shape)
    if len(tensor.shape) > MAX_RANK or elements * size > MAX_TENSOR_BYTES:
        raise ProgramError(f"tensor {tensor.name!r} has more elements or dimensions than are read")
    if 0 in tensor.shape:
        return
    last = tensor.offset + sum(
        (n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True)
    )
    if (last + 1) * size > nbytes:
        raise ProgramError(f"tensor {tensor.name!r} reaches outside its storage")
