"""Known: what may stand where in an op's calls, gathered from its programs and from PyTorch's signatures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final, cast

from bot.programs.draft import Draft
from bot.programs.mutation.signatures import Parameter, Signatures
from bot.programs.program import Call, Value

MAX_VALUES: Final = 48  # different values kept of one argument
OFTEN: Final = 2
INCIDENTAL: Final = frozenset(
    "clone nn.Module.__call__ nn.Module.train nn.Module.eval Tensor.clone".split()
)
"""Calls around the op whose arguments say nothing of it."""

Key = int | str
"""An argument's position or its keyword."""


@dataclass(frozen=True)
class Slot:
    """An argument of one call of a draft. ``name`` is the parameter's, or the position as text where it is not known."""

    call: int
    key: Key
    name: str
    value: Value


@dataclass
class Known:
    """What an op's programs hold, by function and parameter. ``dtypes`` are those that the op supports."""

    signatures: Signatures = field(default_factory=Signatures)
    dtypes: tuple[str, ...] = ()
    values: dict[str, dict[str, dict[str, Value]]] = field(
        default_factory=dict[str, dict[str, dict[str, Value]]]
    )
    """Function -> parameter -> canonical text -> value. References stand as ``{"ref": ""}``."""
    indexed: bool = True  # integer tensors stand beside others: they are indices
    _given: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    _pairs: dict[str, set[frozenset[str]]] = field(default_factory=dict[str, set[frozenset[str]]])

    def learn(self, draft: Draft) -> None:
        """Keep the arguments of a program's calls."""
        for slot in slots(draft, self.signatures, tensors=True):
            seen = self.values.setdefault(draft.calls[slot.call].fn, {}).setdefault(slot.name, {})
            if len(seen) < MAX_VALUES:
                value = {"ref": ""} if is_tensor(slot.value) else slot.value
                if not refers(value) or is_tensor(value):
                    seen.setdefault(json.dumps(value, sort_keys=True), value)

        for call in draft.calls:
            self._learn_together(call)
        kinds = {spec.dtype.startswith(("int", "uint")) for spec in draft.inputs()}
        self.indexed = self.indexed and kinds != {True}

    def _learn_together(self, call: Call) -> None:
        given = self._names_given(call)
        self._given.setdefault(call.fn, Counter()).update(given)
        pairs = self._pairs.setdefault(call.fn, set())
        pairs.update(frozenset(pair) for pair in combinations(sorted(given), 2))

    def _names_given(self, call: Call) -> set[str]:
        """The parameters that a call gives something but None."""
        pairs = [(self.signatures.name_of(call.fn, i), v) for i, v in enumerate(call.args)]
        return {name for name, value in [*pairs, *call.kwargs.items()] if value is not None}

    def excluded(self, call: Call, name: str) -> set[str]:
        """The parameters that a call gives and that have never been given with this one, though each was often: a choice."""
        given = self._given.get(call.fn, Counter[str]())
        if given[name] < OFTEN:
            return set()
        pairs = self._pairs[call.fn]
        others = self._names_given(call) - {name}
        return {o for o in others if given[o] >= OFTEN and frozenset((o, name)) not in pairs}

    def seen(self, fn: str, name: str) -> list[Value]:
        """The plain values that a parameter has had, in the order met."""
        found = self.values.get(fn, {}).get(name, {})
        return [value for value in found.values() if not is_tensor(value)]

    def seen_tensor(self, fn: str, name: str) -> bool:
        """Whether a parameter has had a tensor."""
        return any(map(is_tensor, self.values.get(fn, {}).get(name, {}).values()))

    def absent(self, call: Call) -> list[tuple[str, list[Parameter]]]:
        """Parameters that a call leaves out, each with what the signatures say of it (nothing: only seen)."""
        given = set(call.kwargs)
        given.update(self.signatures.name_of(call.fn, i) for i in range(len(call.args)))
        found: dict[str, list[Parameter]] = {}
        for parameter in self.signatures.optional(call.fn):
            if parameter.name not in given:
                found.setdefault(parameter.name, []).append(parameter)
        for name in self.values.get(call.fn, {}):
            if name not in given and not name.isdigit():
                found.setdefault(name, [])
        return list(found.items())


def is_tensor(value: Value) -> bool:
    """Whether a value is a reference."""
    return isinstance(value, dict) and "ref" in cast("dict[str, Any]", value)


def refers(value: Value) -> bool:
    """Whether a value is, or holds, a reference."""
    if isinstance(value, list):
        return any(map(refers, cast("list[Value]", value)))
    if isinstance(value, dict):
        entry = cast("dict[str, Any]", value)
        return "ref" in entry or any(map(refers, entry.values()))
    return False


def slots(draft: Draft, signatures: Signatures, *, tensors: bool = False) -> Iterator[Slot]:
    """The arguments of the calls that count. Without ``tensors`` only those that hold no reference."""
    for index, call in enumerate(draft.calls):
        if call.fn in INCIDENTAL:
            continue
        pairs: Iterable[tuple[Key, Value]] = [*enumerate(call.args), *call.kwargs.items()]
        for key, value in pairs:
            if not tensors and refers(value):
                continue
            name = signatures.name_of(call.fn, key) if isinstance(key, int) else key
            yield Slot(index, key, name, value)


def put(draft: Draft, slot: Slot, value: Value) -> None:
    """Give a draft's argument another value."""
    call = draft.calls[slot.call]
    if isinstance(slot.key, int):
        args = [*call.args]
        args[slot.key] = value
        draft.calls[slot.call] = call.model_copy(update={"args": args})
    else:
        kwargs = {**call.kwargs, slot.key: value}
        draft.calls[slot.call] = call.model_copy(update={"kwargs": kwargs})


def leave_out(draft: Draft, slot: Slot) -> bool:
    """Drop a keyword, or the last positional argument; whether that could be done."""
    call = draft.calls[slot.call]
    if isinstance(slot.key, str):
        kwargs = {key: value for key, value in call.kwargs.items() if key != slot.key}
        draft.calls[slot.call] = call.model_copy(update={"kwargs": kwargs})
        return True
    if slot.key != len(call.args) - 1:
        return False
    draft.calls[slot.call] = call.model_copy(update={"args": call.args[:-1]})
    return True
