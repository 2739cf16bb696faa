"""Every way in which a call can fail, and that the state is as the way says."""

from __future__ import annotations

import time

import pytest
import requests
from fake_github.faults import Way
from fake_github.server import FakeGitHub
from fake_scene import BASE, client, headers

PATH = f"/repos/{BASE}/issues/1/comments"


def post(github: FakeGitHub, timeout: float = 10) -> requests.Response:
    return requests.post(
        github.url + PATH, json={"body": "hello"}, headers=headers(), timeout=timeout
    )


@pytest.mark.parametrize(
    ("way", "status", "header", "words"),
    [
        (Way.TOO_MANY_REQUESTS, 429, ("Retry-After", "7"), "secondary rate limit"),
        (Way.SECONDARY_LIMIT, 403, ("Retry-After", "7"), "secondary rate limit"),
        (Way.PRIMARY_LIMIT, 403, ("X-RateLimit-Remaining", "0"), "API rate limit exceeded"),
        (
            Way.SERVER_ERROR,
            500,
            ("Content-Type", "application/json; charset=utf-8"),
            "Server Error",
        ),
        (Way.BAD_GATEWAY, 502, ("Content-Type", "text/html"), "502 Bad Gateway"),
        (Way.UNAVAILABLE, 503, ("Content-Type", "text/html"), "Unicorn"),
    ],
)
def test_a_refused_call_was_not_carried_out(
    scene: FakeGitHub, way: Way, status: int, header: tuple[str, str], words: str
) -> None:
    scene.fail(way, retry_after=7)
    answer = post(scene)
    assert (answer.status_code, answer.headers[header[0]]) == (status, header[1])
    assert words in answer.text
    assert (scene.log[-1].fault, scene.log[-1].carried_out) == (way, False)
    assert scene.state.comments == []
    assert post(scene).status_code == 201


def test_the_primary_limit_says_when_it_is_lifted(scene: FakeGitHub) -> None:
    scene.fail(Way.PRIMARY_LIMIT, reset_in=60)
    wait = int(post(scene).headers["X-RateLimit-Reset"]) - time.time()
    assert 50 < wait <= 61


@pytest.mark.parametrize(("way", "comments"), [(Way.CUT_BEFORE, 0), (Way.CUT_AFTER, 1)])
def test_a_cut_connection(scene: FakeGitHub, way: Way, comments: int) -> None:
    scene.fail(way)
    with pytest.raises(requests.ConnectionError):
        post(scene)
    assert len(scene.state.comments) == comments
    assert (scene.log[-1].status, scene.log[-1].carried_out) == (None, comments == 1)
    assert post(scene).status_code == 201


def test_a_slow_answer_comes_after_the_call_was_carried_out(scene: FakeGitHub) -> None:
    scene.fail(Way.SLOW, seconds=1.5)
    with pytest.raises(requests.ReadTimeout):
        post(scene, timeout=0.5)
    assert len(scene.state.comments) == 1
    scene.fail(Way.SLOW, seconds=0.2)
    assert post(scene).status_code == 201


def test_a_truncated_answer(scene: FakeGitHub) -> None:
    scene.fail(Way.TRUNCATED)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        post(scene)
    assert len(scene.state.comments) == 1


def test_an_answer_that_is_no_json(scene: FakeGitHub) -> None:
    scene.fail(Way.MALFORMED)
    answer = post(scene)
    assert answer.status_code == 201
    with pytest.raises(requests.JSONDecodeError):
        answer.json()
    assert len(scene.state.comments) == 1


def test_the_kth_call_fails_and_no_other(scene: FakeGitHub) -> None:
    scene.fail(Way.UNAVAILABLE, nth=3)
    address = f"{scene.url}/repos/{BASE}"
    answers = [requests.get(address, headers=headers()).status_code for _ in range(5)]
    assert answers == [200, 200, 503, 200, 200]


def test_only_calls_that_match_fail_as_often_as_told(scene: FakeGitHub) -> None:
    scene.fail(Way.SERVER_ERROR, method="POST", path="/comments$", times=2)
    assert requests.get(scene.url + PATH, headers=headers()).status_code == 200
    assert [post(scene).status_code for _ in range(3)] == [500, 500, 201]


def test_the_download_of_an_artifact_fails_too(scene: FakeGitHub) -> None:
    scene.fail(Way.TRUNCATED, path="^/blob/")
    run = client(scene).get_repo(BASE).get_workflow_run(scene.state.runs[0].id)
    address = next(iter(run.get_artifacts())).archive_download_url
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        requests.get(address, headers=headers())
    assert requests.get(address, headers=headers()).content == scene.state.artifacts[0].data
