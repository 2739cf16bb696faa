"""A framework's repository on the fake GitHub, with the README's workflows, and a stranger's pull request to it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml
from act import ACTION, Act, Ran
from command import ROOT
from fake_github import events
from fake_github.model import Comment, PullRequest, WorkflowRun
from fake_github.server import FakeGitHub
from readme_workflows import fork_workflows
from scene import FrameworkRepository

REPOSITORY = "framework/oneflow"
FORK = "stranger/oneflow"
CHECK = ".github/workflows/opdiff.yml"
PUBLISH = ".github/workflows/opdiff-publish.yml"
CHECK_PERMISSIONS = {"contents": "read", "pull-requests": "read"}
PUBLISH_PERMISSIONS = {
    "actions": "read", "contents": "read", "checks": "write", "pull-requests": "write",
}  # fmt: skip


@dataclass(frozen=True)
class Host:
    """How the steps run OpDiff: their environment, and the image (none: in place)."""

    variables: dict[str, str]
    image: str = ""


class Scene:
    """A repository, a fork, the server and what runs workflows."""

    def __init__(self, root: Path, github: FakeGitHub, site_packages: Path, host: Host) -> None:
        self.github = github
        self.image = host.image
        repositories = root / "repositories"
        self.action = repositories / ACTION
        self._copy_action()
        self.code = FrameworkRepository.of_release(
            site_packages, "oneflow", repositories / REPOSITORY
        )
        for name, text in fork_workflows(ACTION, "v1").items():
            self.code.write(name, self._for_act(text))
        self.act = Act(root / "runs", repositories, host.variables)
        state = github.state
        state.add_repository(REPOSITORY)
        state.push(REPOSITORY, "main", {}, sha=self.code.commit("OpDiff's workflows"))
        state.app_token("check", dict(CHECK_PERMISSIONS), repository=REPOSITORY)
        state.app_token("publish", dict(PUBLISH_PERMISSIONS), repository=REPOSITORY)
        state.add_fork(REPOSITORY, "stranger")

    def _copy_action(self) -> None:
        self.action.mkdir(parents=True)
        shutil.copy(ROOT / "action.yml", self.action)
        shutil.copytree(ROOT / ".github", self.action / ".github")

    def _for_act(self, text: str) -> str:
        """The same workflow, CPU only; act has no context that names a reusable workflow's repository."""
        document = yaml.safe_load(text)
        document.pop("cache-mode", None)  # act refuses keys that are newer than itself
        for job in document["jobs"].values():
            inputs = job.setdefault("with", {})
            inputs |= {"opdiff-repository": ACTION, "opdiff-ref": "v1", "image": self.image}
            if "devices" in inputs:
                inputs |= {"devices": "cpu", "shards": "2"}
        return yaml.safe_dump(document, sort_keys=False).replace("\ntrue:", "\n'on':")

    def push(self, branch: str, sha: str) -> None:
        self.github.state.push(FORK, branch, {}, sha=sha)

    def check(self, pull: PullRequest, action: str) -> tuple[WorkflowRun, Ran]:
        """The pull request's own run, and its artifact on the server."""
        state = self.github.state
        head = (pull.head_repository, pull.head_ref)
        run = state.add_run(
            REPOSITORY, path=CHECK, event="pull_request", head=head, conclusion=None, name="OpDiff"
        )
        ran = self.act.run(
            self.code.folder / CHECK,
            "pull_request",
            events.pull_request(state, pull, action, api=self.github.url),
            folder=self.code.folder,
            repository=REPOSITORY,
            sha=pull.head_sha,
            token="check",
            api_url=self.github.url,
            run_id=run.id,
        )
        state.complete_run(run, "success" if ran.code == 0 else "failure")
        if (ran.artifacts / "opdiff").is_dir():
            state.add_artifact(run, "opdiff", ran.artifact("opdiff"))
        return run, ran

    def publish(self, run: WorkflowRun) -> Ran:
        state = self.github.state
        mine = state.add_run(
            REPOSITORY,
            path=PUBLISH,
            event="workflow_run",
            head=(REPOSITORY, "main"),
            conclusion=None,
            name="OpDiff publish",
        )
        ran = self.act.run(
            self.code.folder / PUBLISH,
            "workflow_run",
            events.workflow_run_completed(state, run, api=self.github.url),
            folder=self.code.folder,
            repository=REPOSITORY,
            sha=state.repository(REPOSITORY).branches["main"],
            token="publish",
            api_url=self.github.url,
            run_id=mine.id,
        )
        state.complete_run(mine, "success" if ran.code == 0 else "failure")
        return ran

    def comment(self, pull: PullRequest) -> Comment:
        (comment,) = self.github.state.comments_on(REPOSITORY, pull.number)
        return comment


def from_fault_to_fix(scene: Scene) -> None:
    """A stranger's pull request with a planted fault: comment, check run and annotations; then a push that fixes it."""
    github, state = scene.github, scene.github.state
    scene.code.branch("leaner-layer-norm")
    faulty = scene.code.apply_example("oneflow-layer-norm.patch")
    scene.push("leaner-layer-norm", faulty)
    pull = state.add_pull(
        REPOSITORY, head=(FORK, "leaner-layer-norm"), title="layer_norm: less memory"
    )

    run, checked = scene.check(pull, "opened")
    assert "::error" not in checked.log, checked.log[-5000:]
    assert checked.code != 0, checked.log[-5000:]  # a finding fails the merged report's job
    published = scene.publish(run)
    assert published.code == 0, published.log[-5000:]

    comment = scene.comment(pull)
    assert comment.login == "github-actions[bot]"
    assert "nn.functional.layer_norm" in comment.body
    assert "gradient" in comment.body
    assert "reported by an untrusted run" in comment.body.lower()
    (check_run,) = [it for it in state.check_runs if it.head_sha == faulty]
    assert check_run.conclusion == "failure"
    assert {it.path for it in check_run.annotations} == {
        "python/oneflow/nn/modules/normalization.py"
    }
    assert list(published.artifacts.glob("*/findings/*/repro.py"))

    fixed = scene.code.revert()
    scene.push("leaner-layer-norm", fixed)
    run, checked = scene.check(pull, "synchronize")
    assert checked.code == 0, checked.log[-5000:]
    published = scene.publish(run)
    assert published.code == 0, published.log[-5000:]
    after = scene.comment(pull)
    assert after.id == comment.id
    assert "fixed" in after.body.lower()
    assert fixed[:7] in after.body
    (check_run,) = [it for it in state.check_runs if it.head_sha == fixed]
    assert check_run.conclusion == "success"

    assert github.missing_permissions == []
    used = {call.token for call in github.log if call.token}
    assert used <= {"check", "publish"}
    assert not [call for call in github.writes() if call.token != "publish"]
