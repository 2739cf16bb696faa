"""Frames from a stream cut anywhere, and the tail of a stream."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.targets.frame_buffer import FrameBuffer, Tail
from bot.worker.protocol import PREFIX, ProtocolError

frames = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=200)), max_size=8)


def encode(header: bytes, payload: bytes) -> bytes:
    return len(header).to_bytes(4, "little") + len(payload).to_bytes(8, "little") + header + payload


@given(frames, st.lists(st.integers(1, 60), min_size=1, max_size=50))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(sent, cuts):
    stream = b"".join(encode(*frame) for frame in sent)
    buffer = FrameBuffer()
    received = []
    at = 0
    for cut in [*cuts, len(stream)]:
        received += buffer.feed(stream[at : at + cut])
        at += cut
    assert received == sent


@given(
    frames, st.sampled_from([(101, 0), (0, 201), (2**32 - 1, 2**64 - 1)]), st.binary(max_size=50)
)
def test_a_size_over_its_bound_is_refused_after_the_frames_before_it(sent, sizes, rest):
    stream = b"".join(encode(*frame) for frame in sent) + PREFIX.pack(*sizes) + rest
    buffer = FrameBuffer(max_payload=200, max_header=100)
    received = buffer.feed(stream) if sent else []
    with pytest.raises(ProtocolError, match="over the bound of 100 \\+ 200"):
        buffer.feed(b"" if sent else stream)
    assert received == sent
    assert buffer.broken is not None


@given(st.lists(st.binary(max_size=50)), st.integers(1, 40))
def test_the_tail_is_the_end_of_the_stream(parts, capacity):
    tail = Tail(capacity)
    for part in parts:
        tail.feed(part)
    whole = b"".join(parts)
    assert tail.total == len(whole)
    assert tail.text() == whole[-capacity:].decode("utf-8", "replace").strip()


def test_the_tail_since_a_mark():
    tail = Tail(10)
    tail.feed(b"before")
    mark = tail.total
    assert tail.text(mark) == ""
    tail.feed(b"after")
    assert tail.text(mark) == "after"
    assert tail.text(mark, characters=2) == "er"


def test_a_flood_fills_no_memory():
    tail, part = Tail(1_000), b"x" * 10_000
    tracemalloc.start()
    try:
        for _ in range(1_000):
            tail.feed(part)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert tail.total == 10_000_000
