"""Frames between the bot and a worker: the one module that both sides share.

A frame is a fixed prefix, a JSON header and a raw little-endian payload::

    <I header bytes> <Q payload bytes> <header: UTF-8 JSON object> <payload>

Every size is bounded before anything is allocated, and no pickle is involved: a worker has loaded
untrusted code, so whatever it says is data. This module runs under Python 3.8 with the standard
library alone.

Messages, by the header's ``type``. Bot to worker:

``hello``   ``{framework, device, options: {str: str}, threads, compile_seconds, mapping: {...}}``; answered by
            ``ready`` or ``failed``
``batch``   ``{programs: [[id, blob bytes], ...]}``, payload: the program blobs one after another;
            answered by one ``outcome`` per program, in order, each flushed before the next begins
``names``   answered by ``names``
``list``    answered by ``listed`` (program sources; PyTorch only)
``trace``   ``{source, name, variant, dtypes, kinds, seed, ...}``; answered by ``program``... and ``traced``
``signatures``  answered by ``signatures`` (PyTorch only)
``stop``    the worker exits with status 0

Worker to bot:

``ready``    ``{framework, version, python, numpy, device, ...facts for the report}``
``failed``   ``{reason}``: one line; the worker exits
``outcome``  see ``bot/targets/outcome.py``
``retired``  after an outcome: the worker ends, what is left of its batch is for another one (:data:`RETIREMENT`)
``names``    ``{names: [allow-listed canonical names]}``
``listed``   ``{entries: [...]}``; ``program`` ``{digest, op}`` + payload: one blob; ``traced`` ``{counts, skipped}``
``signatures``  ``{signatures: {name: [[parameter, ...] per overload]}}``, see ``op_signatures.py``
"""

import json
import struct
from typing import Any, BinaryIO, Dict, Tuple, Union

PREFIX = struct.Struct("<IQ")

MAX_HEADER_BYTES = 16 * 1024 * 1024
MAX_PAYLOAD_BYTES = 1 << 30

RETIREMENT = b'{"type":"retired"}'
"""The header of the frame with which a worker says, after an outcome, that it ought to be replaced."""

Header = Dict[str, Any]
Buffer = Union[bytes, bytearray, memoryview]


class ProtocolError(Exception):
    """The other side broke the frame format: wrong sizes, bad JSON, or an end in mid-frame."""


def encode_header(header: Header) -> bytes:
    """The canonical UTF-8 JSON of a header: sorted keys, no blanks, so that equal headers are equal bytes.

    Raises ValueError for NaN and infinities, which JSON does not have.
    """
    return json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode(
        "utf-8"
    )


def _refuse_constant(name: str) -> Any:
    raise ProtocolError("JSON does not have the number %s" % name)


def decode_header(raw: Buffer) -> Header:
    """A header's JSON object. Raises ProtocolError for anything else."""
    try:
        header = json.loads(bytes(raw).decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a frame's header is not JSON: %s" % error) from None
    if not isinstance(header, dict):
        raise ProtocolError("a frame's header is not a JSON object")
    return header


def write_frame(stream: BinaryIO, header: Buffer, *payload: Buffer) -> None:
    """Write one frame from an encoded header and payload parts, and flush."""
    size = 0
    for part in payload:
        size += memoryview(part).nbytes
    stream.write(PREFIX.pack(len(header), size))
    stream.write(header)
    for part in payload:
        stream.write(part)
    stream.flush()


def _read_exactly(stream: BinaryIO, size: int, at_start: bool = False) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        if at_start and not data:
            raise EOFError("the stream ended")
        raise ProtocolError("the stream ended in mid-frame")
    return data


def read_raw_frame(
    stream: BinaryIO, max_payload: int = MAX_PAYLOAD_BYTES, max_header: int = MAX_HEADER_BYTES
) -> Tuple[bytes, bytes]:
    """The next frame's header and payload as bytes, the header not yet parsed.

    Raises EOFError when the stream ends between frames, ProtocolError when it ends within one or a size
    (bytes) is over its bound.
    """
    prefix = _read_exactly(stream, PREFIX.size, at_start=True)
    header_size, payload_size = PREFIX.unpack(prefix)
    if header_size > max_header or payload_size > max_payload:
        raise ProtocolError(
            "a frame of %d + %d bytes is over the bound of %d + %d"
            % (header_size, payload_size, max_header, max_payload)
        )
    header = _read_exactly(stream, header_size)
    return header, _read_exactly(stream, payload_size)


def read_frame(
    stream: BinaryIO, max_payload: int = MAX_PAYLOAD_BYTES, max_header: int = MAX_HEADER_BYTES
) -> Tuple[Header, bytes]:
    """The next frame, its header parsed; raises as :func:`read_raw_frame` and :func:`decode_header`."""
    header, payload = read_raw_frame(stream, max_payload, max_header)
    return decode_header(header), payload
