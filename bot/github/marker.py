"""The hidden marker in the sticky comment, and the state that it holds.

The marker is the comment's last line, an HTML comment that GitHub does not show::

    <!-- opdiff:1 BASE64 -->

BASE64 is the standard alphabet over a zlib stream of JSON, so nothing in it can end the HTML comment. Only the last
line is looked at: what is quoted further up, in a repro script say, is text. Whoever reads must have made sure that
the bot wrote the comment; what it holds is bounded and validated all the same.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable
from typing import Final

from bot.github.state import STATE_VERSION, CommentState

Keeping = Callable[[CommentState, int], CommentState]

MAX_MARKER_BYTES: Final = 24_000
"""What the marker may take of a comment's 65,536 bytes."""
MAX_STATE_BYTES: Final = 1 << 20
"""What a marker may unpack to."""
SHORT_REASON: Final = 60

_PREFIX: Final = f"<!-- opdiff:{STATE_VERSION} "
_SUFFIX: Final = " -->"
_LAST_LINE: Final = re.compile(r"<!-- opdiff:([0-9]{1,4}) ([A-Za-z0-9+/=]*) -->")


def write_marker(state: CommentState) -> str:
    """One line. Raises ValueError for a state over ``MAX_MARKER_BYTES``: :func:`fitted` makes it small enough."""
    line = _line(state)
    if len(line) > MAX_MARKER_BYTES:
        raise ValueError(f"the state takes {len(line)} bytes, more than {MAX_MARKER_BYTES}")
    return line


def read_marker(body: str) -> CommentState | None:
    """The state in a comment's last line: None without a marker, an empty state where the marker cannot be read."""
    last = body.rstrip().rsplit("\n", 1)[-1].strip()
    found = _LAST_LINE.fullmatch(last)
    if found is None:
        return None
    if found[1] != str(STATE_VERSION):
        return CommentState()
    try:
        return _unpacked(found[2])
    except (zlib.error, ValueError, RecursionError):
        return CommentState()


def fitted(state: CommentState) -> CommentState:
    """The state as far as a marker holds it.

    What gives way, in this order: the ends of reasons (the comments with the commands hold them whole), findings of the
    report before from the end, findings from the end (both counted in ``seen_left_out``), the oldest decisions.
    """
    if _fits(state):
        return state
    state = state.model_copy(
        update={
            "decisions": tuple(
                decision.model_copy(update={"reason": _short(decision.reason)})
                for decision in state.decisions
            )
        }
    )
    earlier = len(state.earlier.seen) if state.earlier is not None else 0
    state = _largest(state, earlier, _with_earlier)
    state = _largest(state, len(state.seen), _with_seen)
    return _largest(state, len(state.decisions), _with_decisions)


def _line(state: CommentState) -> str:
    fields = state.model_dump_json(exclude_defaults=True).encode()
    return _PREFIX + base64.b64encode(zlib.compress(fields, 9)).decode() + _SUFFIX


def _fits(state: CommentState) -> bool:
    return len(_line(state)) <= MAX_MARKER_BYTES


def _unpacked(text: str) -> CommentState:
    stream = zlib.decompressobj()
    raw = stream.decompress(base64.b64decode(text, validate=True), MAX_STATE_BYTES)
    if not stream.eof or stream.unused_data:
        raise ValueError("the marker's stream is cut, followed by something, or too large")
    return CommentState.model_validate_json(raw)


def _short(reason: str) -> str:
    return reason if len(reason) <= SHORT_REASON else reason[: SHORT_REASON - 1] + "…"


def _with_seen(state: CommentState, count: int) -> CommentState:
    left_out = state.seen_left_out + len(state.seen) - count
    return state.model_copy(update={"seen": state.seen[:count], "seen_left_out": left_out})


def _with_earlier(state: CommentState, count: int) -> CommentState:
    if state.earlier is None:
        return state
    left_out = state.earlier.seen_left_out + len(state.earlier.seen) - count
    kept = {"seen": state.earlier.seen[:count], "seen_left_out": left_out}
    return state.model_copy(update={"earlier": state.earlier.model_copy(update=kept)})


def _with_decisions(state: CommentState, count: int) -> CommentState:
    return state.model_copy(update={"decisions": state.decisions[len(state.decisions) - count :]})


def _largest(state: CommentState, most: int, keeping: Keeping) -> CommentState:
    """The state that keeps as many as fit, found by bisection; none when not even that fits."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(keeping(state, middle)):
            low = middle
        else:
            high = middle - 1
    return keeping(state, low)
