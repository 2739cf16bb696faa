"""One tensor, or one plain value, on all targets: who agrees with whom, and how far the sides are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bot.oracle.convention_conditions import Held, Place
from bot.oracle.conventions import Conventions
from bot.oracle.difference import exact_text, is_floating, measure, parts, widened
from bot.oracle.finding import Difference, Kind, Mismatch, Observation
from bot.oracle.initial import InitialTensors
from bot.oracle.pair import SEVERITY, PairKind, contract_kind, differing_elements, kind_of
from bot.oracle.sides import partition
from bot.oracle.tolerance import EXACT, Bound, accumulated_terms, base_dtype, bound_for
from bot.targets.outcome import Tensor

Array = npt.NDArray[Any]
Key = tuple[str, str, tuple[int, ...]]
_SIDE_EFFECT_ROLES = ("side-effect", "parameter", "buffer")


@dataclass(frozen=True)
class Party:
    """Who made an outcome. ``build`` is equal for targets that draw the same random numbers: the same build on the same
    device, and no mode that draws others.

    ``compiles``: it runs a program's calls as one, so that where it stopped and what lay between is not always known.
    ``held_to`` is the label of the target whose support it must keep: a candidate's baseline of the same release.
    """

    label: str
    framework: str
    build: str
    held_to: str = ""
    compiles: bool = False


@dataclass(frozen=True)
class Subject:
    """What one target has at a tensor's place: the tensor, or in words what is there instead.

    For a side effect that did not happen, the tensor is what the program began with. ``unwritten``: its memory was
    never written, so that only shape and dtype are compared.
    """

    party: Party
    tensor: Tensor | None
    instead: str = ""
    unwritten: bool = False


@dataclass(frozen=True)
class _Pair:
    kind: PairKind | None
    differing: Array | None = None


class TensorRules:
    """The rules of :mod:`bot.oracle.pair` with one program's tolerance, conventions and randomness."""

    def __init__(
        self, initial: InitialTensors, digest: str, op: str, conventions: Conventions
    ) -> None:
        self._initial = initial
        self._origin = initial.program.origin
        self._digest = digest
        self._op = op
        self._conventions = conventions
        self._zero_sign = op in conventions.zero_sign_ops
        self._unordered = conventions.is_unordered(op, initial.program)
        self.by_contract = 0
        self.by_convention = 0

    def compare(self, key: Key, subjects: Sequence[Subject]) -> Mismatch | None:
        """Compare a tensor's place on at least two targets."""
        by_build = self._origin.random or self._unordered
        if self._origin.uninitialised or (by_build and self._builds(subjects) > 1):
            self.by_contract += 1
        pairs: dict[tuple[int, int], _Pair] = {}
        excused: set[str] = set()
        subjects = self._with_scalars(subjects, excused)

        def agree(left: int, right: int) -> bool:
            pairs[left, right] = self._pair(key, subjects[left], subjects[right], excused)
            return pairs[left, right].kind is None

        sides = partition(len(subjects), agree)
        if len(sides) == 1:
            self.by_convention += bool(excused)
            return None
        kinds = {pair.kind for pair in pairs.values()}
        worst: PairKind = next(kind for kind in SEVERITY if kind in kinds)
        odd, other = sides[0][0], sides[1][0]
        measured = pairs[min(odd, other), max(odd, other)]
        difference = self._difference(subjects[odd], subjects[other], measured)
        index = difference.first_index if difference else None
        return Mismatch(
            program=self._digest,
            kind=_kind(worst, key[0], subjects),
            role=key[0],
            name=key[1],
            path=key[2],
            sides=tuple(tuple(subjects[i].party.label for i in side) for side in sides),
            observations=tuple(_observation(subject, index) for subject in subjects),
            difference=difference,
            note=_structure_note(subjects),
        )

    def _with_scalars(self, subjects: Sequence[Subject], excused: set[str]) -> list[Subject]:
        """Subjects with shape () for (1,) where a framework has no scalars, and another's result is one.

        Not where builds of that framework differ in this from each other.
        """
        shapes: dict[str, set[tuple[int, ...]]] = {}
        for subject in subjects:
            if subject.tensor is not None:
                shapes.setdefault(subject.party.framework, set()).add(subject.tensor.array.shape)
        others_scalar = any(() in found for found in shapes.values())
        made: list[Subject] = []
        for subject in subjects:
            framework = subject.party.framework
            name = self._conventions.without_scalars(framework)
            if name and others_scalar and subject.tensor and shapes[framework] == {(1,)}:
                excused.add(name)
                scalar = replace(subject.tensor, array=subject.tensor.array.reshape(()))
                subject = replace(subject, tensor=scalar)
            made.append(subject)
        return made

    def _builds(self, subjects: Sequence[Subject]) -> int:
        return len({subject.party.build for subject in subjects})

    def _pair(self, key: Key, a: Subject, b: Subject, excused: set[str]) -> _Pair:
        if a.tensor is None or b.tensor is None:
            return _Pair(self._absent(key, a, b))
        x, y = a.tensor.array, b.tensor.array
        if x.shape != y.shape:
            return _Pair("shape")
        if a.tensor.dtype != b.tensor.dtype:
            return self._other_dtype(key, a.party, a.tensor, b.party, b.tensor, excused)
        dtype = a.tensor.dtype
        if self._origin.uninitialised or a.unwritten or b.unwritten:
            return _Pair(None)
        if self._unordered and a.party.build != b.party.build:
            return _Pair(None)
        if self._origin.random and a.party.build != b.party.build:
            kind = contract_kind(x, y, self._finite_inputs)
            return _Pair(kind, np.ones(x.shape, bool) if kind else None)
        if x.tobytes() == y.tobytes():
            return _Pair(None)
        bound = self.bound(key[0], dtype, x.size)
        elements = differing_elements(x, y, dtype, bound, self._zero_sign)
        if not elements.differing.any():
            return _Pair(None)
        left, right = Held(a.party.framework, x), Held(b.party.framework, y)
        self._excuse(key, dtype, left, right, elements.differing, excused)
        return _Pair(kind_of(elements), elements.differing)

    def _excuse(
        self, key: Key, dtype: str, left: Held, right: Held, differing: Array, excused: set[str]
    ) -> None:
        """Take away from the differing elements those that a convention speaks of."""
        place = Place(key[0], key[1], dtype, left.array.shape, self._initial, key[2])
        for name, mask in self._conventions.excused(self._op, place, left, right):
            if (differing & mask).any():
                excused.add(name)
            differing[mask] = False

    def _other_dtype(
        self, key: Key, one: Party, x: Tensor, other: Party, y: Tensor, excused: set[str]
    ) -> _Pair:
        """Other dtypes are a mismatch, unless both frameworks document theirs: then integers' values count alone."""
        results = {one.framework: x.dtype, other.framework: y.dtype}
        name = self._conventions.documented_dtypes(self._op, key[2], results)
        integers = x.array.dtype.kind in "iu" and y.array.dtype.kind in "iu"
        if name is None or len(results) < 2 or not integers:
            return _Pair("dtype")
        excused.add(name)
        differing = np.asarray(x.array != y.array)
        left, right = Held(one.framework, x.array), Held(other.framework, y.array)
        self._excuse(key, x.dtype, left, right, differing, excused)
        return _Pair("value" if differing.any() else None, differing)

    def _absent(self, key: Key, a: Subject, b: Subject) -> PairKind | None:
        """No tensor on one side or both: an absent gradient is zero; any other absence is another structure."""
        if a.tensor is None and b.tensor is None:
            return None if a.instead == b.instead else "shape"
        tensor = a.tensor if a.tensor is not None else b.tensor
        if key[0] == "gradient" and tensor is not None:
            return "value" if _any_nonzero(tensor) else None
        if key[0] in _SIDE_EFFECT_ROLES:
            return "value"
        return "shape"

    def bound(self, role: str, dtype: str, elements: int) -> Bound:
        """The tolerance for a tensor of this role, dtype and number of elements."""
        if role != "gradient" and self._conventions.is_exact(self._initial.program):
            return EXACT
        sizes = self._initial.operand_sizes(with_gradients=role == "gradient")
        return bound_for(dtype, accumulated_terms(sizes, elements), self._origin.tolerance)

    @cached_property
    def _finite_inputs(self) -> bool:
        for spec in self._initial.program.tensors:
            array = self._initial.array(spec.name)
            if array is None or not is_floating(spec.dtype):
                continue
            if not all(np.isfinite(widened(part)).all() for part in parts(array, spec.dtype)):
                return False
        return True

    def _difference(self, odd: Subject, other: Subject, pair: _Pair) -> Difference | None:
        if odd.tensor is None or other.tensor is None or pair.differing is None:
            return None
        return measure(odd.tensor.array, other.tensor.array, odd.tensor.dtype, pair.differing)

    # plain values

    def compare_values(self, key: Key, having: Sequence[tuple[Party, Any]]) -> Mismatch | None:
        """Compare results that are no tensors, each in the program's value grammar."""
        bound = bound_for(self._widest_input, 1, self._origin.tolerance)

        def agree(left: int, right: int) -> bool:
            if self._origin.uninitialised:
                return True
            if self._origin.random and having[left][0].build != having[right][0].build:
                return type(having[left][1]) is type(having[right][1])
            return same_value(having[left][1], having[right][1], bound)

        sides = partition(len(having), agree)
        if len(sides) == 1:
            return None
        return Mismatch(
            program=self._digest,
            kind="value",
            role=key[0],
            name=key[1],
            path=key[2],
            sides=tuple(tuple(having[i][0].label for i in side) for side in sides),
            observations=tuple(
                Observation(party.label, value=repr(value)[:200]) for party, value in having
            ),
            note="a result that is no tensor",
        )

    @cached_property
    def _widest_input(self) -> str:
        """The floating dtype among the inputs with the widest tolerance; float64 when there is none."""
        floating = {base_dtype(spec.dtype) for spec in self._initial.program.tensors}
        return max(
            (name for name in floating if bound_for(name) != Bound()),
            key=lambda name: bound_for(name).rtol,
            default="float64",
        )


