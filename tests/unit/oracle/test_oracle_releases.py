"""What a candidate must support: all that its baseline of the same release does, and it may support more."""

from made_outcomes import crashed, out, outcome, program, raised

from bot.oracle.compare import Comparator
from bot.oracle.roles import held_to

LABELS = ("oneflow@pr:cpu", "oneflow==0.9.0:cpu", "torch==2.13.0:cpu")
FRAMEWORKS = ("oneflow", "oneflow", "torch")
ROLES = ("candidate", "baseline", "peer")
LACKS = outcome(status="unsupported", phase="forward", error=("UnsupportedError", "no exp"))
RELEASE = ("0.9.0", "0.9.0", "2.13.0+cpu")


def compared(candidate, baseline, versions=RELEASE):
    support = held_to(LABELS, ROLES, FRAMEWORKS, versions)
    comparator = Comparator(LABELS, FRAMEWORKS, held_to=support)
    return comparator.compare(program(), [candidate, baseline, out([1])]).mismatches


def test_a_build_of_the_release_is_held_to_it():
    versions = ("2.13.0a0+git1234", "2.13.0+cpu", "2.13.0+cpu")
    assert held_to(LABELS, ROLES, ("torch",) * 3, versions) == (LABELS[1], "", "")


def test_a_version_that_is_none_is_taken_as_it_is():
    assert held_to(LABELS[:2], ROLES[:2], ("torch",) * 2, ("main", "main")) == (LABELS[1], "")


def test_peers_are_held_to_nobody():
    assert held_to(LABELS[1:], ("peer", "peer"), ("torch",) * 2, ("1", "1")) == ("", "")


def test_what_the_baseline_has_and_the_candidate_lacks_is_refused():
    (mismatch,) = compared(LACKS, out([1]))
    assert (mismatch.kind, mismatch.note) == ("refuses", "no exp")
    assert {frozenset(side) for side in mismatch.sides} == {
        frozenset({LABELS[0]}),
        frozenset({LABELS[1]}),
    }


def test_a_gradient_that_is_taken_away_is_refused():
    without = outcome(
        ("output", "r0", out([1]).decode().tensors[0].array),
        status="unsupported",
        error=("UnsupportedError", "no gradient"),
    )
    assert [mismatch.kind for mismatch in compared(without, out([1]))] == ["refuses"]


def test_a_candidate_may_support_more_than_its_baseline():
    assert compared(out([1]), LACKS) == ()


def test_what_raises_on_the_baseline_is_not_taken_away_by_the_candidate():
    found = compared(LACKS, raised())
    assert all(LABELS[0] not in side for mismatch in found for side in mismatch.sides)


def test_a_baseline_that_dies_has_nothing_to_keep():
    assert [mismatch.kind for mismatch in compared(LACKS, crashed())] == ["crash"]


def test_what_both_lack_is_coverage():
    assert compared(LACKS, LACKS) == ()


def test_an_older_release_as_candidate_may_lack_what_is_newer():
    assert compared(LACKS, out([1]), ("0.8.0", "0.9.0", "2.13.0+cpu")) == ()
