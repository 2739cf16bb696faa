"""Causes whose programs ran on different sets of targets."""

from bot.oracle.cause import Cause, CauseKey, Sides, joined


def cause(sides: Sides, kind: str = "gradient") -> Cause:
    return Cause(CauseKey("normalize", kind, "gradient of the first tensor", "", sides), ())  # type: ignore[arg-type]


ALONE = (("base", "peer"), ("candidate",))
APART = (("base",), ("candidate",))
WITH_PEER = (("base",), ("candidate", "peer"))


def test_sides_with_a_target_missing_join() -> None:
    assert [c.key.sides for c in joined([cause(APART), cause(ALONE)])] == [ALONE]


def test_what_two_others_could_take_in_stays_alone() -> None:
    assert len(joined([cause(APART), cause(ALONE), cause(WITH_PEER)])) == 3


def test_another_kind_does_not_join() -> None:
    assert len(joined([cause(APART, "nan"), cause(ALONE)])) == 2


def test_other_sides_do_not_join() -> None:
    together = (("base", "candidate"), ("peer",))
    assert len(joined([cause(APART), cause(together)])) == 2


def test_a_chain_joins_the_widest() -> None:
    wide = (("a", "b", "c"), ("d",))
    mid = (("a", "b"), ("d",))
    narrow = (("a",), ("d",))
    assert [c.key.sides for c in joined([cause(narrow), cause(mid), cause(wide)])] == [wide]


def test_what_the_baseline_cannot_run_is_not_called_known() -> None:
    """The candidate may support more than its baseline: what is wrong there is its own."""
    known = (("base", "candidate"), ("peer",))
    unseen = (("candidate",), ("peer",))
    found = joined([cause(unseen), cause(known)], "candidate", "base")
    assert {c.key.sides for c in found} == {known, unseen}


def test_what_the_candidate_cannot_run_is_known_all_the_same() -> None:
    known = (("base", "candidate"), ("peer",))
    found = joined([cause((("base",), ("peer",))), cause(known)], "candidate", "base")
    assert [c.key.sides for c in found] == [known]
