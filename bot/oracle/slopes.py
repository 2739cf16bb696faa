"""Finite differences: the programs that probe a slope, and what slope their results have. Pure functions.

The scalar that is differentiated is what backward differentiates: ``s = sum(output * output gradient)`` over the
program's backward entries (the real part of ``output * conj(gradient)`` for complex ones). For one element x of a leaf,
with the step h and half of it (central differences of second order, and their Richardson extrapolation)::

    D(h) = (s(x + h) - s(x - h)) / 2h        slope = (4 D(h/2) - D(h)) / 3

The one-sided slopes ``(s(x + h/2) - s(x)) / (h/2)`` and ``(s(x) - s(x - h/2)) / (h/2)`` tell whether s has a slope at x at
all: at a kink they stay apart however small the step (Nocedal and Wright, Numerical Optimization, 8.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bot.oracle.initial import InitialTensors
from bot.programs.program import Program, ProgramError, TensorSpec, decode, encode
from bot.programs.transform import without_gradients
from bot.targets.outcome import Outcome

Array = npt.NDArray[Any]

STEP: Final = 1e-4  # of the element's magnitude, absolute at 0
LEAST: Final = 1e-3  # magnitudes below it count as this: next to 0 most functions do not move by a relative step
SHIFTS: Final = (0.0, 1.0, -1.0, 0.5, -0.5)  # of the step, in the order of a probe's programs
_EPSILON: Final = 2.0**-52


@dataclass(frozen=True)
class Slope:
    """The slope of one element by one target's results; ``error`` is an absolute bound on it.

    ``left`` and ``right`` are the one-sided slopes.
    """

    value: float
    error: float
    left: float
    right: float

    @property
    def is_smooth(self) -> bool:
        """Whether the two sides meet, as far as steps of this size can tell."""
        apart = abs(self.right - self.left)
        return apart <= 1e-2 * max(abs(self.left), abs(self.right)) + 4 * self.error

    def holds(self, gradient: float, relative: float) -> bool:
        """Whether a gradient is this slope, to a relative tolerance and this slope's own error."""
        return abs(gradient - self.value) <= relative * abs(self.value) + 4 * self.error

    def is_between(self, gradient: float, relative: float) -> bool:
        """Whether a gradient lies between the one-sided slopes, ends included: a generalised gradient (Clarke)."""
        slack = relative * max(abs(self.left), abs(self.right)) + 4 * self.error
        return min(self.left, self.right) - slack <= gradient <= max(self.left, self.right) + slack


@dataclass(frozen=True)
class Leaf:
    """A float64 leaf whose elements lie in a storage of its own, each once."""

    program: Program
    data: bytes
    spec: TensorSpec

    def step(self, index: Sequence[int]) -> float:
        """The step at an element, a power of two, so that x + h and x - h are x apart exactly h for most x."""
        value = abs(float(self._element(bytearray(self.data), index)[0]))
        magnitude = max(value, LEAST) if np.isfinite(value) and value > 0 else 1.0
        wanted = STEP * magnitude
        return float(2.0 ** np.floor(np.log2(wanted)))

    def is_finite(self, index: Sequence[int]) -> bool:
        """Whether there is a number to move from."""
        return bool(np.isfinite(self._element(bytearray(self.data), index)[0]))

    def probes(self, index: Sequence[int]) -> list[bytes]:
        """The forward-only programs of one element, in the order of :data:`SHIFTS`."""
        step = self.step(index)
        blobs: list[bytes] = []
        for shift in SHIFTS:
            moved = bytearray(self.data)
            self._element(moved, index)[0] += shift * step
            blobs.append(without_gradients(encode(self.program, bytes(moved))))
        return blobs

    def _element(self, data: bytearray, index: Sequence[int]) -> Array:
        spec = self.spec
        place = spec.offset + sum(i * stride for i, stride in zip(index, spec.strides, strict=True))
        start = self.program.storages[spec.storage].offset + 8 * place
        return np.frombuffer(data, np.float64, 1, start)


def leaf_of(blob: bytes, name: str) -> Leaf | None:
    """The leaf of this name; None where its elements cannot be moved one by one, or nothing is differentiated."""
    try:
        program, data = decode(blob)
    except ProgramError:
        return None
    spec = next((tensor for tensor in program.tensors if tensor.name == name), None)
    if spec is None or spec.dtype != "float64" or spec.neg or not program.backward:
        return None
    if program.origin.random or program.origin.uninitialised or program.origin.gauge is not None:
        return None
    shared = sum(tensor.storage == spec.storage for tensor in program.tensors) > 1
    overlapping = any(s == 0 and n > 1 for n, s in zip(spec.shape, spec.strides, strict=True))
    return None if shared or overlapping else Leaf(program, bytes(data), spec)


def slope_of(leaf: Leaf, index: Sequence[int], outcomes: Sequence[Outcome]) -> Slope | None:
    """One element's slope from the outcomes of its probes; None where one lacks an output or is not finite."""
    initial = InitialTensors(leaf.program, memoryview(leaf.data))
    moves = [0.0] * len(outcomes)
    magnitude = 0.0
    for entry in leaf.program.backward:
        gradient = None if entry.gradient is None else initial.array(entry.gradient)
        outputs = [_output(outcome, entry.output) for outcome in outcomes]
        if gradient is None or any(output is None for output in outputs):
            return None
        base = np.asarray(outputs[0])
        for place, output in enumerate(outputs):
            moved = np.asarray(output)
            if moved.shape != gradient.shape or moved.dtype.kind not in "fc":
                return None
            if not (np.isfinite(moved).all() and np.isfinite(base).all()):
                return None
            product: Array = (moved - base) * np.conj(gradient)
            moves[place] += float(np.real(product).sum())
        magnitude += float(np.abs(base * gradient).sum())
    return _slope(moves, leaf.step(index), magnitude)


def _output(outcome: Outcome, reference: Any) -> Array | None:
    if outcome.status != "ok":
        return None
    key = ("output", str(reference.get("ref")), tuple(reference.get("path", ())))
    tensor = outcome.by_key.get(key)  # type: ignore[arg-type]
    return None if tensor is None else tensor.array


def _slope(moves: Sequence[float], step: float, magnitude: float) -> Slope:
    """The slope from ``s``'s moves, by shift. ``magnitude`` is that of ``s``'s terms, for the rounding in them."""
    _, right, left, half_right, half_left = moves
    whole = (right - left) / (2 * step)
    half = (half_right - half_left) / step
    rounding = 8 * _EPSILON * magnitude / step
    return Slope(
        value=(4 * half - whole) / 3,
        error=abs(half - whole) + rounding,
        left=-half_left / (step / 2),
        right=half_right / (step / 2),
    )
