"""Novelty: what a program exercises, as a set of components, and how much of that no program before it did.

The components are the classes of dtypes, layouts, sizes, special values and arguments; what counts besides new ones is new
pairs of them. Source of the idea: pairwise (combinatorial) testing, where most faults need one or two settings at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations_with_replacement
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bot.programs.builder import contiguous_strides
from bot.programs.draft import Draft
from bot.programs.mutation.argument_class import argument_class
from bot.programs.mutation.known import Known, slots
from bot.programs.mutation.layouts import channels_last
from bot.programs.mutation.sizes import size_class
from bot.programs.program import TensorSpec

NEW_COMPONENT: Final = 10  # against 1 for a new pair
Pair = tuple[str, str]
EMPTY: Final = "empty"  # some tensor has no elements
MAX_SCANNED: Final = 4096  # elements looked at for special values


class Novelty:
    """Which components and pairs have been seen."""

    def __init__(self) -> None:
        self._pairs: set[Pair] = set()

    @property
    def components(self) -> int:
        """How many different components have been seen."""
        return sum(a == b for a, b in self._pairs)

    @property
    def pairs(self) -> int:
        """How many different pairs of components have been seen."""
        return len(self._pairs) - self.components

    def new_pairs(self, components: Iterable[str]) -> set[Pair]:
        """The pairs of a program's components that no program before it had; a component's pair with itself is its own."""
        return _pairs(components) - self._pairs

    def add(self, components: Iterable[str]) -> None:
        """Count a program's components as seen."""
        self._pairs |= _pairs(components)


def score(new: set[Pair]) -> int:
    """What new pairs are worth; 0 when there are none."""
    return len(new) + NEW_COMPONENT * sum(a == b for a, b in new)


def _pairs(components: Iterable[str]) -> set[Pair]:
    return set(combinations_with_replacement(sorted(set(components)), 2))


def components_of(draft: Draft, known: Known) -> list[str]:
    """What a program exercises."""
    found = ["form:" + ",".join(call.fn for call in draft.calls)]
    for slot in slots(draft, known.signatures, tensors=True):
        found.append(f"arg:{slot.name}={argument_class(slot.value)}")
    hidden = {entry.gradient for entry in draft.backward}
    if any(0 in spec.shape for name, spec in draft.tensors.items() if name not in hidden):
        found.append(EMPTY)
    for name, spec in draft.tensors.items():
        if name not in hidden:
            found.extend(_of_tensor(spec, draft))
    return found


def _of_tensor(spec: TensorSpec, draft: Draft) -> Iterator[str]:
    name = spec.name
    yield f"{name}:{spec.dtype}"
    yield f"{name}:rank={len(spec.shape)}"
    for dim, length in enumerate(spec.shape):
        yield f"{name}:{dim - len(spec.shape)}={size_class(length)}"
    yield f"{name}:layout={layout_class(spec)}"
    if (
        spec.dtype in ("complex32", "bool")
        or spec.dtype.startswith("float8")
        or len(spec.shape) > 32
    ):
        return
    array = draft.array(name)
    if 0 < array.size <= MAX_SCANNED:
        for what in special_classes(array):
            yield f"{name}:{what}"


def layout_class(spec: TensorSpec) -> str:
    """The class of a tensor's strides."""
    found: list[str] = []
    plain = contiguous_strides(spec.shape)
    real = [(s, p) for s, p, n in zip(spec.strides, plain, spec.shape, strict=True) if n > 1]
    if any(s == 0 for s, _ in real):
        found.append("expanded")
    elif all(s == p for s, p in real):
        found.append("contiguous" if spec.strides == plain else "odd-ones")
    elif spec.strides == channels_last(spec.shape):
        found.append("channels-last")
    elif sorted(s for s, _ in real) == [s for s, _ in real][::-1]:
        found.append("gaps")
    else:
        found.append("permuted")
    if spec.offset:
        found.append("offset")
    found += ["conj"] * spec.conj + ["neg"] * spec.neg
    return "+".join(found)


def special_classes(array: npt.NDArray[Any]) -> list[str]:
    """Which special numbers an array holds, and whether some, one or all elements are such."""
    if array.dtype.kind in "iu":
        return _of_integers(array)
    found: list[str] = []
    values = array if array.dtype.kind in "fc" else array.astype(np.float32)
    with np.errstate(all="ignore"):
        finite = np.isfinite(values)
        if not finite.all():
            nan = int(np.isnan(values).sum())
            infinite = int(array.size - finite.sum()) - nan
            found += [f"nan-{_share(nan, array.size)}"] * bool(nan)
            found += [f"inf-{_share(infinite, array.size)}"] * bool(infinite)
            values = values[finite]
        size = np.abs(values)
        zeros = int((size == 0).sum())
        if zeros:
            found.append(f"zero-{_share(zeros, array.size)}")
            if values.dtype.kind == "f" and np.signbit(values[size == 0]).any():
                found.append("minus-zero")
        if size.size:
            largest = float(size.max())
            found.append("large" if largest > 1e4 else "over-exp" if largest > 88 else "plain")
            if zeros < size.size and float(size[size > 0].min()) < 1e-30:
                found.append("subnormal")
            flat = values.reshape(-1)
            if size.size > 1 and (flat == flat[0]).all():
                found.append("constant")
            elif values.dtype.kind == "f" and (flat * 2 == np.round(flat * 2)).all():
                found.append("halves")
    return found


def _of_integers(array: npt.NDArray[Any]) -> list[str]:
    low, high = int(array.min()), int(array.max())
    found = [f"zero-{_share(int((array == 0).sum()), array.size)}"] * (low <= 0 <= high)
    found += ["negative"] * (low < 0)
    limits = np.iinfo(array.dtype)
    found += ["lowest"] * (low == limits.min < 0) + ["largest"] * (high == limits.max)
    found += ["large"] * (high > 1 << 24)
    found += ["constant"] * (array.size > 1 and low == high)
    return found


def _share(count: int, size: int) -> str:
    return "all" if count == size else "one" if count == 1 else "some"