def same_value(a: Any, b: Any, bound: Bound) -> bool:
    """Whether two values of the program's grammar agree: floats within the bound, everything else exactly.

    A bool is no number, and a sequence is one whether it is a list, a tuple or a size.
    """
    a, b = _plain(a), _plain(b)
    same_type = type(a) is type(b)
    if isinstance(a, list) and isinstance(b, list):
        left, right = cast("list[Any]", a), cast("list[Any]", b)
        return len(left) == len(right) and all(
            same_value(x, y, bound) for x, y in zip(left, right, strict=True)
        )
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        if math.isinf(a) or math.isinf(b):
            return a == b
        return abs(a - b) <= bound.atol + bound.rtol * max(abs(a), abs(b))
    return same_type and a == b


def _plain(value: Any) -> Any:
    """A value without the grammar's wrappers: sequences as lists, special floats as floats, complex by parts."""
    if not isinstance(value, dict):
        return value
    wrapped = cast("dict[str, Any]", value)
    for name in ("tuple", "size"):
        if name in wrapped:
            return wrapped[name]
    if "float" in wrapped:
        return float(wrapped["float"])
    if "complex" in wrapped:
        real, imaginary = cast("list[str]", wrapped["complex"])
        return ["complex", float(real), float(imaginary)]
    return wrapped


