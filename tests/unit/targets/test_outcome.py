"""Outcomes are data from untrusted workers: whatever does not add up is a ProtocolError, and nothing else is raised."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.oracle.fast import read_layout
from bot.targets.outcome import decode_outcome
from bot.worker.protocol import ProtocolError

FIELDS = {
    "type": "outcome", "id": 1, "status": "ok", "phase": "forward", "call": None, "error": None,
    "tensors": [], "values": [], "absent": [],
}  # fmt: skip
DEEP = '{"tuple":[' * 200 + "]}" * 200


def header(name: str, text: str) -> bytes:
    """A header in which one field is this JSON text."""
    return json.dumps({**FIELDS, name: "HERE"}).replace('"HERE"', text).encode()


def value(text: str) -> bytes:
    return header("values", f'[["output","r0",[],{text}]]')


@pytest.mark.parametrize(
    "raw",
    [
        header("call", "1e999"),
        header("status", "[]"),
        header("tensors", '[["output","r0",[],"float32",[0,1e999]]]'),
        header("tensors", '[["output","r0",[],"float32",[0,4611686018427387904,4]]]'),
        header("tensors", '[["output","r0",[],["float32"],[0]]]'),
        header("values", '[["output","r0",[1e999],1]]'),
        value(DEEP),
        value("1e999"),
        value('{"float":"one"}'),
        value('{"complex":[1]}'),
        value('{"complex":{"real":1}}'),
        value('{"tuple":7}'),
    ],
)
def test_what_does_not_add_up(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_outcome(raw, b"")


def test_the_fast_path_refuses_infinite_sizes_too() -> None:
    with pytest.raises(ProtocolError):
        read_layout(header("tensors", '[["output","r0",[],"float32",[1e999]]]'))


def test_half_characters_become_text_that_can_be_written() -> None:
    raw = header("error", r'{"type":"ValueError","message":"no \udcff here"}')
    error = decode_outcome(raw, b"").error
    assert error is not None
    assert error.message == r"no \udcff here"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["float", "complex", "tuple", "type", "x"]), inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from(sorted(FIELDS)), JSON)
def test_any_field_may_hold_anything(name: str, anything: object) -> None:
    raw = json.dumps({**FIELDS, name: anything}).encode()
    for read in (lambda: decode_outcome(raw, b""), lambda: read_layout(raw)):
        try:
            read()
        except ProtocolError:
            continue
