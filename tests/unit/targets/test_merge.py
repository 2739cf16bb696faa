from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.targets.merge import MergeError, Rejected, three_way

BASE = "".join(f"line {number}\n" for number in range(1, 21))


def test_an_untouched_release_becomes_the_head() -> None:
    assert three_way(BASE, BASE, "anything").text == "anything"
    assert three_way("release", BASE, BASE).text == "release"


def test_a_change_moves_with_what_the_release_inserted_above() -> None:
    released = "new\nnew\n" + BASE
    head = BASE.replace("line 15\n", "patched\n")
    merged = three_way(released, BASE, head)
    assert merged.text == released.replace("line 15\n", "patched\n")
    assert merged.rejected == ()


def test_a_hunk_that_does_not_apply_is_left_out_and_reported_and_the_others_apply() -> None:
    released = BASE.replace("line 3\n", "released 3\n")
    head = BASE.replace("line 3\n", "patched 3a\npatched 3b\n").replace("line 15\n", "patched 15\n")
    merged = three_way(released, BASE, head)
    assert merged.text == released.replace("line 15\n", "patched 15\n")
    assert merged.rejected == (Rejected(3, "patched 3a\npatched 3b\n"),)


def test_a_later_rejected_hunk_has_its_line_on_the_head_side() -> None:
    released = BASE.replace("line 18\n", "released 18\n")
    head = "added\n" + BASE.replace("line 18\n", "patched 18\n")
    merged = three_way(released, BASE, head)
    assert merged.text == "added\n" + released
    assert merged.rejected == (Rejected(19, "patched 18\n"),)


def test_text_that_looks_like_conflict_markers_is_only_text() -> None:
    markers = "<<<<<<< a\n=======\n>>>>>>> b\n"
    released = markers + BASE + "tail\n"
    head = markers + BASE.replace("line 9\n", "patched\n")
    merged = three_way(released, markers + BASE, head)
    assert merged.text == released.replace("line 9\n", "patched\n")
    assert merged.rejected == ()


def test_bytes_that_are_no_utf8_and_carriage_returns_survive() -> None:
    base = "a\r\nb\r\nc\r\nd\r\n\udce9\r\n"
    merged = three_way(base + "e\r\n", base, base.replace("a\r\n", "A\r\n"))
    assert merged.text == "A\r\nb\r\nc\r\nd\r\n\udce9\r\ne\r\n"


def test_a_missing_git_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MergeError, match="git does not start"):
        three_way("a", "b", "c")


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=8).map("".join)


@settings(max_examples=60, deadline=None)
@given(LINES, LINES)
def test_both_sides_making_one_change_agree(base: str, head: str) -> None:
    merged = three_way(head, base, head)
    assert (merged.text, merged.rejected) == (head, ())
