"""The mutator of sequences: a view before the op, an in-place op after it, the op twice, a module in its other mode.

A gradient of a gradient is not among them: a program's backward part says outputs and their gradients, once.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, cast

import numpy as np

from bot.programs.draft import Draft
from bot.programs.mutation.gradients import leave_gradients
from bot.programs.mutation.known import INCIDENTAL, Known, is_tensor
from bot.programs.program import Call, Value

MAX_CALLS: Final = 8
Step = Callable[[Draft, Random], str | None]


def mutate_sequences(draft: Draft, known: Known, random: Random) -> str | None:
    """Add a call to a program. Returns what was done, None where nothing fits."""
    if len(draft.calls) >= MAX_CALLS:
        return None
    label = random.choice(_STEPS)(draft, random)
    if label is not None:
        leave_gradients(draft)
    return None if label is None else f"sequences/{label}"


def _fresh(draft: Draft, prefix: str) -> str:
    taken = {*draft.tensors, *(call.result for call in draft.calls)}
    return next(name for n in range(len(taken) + 1) if (name := f"{prefix}{n}") not in taken)


def _main(draft: Draft) -> int | None:
    """The place of the last call that is not incidental."""
    places = [i for i, call in enumerate(draft.calls) if call.fn not in INCIDENTAL]
    return places[-1] if places else None


def _whole(value: Value) -> str | None:
    """The name that a plain reference has; None for a member of a result, or what is no reference."""
    entry = cast("dict[str, Any]", value) if is_tensor(value) else {}
    return entry.get("ref") if not entry.get("path") else None


def _view_first(draft: Draft, random: Random) -> str | None:
    """The op is given a transposed, sliced or expanded view of a tensor that lies otherwise; the values stay."""
    place = _main(draft)
    if place is None:
        return None
    call = draft.calls[place]
    names = [name for value in call.args if (name := _whole(value)) in draft.tensors and name]
    if not names:
        return None
    name = random.choice(names)
    array = draft.array(name)
    if not array.ndim:
        return None
    what = random.choice(("transpose", "slice", "expand"))
    view = _fresh(draft, "v")
    if what == "transpose" and array.ndim > 1:
        draft.put(name, np.swapaxes(array, -1, -2))
        made = Call(fn="transpose", args=[{"ref": name}, -1, -2], result=view)
    elif what == "expand" and array.shape[0] > 1:
        draft.put(name, array[:1])
        made = Call(
            fn="Tensor.expand",
            args=[{"ref": name}, *[int(n) for n in array.shape]],
            result=view,
        )
    else:
        draft.put(
            name,
            np.concatenate([array[:1], array])
            if array.shape[0]
            else np.zeros((1, *array.shape[1:]), array.dtype),
        )
        made = Call(
            fn="Tensor.__getitem__", args=[{"ref": name}, {"slice": [1, None, None]}], result=view
        )
        what = "slice"
    args = [{"ref": view} if _whole(value) == name else value for value in call.args]
    draft.calls[place : place + 1] = [made, call.model_copy(update={"args": args})]
    return f"view-{what}"


def _in_place_after(draft: Draft, random: Random) -> str | None:
    """An in-place op on what the op gave. Without gradients: whether it is allowed depends on what was saved for them."""
    if (
        len(draft.outputs) != 1
        or (name := _whole(draft.outputs[0])) is None
        or name in draft.tensors
    ):
        return None
    fn, number = random.choice((("Tensor.add_", 1), ("Tensor.mul_", 2)))
    places = [
        e.output for e in draft.backward if cast("dict[str, Any]", e.output).get("ref") == name
    ]
    result = (
        places[0] if places else {"ref": name}
    )  # a gradient's place tells which member is a tensor
    draft.calls.append(Call(fn=fn, args=[result, number], result=_fresh(draft, "m")))
    draft.drop_gradients()
    return "in-place-after"


def _in_place_on_input(draft: Draft, random: Random) -> str | None:
    """The input changes after the op has run: the output must not, unless it is a view of it."""
    names = [
        spec.name for spec in draft.inputs() if not spec.dtype.startswith(("int", "uint", "bool"))
    ]
    if not names or draft.state:
        return None
    draft.calls.append(
        Call(fn="Tensor.add_", args=[{"ref": random.choice(names)}, 1], result=_fresh(draft, "m"))
    )
    draft.drop_gradients()
    return "in-place-on-input"


def _twice(draft: Draft, random: Random) -> str | None:
    """The last call again: what it keeps between calls shows, and what it did to its inputs."""
    if not draft.calls:
        return None
    again = draft.calls[-1].model_copy(update={"result": _fresh(draft, "again")})
    draft.calls.append(again)
    draft.outputs.append({"ref": again.result})
    return "twice"


def _mode(draft: Draft, random: Random) -> str | None:
    """A module in evaluation mode, or in training mode again after it."""
    places = [i for i, call in enumerate(draft.calls) if call.fn == "nn.Module.__call__"]
    if not places:
        return None
    call = draft.calls[places[0]]
    modes = [
        c.fn for c in draft.calls[: places[0]] if c.fn in ("nn.Module.train", "nn.Module.eval")
    ]
    other = "nn.Module.train" if modes and modes[-1] == "nn.Module.eval" else "nn.Module.eval"
    made = Call(fn=other, args=[call.args[0]], result=_fresh(draft, "mode"))
    draft.calls.insert(places[0], made)
    return other.rsplit(".", 1)[-1]


_STEPS: Final[tuple[Step, ...]] = (
    _view_first,
    _view_first,
    _in_place_after,
    _in_place_on_input,
    _twice,
    _mode,
    _mode,
)
