"""The tensors that a program starts with, as arrays: inputs, output gradients, module state."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bot.oracle.difference import is_floating
from bot.programs.dtypes import DTYPES
from bot.programs.program import Program, TensorSpec
from bot.targets.outcome import MAX_RANK

Array = npt.NDArray[Any]


class InitialTensors:
    """The tensors of one program by name; arrays are made when asked for and are read-only views of its data."""

    def __init__(self, program: Program, data: memoryview) -> None:
        self.program = program
        self._data = data
        self._specs = {spec.name: spec for spec in program.tensors}

    def array(self, name: str) -> Array | None:
        """The logical values of the tensor of this name (conj and neg bits resolved).

        None when there is none, or NumPy cannot hold it (more than 64 dimensions).
        """
        spec = self._spec(name)
        return None if spec is None or len(spec.shape) > MAX_RANK else self._array(spec)

    def _spec(self, name: str) -> TensorSpec | None:
        """By its own name, or by ``MODULE.NAME`` for a module's parameter or buffer."""
        module, _, entry = name.partition(".")
        own = self.program.state.get(module, {}).get(entry, name)
        return self._specs.get(own)

    def dtype(self, name: str) -> str:
        """The canonical dtype of the tensor of this name, or ""."""
        spec = self._spec(name)
        return "" if spec is None else spec.dtype

    def _array(self, spec: TensorSpec) -> Array:
        dtype = DTYPES[spec.dtype]
        storage = self.program.storages[spec.storage]
        if 0 in spec.shape:
            return np.empty(spec.shape, dtype)
        raw = self._data[storage.offset : storage.offset + storage.nbytes]
        steps = [stride * dtype.itemsize for stride in spec.strides]
        # Not as_strided: it goes through the array interface, which has no name for the float8 types.
        values: Array = np.ndarray(spec.shape, dtype, raw, spec.offset * dtype.itemsize, steps)
        values.flags.writeable = False
        return _half_complex(values, spec) if spec.dtype == "complex32" else _resolved(values, spec)

    def operand_sizes(self, with_gradients: bool) -> tuple[int, ...]:
        """Element counts of the floating tensors that a result can accumulate; output gradients where asked for."""
        gradients = {entry.gradient for entry in self.program.backward}
        return tuple(
            int(np.prod(spec.shape, dtype=np.int64))
            for spec in self.program.tensors
            if (with_gradients or spec.name not in gradients) and is_floating(spec.dtype)
        )


def _resolved(values: Array, spec: TensorSpec) -> Array:
    """The values that the stored ones stand for under the conj and neg bits."""
    if spec.conj:
        values = np.conjugate(values)
    return np.negative(values) if spec.neg else values


def _half_complex(values: Array, spec: TensorSpec) -> Array:
    """The same for complex32, which NumPy knows as two fields only."""
    if not (spec.conj or spec.neg):
        return values
    values = values.copy()
    if spec.neg:
        values["real"] *= -1
    if spec.neg != spec.conj:
        values["imag"] *= -1
    return values
