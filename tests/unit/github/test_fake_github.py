"""The fake GitHub behaves as GitHub does, seen through the clients that the bot uses."""

from __future__ import annotations

import hashlib
import threading
from datetime import UTC, datetime, timedelta

import pytest
import requests
from fake_github.server import FakeGitHub
from fake_github.state import State
from fake_scene import BASE, FORK, WORKFLOW, client, headers
from github import GithubException, UnknownObjectException


def test_a_pull_request_of_a_fork_is_found_by_its_head(scene: FakeGitHub) -> None:
    repository = client(scene).get_repo(BASE)
    found = list(repository.get_pulls(state="open", head="stranger:fix/softplus"))
    assert [it.number for it in found] == [1]
    assert found[0].head.repo.full_name == FORK
    assert found[0].head.sha == scene.state.repositories[FORK].branches["fix/softplus"]
    assert [(it.filename, it.patch) for it in found[0].get_files()] == [
        ("op.py", "@@ -1 +1 @@\n-x = 1\n+x = 2")
    ]
    assert not list(repository.get_pulls(state="closed"))
    # A head without an owner filters nothing: GitHub ignores it.
    assert len(list(repository.get_pulls(head="nothing"))) == 1


def test_the_pull_requests_of_a_commit_leave_out_those_from_forks(scene: FakeGitHub) -> None:
    sha = scene.state.pulls[0].head_sha
    scene.state.tokens["all"].repositories = None
    github = client(scene)
    assert [it.number for it in github.get_repo(BASE).get_commit(sha).get_pulls()] == []
    assert [it.number for it in github.get_repo(FORK).get_commit(sha).get_pulls()] == [1]


def test_a_push_moves_the_open_pull_request(scene: FakeGitHub) -> None:
    before = client(scene).get_repo(BASE).get_pull(1).head.sha
    commit = scene.state.push(FORK, "fix/softplus", {"op.py": "x = 3\n"})
    assert client(scene).get_repo(BASE).get_pull(1).head.sha == commit.sha != before


def test_contents_are_those_of_the_ref(scene: FakeGitHub) -> None:
    scene.state.push(FORK, "fix/softplus", {".github/opdiff.yml": "ignore: all\n"})
    repository, pull = client(scene).get_repo(BASE), scene.state.pulls[0]
    path = ".github/opdiff.yml"
    assert repository.get_contents(path, ref=pull.base_sha).decoded_content == b"a: 1\n"
    assert repository.get_contents(path, ref=pull.head_sha).decoded_content == b"ignore: all\n"
    names = sorted(it.path for it in repository.get_contents("", ref="main"))
    assert names == [".github", "op.py"]
    with pytest.raises(UnknownObjectException):
        repository.get_contents("missing.yml")
    raw = requests.get(
        f"{scene.url}/repos/{BASE}/contents/op.py",
        headers={**headers(), "Accept": "application/vnd.github.raw+json"},
    )
    assert raw.text == "x = 1\n"


def test_two_commits_are_compared_from_their_merge_base(scene: FakeGitHub) -> None:
    scene.state.push(BASE, "main", {"other.py": "y = 1\n"})
    compared = client(scene).get_repo(BASE).compare("main", "stranger:fix/softplus")
    assert (compared.status, compared.ahead_by, compared.behind_by) == ("diverged", 1, 1)
    assert [it.filename for it in compared.files] == ["op.py"]


def test_the_default_branch_and_the_parent_of_a_fork(scene: FakeGitHub) -> None:
    fork = client(scene).get_repo(FORK)
    assert (fork.fork, fork.parent.full_name, fork.default_branch) == (True, BASE, "main")


# Pages


def test_all_pages_are_found_by_their_links(scene: FakeGitHub) -> None:
    for index in range(120):
        scene.state.add_comment(BASE, 1, "stranger", f"comment {index}")
    comments = client(scene).get_repo(BASE).get_issue(1).get_comments()
    assert [it.body for it in comments] == [f"comment {index}" for index in range(120)]
    # 30 a page is GitHub's default: 4 pages, after the issue itself and the repository.
    assert [it.query.get("page") for it in scene.log][-4:] == [None, "2", "3", "4"]


