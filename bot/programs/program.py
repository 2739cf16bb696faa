"""The Program: a framework-neutral list of op calls over named tensors, with the inputs' exact bytes.

A program alone determines its outcome. On the wire and on disk it is a *blob*::

    <I json bytes> <json: UTF-8, canonical> <padding to a multiple of 64> <data>

``data`` holds each storage at a multiple of 64 bytes, little-endian. The JSON is this module's
:class:`Program`. Values inside ``args`` and ``kwargs`` follow one small grammar (:data:`Value`):

=============================  ==============================================================
``null true 1 1.5 "s" [..]``   themselves (finite floats only)
``{"ref": n, "path": [i]}``    the tensor or result named n; ``path`` indexes into a nested result
``{"tuple": [..]}``            tuple;  ``{"dict": [[k, v], ..]}`` dict;  ``{"size": [..]}`` torch.Size
``{"float": "nan"}``           also ``inf``, ``-inf``, ``-0.0``;  ``{"complex": [re, im]}`` (numbers or these strings)
``{"dtype": "float32"}``       a dtype by its canonical name
``{"device": "target"}``       the target's device; also ``cpu`` and ``meta``
``{"layout": "strided"}``      ``{"memory_format": "channels_last"}``  ``{"generator": seed}``
``{"slice": [a, b, c]}``       ``{"ellipsis": true}``
``{"fn": "nn.functional.relu"}``  an allow-listed callable as an argument
=============================  ==============================================================

``fn`` is the canonical op name (the public PyTorch path without ``torch.``): ``nn.functional.softplus``,
``Tensor.add_``. A module is made by calling its class (``fn: "nn.Conv2d"``), given ``state``, and called by
``fn: "nn.Module.__call__"`` with the module as first argument (also ``nn.Module.train``, ``nn.Module.eval``).
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FORMAT_VERSION: Final = 1
ALIGNMENT: Final = 64  # bytes; what the frameworks' own allocators give
_LENGTH = struct.Struct("<I")

Value = Any
"""A JSON value in the grammar above."""

Name = Annotated[str, Field(max_length=200)]


class ProgramError(ValueError):
    """A blob is not a valid program; the message is one line."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Storage(_Model):
    """A run of bytes in the data section; two tensors with the same storage alias each other."""

    offset: int = Field(ge=0)  # bytes from the start of the data section, a multiple of 64
    nbytes: int = Field(ge=0)


class TensorSpec(_Model):
    """A named tensor over a storage. Strides and offset are in elements, as PyTorch counts them."""

    name: Name
    dtype: str
    shape: list[int]
    strides: list[int]
    offset: int = 0
    storage: int
    requires_grad: bool = False
    conj: bool = False
    neg: bool = False


class Call(_Model):
    """One op call; its result (any nesting of tensors and plain values) gets a name."""

    fn: Name
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    result: Name


class Backward(_Model):
    """Run backward from ``output`` (a ``{"ref": .., "path": ..}`` value) with the tensor named ``gradient``.

    Without one the worker gives the output the numbers of ``bot/worker/output_gradients.py``, in its own shape and dtype.
    """

    output: Value
    gradient: Name | None = None


class Tolerance(_Model):
    """An op's own tolerance override: ``|a - b| <= atol + rtol * |b|`` (absolute, relative)."""

    atol: float = Field(ge=0, allow_inf_nan=False)
    rtol: float = Field(ge=0, allow_inf_nan=False)


class Origin(_Model):
    """Where a program came from; it explains, and never changes the outcome."""

    source: str  # opinfo, moduleinfo, mutation, autotest
    name: str = ""  # the OpInfo's or ModuleInfo's name
    variant: str = ""  # its variant_test_name
    kind: str = "sample"  # sample, reference, error
    form: str = "function"  # function, method, inplace, module
    index: int = 0  # which sample
    tolerance: Tolerance | None = None  # the op's own override for this dtype
    random: bool = False  # draws from a generator: compared by contract, not by value
    uninitialised: bool = False  # returns memory that was never written: compared by contract
    gauge: str | None = None  # output_process_fn_grad was applied as calls (svd, eigh, ...)
    nondeterminism_tolerance: float = 0.0  # OpInfo.gradcheck_nondet_tol, absolute
    broadcasts_input: bool = False
    expected_error: str | None = None  # error inputs: the exception type that PyTorch documents
    known: str | None = (
        None  # known to PyTorch's own suite (a skip or an expected failure), its text
    )


class Program(_Model):
    """A framework-neutral list of op calls over named tensors; see the module's docstring."""

    version: int = FORMAT_VERSION
    op: Name  # the op group's canonical name
    storages: list[Storage] = []
    tensors: list[TensorSpec] = []
    calls: list[Call]
    outputs: list[
        Value
    ] = []  # refs to compare as outputs; every other call's result is an intermediate
    backward: list[Backward] = []
    state: dict[
        Name, dict[Name, Name]
    ] = {}  # module result -> parameter or buffer name -> tensor name
    seed: int = Field(default=0, ge=-(1 << 63), lt=1 << 63)
    origin: Origin

    def inputs(self) -> list[TensorSpec]:
        """The tensors that are neither an output gradient nor module state."""
        hidden = {b.gradient for b in self.backward}
        hidden.update(t for names in self.state.values() for t in names.values())
        return [t for t in self.tensors if t.name not in hidden]


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no blanks, UTF-8: equal values give equal bytes. Raises ValueError for NaN and infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def encode(program: Program, data: bytes) -> bytes:
    """The blob of a program and its data section."""
    text = canonical_json(program.model_dump(mode="json", exclude_defaults=True))
    head = _LENGTH.pack(len(text)) + text
    return head + b"\0" * (-len(head) % ALIGNMENT) + data


def split(blob: bytes) -> tuple[bytes, memoryview]:
    """A blob's JSON text and data section, neither validated. Raises ProgramError."""
    if len(blob) < _LENGTH.size:
        raise ProgramError("a program's blob is shorter than its length field")
    (size,) = _LENGTH.unpack_from(blob)
    end = _LENGTH.size + size
    if end > len(blob):
        raise ProgramError("a program's JSON runs past the end of its blob")
    return blob[_LENGTH.size : end], memoryview(blob)[end + (-end % ALIGNMENT) :]


def decode(blob: bytes) -> tuple[Program, memoryview]:
    """The validated program and its data section.

    Checks what workers and reports rely on: storages lie inside the data, every tensor inside its storage and within
    a bound of elements, every name is defined once and before its use, every number is finite. Raises ProgramError.
    """
    text, data = split(blob)
    try:
        # Strict: a worker reads the same JSON without pydantic's conversions.
        program = Program.model_validate_json(text, strict=True)
    except (ValidationError, RecursionError) as error:
        first = str(error).replace("\n", "; ")[:300]
        raise ProgramError(f"not a program: {first}") from None
    from bot.programs.validation import check_program

    check_program(program, len(data))
    return program, data


def digest(blob: bytes) -> str:
    """32 hex digits over everything that determines the outcome: the JSON without its origin, and the data."""
    text, data = split(blob)
    fields = json.loads(text)
    fields.pop("origin", None)
    state = hashlib.blake2b(canonical_json(fields), digest_size=16)
    state.update(data)
    return state.hexdigest()
