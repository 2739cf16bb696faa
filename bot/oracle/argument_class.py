"""The class of a program's arguments, never their values: what a fingerprint may hold of them; and its size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bot.oracle.difference import is_floating, parts, widened
from bot.oracle.initial import InitialTensors
from bot.programs.builder import contiguous_strides
from bot.programs.program import Program, TensorSpec, decode

SMALL_ELEMENTS = 1024  # up to here a tensor counts as small

Order = tuple[int, int, int, str]
"""(calls, input elements, blob bytes, digest): the order in which programs are small."""


@dataclass(frozen=True)
class ProgramFacts:
    """What grouping and fingerprints need to know of a program, so that its bytes need not be kept."""

    order: Order
    argument_class: dict[str, Any]
    first_leaves: frozenset[str]  # gradients' names that belong to the op's first tensor argument
    known_to_suite: str | None


def facts_of(blob: bytes, digest: str) -> ProgramFacts:
    """Read a program's facts. Raises ProgramError."""
    program, data = decode(blob)
    elements = sum(math.prod(spec.shape) for spec in program.inputs())
    return ProgramFacts(
        order=(len(program.calls), elements, len(blob), digest),
        argument_class=argument_class(program, InitialTensors(program, data)),
        first_leaves=frozenset(_first_tensor(program)),
        known_to_suite=program.origin.known,
    )


def argument_class(program: Program, initial: InitialTensors) -> dict[str, Any]:
    """dtype classes, layouts, size classes, special values and the options set, each sorted and without repeats."""
    inputs = program.inputs()
    return {
        "dtypes": sorted({dtype_class(spec.dtype) for spec in inputs}),
        "layouts": sorted({_layout(spec) for spec in inputs}),
        "sizes": sorted({_size_class(spec) for spec in inputs}),
        "special": sorted({name for spec in inputs for name in _special(spec, initial)}),
        "options": sorted({key for call in program.calls for key in call.kwargs}),
        "error_input": program.origin.kind == "error",
    }


def dtype_class(dtype: str) -> str:
    """``half``, ``float``, ``complex``, ``integer`` or ``bool``."""
    if dtype in ("float16", "bfloat16") or dtype.startswith("float8"):
        return "half"
    for prefix in ("float", "complex", "bool"):
        if dtype.startswith(prefix):
            return prefix
    return "integer"


def _layout(spec: TensorSpec) -> str:
    if spec.conj or spec.neg:
        return "lazy"
    if any(stride == 0 and size > 1 for stride, size in zip(spec.strides, spec.shape, strict=True)):
        return "expanded"
    if 0 in spec.shape:
        return "contiguous"
    expected = contiguous_strides(spec.shape)
    same = all(
        size == 1 or stride == wanted
        for size, stride, wanted in zip(spec.shape, spec.strides, expected, strict=True)
    )
    return "contiguous" if same else "strided"


def _size_class(spec: TensorSpec) -> str:
    elements = math.prod(spec.shape)
    if elements == 0:
        return "empty"
    if not spec.shape:
        return "scalar"
    return "small" if elements <= SMALL_ELEMENTS else "large"


def _special(spec: TensorSpec, initial: InitialTensors) -> list[str]:
    array = initial.array(spec.name)
    if array is None or not is_floating(spec.dtype):
        return []
    found: list[str] = []
    for part in parts(array, spec.dtype):
        values = widened(part)
        if np.isnan(values).any():
            found.append("nan")
        if np.isinf(values).any():
            found.append("inf")
    return found


def _first_tensor(program: Program) -> list[str]:
    """The first tensor among the arguments of the calls: of the op itself, not of a module's constructor."""
    names = {spec.name for spec in program.tensors}
    for call in program.calls:
        for value in [*call.args, *call.kwargs.values()]:
            found = _tensors_in(value, names)
            if found:
                return found
    return []


def _tensors_in(value: Any, names: set[str]) -> list[str]:
    if isinstance(value, list):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return [name for item in items for name in _tensors_in(item, names)]
    if isinstance(value, dict):
        if value.get("ref") in names:  # pyright: ignore[reportUnknownMemberType]
            return [str(value["ref"])]  # pyright: ignore[reportUnknownArgumentType]
        inner: Any = value.get("tuple", [])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return _tensors_in(inner, names)
    return []
