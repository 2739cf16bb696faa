"""What a configuration and people's decisions excuse, and the result that follows."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import results, row

from bot.config import Config, IgnoreRule, apply_config
from bot.github.state import Decision
from bot.report.results import OpCoverage, ShardRow

A, B = "00ab00ab00ab00ab", "11cd11cd11cd11cd"
TODAY = date(2030, 1, 31)


def decision(verb: Any, fingerprint: str = A, **more: Any) -> Decision:
    fields: dict[str, Any] = {"comment": 1, "author": "ada", "head": "e" * 40}
    return Decision(verb=verb, fingerprint=fingerprint, **(fields | more))


def ignoring(**conditions: Any) -> Config:
    fields: dict[str, Any] = {"reason": "issue 12"} | conditions
    return Config(ignore=(IgnoreRule(**fields),))


def test_an_ignored_finding_does_not_fail() -> None:
    found = apply_config(results(row(A)), ignoring(fingerprint=A), (), TODAY)
    assert (found.result, found.findings[0].ignored) == ("clean", "ignored: issue 12")


def test_another_finding_still_fails() -> None:
    found = apply_config(results(row(A), row(B)), ignoring(fingerprint=A), (), TODAY)
    assert (found.result, found.findings[1].ignored) == ("findings", None)


@pytest.mark.parametrize(
    "more",
    [
        {"shortfalls": ("add is not tested: no time",)},
        {"shards": (ShardRow(shard="1/2", state="lost"),)},
        {"shards": (ShardRow(shard="1/2", state="broken"),)},
    ],
)
def test_with_all_findings_ignored_an_incomplete_run_is_not_clean(more: dict[str, Any]) -> None:
    found = apply_config(results(row(A), **more), ignoring(fingerprint=A), (), TODAY)
    assert found.result == "incomplete"


@pytest.mark.parametrize(
    ("fail_on", "status", "verdict", "result"),
    [
        ("candidate", "new", "candidate", "findings"),
        ("candidate", "known", "candidate", "clean"),
        ("candidate", "new", "upstream", "clean"),
        ("any", "known", "upstream", "findings"),
        ("never", "new", "candidate", "clean"),
    ],
)
def test_the_configuration_says_what_fails(
    fail_on: Any, status: Any, verdict: Any, result: str
) -> None:
    run = results(row(A, status=status, verdict=verdict), fail_on="never")
    found = apply_config(run, Config(fail_on=fail_on), (), TODAY)
    assert (found.result, found.fail_on) == (result, fail_on)


def test_what_the_run_said_of_itself_is_not_believed() -> None:
    lying = results(row(A, ignored="I say so"), result="clean")
    found = apply_config(lying, Config(), (), TODAY)
    assert (found.result, found.findings[0].ignored) == ("findings", None)


@pytest.mark.parametrize(
    ("until", "result"),
    [
        (date(2030, 2, 1), "clean"),
        (date(2030, 1, 31), "clean"),
        (date(2030, 1, 30), "findings"),
    ],
)
def test_a_rule_holds_through_its_last_day(until: date, result: str) -> None:
    found = apply_config(results(row(A)), ignoring(op="add", until=until), (), TODAY)
    assert found.result == result
    assert bool(found.notes) is (result == "findings")
    assert all(str(until) in note and "issue 12" in note for note in found.notes)


def test_an_ended_rule_that_matters_not_is_not_spoken_of() -> None:
    ended = ignoring(op="mul", until=date(2029, 1, 1))
    assert apply_config(results(row(A)), ended, (), TODAY).notes == ()


@pytest.mark.parametrize(
    ("verb", "result", "ignored"),
    [
        ("accept", "clean", "accepted by ada: it is meant"),
        ("ignore", "findings", None),  # suggests lines for the configuration
        ("wrong", "findings", None),  # counted, and excuses nothing
        ("draft", "findings", None),
    ],
)
def test_decisions(verb: str, result: str, ignored: str | None) -> None:
    said = decision(verb, reason="it is meant")
    found = apply_config(results(row(A)), Config(), [said], TODAY)
    assert (found.result, found.findings[0].ignored) == (result, ignored)


def test_the_last_decision_counts() -> None:
    said = [decision("accept"), decision("accept", comment=2, author="bob", reason="later")]
    found = apply_config(results(row(A)), Config(), said, TODAY)
    assert found.findings[0].ignored == "accepted by bob: later"


def test_a_decision_on_another_finding_changes_nothing() -> None:
    found = apply_config(results(row(A)), Config(), [decision("accept", B)], TODAY)
    assert found.result == "findings"


rows = st.lists(
    st.builds(
        row,
        st.sampled_from((A, B)),
        op=st.sampled_from(("add", "mul")),
        status=st.sampled_from(("new", "known", "fixed", "changed", None)),
        verdict=st.sampled_from(("candidate", "upstream", "both", "flaky", "undecided")),
        ignored=st.none() | st.just("before"),
    ),
    max_size=4,
)
rules = st.lists(
    st.builds(
        IgnoreRule,
        op=st.sampled_from(("add", "*")),
        reason=st.just("r"),
        until=st.none() | st.dates(date(2030, 1, 29), date(2030, 2, 2)),
    ),
    max_size=3,
)
decisions = st.lists(
    st.builds(decision, st.sampled_from(("accept", "ignore", "wrong"))), max_size=2
)


@given(rows, rules, decisions, st.sampled_from(("candidate", "any", "never")))
def test_applying_twice_is_applying_once(
    found: list[Any], ignore: list[IgnoreRule], said: list[Decision], fail_on: Any
) -> None:
    config = Config(ignore=tuple(ignore), fail_on=fail_on)
    once = apply_config(results(*found), config, said, TODAY)
    assert apply_config(once, config, said, TODAY) == once


def test_a_rule_may_mean_a_class_of_arguments() -> None:
    with_nan = row(A, argument_class={"dtypes": ["float", "half"], "special": ["nan"]})
    without = row(B, argument_class={"dtypes": ["half"], "special": []})
    rule = ignoring(arguments={"dtypes": ["half"], "special": ["nan"]})
    found = apply_config(results(with_nan, without), rule, (), TODAY)
    assert [f.ignored for f in found.findings] == ["ignored: issue 12", None]


@pytest.mark.parametrize("lying", ["nan", {"nan": 1}, [["nan"]], None])
def test_an_argument_class_from_outside_may_be_anything(lying: Any) -> None:
    rule = ignoring(arguments={"special": ["nan"]})
    found = apply_config(results(row(A, argument_class={"special": lying})), rule, (), TODAY)
    assert found.findings[0].ignored is None


@pytest.mark.parametrize(
    ("rule", "tested", "shortfalls", "told"),
    [
        ({"op": "mul*"}, True, (), True),
        ({"op": "mul*"}, False, (), False),  # nobody looked
        ({"op": "mul*"}, True, ("no time",), False),  # nobody looked at all of it
        ({"op": "add"}, True, (), False),  # it still matters
        ({"op": "sub"}, True, (), False),  # not of this run's ops
        ({"fingerprint": B}, True, (), False),  # of whichever op
    ],
)
def test_a_rule_that_fits_nothing_any_more_is_told(
    rule: dict[str, Any], tested: bool, shortfalls: tuple[str, ...], told: bool
) -> None:
    run = results(row(A), coverage=(OpCoverage(op="mul", tested=tested),), shortfalls=shortfalls)
    found = apply_config(run, ignoring(**rule), (), TODAY)
    assert any("fits no finding any more" in note for note in found.notes) is told
    assert apply_config(found, ignoring(**rule), (), TODAY).notes == found.notes