def _kind(kind: PairKind, role: str, subjects: Sequence[Subject]) -> Kind:
    """A mismatched tensor's kind for the report; ``side-effect`` where one side does not have the effect at all."""
    if role in _SIDE_EFFECT_ROLES and any(subject.instead for subject in subjects):
        return "side-effect"
    return "gradient" if kind == "value" and role == "gradient" else kind


def _any_nonzero(tensor: Tensor) -> bool:
    array = tensor.array
    if tensor.dtype == "complex32":
        return bool((array["real"] != 0).any() or (array["imag"] != 0).any())
    return bool((array != 0).any())


def _structure_note(subjects: Sequence[Subject]) -> str:
    instead = sorted({subject.instead for subject in subjects if subject.instead})
    return ", ".join(instead)


def _observation(subject: Subject, index: tuple[int, ...] | None) -> Observation:
    tensor = subject.tensor
    if tensor is None:
        return Observation(subject.party.label, happened=subject.instead)
    value = None
    if index is not None and len(index) == tensor.array.ndim:
        inside = all(i < n for i, n in zip(index, tensor.array.shape, strict=True))
        value = exact_text(tensor.array[index], tensor.dtype) if inside else None
    return Observation(
        subject.party.label,
        dtype=tensor.dtype,
        shape=tuple(int(n) for n in tensor.array.shape),
        value=value,
        happened=subject.instead or None,
    )
