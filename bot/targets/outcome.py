"""The Outcome: what one target made of one program.

A worker answers with an ``outcome`` frame; its header is canonical JSON (:func:`bot.worker.protocol.encode_header`)
with exactly these keys, so that two workers which agree to the last bit send the same bytes::

    type     "outcome"
    id       the program's id in its batch
    status   "ok" | "exception" | "unsupported" | "refused"
    phase    "build" | "forward" | "backward": where it stopped ("backward" too when all went well; "forward" with
             "ok": backward could not begin, since an output has not the shape that its gradient is for)
    call     index of the call that stopped it, else null
    error    null | {"type": exception class, "message": at most 2,000 characters}
    tensors  [[role, name, path, dtype, shape], ...], their bytes one after another in the payload
    values   [[role, name, path, value], ...]: results that are no tensors, in the program's value grammar
    absent   [names of leaves that got no gradient]

``unsupported`` means this framework has no such op, argument, dtype or gradient: coverage, never a finding.
``refused`` means ``fn`` is not in the worker's allow-list. Whatever was computed before the stop is in ``tensors``.
Roles: ``output``, ``intermediate``, ``side-effect`` (an input whose bytes changed), ``gradient`` (of an input or
parameter), ``parameter`` and ``buffer`` (module state after the run, when it changed).
Tensors are C-contiguous and little-endian; bfloat16 and other small floats by their bits; conj/neg bits resolved.

``crash``, ``hang`` and ``memory`` are not said by a worker; the pool states them of a worker that died.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from bot.programs.dtypes import DTYPES
from bot.worker.protocol import Header, ProtocolError, decode_header, encode_header

Array = npt.NDArray[Any]
Status = Literal["ok", "exception", "unsupported", "refused", "crash", "hang", "memory"]
Role = Literal["output", "intermediate", "side-effect", "gradient", "parameter", "buffer"]
STATUSES = frozenset(("ok", "exception", "unsupported", "refused"))
ROLES = frozenset(("output", "intermediate", "side-effect", "gradient", "parameter", "buffer"))
MAX_RANK = 64
MAX_TEXT = 4_000  # characters
MAX_DEPTH = 16  # of a value's nesting, as in programs


@dataclass(frozen=True)
class Tensor:
    """One observed tensor. ``array`` is a read-only view of the outcome's bytes with the tensor's shape."""

    role: Role
    name: str
    path: tuple[int, ...]
    dtype: str
    array: Array

    @property
    def key(self) -> tuple[Role, str, tuple[int, ...]]:
        """What identifies this tensor in every target's outcome of the same program."""
        return (self.role, self.name, self.path)

    @property
    def label(self) -> str:
        """``gradient of weight``, ``output r0[1]``: for reports."""
        suffix = "".join(f"[{index}]" for index in self.path)
        link = " of " if self.role == "gradient" else " "
        return f"{self.role}{link}{self.name}{suffix}"


@dataclass(frozen=True)
class Error:
    """An exception as the worker saw it."""

    type: str
    message: str


@dataclass(frozen=True)
class Death:
    """How a worker died on a program: stated by the pool, confirmed by a re-run alone in a fresh worker."""

    signal: (
        str  # "SIGABRT", "SIGFPE", "exit 3"; "timeout" for a hang; "memory" for an exceeded bound
    )
    last_words: str  # tail of stderr, at most 4,000 characters
    confirmed: bool


@dataclass(frozen=True)
class Outcome:
    """An outcome decoded and validated. ``values`` holds non-tensor results by (role, name, path)."""

    status: Status
    phase: str = "forward"
    call: int | None = None
    error: Error | None = None
    tensors: tuple[Tensor, ...] = ()
    values: tuple[tuple[str, str, tuple[int, ...], Any], ...] = ()
    absent: tuple[str, ...] = ()
    death: Death | None = None

    @cached_property
    def by_key(self) -> dict[tuple[Role, str, tuple[int, ...]], Tensor]:
        """Tensors by their key."""
        return {tensor.key: tensor for tensor in self.tensors}


@dataclass(frozen=True)
class RawOutcome:
    """An outcome frame as it came, decoded only when somebody needs to look inside.

    Two raw outcomes with equal bytes agree in everything; that is how most comparisons end.
    """

    header: bytes
    payload: bytes
    death: Death | None = None  # set by the pool; header and payload are then empty
    status_of_death: Literal["crash", "hang", "memory"] | None = None

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return len(self.header) + len(self.payload)

    def decode(self) -> Outcome:
        """Validate and decode. Raises ProtocolError when the worker's words do not add up."""
        if self.status_of_death is not None:
            return Outcome(status=self.status_of_death, death=self.death)
        return decode_outcome(self.header, self.payload)


