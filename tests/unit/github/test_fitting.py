from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.github.fitting import Section, fit


def listed(rank: int, pieces: list[str], **more: object) -> Section:
    return Section(rank=rank, pieces=pieces, left_out=lambda count: f"{count} more", **more)  # type: ignore[arg-type]


def test_everything_that_fits_is_there_in_the_order_of_reading() -> None:
    sections = [listed(2, ["a", "b"], head="[", tail="]"), listed(1, ["c"]), listed(3, [], head="(", tail=")")]  # fmt: skip
    assert fit(sections, 100) == "[a\nb]\n\nc"


def test_what_ranks_first_is_kept_and_the_rest_is_counted() -> None:
    text = fit([listed(2, ["x" * 10] * 5), listed(1, ["y" * 10] * 5)], 72)
    assert text == "5 more\n\n" + "\n".join(["y" * 10] * 4) + "\n\n1 more"


def test_bytes_are_counted() -> None:
    assert fit([listed(1, ["漢漢", "漢漢"])], 23) == "漢漢\n漢漢"
    assert fit([listed(1, ["漢漢", "漢漢"])], 22) == "漢漢\n\n1 more"


def test_fuller_forms_come_in_last_and_the_first_ones_first() -> None:
    sections = [listed(1, ["a", "b"], fuller=["A" * 20, "B" * 20]), listed(2, ["c" * 10])]
    assert fit(sections, 50 + 20) == "A" * 20 + "\nb\n\n" + "c" * 10


def test_unwritten_pieces_are_counted() -> None:
    assert fit([listed(1, ["a"], unwritten=7)], 100) == "a\n\n7 more"
    assert fit([listed(1, [], unwritten=7)], 100) == "7 more"


def test_a_limit_that_holds_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="do not even hold"):
        fit([listed(1, ["a"])], 5)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.text("aé漢", max_size=30), max_size=8), st.text("h", max_size=5)),
        max_size=6,
    ),
    st.integers(100, 400),
)  # fmt: skip
def test_never_over_the_limit(drawn: list[tuple[int, list[str], str]], limit: int) -> None:
    sections = [
        listed(rank, pieces, head=head, tail=head, fuller=[piece * 2 for piece in pieces])
        for rank, pieces, head in drawn
    ]
    assert len(fit(sections, limit).encode()) <= limit
