from __future__ import annotations

import base64
import json
import zlib

import made_publications as made
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.github.marker import MAX_MARKER_BYTES, fitted, read_marker, write_marker
from bot.github.state import CommentState, Decision, Seen


def packed(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw)).decode()


@given(made.states)
def test_a_state_reads_back(state: CommentState) -> None:
    marker = write_marker(state)
    assert "\n" not in marker
    assert marker.count("-->") == 1
    assert marker.endswith(" -->")
    assert read_marker(f"any text\n\n{marker}") == state
    assert read_marker(f"any text\r\n\r\n{marker}\r\n\r\n") == state


def test_a_comment_without_a_marker_has_no_state() -> None:
    marker = write_marker(CommentState(head=made.HEAD))
    for body in ("", "text", "<!-- opdiff -->", f"{marker}\ntext", f"```\n{marker}\n```", f"> {marker}", f"text {marker}"):  # fmt: skip
        assert read_marker(body) is None


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "A",
        "AAAA",
        "=" * 50,
        base64.b64encode(b"no zlib").decode(),
        packed(b"{"),
        packed(b"[]"),
        packed(b'{"version": 2}'),
        packed(b'{"unknown": 1}'),
        packed(b'{"head": "main"}'),
        packed(json.dumps({"seen_left_out": "many"}).encode()),
        packed(b"[" * 500_000),
        packed(b'{"head": null, "run": 1' + b" " * (2 << 20) + b"}"),
        packed(b"\0" * (200 << 20)),
        packed(b"{}") + packed(b"{}"),
        base64.b64encode(zlib.compress(b'{"run": 1}')[:-4]).decode(),
        base64.b64encode(zlib.compress(b"{}") + b"more").decode(),
    ],
)
def test_a_hostile_marker_is_an_empty_state(inside: str) -> None:
    assert read_marker(f"<!-- opdiff:1 {inside} -->") == CommentState()


def test_a_marker_of_another_version_is_an_empty_state() -> None:
    text = write_marker(CommentState(head=made.HEAD)).replace("opdiff:1", "opdiff:2")
    assert read_marker(text) == CommentState()


def test_the_largest_state_is_made_to_fit() -> None:
    letters = "".join(chr(0x4E00 + index * 7 % 20_000) for index in range(30_000))
    state = CommentState(
        head=made.HEAD,
        seen=tuple(
            Seen(fingerprint=f"{i * 0x9E3779B97F4A7C15 % 2**256:064x}", op=letters[i : i + 120], kind="nan", verdict="both")
            for i in range(300)
        ),
        seen_left_out=5,
        decisions=tuple(
            Decision(
                comment=i, verb="wrong", author=letters[i * 100 : i * 100 + 100], head=made.HEAD,
                fingerprint=f"{i:016x}", reason=letters[i * 97 : i * 97 + 300],
            )
            for i in range(200)
        ),
    )  # fmt: skip
    with pytest.raises(ValueError, match="the state takes"):
        write_marker(state)
    small = fitted(state)
    assert len(write_marker(small)) <= MAX_MARKER_BYTES
    assert len(small.seen) + small.seen_left_out == 305
    assert small.decisions
    first = 200 - len(small.decisions)
    assert [decision.comment for decision in small.decisions] == list(range(first, 200))
    assert read_marker(write_marker(small)) == small


def test_reasons_give_way_before_findings() -> None:
    reasons = [
        "".join(chr(0x4E00 + (i * 300 + k) * 37 % 20_000) for k in range(300)) for i in range(60)
    ]
    state = CommentState(
        seen=tuple(Seen(fingerprint=f"{i:08x}", op="add", kind="nan", verdict="both") for i in range(50)),
        decisions=tuple(
            Decision(comment=i, verb="accept", author="a", head=made.HEAD, reason=reason)
            for i, reason in enumerate(reasons)
        ),
    )  # fmt: skip
    small = fitted(state)
    assert small.seen == state.seen
    assert [d.comment for d in small.decisions] == list(range(60))
    assert all(len(d.reason) <= 60 and d.reason.endswith("…") for d in small.decisions)


@given(st.text(max_size=200))
def test_any_text_reads_as_a_state_or_none(text: str) -> None:
    assert read_marker(text) is None or isinstance(read_marker(text), CommentState)
