"""When a call is made again, how long is waited, and what errors say."""

from __future__ import annotations

import pytest
from fake_github.faults import Way
from fake_github.server import FakeGitHub
from fake_scene import BASE, FORK

from bot.github.client import (
    ATTEMPTS,
    ApiError,
    ApiModel,
    Client,
    Clock,
    NotFoundError,
    UnsettledError,
    connect,
)
from bot.github.job import Job, JobError, read_job

NOW = 1_800_000_000.0


class Time:
    """Seconds that pass by sleeping alone."""

    def __init__(self) -> None:
        self.now = NOW
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Named(ApiModel):
    full_name: str


class Numbered(ApiModel):
    number: int


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def client(scene: FakeGitHub, time: Time) -> Client:
    return connect(BASE, "all", scene.url, Clock(lambda: time.now, time.sleep))


def test_a_read_is_repeated_after_what_may_pass(
    scene: FakeGitHub, client: Client, time: Time
) -> None:
    for nth, way in enumerate((Way.BAD_GATEWAY, Way.CUT_BEFORE, Way.TRUNCATED), 1):
        scene.fail(way, nth=nth)
    assert client.get(Named, client.path()).full_name == BASE
    assert time.slept == [2.0, 4.0, 8.0]


def test_retry_after_is_honoured(scene: FakeGitHub, client: Client, time: Time) -> None:
    scene.fail("429", retry_after=17)
    scene.fail("secondary-limit", nth=2, retry_after=23)
    client.get(Named, client.path())
    assert time.slept == [17.0, 23.0]


def test_a_secondary_limit_without_a_time_is_a_minute(
    scene: FakeGitHub, client: Client, time: Time
) -> None:
    scene.fail("secondary-limit", retry_after=None)
    client.get(Named, client.path())
    assert time.slept == [60.0]


def test_a_primary_limit_lasts_to_its_reset(scene: FakeGitHub, client: Client, time: Time) -> None:
    time.now = scene.state.now().timestamp()
    scene.fail("primary-limit", reset_in=120)
    client.get(Named, client.path())
    (slept,) = time.slept
    assert 119 <= slept <= 122  # both clocks go on meanwhile


def test_patience_ends(scene: FakeGitHub, client: Client, time: Time) -> None:
    scene.fail("429", retry_after=901)
    with pytest.raises(ApiError, match="901 s"):
        client.get(Named, client.path())
    scene.fail("502", times=ATTEMPTS)
    with pytest.raises(ApiError, match=f"{ATTEMPTS} times"):
        client.get(Named, client.path())
    assert sum(time.slept) < 200


def test_a_write_is_made_once(scene: FakeGitHub, client: Client) -> None:
    path = client.path("issues", 1, "comments")
    for way in (Way.BAD_GATEWAY, Way.CUT_AFTER, Way.TOO_MANY_REQUESTS):
        scene.log.clear()
        scene.fail(way)
        with pytest.raises(UnsettledError):
            client.write("POST", path, {"body": "hello"})
        assert len(scene.log) == 1
    assert len(scene.state.comments) == 1  # what was cut off afterwards was carried out


def test_settle_looks_before_it_writes_again(scene: FakeGitHub, client: Client) -> None:
    path = client.path("issues", 1, "comments")

    def step() -> str | None:
        bodies = [it.body for it in scene.state.comments]
        if bodies:
            return bodies[0]
        client.write("POST", path, {"body": "hello"})
        return None

    scene.fail("cut-after", method="POST")
    assert client.settle(step) == "hello"
    assert len(scene.writes()) == 1


def test_what_is_changed_again_and_again_ends(client: Client) -> None:
    with pytest.raises(ApiError, match="again and again"):
        client.settle(lambda: None)


def test_writes_are_a_second_apart(scene: FakeGitHub, client: Client, time: Time) -> None:
    path = client.path("issues", 1, "comments")
    for _ in range(3):
        client.write("POST", path, {"body": "hello"})
    assert time.slept == [1.0, 1.0]


def test_every_page_is_read(scene: FakeGitHub, client: Client) -> None:
    for n in range(233):
        scene.state.push(FORK, f"b{n}", {"x": str(n)})
        scene.state.add_pull(BASE, head=(FORK, f"b{n}"))
    found = [it.number for it in client.pages(Numbered, client.path("pulls"))]
    assert sorted(found) == list(range(1, 235))
    assert len(scene.log) == 3


def test_errors_say_what_was_asked_and_hold_no_token(scene: FakeGitHub, client: Client) -> None:
    with pytest.raises(NotFoundError, match="GET /repos/framework/framework/pulls/99: 404"):
        client.get(Numbered, client.path("pulls", 99))
    with pytest.raises(ApiError, match="not understood: number"):
        client.get(Numbered, client.path())
    scene.state.tokens["all"].permissions = {}
    with pytest.raises(ApiError, match="see the job's `permissions`") as refused:
        client.get(Numbered, client.path("pulls", 1))
    assert refused.value.status == 403
    secret = connect(BASE, "ghs_secret", scene.url)
    with pytest.raises(ApiError, match="401") as refused:
        secret.get(Numbered, client.path("pulls", 1))
    assert "ghs_secret" not in f"{refused.value}{refused.value!r}{secret!r}{vars(refused.value)}"


def test_a_slow_answer_is_given_up(scene: FakeGitHub, time: Time) -> None:
    hasty = connect(BASE, "all", scene.url, Clock(lambda: time.now, time.sleep), timeout=0.3)
    scene.fail("slow", seconds=0.9)
    assert hasty.get(Named, hasty.path()).full_name == BASE
    assert time.slept == [2.0]


@pytest.mark.parametrize(
    "repository", ["", "name", "a/b/c", "a/..", "a b/c", "../x", "a/b?c", "a/b#", "ä/b"]
)
def test_what_is_no_repository(repository: str) -> None:
    with pytest.raises(ApiError, match="owner/name"):
        connect(repository, "t")


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "github.example", "https://", "https://user:pass@github.example"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ApiError, match="GITHUB_API_URL"):
        connect("a/b", "t", url)


def test_parts_of_a_path_are_quoted() -> None:
    client = connect("a/b", "")
    assert client.path("collaborators", "x[bot]/../y", "permission") == (
        "/repos/a/b/collaborators/x%5Bbot%5D%2F..%2Fy/permission"
    )
    assert client.authorization() == {}


def test_a_job_keeps_its_token_to_itself() -> None:
    job = read_job({"OPDIFF_GITHUB_TOKEN": "ghs_secret", "GITHUB_REPOSITORY": "a/b"})
    assert isinstance(job, Job)
    assert "ghs_secret" not in repr(job)
    assert job.attempt == 1
    with pytest.raises(JobError, match=r"^GITHUB_EVENT_PATH is not set"):
        _ = job.event_path
    with pytest.raises(JobError, match="GITHUB_RUN_ID"):
        read_job({"OPDIFF_GITHUB_TOKEN": "t", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "x"})