def test_a_page_has_at_most_100_and_says_where_the_others_are(scene: FakeGitHub) -> None:
    for index in range(201):
        scene.state.add_comment(BASE, 1, "stranger", f"comment {index}")
    address = f"{scene.url}/repos/{BASE}/issues/1/comments"
    answer = requests.get(address, params={"per_page": 250, "page": 2}, headers=headers())
    assert len(answer.json()) == 100
    pages = {name: link["url"].rsplit("page=", 1)[1] for name, link in answer.links.items()}
    assert pages == {"prev": "1", "next": "3", "last": "3", "first": "1"}
    assert "next" not in requests.get(answer.links["last"]["url"], headers=headers()).links


def test_the_first_page_of_one_has_no_links(scene: FakeGitHub) -> None:
    answer = requests.get(f"{scene.url}/repos/{BASE}/pulls", headers=headers())
    assert "Link" not in answer.headers


# Permissions


@pytest.mark.parametrize(
    ("permissions", "missing"),
    [
        ({"checks": "read"}, "checks: write"),
        ({"issues": "write", "pull-requests": "write"}, "checks: write"),
        ({}, "checks: write"),
    ],
)
def test_a_call_without_its_permission_is_refused_and_recorded(
    scene: FakeGitHub, permissions: dict[str, str], missing: str
) -> None:
    scene.state.app_token("weak", permissions, repository=BASE)
    repository = client(scene, "weak").get_repo(BASE)
    with pytest.raises(GithubException, match="Resource not accessible by integration") as caught:
        repository.create_check_run("OpDiff", scene.state.pulls[0].head_sha)
    assert caught.value.status == 403
    assert caught.value.headers["x-accepted-github-permissions"] == "checks=write"
    assert scene.missing_permissions == [missing]
    assert scene.state.check_runs == []


@pytest.mark.parametrize("permission", ["issues", "pull-requests"])
def test_either_of_two_permissions_lets_comment_on_a_pull_request(
    scene: FakeGitHub, permission: str
) -> None:
    scene.state.app_token("weak", {permission: "write"}, repository=BASE)
    comment = client(scene, "weak").get_repo(BASE).get_issue(1).create_comment("hello")
    assert comment.user.login == "github-actions[bot]"
    assert comment.performed_via_github_app.slug == "github-actions"


@pytest.mark.parametrize(("permission", "status"), [("issues", 403), ("pull-requests", 201)])
def test_a_reaction_needs_the_permission_for_what_the_comment_is_on(
    scene: FakeGitHub, permission: str, status: int
) -> None:
    """Whatever the address and its documentation say."""
    comment = scene.state.add_comment(BASE, 1, "stranger", "hello")
    scene.state.app_token("weak", {permission: "write"}, repository=BASE)
    answer = requests.post(
        f"{scene.url}/repos/{BASE}/issues/comments/{comment.id}/reactions",
        json={"content": "eyes"},
        headers=headers("weak"),
    )
    assert answer.status_code == status


def test_a_plain_issue_needs_the_permission_for_issues(scene: FakeGitHub) -> None:
    scene.state.add_issue(BASE, "A question", author="stranger")
    scene.state.app_token("weak", {"pull-requests": "write"}, repository=BASE)
    answer = requests.post(
        f"{scene.url}/repos/{BASE}/issues/2/comments", json={"body": "x"}, headers=headers("weak")
    )
    assert answer.status_code == 403
    assert scene.missing_permissions == ["issues: write"]


def test_a_private_repository_is_not_there_for_other_tokens(scene: FakeGitHub) -> None:
    scene.state.add_repository("framework/secret", private=True)
    with pytest.raises(UnknownObjectException):
        client(scene).get_repo("framework/secret")
    assert requests.get(f"{scene.url}/repos/framework/secret").status_code == 404
    scene.state.app_token("own", {"contents": "read"}, repository="framework/secret")
    assert client(scene, "own").get_repo("framework/secret").private


