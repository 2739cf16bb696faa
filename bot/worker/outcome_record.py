"""What a program's run has given so far, and the outcome frame's header that says it.

``bot/targets/outcome.py`` documents the header. It is built by hand because it is on the path of every program, but is
byte for byte what ``protocol.encode_header`` would give.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as quote
from typing import Any, List, Optional, Tuple

import values
from framework import Framework, UnsupportedError

MAX_VALUES = 10_000
MAX_TENSORS = 50_000
MAX_PAYLOAD_BYTES = 1 << 29


class OutcomeRecord:
    """The outcome as it grows: where the program is or stopped, and every tensor and value that was observed."""

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self.status = "ok"
        self.phase = "build"
        self.call: Optional[int] = None
        self.error: Optional[Tuple[str, str]] = None
        self.rows: List[str] = []
        self.values: List[List[Any]] = []
        self.absent: List[str] = []
        self.payload: List[bytes] = []
        self.payload_bytes = 0

    def observe(self, role: str, name: str, path: Tuple[int, ...], tensor: Any) -> None:
        """Take down a tensor's values. Raises UnsupportedError for more than an outcome may hold."""
        if len(self.rows) >= MAX_TENSORS:
            raise UnsupportedError("more than %d tensors as results" % MAX_TENSORS)
        dtype, shape, data = self.framework.read(tensor)
        self.payload_bytes += len(data)
        if self.payload_bytes > MAX_PAYLOAD_BYTES:
            raise UnsupportedError("more than %d bytes of results" % MAX_PAYLOAD_BYTES)
        self.rows.append(
            '["%s",%s,[%s],"%s",[%s]]'
            % (role, quote(name), ",".join(map(str, path)), dtype, ",".join(map(str, shape)))
        )
        self.payload.append(data)

    def observe_leaf(self, role: str, name: str, path: Tuple[int, ...], leaf: Any) -> None:
        """Take down one leaf of a result: a tensor or a plain value; a module is neither."""
        if self.framework.is_tensor(leaf):
            self.observe(role, name, path, leaf)
        elif not self.framework.is_module(leaf):
            if len(self.values) >= MAX_VALUES:
                raise UnsupportedError("more than %d plain values as results" % MAX_VALUES)
            self.values.append([role, name, list(path), values.encode(leaf, self.framework)])

    def header(self, program_id: int) -> bytes:
        """The outcome frame's canonical header."""
        error = "null"
        if self.error is not None:
            error = '{"message":%s,"type":%s}' % (quote(self.error[1]), quote(self.error[0]))
        observed = "[]"
        if self.values:
            observed = json.dumps(self.values, sort_keys=True, separators=(",", ":"))
        return (
            '{"absent":[%s],"call":%s,"error":%s,"id":%d,"phase":"%s","status":"%s","tensors":[%s],'
            '"type":"outcome","values":%s}'
            % (
                ",".join(map(quote, self.absent)),
                "null" if self.call is None else self.call,
                error,
                program_id,
                self.phase,
                self.status,
                ",".join(self.rows),
                observed,
            )
        ).encode("ascii")
