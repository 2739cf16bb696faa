"""What a candidate must support: all that its baseline of the same release does."""

from made_outcomes import out, outcome, program

from bot.oracle.compare import Comparator
from bot.oracle.roles import releases_of

LABELS = ("oneflow@pr:cpu", "oneflow==0.9.0:cpu", "torch==2.13.0:cpu")
FRAMEWORKS = ("oneflow", "oneflow", "torch")
ROLES = ("candidate", "baseline", "peer")
LACKS = outcome(status="unsupported", phase="forward", error=("UnsupportedError", "no exp"))


def compared(candidate, baseline, versions=("0.9.0", "0.9.0", "2.13.0+cpu")):
    releases = releases_of(ROLES, FRAMEWORKS, versions)
    comparator = Comparator(LABELS, FRAMEWORKS, releases=releases)
    return comparator.compare(program(), [candidate, baseline, out([1])]).mismatches


def test_builds_of_one_release_have_its_number_and_peers_none():
    versions = ("2.13.0a0+git1234", "2.13.0+cpu", "2.13.0+cpu")
    candidate, baseline, peer = releases_of(ROLES, ("torch",) * 3, versions)
    assert candidate == baseline == "torch 2.13.0"
    assert peer == ""


def test_a_version_that_is_none_is_taken_as_it_is():
    assert releases_of(ROLES[:2], ("torch",) * 2, ("main", "main")) == ("torch main",) * 2


def test_what_the_baseline_has_and_the_candidate_lacks_is_refused():
    (mismatch,) = compared(LACKS, out([1]))
    assert mismatch.kind == "refuses"
    assert {frozenset(side) for side in mismatch.sides} == {
        frozenset({LABELS[0]}),
        frozenset({LABELS[1]}),
    }


def test_what_both_lack_is_coverage():
    assert compared(LACKS, LACKS) == ()


def test_an_older_release_as_candidate_may_lack_what_is_newer():
    assert compared(LACKS, out([1]), ("0.8.0", "0.9.0", "2.13.0+cpu")) == ()
