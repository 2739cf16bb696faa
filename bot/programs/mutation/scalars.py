"""The mutator of scalars: a Python number where a tensor stood, and a tensor of no dimension where a number stood."""

from __future__ import annotations

from random import Random
from typing import Any, Final, cast

import numpy as np

from bot.programs.builder import to_value
from bot.programs.draft import Draft
from bot.programs.mutation.gradients import leave_gradients
from bot.programs.mutation.known import Known, Slot, is_tensor, put, slots

NUMBERS: Final[tuple[Any, ...]] = (
    2,
    0,
    1,
    -1,
    3,
    0.5,
    2.5,
    0.0,
    -0.0,
    1.0,
    True,
    float("nan"),
    float("inf"),
    1e10,
)
NUMBER_TYPES: Final = frozenset(("Scalar", "number", "float", "int", "Scalar?", "float?", "int?"))


def mutate_scalars(draft: Draft, known: Known, random: Random) -> str | None:
    """Swap a tensor for a number, or a number for a tensor, where the op is known to take one."""
    choices = [
        slot
        for slot in slots(draft, known.signatures, tensors=True)
        if _swappable(slot, draft, known)
    ]
    if not choices:
        return None
    slot = random.choice(choices)
    if is_tensor(slot.value):
        number = random.choice(NUMBERS)
        put(draft, slot, to_value(number))
        leave_gradients(draft)
        return f"scalars/{slot.name}/{number}"
    value = slot.value
    name = next(name for n in range(1000) if not _taken(draft, name := f"scalar{n}"))
    dtype = (
        "bool"
        if isinstance(value, bool)
        else "int64"
        if isinstance(value, int)
        else random.choice(("float32", "float64"))
    )
    draft.add(name, np.asarray(_plain(value)), dtype)
    put(draft, slot, {"ref": name})
    leave_gradients(draft)
    return f"scalars/{slot.name}/tensor"


def _taken(draft: Draft, name: str) -> bool:
    return name in draft.tensors or any(call.result == name for call in draft.calls)


def _plain(value: Any) -> Any:
    return float(cast("dict[str, str]", value)["float"]) if isinstance(value, dict) else value


def _swappable(slot: Slot, draft: Draft, known: Known) -> bool:
    """A tensor whose parameter has had a number, or a number whose parameter has had a tensor: seen, or by schema."""
    fn = draft.calls[slot.call].fn
    types = known.signatures.types(fn, slot.name)
    if is_tensor(slot.value):
        if cast("dict[str, Any]", slot.value).get("ref") not in draft.tensors or slot.name in (
            "self",
            "input",
        ):
            return False
        if slot.key == 0:
            return False
        return any(_is_number(value) for value in known.seen(fn, slot.name)) or bool(
            types & NUMBER_TYPES
        )
    if not _is_number(slot.value):
        return False
    return known.seen_tensor(fn, slot.name) or any(kind.startswith("Tensor") for kind in types)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, dict) and "float" in value)
