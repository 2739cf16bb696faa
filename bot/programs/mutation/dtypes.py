"""The mutator of dtypes: all tensors of a kind together, one alone (promotion), and dtype arguments that name them."""

from __future__ import annotations

from random import Random
from typing import Final, cast

import numpy as np

from bot.programs.draft import Draft
from bot.programs.mutation.gradients import leave_gradients
from bot.programs.mutation.known import Known, put, slots
from bot.programs.mutation.values import value_tensors

FLOATING: Final = ("float16", "bfloat16", "float32", "float64")
INTEGRAL: Final = ("uint8", "int8", "int16", "int32", "int64")
INDICES: Final = ("int64", "int32")
COMPLEX: Final = ("complex64", "complex128")
ALL: Final = (*FLOATING, *INTEGRAL, "bool", *COMPLEX)


def mutate_dtypes(draft: Draft, known: Known, random: Random) -> str | None:
    """Change the dtype of tensors. Returns what was done, None where nothing fits."""
    tensors = value_tensors(draft)
    if not tensors:
        return None
    spec = random.choice(tensors)
    state = any(spec.name in names.values() for names in draft.state.values())
    together = len(tensors) == 1 or state or random.random() < 0.75
    dtype = _other(spec.dtype, known, together, random)
    if dtype is None or (state and not holds_gradients(dtype)):
        return None
    chosen = [other for other in tensors if other.dtype == spec.dtype] if together else [spec]
    old = spec.dtype
    for each in chosen:
        array = draft.array(each.name)
        if array.dtype.kind == "c" and not dtype.startswith("complex"):
            array = np.real(array)
        draft.put(each.name, array, dtype, strides=each.strides, offset=each.offset)
    if together:
        for slot in slots(draft, known.signatures):
            if cast("object", slot.value) == {"dtype": old}:
                put(draft, slot, {"dtype": dtype})
    leave_gradients(draft)
    return f"dtypes/{'all' if together else spec.name}/{dtype}"


def holds_gradients(dtype: str) -> bool:
    """Whether parameters of modules can be of this dtype."""
    return dtype in (*FLOATING, *COMPLEX)


def _other(dtype: str, known: Known, together: bool, random: Random) -> str | None:
    """Mostly what the op supports; alone mostly of the same kind, for indices stay indices."""
    if dtype in INDICES and known.indexed and random.random() < 0.9:
        return next(name for name in INDICES if name != dtype)
    kinds = next((kinds for kinds in (FLOATING, INTEGRAL, COMPLEX) if dtype in kinds), ALL)
    choices = kinds if random.random() < (0.5 if together else 0.7) else ALL
    if known.dtypes and (together or random.random() < 0.5) and random.random() < 0.9:
        choices = tuple(name for name in choices if name in known.dtypes)
    choices = tuple(name for name in choices if name != dtype)
    return random.choice(choices) if choices else None
