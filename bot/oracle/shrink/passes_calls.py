"""Passes over the calls: fewer of them, functions for methods, fewer outputs and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from bot.programs.draft import Draft
from bot.programs.program import Backward, Value
from bot.programs.validation import references

MODULE_CALL = "nn.Module.__call__"


def drop_calls(draft: Draft) -> Iterator[Draft]:
    """Without the calls behind one of them; without a call, its first tensors in its result's place."""
    for last in range(len(draft.calls) - 1):
        if draft.calls[last].result not in draft.state:
            yield _ended_at(draft, last)
    for index in reversed(range(len(draft.calls))):
        call = draft.calls[index]
        stands_in = [
            r for r in references([*call.args, *call.kwargs.values()]) if r not in draft.state
        ]
        for name in list(dict.fromkeys(stands_in))[:3]:
            made = draft.copy()
            del made.calls[index]
            made.state.pop(call.result, None)
            _rename(made, call.result, name)
            if made.calls:
                yield made


def _ended_at(draft: Draft, last: int) -> Draft:
    made = draft.copy()
    made.calls = draft.calls[: last + 1]
    known = {call.result for call in made.calls} | made.tensors.keys()
    made.state = {key: names for key, names in draft.state.items() if key in known}
    result: Value = {"ref": made.calls[-1].result}
    made.outputs = [output for output in draft.outputs if set(references([output])) <= known] or [
        result
    ]
    if draft.backward:
        kept = [e for e in draft.backward if set(references([e.output])) <= known]
        made.backward = kept or [Backward(output=result)]
    return made


def use_functions(draft: Draft) -> Iterator[Draft]:
    """A method's or in-place form's call by the function's name; what has no such function, no target runs."""
    for index, call in enumerate(draft.calls):
        if not call.fn.startswith("Tensor."):
            continue
        name = call.fn.removeprefix("Tensor.")
        for function in dict.fromkeys((name.strip("_"), name.strip("_").removeprefix("r"), name)):
            made = draft.copy()
            made.calls[index] = call.model_copy(update={"fn": function})
            yield made


def drop_gradients(draft: Draft) -> Iterator[Draft]:
    """Without backward; without one of its entries; without the gradient of one leaf; without an output."""
    if draft.backward or any(spec.requires_grad for spec in draft.tensors.values()):
        made = draft.copy()
        made.drop_gradients()
        yield made
    if len(draft.backward) > 1:
        for index in range(len(draft.backward)):
            made = draft.copy()
            del made.backward[index]
            yield made
    for name, spec in draft.tensors.items():
        if spec.requires_grad:
            made = draft.copy()
            made.require_grad(name, False)
            yield made
    if len(draft.outputs) > 1:
        for index in range(len(draft.outputs)):
            made = draft.copy()
            del made.outputs[index]
            yield made


def _rename(draft: Draft, old: str, new: str) -> None:
    """Let every reference to a result point to another name, which is no nested one."""
    draft.calls = [
        call.model_copy(
            update={
                "args": [_renamed(value, old, new) for value in call.args],
                "kwargs": {key: _renamed(value, old, new) for key, value in call.kwargs.items()},
            }
        )
        for call in draft.calls
    ]
    draft.outputs = [_renamed(value, old, new) for value in draft.outputs]
    draft.backward = [
        entry.model_copy(update={"output": _renamed(entry.output, old, new)})
        for entry in draft.backward
    ]


def _renamed(value: Value, old: str, new: str) -> Value:
    if isinstance(value, list):
        return [_renamed(item, old, new) for item in cast("list[Value]", value)]
    if not isinstance(value, dict):
        return value
    entry = cast("dict[str, Any]", value)
    if entry.get("ref") == old:
        return {"ref": new}
    return {key: _renamed(item, old, new) for key, item in entry.items()}
