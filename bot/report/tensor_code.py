"""A program's tensors as Python source for one framework: exact bytes and layouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bot.oracle.initial import InitialTensors
from bot.programs.builder import contiguous_strides
from bot.programs.dtypes import DTYPES
from bot.programs.program import Program, TensorSpec
from bot.programs.validation import ITEM_BYTES
from bot.report.dialect import Dialect
from bot.report.identifiers import Identifiers
from bot.report.literals import array_code, carried, carrier, literal
from bot.report.value_code import ReproError, dotted


class TensorCode:
    """Writes the tensors of one program, where they live on ``device``."""

    def __init__(
        self,
        program: Program,
        data: memoryview,
        dialect: Dialect,
        device: str,
        identifiers: Identifiers,
    ) -> None:
        self._program = program
        self._data = data
        self._initial = InitialTensors(program, data)
        self._dialect = dialect
        self._device = device
        self._identifiers = identifiers

    def statements(self, spec: TensorSpec) -> Iterator[str]:
        """Statements that make a tensor, without those that make it a leaf. Raises ReproError."""
        variable = self._identifiers.of(spec.name)
        if self.is_plain(spec):
            yield f"{variable} = {self._fresh(self._values(spec), spec.dtype, spec.shape)}"
        elif not self._dialect.view:
            if self._shared(spec) or spec.conj or spec.neg:
                raise ReproError(f"{self._dialect.module} has no two tensors over one storage")
            # What the view shows, as the worker copies it.
            yield f"{variable} = {self._fresh(self._values(spec), spec.dtype, spec.shape)}"
        else:
            yield from self._view(variable, spec)

    def _values(self, spec: TensorSpec) -> Any:
        array = self._initial.array(spec.name)
        if array is None:
            raise ReproError(f"the program has no tensor named {spec.name[:80]!r}")
        return array

    def _view(self, variable: str, spec: TensorSpec) -> Iterator[str]:
        storage, made = self._storage(spec)
        yield from made
        layout = self._dialect.view.format(
            base=storage,
            shape=tuple(spec.shape),
            strides=tuple(spec.strides),
            offset=spec.offset,
            offset_bytes=spec.offset * ITEM_BYTES[spec.dtype],
        )
        yield f"{variable} = {layout}"
        if (spec.conj or spec.neg) and not self._dialect.names:
            raise ReproError(f"{self._dialect.module} has no conj or neg bit")
        if spec.conj:
            yield f"{variable} = {variable}.conj()"
        if spec.neg:
            yield f"{variable} = {self._dialect.module}._neg_view({variable})"

    def is_plain(self, spec: TensorSpec) -> bool:
        """Alone on its storage, in C order, filling it: a constructor says it all."""
        size = int(np.prod(spec.shape, dtype=np.int64)) * ITEM_BYTES[spec.dtype]
        return (
            not (self._shared(spec) or spec.conj or spec.neg or spec.offset)
            and spec.strides == contiguous_strides(spec.shape)
            and size == self._program.storages[spec.storage].nbytes
        )

    def _shared(self, spec: TensorSpec) -> bool:
        return sum(other.storage == spec.storage for other in self._program.tensors) > 1

    def _storage(self, spec: TensorSpec) -> tuple[str, list[str]]:
        """The variable of a tensor's storage as a flat tensor of its dtype, and statements that make it, once."""
        key = f"\0storage {spec.storage}"
        first = next(t for t in self._program.tensors if t.storage == spec.storage)
        made: list[str] = []
        if key not in self._identifiers:
            variable = self._identifiers.keep(key, f"storage{spec.storage}")
            region = self._program.storages[spec.storage]
            raw = self._data[region.offset : region.offset + region.nbytes]
            dtype = DTYPES[first.dtype]
            flat = np.frombuffer(raw, dtype, region.nbytes // dtype.itemsize)
            made = [f"{variable} = {self._fresh(flat, first.dtype, [flat.size])}"]
        variable = self._identifiers.of(key)
        if spec.dtype != first.dtype:
            variable = f"{variable}.view({self._dialect.dtype_source(spec.dtype)})"
        return variable, made

    def _fresh(self, array: Any, dtype: str, shape: list[int]) -> str:
        """A contiguous tensor that owns exactly these values."""
        dialect = self._dialect
        if dtype in dialect.narrowed:
            dtype = dialect.narrowed[dtype]
            array = np.asarray(array).astype(dtype)
        by_name = dialect.devices is None and self._device != "cpu"
        where = f", device={self._device!r}" if by_name else ""
        name = dialect.dtype_source(dotted(dtype, "a dtype"))
        if 0 in shape and dialect.names:
            return f"{dialect.module}.empty({tuple(shape)!r}, dtype={name}{where})"
        values = carried(array, dtype)
        text = literal(values) if 0 not in shape else None
        if text is not None and dtype in dialect.dtypes:
            return dialect.tensor.format(values=text, dtype=name, where=where)
        made = dialect.from_numpy.format(array=array_code(values))
        if carrier(dtype) != DTYPES[dtype]:
            made += f".to({name})" if dialect.names else f".astype({name})"
        return f"{made}.to({self._device!r})" if by_name else made
