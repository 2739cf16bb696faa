"""Draft: a program being edited. Mutation and shrinking make programs of programs with it.

Tensors are read as their logical values and replaced by arrays, each replaced one in a storage of its own; calls,
outputs and state are plain attributes. ``copy`` is cheap, for many variants of one program; ``blob`` drops what nothing
refers to, and validates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from bot.programs.builder import contiguous_strides, strided_bytes
from bot.programs.dtypes import DTYPES
from bot.programs.program import (
    ALIGNMENT,
    Backward,
    Call,
    Origin,
    Program,
    ProgramError,
    Storage,
    TensorSpec,
    Value,
    decode,
    encode,
)
from bot.programs.validation import check_program, references
from bot.worker.output_gradients import DTYPES as WITH_GRADIENT
from bot.worker.output_gradients import generated

Array = npt.NDArray[Any]
MAX_RANK: Final = 64  # NumPy's

Output = tuple[str, tuple[int, ...]]
"""A result's name, and the path to one member of it."""


class Draft:
    """A program and its tensors, to be changed at will.

    ``tensors`` are by name, in the program's order; change them by :meth:`put`, :meth:`relayout` and :meth:`drop`.
    Raises ProgramError for a blob that is no program.
    """

    def __init__(self, blob: bytes) -> None:
        program, data = decode(blob)
        self.op: str = program.op
        self.calls: list[Call] = list(program.calls)
        self.outputs: list[Value] = list(program.outputs)
        self.backward: list[Backward] = list(program.backward)
        self.state: dict[str, dict[str, str]] = {key: dict(v) for key, v in program.state.items()}
        self.seed: int = program.seed
        self.origin: Origin = program.origin
        self.tensors: dict[str, TensorSpec] = {spec.name: spec for spec in program.tensors}
        self._storages: list[bytes | memoryview] = [
            data[storage.offset : storage.offset + storage.nbytes] for storage in program.storages
        ]

    def copy(self) -> Draft:
        """Another draft of the same program. Storages are shared: none is ever written to."""
        other = copy(self)
        other.calls, other.outputs, other.backward = (
            [*self.calls],
            [*self.outputs],
            [*self.backward],
        )
        other.state = {key: dict(names) for key, names in self.state.items()}
        other.tensors = dict(self.tensors)
        other._storages = [*self._storages]
        return other

    def inputs(self) -> list[TensorSpec]:
        """The tensors that are neither an output gradient nor module state."""
        hidden = {entry.gradient for entry in self.backward}
        hidden.update(name for names in self.state.values() for name in names.values())
        return [spec for name, spec in self.tensors.items() if name not in hidden]

    def array(self, name: str) -> Array:
        """A tensor's logical values, conj and neg bits resolved: a copy, to be changed and :meth:`put` back.

        Raises KeyError for no such tensor, ProgramError for one that NumPy cannot hold.
        """
        spec = self.tensors[name]
        if len(spec.shape) > MAX_RANK or spec.dtype == "complex32":
            raise ProgramError(
                f"tensor {name!r} cannot be edited: {spec.dtype}, {len(spec.shape)} dimensions"
            )
        dtype = DTYPES[spec.dtype]
        if 0 in spec.shape:
            return np.empty(spec.shape, dtype)
        steps = [stride * dtype.itemsize for stride in spec.strides]
        storage = self._storages[spec.storage]
        values: Array = np.ndarray(spec.shape, dtype, storage, spec.offset * dtype.itemsize, steps)
        values = values.copy()
        if spec.conj:
            values = np.asarray(np.conjugate(values))  # a scalar for 0 dimensions
        return np.asarray(np.negative(values)) if spec.neg else values

    def shares_storage(self, name: str) -> bool:
        """Whether another tensor lies in the same storage: writing to one may change the other."""
        mine = self.tensors[name].storage
        return sum(spec.storage == mine for spec in self.tensors.values()) > 1

    def put(
        self,
        name: str,
        array: npt.ArrayLike,
        dtype: str | None = None,
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        conj: bool = False,
        neg: bool = False,
    ) -> None:
        """Replace a tensor by an array of logical values, in a storage of its own; ``requires_grad`` stays where it can.

        ``dtype`` is the canonical one (default: the tensor's), to which the values are cast. ``strides`` and ``offset``
        count elements (default: C order and 0); a stride of 0 repeats the first element. Raises KeyError.
        """
        spec = self.tensors[name]
        dtype = dtype or spec.dtype
        with np.errstate(all="ignore"):
            values: Array = np.asarray(array).astype(DTYPES[dtype])
        shape = list(values.shape)
        if conj:
            values = np.conjugate(values)
        if neg:
            values = np.negative(values)
        steps = contiguous_strides(shape) if strides is None else list(strides)
        self._storages.append(strided_bytes(values, steps, offset))
        self.tensors[name] = TensorSpec(
            name=name,
            dtype=dtype,
            shape=shape,
            strides=steps,
            offset=offset,
            storage=len(self._storages) - 1,
            requires_grad=spec.requires_grad and dtype in WITH_GRADIENT,
            conj=conj,
            neg=neg,
        )

    def add(
        self, name: str, array: npt.ArrayLike, dtype: str, *, requires_grad: bool = False
    ) -> None:
        """Add a contiguous tensor behind the others. Raises ProgramError for a name that is taken."""
        if name in self.tensors or any(call.result == name for call in self.calls):
            raise ProgramError(f"the name {name!r} is taken")
        self.tensors[name] = TensorSpec(
            name=name, dtype=dtype, shape=[], strides=[], storage=0, requires_grad=requires_grad
        )
        self.put(name, array)

    def require_grad(self, name: str, wanted: bool) -> None:
        """Make a tensor a leaf that wants a gradient, or no longer one."""
        self.tensors[name] = self.tensors[name].model_copy(update={"requires_grad": wanted})

    def generate_gradients(self) -> None:
        """Leave every output gradient to the worker: the outputs' shapes are about to change."""
        self.backward = [Backward(output=entry.output) for entry in self.backward]

    def write_gradients(self, outputs: Mapping[Output, tuple[str, Sequence[int]]]) -> None:
        """Write down the output gradients that a worker generates, for outputs of known dtype and shape.

        An entry whose output is not there, or has no gradient, goes. The leaves still want one: an op may mind that.
        """
        entries: list[Backward] = []
        for entry in self.backward:
            if entry.gradient is None:
                known = outputs.get(_place(entry.output))
                if known is None or known[0] not in WITH_GRADIENT:
                    continue
                entry = entry.model_copy(update={"gradient": self._generated(*known)})
            entries.append(entry)
        self.backward = entries

    def _generated(self, dtype: str, shape: Sequence[int]) -> str:
        taken = {*self.tensors, *(call.result for call in self.calls)}
        name = next(name for n in range(len(taken) + 1) if (name := f"g{n}") not in taken)
        self._storages.append(generated(dtype, shape))
        self.tensors[name] = TensorSpec(
            name=name,
            dtype=dtype,
            shape=list(shape),
            strides=contiguous_strides(shape),
            storage=len(self._storages) - 1,
        )
        return name

    def drop_gradients(self) -> None:
        """No backward, and no leaf that wants a gradient."""
        self.backward = []
        for name in self.tensors:
            if self.tensors[name].requires_grad:
                self.require_grad(name, False)

    def used(self) -> set[str]:
        """The names of tensors that something refers to."""
        values: list[Value] = [
            value for call in self.calls for value in [*call.args, *call.kwargs.values()]
        ]
        values += [*self.outputs, *(entry.output for entry in self.backward)]
        names = {entry.gradient for entry in self.backward if entry.gradient is not None}
        for module in self.state.values():
            names.update(module.values())
        return self.tensors.keys() & (names | set(references(values)))

    def blob(self, origin: Origin | None = None) -> bytes:
        """The program's blob, without tensors that nothing uses. Raises ProgramError where it does not add up."""
        if (
            self.backward
            and not any(spec.requires_grad for spec in self.tensors.values())
            and not self.state
        ):
            self.backward = []
        used = self.used()
        storages: list[Storage] = []
        place: dict[int, int] = {}
        tensors: list[TensorSpec] = []
        data = bytearray()
        for name, spec in self.tensors.items():
            if name not in used:
                continue
            if spec.storage not in place:
                raw = self._storages[spec.storage]
                data.extend(bytes(-len(data) % ALIGNMENT))
                storages.append(Storage(offset=len(data), nbytes=len(raw)))
                data.extend(raw)
                place[spec.storage] = len(storages) - 1
            tensors.append(spec.model_copy(update={"storage": place[spec.storage]}))
        program = Program(
            op=self.op,
            storages=storages,
            tensors=tensors,
            calls=self.calls,
            outputs=self.outputs,
            backward=self.backward,
            state=self.state,
            seed=self.seed,
            origin=origin or self.origin,
        )
        check_program(program, len(data))
        return encode(program, bytes(data))


def elements(spec: TensorSpec) -> int:
    """How many elements a tensor has."""
    return math.prod(spec.shape)


def _place(output: Value) -> Output:
    entry = cast("dict[str, Any]", output)
    return str(entry.get("ref")), tuple(entry.get("path", ()))


def with_written_gradients(
    blob: bytes, outputs: Mapping[Output, tuple[str, Sequence[int]]]
) -> bytes:
    """The same program with its generated output gradients written down; the blob itself where there is none.

    ``outputs``: the dtype and shape of each output. Raises ProgramError.
    """
    draft = Draft(blob)
    if all(entry.gradient is not None for entry in draft.backward):
        return blob
    draft.write_gradients(outputs)
    return draft.blob()
