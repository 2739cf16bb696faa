"""Every call of a publish and of a command fails once in each way: the end is as if nothing had failed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fake_github.faults import Way
from fake_github.server import FakeGitHub
from publishing import BASE, Scene, posted, set_up

from bot.github.marker import read_marker

PATIENT = 30.0
HASTY = 0.4
SLOW = 0.8
"""Seconds: a client that waits HASTY gives up on an answer that takes SLOW."""

CHATTER = 6
"""Comments of others: with the bot's they are two pages."""

Steps = Callable[[Scene, float], None]


def first_publish(scene: Scene, timeout: float) -> None:
    scene.publish(timeout=timeout)


def after_a_push(scene: Scene, timeout: float) -> None:
    scene.publish(timeout=timeout)


def command(scene: Scene, timeout: float) -> None:
    comment = next(it for it in scene.state.comments if it.body.startswith("/opdiff"))
    scene.command(comment, timeout=timeout)


def nothing_before(scene: Scene) -> None:
    pass


def a_push_before(scene: Scene) -> None:
    scene.publish()
    for n in range(CHATTER):
        scene.state.add_comment(BASE, scene.pull.number, "passer-by", f"remark {n}")
    scene.run = scene.check_again(findings=1, first=1)


def accepted_before(scene: Scene) -> None:
    scene.publish()
    scene.comment("/opdiff accept 00000000 this is meant")


def ignored_before(scene: Scene) -> None:
    scene.publish()
    scene.comment("/opdiff ignore 00000000 known to us")


@dataclass(frozen=True)
class Case:
    """What is there before, the job whose calls fail, and in which ways."""

    before: Callable[[Scene], None]
    job: Steps
    ways: tuple[Way, ...]


WAYS = tuple(Way)
UNCERTAIN = (Way.CUT_BEFORE, Way.CUT_AFTER, Way.TRUNCATED)
CASES = {
    "first": Case(nothing_before, first_publish, WAYS),
    "push": Case(a_push_before, after_a_push, WAYS),
    "accept": Case(accepted_before, command, WAYS),
    "ignore": Case(ignored_before, command, UNCERTAIN),
}


@pytest.fixture(autouse=True)
def _small_pages_and_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scene's five annotations take two requests, and its comments two pages."""
    monkeypatch.setattr("bot.github.client.PAGE", 5)
    monkeypatch.setattr("bot.github.check_run.ANNOTATIONS_A_REQUEST", 3)


@dataclass(frozen=True)
class Ended:
    """What was there at the end, and how many calls the job made; the writes of reactions are left out."""

    posted: dict[str, Any]
    calls: int
    writes: list[tuple[str, str]]
    kinds: set[str]


def run(case: Case, way: Way | None, nth: int) -> Ended:
    with TemporaryDirectory() as folder, FakeGitHub() as github:
        scene = set_up(github, Path(folder))
        case.before(scene)
        github.log.clear()
        if way is not None:
            github.fail(way, nth=nth, retry_after=3, seconds=SLOW)
        case.job(scene, HASTY if way is Way.SLOW else PATIENT)
        assert not github.violations
        assert not github.missing_permissions
        writes = [
            (it.method, re.sub(r"\d+", "N", it.path))
            for it in github.writes()
            if not it.path.endswith("/reactions")
        ]
        kinds = {f"{it.method} {re.sub(r'[0-9a-f]{40}|[0-9]+', 'N', it.path)}" for it in github.log}
        return Ended(posted(github.state), len(github.log), writes, kinds)


@cache
def without_faults(name: str) -> Ended:
    return run(CASES[name], None, 0)


ROOT = f"/repos/{BASE}"


def test_the_jobs_make_every_kind_of_call() -> None:
    """What the tests below let fail: the artifacts' host and the second page of comments are among them."""
    both = without_faults("first").kinds | without_faults("push").kinds
    assert both == {
        "GET /user",
        f"GET {ROOT}/actions/runs/N",
        f"GET {ROOT}/actions/runs/N/artifacts",
        f"GET {ROOT}/actions/artifacts/N/zip",
        "GET /blob/N",
        f"GET {ROOT}/pulls",
        f"GET {ROOT}/pulls/N",
        f"GET {ROOT}/contents/.github/opdiff.yml",
        f"GET {ROOT}/issues/N/comments",
        f"POST {ROOT}/issues/N/comments",
        f"PATCH {ROOT}/issues/comments/N",
        f"GET {ROOT}/commits/N/check-runs",
        f"POST {ROOT}/check-runs",
        f"PATCH {ROOT}/check-runs/N",
    }


def test_the_jobs_do_something() -> None:
    assert len(without_faults("first").posted["check runs"][0]["annotations"]) == 5
    assert without_faults("accept").posted["attempts"] == [2]
    assert "github-actions[bot]" in str(without_faults("ignore").posted["reactions"])
    assert all(without_faults(name).writes for name in CASES)


@pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name, case in CASES.items() for way in case.ways]
)
def test_a_call_that_fails_once_changes_nothing(name: str, way: Way) -> None:
    whole = without_faults(name)
    for nth in range(1, whole.calls + 1):
        ended = run(CASES[name], way, nth)
        assert ended.posted == whole.posted, f"call {nth}"
        assert sorted(ended.writes) == sorted(whole.writes), f"call {nth}"


def test_the_state_is_there_in_the_end() -> None:
    body = without_faults("accept").posted["comments"][0][1]
    state = read_marker(body)
    assert state is not None
    assert [it.verb for it in state.decisions] == ["accept"]
