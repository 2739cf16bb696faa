"""The search over versions: every change is found, whatever cannot answer, with few questions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from bot.bisection import Answer, Change, change_in, next_version
from bot.targets.recipes import load_recipes
from bot.targets.releases import in_range, minor_releases, named_versions, released
from bot.targets.target import TargetError


def versions(*texts: str) -> tuple[Version, ...]:
    return tuple(map(Version, texts))


def search(truth: dict[Version, Answer]) -> tuple[Change | None, int]:
    answers: dict[Version, Answer] = {}
    listed = sorted(truth)
    while (version := next_version(listed, answers)) is not None:
        assert version not in answers
        answers[version] = truth[version]
    return change_in(listed, answers), len(answers)


def test_of_sixteen_versions_six_are_asked() -> None:
    """Two ends, then four halvings of the fifteen steps between them."""
    truth: dict[Version, Answer] = {
        Version(f"1.{n}"): "has" if n < 11 else "has not" for n in range(16)
    }
    change, asked = search(truth)
    assert change == Change(Version("1.10"), Version("1.11"), came=False)
    assert asked <= 6


@given(
    st.lists(st.sampled_from(["ok", "unclear", "cannot run"]), min_size=2, max_size=12),
    st.integers(0, 12),
    st.booleans(),
)
def test_the_change_is_found_around_what_cannot_answer(
    states: list[str], place: int, came: bool
) -> None:
    before, after = ("has not", "has") if came else ("has", "has not")
    truth: dict[Version, Answer] = {}
    for n, state in enumerate(states):
        answer = state if state != "ok" else (before if n < place else after)
        truth[Version(f"1.{n}")] = cast("Answer", answer)
    decided = [v for v, answer in truth.items() if answer in ("has", "has not")]
    olds = [v for v in decided if truth[v] == before]
    news = [v for v in decided if truth[v] == after]
    change, _ = search(truth)
    if olds and news:
        assert change is not None
        assert (change.before, change.after, change.came) == (max(olds), min(news), came)
    else:
        assert change is None


def test_ranges_hold_all_patch_releases_of_both_ends() -> None:
    there = versions("1.7.1", "1.8.0", "1.8.1", "1.9.0", "1.10.2", "1.11.0")
    assert in_range("1.8..1.10", there) == versions("1.8.0", "1.8.1", "1.9.0", "1.10.2")
    assert in_range("1.8.1..1.9.0", there) == versions("1.8.1", "1.9.0")
    with pytest.raises(TargetError, match=r"0 releases"):
        in_range("3..4", there)
    with pytest.raises(TargetError, match=r"write it as"):
        in_range("1.8..", there)
    assert named_versions("1.8..1.9") is None
    assert named_versions("1.9.0, 1.8.1") == versions("1.8.1", "1.9.0")
    with pytest.raises(TargetError, match="no range and no list"):
        named_versions("1.8.1")


def test_of_a_minor_version_an_installed_release_is_asked_else_the_first() -> None:
    there = versions("1.8.0", "1.8.1", "1.9.0", "1.9.1")
    assert minor_releases(there, versions("1.8.1")) == versions("1.8.1", "1.9.0")


def test_only_final_releases_that_a_recipe_can_install_count() -> None:
    def index(arguments: Sequence[str]) -> str:
        assert "--only-binary" in arguments
        return "a warning\n" + json.dumps(
            {"versions": ["2.13.0", "2.12.0rc1", "1.13.1", "1.5.0", "0.4.1"]}
        )

    assert released("torch", load_recipes(), index) == versions("1.13.1", "2.13.0")


def test_an_index_that_answers_nonsense_is_one_line() -> None:
    with pytest.raises(TargetError, match="cannot be read"):
        released("torch", load_recipes(), lambda _: "<html>")
