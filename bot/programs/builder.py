"""ProgramBuilder: programs from NumPy arrays, for shrinking, reports and tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

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
    encode,
)
from bot.programs.validation import check_program

Array = npt.NDArray[Any]
Reference = dict[str, Any]
"""``{"ref": name}``, with ``"path"`` for one member of a nested result."""

_COMPLEX32 = np.dtype([("real", np.float16), ("imag", np.float16)])
_DTYPE_NAMES: dict[np.dtype[Any], str] = {
    np.dtype(ml_dtypes.bfloat16): "bfloat16",
    np.dtype(ml_dtypes.float8_e4m3fn): "float8_e4m3fn",
    np.dtype(ml_dtypes.float8_e5m2): "float8_e5m2",
    np.dtype(ml_dtypes.float8_e4m3fnuz): "float8_e4m3fnuz",
    np.dtype(ml_dtypes.float8_e5m2fnuz): "float8_e5m2fnuz",
    _COMPLEX32: "complex32",
}


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The canonical name of a NumPy (or ml_dtypes) dtype."""
    return _DTYPE_NAMES.get(dtype, dtype.name)


def to_value(value: Any) -> Value:
    """A Python value in the program's value grammar. A dict is taken to be in the grammar already.

    Raises ProgramError for what the grammar cannot say.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return to_value(cast("Any", value).item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return _float_value(value)
    if isinstance(value, complex):
        return {"complex": [_plain_float(value.real), _plain_float(value.imag)]}
    if isinstance(value, list):
        return [to_value(item) for item in _items(value)]
    if isinstance(value, tuple):
        return {"tuple": [to_value(item) for item in _items(value)]}
    if isinstance(value, slice):
        return {"slice": _slice_parts(value)}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, dict):
        return cast("Value", value)
    raise ProgramError(f"a program cannot hold a value of type {type(value).__name__}")


def _slice_parts(value: Any) -> list[Value]:
    return [to_value(value.start), to_value(value.stop), to_value(value.step)]


def _items(values: Any) -> list[object]:
    return list(values)


def _plain_float(value: float) -> float | str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0 and math.copysign(1.0, value) < 0:
        return "-0.0"
    return value


def _float_value(value: float) -> Value:
    plain = _plain_float(value)
    return {"float": plain} if isinstance(plain, str) else plain


def contiguous_strides(shape: Sequence[int]) -> list[int]:
    """C-order strides in elements, as PyTorch gives them: ``[3, 1]`` for the shape ``[2, 3]``."""
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return strides[::-1]


class ProgramBuilder:
    """Collects tensors, calls, outputs and gradients, and gives the validated program and its blob."""

    def __init__(self, op: str, *, seed: int = 0, origin: Origin | None = None) -> None:
        self._op = op
        self._seed = seed
        self._origin = origin or Origin(source="builder", name=op)
        self._data = bytearray()
        self._storages: list[Storage] = []
        self._tensors: list[TensorSpec] = []
        self._calls: list[Call] = []
        self._outputs: list[Value] = []
        self._backward: list[Backward] = []
        self._state: dict[str, dict[str, str]] = {}

    def tensor(
        self,
        name: str,
        array: npt.ArrayLike,
        *,
        requires_grad: bool = False,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        conj: bool = False,
        neg: bool = False,
        dtype: str | None = None,
    ) -> Reference:
        """Add a tensor with a storage of its own; returns its reference.

        ``array`` holds the logical values; with ``conj`` or ``neg`` the stored bytes are their conjugate or negative.
        ``strides`` and ``offset`` count elements (default: C order, 0). ``dtype`` names the canonical dtype where
        NumPy has several for one (default: the array's own).
        """
        values: Array = np.asarray(array)
        shape = list(values.shape)
        if conj:
            values = np.conjugate(values)
        if neg:
            values = np.negative(values)
        steps = contiguous_strides(shape) if strides is None else list(strides)
        storage = self.storage(strided_bytes(values, steps, offset))
        return self._add_tensor(
            TensorSpec(
                name=name,
                dtype=dtype or dtype_name(values.dtype),
                shape=shape,
                strides=steps,
                offset=offset,
                storage=storage,
                requires_grad=requires_grad,
                conj=conj,
                neg=neg,
            )
        )

    def view(
        self,
        name: str,
        of: str,
        shape: Sequence[int],
        strides: Sequence[int],
        *,
        offset: int = 0,
        requires_grad: bool = False,
    ) -> Reference:
        """Add a tensor over the storage of the tensor named ``of``: the two alias each other."""
        base = next((tensor for tensor in self._tensors if tensor.name == of), None)
        if base is None:
            raise ProgramError(f"there is no tensor named {of!r} to view")
        return self._add_tensor(
            TensorSpec(
                name=name,
                dtype=base.dtype,
                shape=list(shape),
                strides=list(strides),
                offset=offset,
                storage=base.storage,
                requires_grad=requires_grad,
            )
        )

    def storage(self, data: bytes) -> int:
        """Add a run of raw bytes; returns its storage id."""
        self._data.extend(b"\0" * (-len(self._data) % ALIGNMENT))
        self._storages.append(Storage(offset=len(self._data), nbytes=len(data)))
        self._data.extend(data)
        return len(self._storages) - 1

    def call(
        self, fn: str, *args: object, result: str | None = None, **kwargs: object
    ) -> Reference:
        """Add an op call; returns the reference of its result (``r0``, ``r1``, ... unless named)."""
        name = result or f"r{len(self._calls)}"
        self._calls.append(
            Call(
                fn=fn,
                args=[to_value(value) for value in args],
                kwargs={key: to_value(value) for key, value in kwargs.items()},
                result=name,
            )
        )
        return {"ref": name}

    def module(
        self, fn: str, *args: object, state: dict[str, npt.ArrayLike], **kwargs: object
    ) -> Reference:
        """Make a module of class ``fn`` and load parameters and buffers by name; returns its reference."""
        module = self.call(fn, *args, result=None, **kwargs)
        name = str(module["ref"])
        self._state[name] = {}
        for key, array in state.items():
            tensor = f"{name}.{key}"
            self.tensor(tensor, array)
            self._state[name][key] = tensor
        return module

    def output(self, value: object) -> None:
        """Compare this reference (or nested value of references) as an output."""
        self._outputs.append(to_value(value))

    def backward(self, output: Reference, gradient: npt.ArrayLike, name: str | None = None) -> None:
        """Run backward from ``output`` with ``gradient`` (the output's shape and dtype)."""
        gradient_name = name or f"g{len(self._backward)}"
        self.tensor(gradient_name, gradient)
        self._backward.append(Backward(output=output, gradient=gradient_name))

    def program(self) -> Program:
        """The validated program. Raises ProgramError."""
        program = Program(
            op=self._op,
            storages=self._storages,
            tensors=self._tensors,
            calls=self._calls,
            outputs=self._outputs,
            backward=self._backward,
            state=self._state,
            seed=self._seed,
            origin=self._origin,
        )
        check_program(program, len(self._data))
        return program

    def blob(self) -> bytes:
        """The program's blob. Raises ProgramError."""
        return encode(self.program(), bytes(self._data))

    def _add_tensor(self, tensor: TensorSpec) -> Reference:
        self._tensors.append(tensor)
        return {"ref": tensor.name}


def member(reference: Reference, *path: int) -> Reference:
    """The reference of one member of a nested result: ``member(r, 0)`` is its first."""
    return {"ref": reference["ref"], "path": [*reference.get("path", []), *path]}


def strided_bytes(values: Array, strides: Sequence[int], offset: int) -> bytes:
    """The storage in which ``values`` lie at the given strides and offset (elements); gaps are zero bytes."""
    if len(strides) != values.ndim:
        raise ProgramError(f"{len(strides)} strides do not fit {values.ndim} dimensions")
    if values.size == 0:
        return bytes(offset * values.dtype.itemsize)
    last = offset + sum((n - 1) * s for n, s in zip(values.shape, strides, strict=True))
    size = values.dtype.itemsize
    storage = np.zeros((last + 1) * size, np.uint8)
    steps = [step * size for step in strides]
    window: Array = np.ndarray(values.shape, values.dtype, storage, offset * size, steps)
    window[...] = values
    return storage.tobytes()
