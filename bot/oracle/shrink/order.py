"""The total order over programs that shrinking descends: what a reader has to take in, the worst first.

Calls; gradients asked for; elements; dimensions; arguments; layouts that are not plain; dtypes that are not float32; how hard the
arguments and the elements are to read; and last the blob itself, so that no two programs are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from bot.programs.builder import contiguous_strides
from bot.programs.draft import Draft, elements
from bot.programs.program import ProgramError, TensorSpec, Value

Array = npt.NDArray[Any]
Order = tuple[int, int, int, int, int, int, int, int, int, bytes]

MAX_READ: Final = 4096  # elements whose values are looked at; nobody reads more
HARD: Final = 12  # how hard a number is to read of which nothing is known
_DTYPES: Final = (
    "float32",
    "float64",
    "int64",
    "bool",
    "complex64",
    "int32",
    "float16",
    "bfloat16",
    "complex128",
)


def order_of(blob: bytes) -> Order:
    """A program's place in the order. Raises ProgramError for a blob that is no program."""
    draft = Draft(blob)
    used = [draft.tensors[name] for name in draft.tensors if name in draft.used()]
    hidden = {entry.gradient for entry in draft.backward}
    read = [spec for spec in used if spec.name not in hidden]
    arguments = [v for call in draft.calls for v in [*call.args, *call.kwargs.values()]]
    return (
        len(draft.calls),
        len(draft.backward) + sum(spec.requires_grad for spec in used) + len(draft.outputs),
        sum(_size(spec) for spec in read),
        sum(len(spec.shape) for spec in read),
        sum(value is not None for value in arguments) + sum(len(call.args) for call in draft.calls),
        sum(_oddities(spec, draft) for spec in read),
        sum(_rank(spec.dtype) for spec in used),
        sum(hardness(number) for value in arguments for number in numbers_in(value)),
        sum(_tensor_hardness(spec.name, draft) for spec in used),
        blob,
    )


def hardness(value: float | complex | None) -> int:
    """How hard a number is to read: 0, 1, -1, single digits, short decimals, the rest by its length."""
    if value is None or isinstance(value, str):
        return 1
    if isinstance(value, complex):
        return 1 + hardness(value.real) + hardness(value.imag)
    if not math.isfinite(value):
        return 5
    if value == 0:
        return 0 if math.copysign(1.0, value) > 0 else 4
    if abs(value) == 1:
        return 1 if value > 0 else 2
    if value == int(value) and abs(value) < 10:
        return 3
    return min(3 + len(f"{value:.9g}"), HARD + 4)


def numbers_in(value: Value) -> Iterator[float | complex]:
    """The plain numbers within an argument, references left out."""
    if isinstance(value, bool):
        yield int(value)
    elif isinstance(value, int | float):
        yield value
    elif isinstance(value, list):
        for item in cast("list[Value]", value):
            yield from numbers_in(item)
    elif isinstance(value, dict):
        entry = cast("dict[str, Any]", value)
        for key in ("tuple", "size", "slice"):
            if key in entry:
                yield from numbers_in(entry[key])
        if "float" in entry:
            yield float(entry["float"])


def is_plain(spec: TensorSpec) -> bool:
    """Whether a tensor is contiguous, from the start of its storage, with no lazy bit."""
    return (
        spec.strides == contiguous_strides(spec.shape)
        and spec.offset == 0
        and not spec.conj
        and not spec.neg
    )


def _size(spec: TensorSpec) -> int:
    """Its elements and itself. One without any is harder to think of than one with one."""
    return (elements(spec) or 2) + 1


def _oddities(spec: TensorSpec, draft: Draft) -> int:
    return int(not is_plain(spec)) + int(draft.shares_storage(spec.name))


def _rank(dtype: str) -> int:
    return _DTYPES.index(dtype) if dtype in _DTYPES else len(_DTYPES)


def _tensor_hardness(name: str, draft: Draft) -> int:
    size = elements(draft.tensors[name])
    if size > MAX_READ:
        return HARD * size
    try:
        array = draft.array(name)
    except ProgramError:
        return HARD * size
    if array.dtype.kind == "b":
        return int(array.sum())
    wide: Array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return sum(hardness(value) for value in wide.ravel().tolist())