def test_a_wrong_token_and_none(scene: FakeGitHub) -> None:
    address = f"{scene.url}/repos/{BASE}/issues/1/comments"
    wrong = requests.post(address, json={"body": "x"}, headers=headers("nobody"))
    none = requests.post(address, json={"body": "x"})
    assert (wrong.status_code, wrong.json()["message"]) == (401, "Bad credentials")
    assert (none.status_code, none.json()["message"]) == (401, "Requires authentication")


def test_who_may_do_what(scene: FakeGitHub) -> None:
    scene.state.user("passer-by")
    scene.state.repositories[BASE].permissions["keeper"] = "maintain"
    scene.state.user("keeper")
    repository = client(scene).get_repo(BASE)
    logins = ("framework", "keeper", "passer-by")
    levels = [repository.get_collaborator_permission(it) for it in logins]
    assert levels == ["admin", "write", "read"]
    with pytest.raises(GithubException, match="no-such-person is not a user"):
        repository.get_collaborator_permission("no-such-person")


def test_a_workflow_token_has_no_user_and_a_person_makes_no_check_run(scene: FakeGitHub) -> None:
    with pytest.raises(GithubException, match="not accessible by integration"):
        _ = client(scene).get_user().login
    scene.state.user_token("person", "framework", {"checks": "write"})
    person = client(scene, "person")
    assert person.get_user().login == "framework"
    with pytest.raises(GithubException, match="authenticate via a GitHub App"):
        person.get_repo(BASE).create_check_run("OpDiff", scene.state.pulls[0].head_sha)


def test_a_token_whose_hour_is_used_up(scene: FakeGitHub) -> None:
    scene.state.tokens["all"].limit = 2
    address = f"{scene.url}/repos/{BASE}"
    answers = [requests.get(address, headers=headers()) for _ in range(3)]
    assert [it.status_code for it in answers] == [200, 200, 403]
    assert [it.headers["x-ratelimit-remaining"] for it in answers] == ["1", "0", "0"]
    assert "API rate limit exceeded" in answers[2].json()["message"]


# Comments


def test_a_comment_is_made_edited_reacted_to_and_removed(scene: FakeGitHub) -> None:
    pull = client(scene).get_repo(BASE).get_pull(1)
    comment = pull.create_issue_comment("one")
    comment.edit("two")
    assert pull.get_issue_comment(comment.id).body == "two"
    first, second = comment.create_reaction("eyes"), comment.create_reaction("eyes")
    assert first.id == second.id
    assert [it.content for it in comment.get_reactions()] == ["eyes"]
    comment.delete()
    assert list(pull.get_issue_comments()) == []


def test_an_edit_is_seen_by_its_time(scene: FakeGitHub) -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    scene.state.use_clock(lambda: time)
    comment = client(scene).get_repo(BASE).get_issue(1).create_comment("one")
    assert comment.created_at == comment.updated_at == time
    time += timedelta(minutes=5)
    comment.edit("two")
    assert comment.updated_at == datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
    assert comment.created_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_the_comments_of_a_repository_are_those_of_all_issues_in_order(scene: FakeGitHub) -> None:
    state = scene.state
    issue = state.add_issue(BASE, "an issue", author="maintainer")
    for number, created, updated in ((1, 30, 30), (issue.number, 10, 40), (1, 20, 20)):
        comment = state.add_comment(BASE, number, "maintainer", f"{len(state.comments)}")
        comment.created_at = datetime.fromtimestamp(created, UTC)
        comment.updated_at = datetime.fromtimestamp(updated, UTC)

    def listed(**query: str) -> str:
        answer = requests.get(f"{scene.url}/repos/{BASE}/issues/comments", query, headers=headers())
        return "".join(it["body"] for it in answer.json())

    assert listed() == listed(direction="desc") == "012"
    assert listed(sort="created", direction="asc") == "120"
    assert listed(sort="created", direction="desc") == "021"
    assert listed(sort="updated", direction="asc") == "201"
    assert listed(since="1970-01-01T00:00:30Z") == "01"


