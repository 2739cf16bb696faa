"""The decision table row by row, and what feeds it."""

from __future__ import annotations

import pytest

from bot.oracle.coverage import Coverage
from bot.oracle.roles import Player
from bot.oracle.verdict import (
    Facts,
    decide,
    load_decisions,
    minority,
    position,
    status_of,
    verdict_on,
)

ROWS = [
    (Facts(repeat="unstable", death=False), "not deterministic", "unstable", "strong"),
    (
        Facts(repeat="unstable", position="candidate-alone"),
        "not deterministic",
        "unstable",
        "strong",
    ),
    (Facts(repeat="unrepeated", vote=True), "not seen again", "unstable", "weak"),
    (Facts(death=True, repeat="unrepeated"), "a death that was seen once", "dead", "weak"),
    (Facts(death=True, position="together"), "a death", "dead", "proved"),
    (Facts(death=True, float64="strong", float64_against="others"), "a death", "dead", "proved"),
    (
        Facts(position="together", overflow=True, float64="strong", float64_against="others"),
        "an overflow on the way",
        "nobody",
        "weak",
    ),
    (
        Facts(position="candidate-alone", overflow=True),
        "baseline and an independent peer",
        "candidate",
        "strong",
    ),
    (
        Facts(position="candidate-alone", float64="strong", float64_against="baseline"),
        "float64 of independent frameworks",
        "float64",
        "strong",
    ),
    (
        Facts(position="candidate-alone", slopes="strong", vote=True),
        "finite differences of independent frameworks",
        "slopes",
        "strong",
    ),
    (Facts(position="together", slopes="within", vote=True), "a kink", "nobody", "strong"),
    (Facts(position="peers", slopes="no slope"), "no derivative", "nobody", "weak"),
    # What a candidate does otherwise than its own baseline is told, at a kink too.
    (Facts(position="candidate-apart", slopes="within"), "baseline alone", "candidate", "weak"),
    (
        Facts(position="peers", slopes="weak", vote=True),
        "finite differences of one framework",
        "slopes",
        "weak",
    ),
    (
        Facts(position="candidate-alone", vote=True),
        "baseline and an independent peer",
        "candidate",
        "strong",
    ),
    (
        Facts(position="peers", documented_error=True, vote=True),
        "a documented error",
        "accepting",
        "weak",
    ),
    (
        Facts(position="candidate-apart", documented_error=True),
        "a documented error",
        "accepting",
        "weak",
    ),
    (
        Facts(position="candidate-with-peer"),
        "candidate and an independent peer",
        "baseline",
        "strong",
    ),
    (
        Facts(position="candidate-apart", float64="weak", float64_against="candidate"),
        "baseline and float64",
        "float64",
        "strong",
    ),
    (
        Facts(position="candidate-apart", float64="weak", float64_against="baseline"),
        "float64 against the baseline",
        "float64",
        "weak",
    ),
    (Facts(position="candidate-apart"), "baseline alone", "candidate", "weak"),
    (
        Facts(position="together", float64="weak", float64_against="others"),
        "float64 of one framework",
        "float64",
        "weak",
    ),
    (
        Facts(position="peers", reference="strong", vote=True),
        "NumPy and an independent framework",
        "reference",
        "strong",
    ),
    (
        Facts(position="all-apart", reference="strong", float64="weak", float64_against="baseline"),
        "NumPy and an independent framework",
        "reference",
        "strong",
    ),
    # Baseline and an independent peer weigh as much, and they are at hand.
    (
        Facts(position="candidate-alone", reference="strong"),
        "baseline and an independent peer",
        "candidate",
        "strong",
    ),
    (
        Facts(position="all-apart", paths="strong", documented_error=True),
        "another path and an independent framework",
        "paths",
        "strong",
    ),
    (Facts(position="peers", slopes="within", paths="strong"), "a kink", "nobody", "strong"),
    (
        Facts(position="peers", paths="weak", reference="weak", vote=True),
        "another path",
        "paths",
        "weak",
    ),
    (Facts(position="peers", reference="weak", vote=True), "NumPy alone", "reference", "weak"),
    (
        Facts(position="peers", reference="weak", float64="weak", float64_against="others"),
        "float64 of one framework",
        "float64",
        "weak",
    ),
    (Facts(position="peers", vote=True), "vote", "minority", "weak"),
    (Facts(position="together", vote=True), "vote", "minority", "weak"),
    (Facts(position="peers", refusal="free", vote=True), "vote", "minority", "weak"),
    (
        Facts(position="peers", refusal="bound"),
        "a refusal against the interface",
        "refusing",
        "weak",
    ),
    (Facts(position="together", refusal="free"), "an interface of its own", "nobody", "weak"),
    (Facts(position="all-apart", refusal="free"), "nothing decides", "nobody", "weak"),
    (Facts(position="peers"), "nothing decides", "nobody", "weak"),
    (Facts(position="all-apart"), "nothing decides", "nobody", "weak"),
]