def dead(status: Literal["crash", "hang", "memory"], death: Death) -> RawOutcome:
    """The outcome of a program on which its worker died."""
    return RawOutcome(b"", b"", death, status)


NOT_ASKED = "the program was not run on this target"


def left_out(program_id: int) -> RawOutcome:
    """The outcome of a target that was not asked: ``unsupported``, for it says nothing of the program."""
    fields: Header = {
        "type": "outcome", "id": program_id, "status": "unsupported", "phase": "build", "call": None,
        "error": {"type": "NotAsked", "message": NOT_ASKED}, "tensors": [], "values": [], "absent": [],
    }  # fmt: skip
    return RawOutcome(encode_header(fields), b"")


def decode_outcome(raw_header: bytes, payload: bytes) -> Outcome:
    """Validate a worker's outcome frame. Raises ProtocolError for anything that does not add up."""
    header = decode_header(raw_header)
    try:
        if header["type"] != "outcome" or header["status"] not in STATUSES:
            raise ProtocolError("not an outcome frame")
        error = header["error"]
        return Outcome(
            status=header["status"],
            phase=_text(header["phase"]),
            call=None if header["call"] is None else int(header["call"]),
            error=None if error is None else Error(_text(error["type"]), _text(error["message"])),
            tensors=_tensors(header["tensors"], payload),
            values=tuple(
                (_role(r), _text(n), _path(p), _value(v)) for r, n, p, v in header["values"]
            ),
            absent=tuple(_text(name) for name in header["absent"]),
        )
    except UNREADABLE as problem:
        raise ProtocolError(f"an outcome that does not add up: {problem!r}"[:300]) from None


UNREADABLE: tuple[type[Exception], ...] = (KeyError, TypeError, ValueError, OverflowError)
"""What reading fields that do not add up raises: ``1e999``, which JSON allows, is an infinity that no int can hold."""


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError("expected a short string")
    return _whole(value)


def _whole(text: str) -> str:
    """A text as UTF-8 can hold it: JSON's escapes can say half of a character."""
    return text.encode("utf-8", "backslashreplace").decode()


def _value(value: Any, depth: int = 0) -> Any:
    """A result that is no tensor, in the program's value grammar."""
    if depth > MAX_DEPTH:
        raise ValueError("a value is nested too deep")
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, list):
        return [_value(item, depth + 1) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return _wrapped(
            {_text(k): _value(v, depth + 1) for k, v in cast("dict[str, Any]", value).items()}
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that JSON does not have")
    return value


def _wrapped(value: dict[str, Any]) -> dict[str, Any]:
    """A value with the grammar's wrapper, whose content must be what the wrapper says."""
    if "float" in value:
        float(value["float"])
    if "complex" in value:
        real, imaginary = value["complex"]
        _ = float(real), float(imaginary)
    for name in ("tuple", "size"):
        if not isinstance(value.get(name, []), list):
            raise ValueError(f"a {name} that is no list")
    return value


def _role(value: object) -> Any:
    if value not in ROLES:
        raise ValueError("unknown role")
    return value


def _path(value: list[Any]) -> tuple[int, ...]:
    return tuple(int(index) for index in value)


def _tensors(rows: list[Any], payload: bytes) -> tuple[Tensor, ...]:
    tensors: list[Tensor] = []
    at = 0
    for role, name, path, dtype_name, raw_shape in rows:
        shape = [int(size) for size in raw_shape]
        if len(shape) > MAX_RANK or any(size < 0 for size in shape):
            raise ValueError("impossible shape")
        dtype = DTYPES[dtype_name]
        count = math.prod(shape)
        end = at + count * dtype.itemsize
        if end > len(payload):
            raise ValueError("tensors run past the payload")
        array = (
            np.frombuffer(payload, dtype, count, at).reshape(shape)
            if count
            else np.empty(shape, dtype)
        )
        tensors.append(Tensor(_role(role), _text(name), _path(path), str(dtype_name), array))
        at = end
    if at != len(payload):
        raise ValueError("bytes left over in the payload")
    return tuple(tensors)