@pytest.mark.parametrize(("length", "status"), [(65_536, 201), (65_537, 422)])
def test_the_longest_comment(scene: FakeGitHub, length: int, status: int) -> None:
    answer = requests.post(
        f"{scene.url}/repos/{BASE}/issues/1/comments",
        json={"body": "\N{GRINNING FACE}" * length},
        headers=headers(),
    )
    assert answer.status_code == status
    assert len(scene.state.comments) == (status == 201)


def test_comments_at_the_same_time_are_all_there(scene: FakeGitHub) -> None:
    def post(index: int) -> None:
        requests.post(
            f"{scene.url}/repos/{BASE}/issues/1/comments",
            json={"body": str(index)},
            headers=headers(),
        )

    threads = [threading.Thread(target=post, args=(index,)) for index in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(it.body) for it in scene.state.comments) == list(range(20))
    assert len({it.id for it in scene.state.comments}) == 20


# Check runs


def output(annotations: int = 0, **text: str) -> dict[str, object]:
    one = {"path": "op.py", "start_line": 1, "end_line": 1, "annotation_level": "failure"}
    listed = [{**one, "message": f"fault {index}"} for index in range(annotations)]
    return {"title": "OpDiff", "summary": "s", **text, "annotations": listed}


def test_annotations_pile_up_over_requests(scene: FakeGitHub) -> None:
    repository, sha = client(scene).get_repo(BASE), scene.state.pulls[0].head_sha
    run = repository.create_check_run("OpDiff", sha, status="in_progress", output=output(50))
    assert (run.status, run.conclusion) == ("in_progress", None)
    run.edit(output=output(1), conclusion="failure")
    assert (run.status, run.conclusion) == ("completed", "failure")
    assert run.output.annotations_count == 51
    messages = [f"fault {index}" for index in range(50)] + ["fault 0"]
    assert [it.message for it in run.get_annotations()] == messages
    again = repository.create_check_run("OpDiff", sha, status="queued")
    found = repository.get_commit(sha).get_check_runs()
    assert [it.id for it in found] == [again.id]
    assert [it.id for it in repository.get_commit(sha).get_check_runs(filter="all")] == [
        again.id,
        run.id,
    ]


@pytest.mark.parametrize(
    "too_much",
    [
        output(51),
        output(summary="s" * 65_536),
        output(text="t" * 65_536),
        {**output(), "annotations": [{**output(1)["annotations"][0], "message": "m" * 65_537}]},
        {**output(), "annotations": [{**output(1)["annotations"][0], "title": "t" * 256}]},
    ],
    ids=["annotations", "summary", "text", "message", "title"],
)
def test_a_check_run_over_a_limit_is_refused(
    scene: FakeGitHub, too_much: dict[str, object]
) -> None:
    body = {"name": "OpDiff", "head_sha": scene.state.pulls[0].head_sha, "output": too_much}
    answer = requests.post(f"{scene.url}/repos/{BASE}/check-runs", json=body, headers=headers())
    assert answer.status_code == 422
    assert scene.state.check_runs == []


def test_a_check_run_at_its_limits(scene: FakeGitHub) -> None:
    fits = output(50, summary="s" * 65_535, text="t" * 65_535)
    client(scene).get_repo(BASE).create_check_run(
        "OpDiff", scene.state.pulls[0].head_sha, output=fits
    )
    assert len(scene.state.check_runs[0].annotations) == 50


def test_a_check_run_needs_a_commit_that_is_there(scene: FakeGitHub) -> None:
    with pytest.raises(GithubException, match="No commit found for SHA"):
        client(scene).get_repo(BASE).create_check_run("OpDiff", "0" * 40)


# Workflow runs and artifacts