@pytest.mark.parametrize(("facts", "name", "blame", "confidence"), ROWS)
def test_rows(facts, name, blame, confidence):
    row = decide(facts)
    assert (row.name, row.blame, row.confidence) == (name, blame, confidence)


def test_every_row_is_tested():
    assert {row.name for row in load_decisions()} == {name for _, name, _, _ in ROWS}


C, B, P, Q = "candidate", "baseline", "torch", "jax"
CAST = {
    C: Player(C, "oneflow", "candidate"),
    B: Player(B, "oneflow", "baseline"),
    P: Player(P, "torch", "peer"),
    Q: Player(Q, "jax", "peer"),
}


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        ([(C,), (B, P)], "candidate-alone"),
        ([(C,), (B,)], "candidate-apart"),
        ([(B,), (C, P)], "candidate-with-peer"),
        ([(C,), (B,), (P,)], "all-apart"),
        ([(C, P), (B, Q)], "all-apart"),
        ([(C, B), (P,)], "together"),
        ([(P,), (Q,)], "peers"),
        ([(C,), (P,)], "peers"),
    ],
)
def test_positions(sides, expected):
    assert position(sides, CAST) == expected


@pytest.mark.parametrize(
    ("sides", "blamed", "status"),
    [
        ([(C,), (B, P)], [C], "new"),
        ([(C, B), (P,)], [C, B], "known"),
        ([(C, B), (P,)], [], "known"),
        ([(B,), (C, P)], [B], "fixed"),
        ([(C,), (B,), (P,)], [C, B], "changed"),
        ([(C,), (B,), (P,)], [], "changed"),
        ([(P,), (B,)], [P], "known"),  # the candidate has no part in it
        ([(C, B), (P,)], [C], "new"),  # agrees, but differs from itself
    ],
)
def test_statuses(sides, blamed, status):
    assert status_of(sides, blamed, CAST) == status


def test_no_baseline_no_status():
    assert status_of([(P,), (Q,)], [P], {P: CAST[P], Q: CAST[Q]}) is None


@pytest.mark.parametrize(
    ("blamed", "verdict"),
    [
        ([], "undecided"),
        ([C], "candidate"),
        ([C, B], "candidate"),
        ([B], "upstream"),
        ([P], "upstream"),
        ([C, P], "both"),
    ],
)
def test_verdicts(blamed, verdict):
    assert verdict_on(blamed, CAST) == verdict


def test_a_vote_counts_frameworks_not_builds():
    assert minority([(C, B), (P,)], CAST) == ()
    assert minority([(P,), (B, Q)], CAST) == (P,)
    assert minority([(C, B), (P, Q)], CAST) == (C, B)


def test_coverage_of_a_changed_op():
    coverage = Coverage([C, B, P], ["candidate", "baseline", "peer"])
    coverage.add("exp", ["ok", "ok", "unsupported"], True, {"unsupported on torch: no": 1})
    coverage.add("exp", ["crash", "ok", "ok"], True, {})
    coverage.add(
        "cosh", ["unsupported", "ok", "ok"], True, {"unsupported on candidate: no cosh": 1}
    )
    coverage.add("tanh", ["ok", "unsupported", "unsupported"], False, {"b": 1, "a": 1})
    assert coverage.tested("exp").tested
    assert coverage.tested("exp").programs == 2
    assert coverage.ops["exp"].targets[0].died == 1
    assert coverage.ops["exp"].targets[2].unsupported == 1
    assert coverage.tested("cosh").reason == "unsupported on candidate: no cosh"
    assert coverage.tested("tanh").reason == "a"
    assert coverage.tested("sinh").reason == "no program calls it"
