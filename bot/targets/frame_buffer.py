"""Frames out of a stream of bytes as they arrive, and the tail of a stream that nobody must be able to fill."""

from __future__ import annotations

from bot.worker.protocol import MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, PREFIX, ProtocolError

Frame = tuple[bytes, bytes]
"""A frame's raw header and payload."""


class FrameBuffer:
    """Collects bytes and gives back whole frames. Nothing is allocated on the word of a size alone."""

    def __init__(
        self, max_payload: int = MAX_PAYLOAD_BYTES, max_header: int = MAX_HEADER_BYTES
    ) -> None:
        self._data = bytearray()
        self._needed = PREFIX.size  # bytes before the next frame can be whole
        self._max_payload = max_payload
        self._max_header = max_header
        self.broken: str | None = None
        """What is wrong with the stream; nothing more can be read from it."""

    def feed(self, data: memoryview | bytes) -> list[Frame]:
        """Add bytes; every frame that is now whole.

        Raises ProtocolError for a size over its bound, but not before the frames ahead of it have been given back.
        """
        if self.broken is not None:
            raise ProtocolError(self.broken)
        self._data += data
        if len(self._data) < self._needed:
            return []
        frames = self._take()
        if self.broken is not None and not frames:
            raise ProtocolError(self.broken)
        return frames

    def _take(self) -> list[Frame]:
        frames: list[Frame] = []
        at = 0
        held = len(self._data)
        prefix = PREFIX.size
        self._needed = prefix
        with memoryview(self._data) as view:
            while held - at >= prefix:
                header, payload = PREFIX.unpack_from(view, at)
                if header > self._max_header or payload > self._max_payload:
                    self.broken = (
                        f"a frame of {header} + {payload} bytes is over the bound of "
                        f"{self._max_header} + {self._max_payload}"
                    )
                    break
                begin = at + prefix
                middle = begin + header
                end = middle + payload
                if end > held:
                    self._needed = end - at
                    break
                frames.append((bytes(view[begin:middle]), bytes(view[middle:end])))
                at = end
        del self._data[:at]
        return frames


class Tail:
    """The last bytes of a stream, however long it is; ``total`` counts all of them."""

    def __init__(self, capacity: int = 64 << 10) -> None:
        self._capacity = capacity
        self._data = bytearray()
        self.total = 0

    def feed(self, data: memoryview | bytes) -> None:
        """Add bytes; the oldest are forgotten."""
        self.total += len(data)
        self._data += data[-self._capacity :]
        if len(self._data) > 2 * self._capacity:
            del self._data[: -self._capacity]

    def text(self, since: int = 0, characters: int = 4_000) -> str:
        """What came after the first ``since`` bytes, its last characters, undecodable bytes replaced."""
        fresh = max(0, self.total - since)
        kept = bytes(self._data[-min(fresh, self._capacity) :]) if fresh else b""
        return kept.decode("utf-8", "replace").strip()[-characters:]