def test_a_run_for_a_fork_names_no_pull_request(scene: FakeGitHub) -> None:
    scene.state.push(BASE, "own", {"op.py": "x = 5\n"})
    scene.state.add_pull(BASE, head=(BASE, "own"))
    own = scene.state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(BASE, "own"))
    repository, fork_run = client(scene).get_repo(BASE), scene.state.runs[0]
    shown = repository.get_workflow_run(fork_run.id)
    assert (shown.path, shown.event, shown.run_attempt) == (WORKFLOW, "pull_request", 1)
    assert shown.head_repository.full_name == FORK
    assert shown.pull_requests == []
    assert [it.number for it in repository.get_workflow_run(own.id).pull_requests] == [2]
    assert [it.id for it in repository.get_workflow_runs(head_sha=fork_run.head_sha)] == [
        fork_run.id
    ]
    assert list(repository.get_workflow_runs(event="push")) == []
    runs = repository.get_workflow("opdiff.yml").get_runs(event="pull_request")
    assert [it.id for it in runs] == [own.id, fork_run.id]


def test_a_run_is_run_again_only_when_it_has_ended(scene: FakeGitHub) -> None:
    run = scene.state.runs[0]
    shown = client(scene).get_repo(BASE).get_workflow_run(run.id)
    assert shown.rerun()
    assert (run.run_attempt, run.status, run.conclusion) == (2, "queued", None)
    assert not shown.rerun()
    assert scene.log[-1].status == 403
    scene.state.complete_run(run, "failure")
    assert shown.rerun_failed_jobs()
    assert [it.failed_jobs_only for it in run.attempts] == [False, False, True]
    attempt = f"{scene.url}/repos/{BASE}/actions/runs/{run.id}/attempts"
    first = requests.get(f"{attempt}/1", headers=headers()).json()
    assert (first["run_attempt"], first["conclusion"]) == (1, "success")
    assert requests.get(f"{attempt}/4", headers=headers()).status_code == 404


def test_an_artifact_comes_from_another_host_without_the_token(scene: FakeGitHub) -> None:
    run = client(scene).get_repo(BASE).get_workflow_run(scene.state.runs[0].id)
    artifact = next(iter(run.get_artifacts()))
    answer = requests.get(artifact.archive_download_url, headers=headers())
    assert answer.content == scene.state.artifacts[0].data
    assert artifact.digest == f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    assert [it.status_code for it in answer.history] == [302]
    assert answer.url.startswith(scene.blob_host)
    assert [it.token for it in scene.log[-2:]] == ["all", None]


def test_the_blob_host_refuses_a_token(scene: FakeGitHub) -> None:
    address = f"{scene.url}/repos/{BASE}/actions/artifacts/{scene.state.artifacts[0].id}/zip"
    redirect = requests.get(address, headers=headers(), allow_redirects=False)
    refused = requests.get(redirect.headers["Location"], headers=headers())
    assert refused.status_code == 400
    assert "Authorization header went to the blob host" in scene.violations[0]
    scene.log.clear()
    unsigned = requests.get(redirect.headers["Location"].split("?")[0])
    assert unsigned.status_code == 403


def test_an_expired_artifact_is_gone(scene: FakeGitHub) -> None:
    artifact = scene.state.artifacts[0]
    artifact.expired = True
    address = f"{scene.url}/repos/{BASE}/actions/artifacts/{artifact.id}"
    assert requests.get(address, headers=headers()).json()["expired"] is True
    assert requests.get(f"{address}/zip", headers=headers()).status_code == 410


# The rest


def test_enterprise_serves_the_same_under_its_prefix(scene: FakeGitHub) -> None:
    github = client(scene, url=scene.enterprise_url)
    comment = github.get_repo(BASE).get_pull(1).create_issue_comment("hello")
    assert comment.url.startswith(f"{scene.url}/api/v3/repos/")
    comment.edit("again")
    assert scene.state.comments[0].body == "again"


def test_something_happens_between_two_calls(scene: FakeGitHub) -> None:
    scene.before(
        "POST", "/comments$", lambda: scene.state.push(FORK, "fix/softplus", {"op.py": "x = 9\n"})
    )
    pull = client(scene).get_repo(BASE).get_pull(1)
    pull.create_issue_comment("of the old head")
    assert client(scene).get_repo(BASE).get_pull(1).head.sha != pull.head.sha


def test_the_state_is_read_back_from_json(scene: FakeGitHub) -> None:
    scene.state.add_comment(BASE, 1, "stranger", "hello")
    assert State.model_validate_json(scene.state.model_dump_json()) == scene.state
