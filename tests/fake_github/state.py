"""What the fake GitHub knows: how a scene is set up, and how it is looked up.

Ids are handed out by one counter, so that a scene built twice has the same ids. Times come from the
caller's clock. Everything can be written to JSON and read back.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pydantic import Field, PrivateAttr

from .model import (
    App,
    Artifact,
    Attempt,
    ChangedFile,
    CheckRun,
    Comment,
    Commit,
    Conclusion,
    Issue,
    Level,
    Model,
    PullRequest,
    Repository,
    Token,
    User,
    WorkflowRun,
)

# https://docs.github.com/actions: artifacts are kept for 90 days by default.
ARTIFACT_DAYS = 90


def real_time() -> datetime:
    """Now, as GitHub tells time: UTC, whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


class NotHere(KeyError):
    """What was looked up is not in the state: the fake answers 404."""


class State(Model):
    """The whole of the fake GitHub, and the verbs that set up a scene."""

    server_url: str = "https://github.com"
    next_id: int = 1000
    users: dict[str, User] = Field(default_factory=dict)
    apps: dict[str, App] = Field(default_factory=dict)
    tokens: dict[str, Token] = Field(default_factory=dict)
    repositories: dict[str, Repository] = Field(default_factory=dict)
    commits: dict[str, Commit] = Field(default_factory=dict)
    issues: list[Issue] = Field(default_factory=list)
    pulls: list[PullRequest] = Field(default_factory=list)
    comments: list[Comment] = Field(default_factory=list)
    check_runs: list[CheckRun] = Field(default_factory=list)
    runs: list[WorkflowRun] = Field(default_factory=list)
    artifacts: list[Artifact] = Field(default_factory=list)

    _clock: Callable[[], datetime] = PrivateAttr(default_factory=lambda: real_time)

    def use_clock(self, clock: Callable[[], datetime]) -> None:
        """From now on ``clock`` tells the time (UTC)."""
        self._clock = clock

    def now(self) -> datetime:
        """The time by the state's clock."""
        return self._clock()

    def new_id(self) -> int:
        """An id that nothing else has."""
        self.next_id += 1
        return self.next_id

    # Accounts and tokens

    def user(self, login: str) -> User:
        """The account ``login``, made when it is new."""
        if login not in self.users:
            kind = "Bot" if login.endswith("[bot]") else "User"
            self.users[login] = User(id=self.new_id(), login=login, type=kind)
        return self.users[login]

    def app(self, slug: str) -> App:
        """The app ``slug``, made when it is new."""
        if slug not in self.apps:
            name = slug.replace("-", " ").title()
            self.apps[slug] = App(id=self.new_id(), slug=slug, name=name)
        return self.apps[slug]

    def app_token(
        self,
        value: str,
        permissions: dict[str, Level],
        *,
        repository: str,
        app: str = "github-actions",
    ) -> Token:
        """The token of an app's installation; by default a workflow's ``GITHUB_TOKEN``."""
        login = self.user(f"{self.app(app).slug}[bot]").login
        self.tokens[value] = Token(
            value=value,
            login=login,
            permissions=permissions,
            app=app,
            repositories=[repository],
            limit=1000,
        )
        return self.tokens[value]

    def user_token(self, value: str, login: str, permissions: dict[str, Level]) -> Token:
        """A person's fine-grained token."""
        self.user(login)
        self.tokens[value] = Token(value=value, login=login, permissions=permissions)
        return self.tokens[value]

    # Repositories and commits

    def repository(self, full_name: str) -> Repository:
        """The repository ``owner/name`` in any case; raises ``NotHere``."""
        for name, repository in self.repositories.items():
            if name.lower() == full_name.lower():
                return repository
        raise NotHere(f"repository {full_name}")

    def repository_by_id(self, repository_id: int) -> Repository:
        """The repository with that id; raises ``NotHere``."""
        return one(self.repositories.values(), lambda it: it.id == repository_id, "repository")

    def add_repository(
        self,
        full_name: str,
        *,
        private: bool = False,
        files: Mapping[str, str] | None = None,
        default_branch: str = "main",
    ) -> Repository:
        """A repository with one commit of ``files`` on its default branch."""
        owner, name = full_name.split("/")
        self.user(owner)
        repository = Repository(
            id=self.new_id(),
            owner=owner,
            name=name,
            private=private,
            default_branch=default_branch,
            created_at=self.now(),
        )
        repository.permissions[owner] = "admin"
        self.repositories[full_name] = repository
        self.push(full_name, default_branch, files or {}, message="Initial commit")
        return repository

    def add_fork(self, parent: str, owner: str) -> Repository:
        """A fork with the parent's branches."""
        origin = self.repository(parent)
        self.user(owner)
        fork = origin.model_copy(
            update={
                "id": self.new_id(),
                "owner": owner,
                "parent": origin.full_name,
                "branches": dict(origin.branches),
                "permissions": {owner: "admin"},
                "created_at": self.now(),
            }
        )
        self.repositories[fork.full_name] = fork
        return fork

    def push(
        self,
        repository: str,
        branch: str,
        files: Mapping[str, str | None],
        *,
        message: str = "A change",
        author: str | None = None,
        start: str | None = None,
        sha: str | None = None,
    ) -> Commit:
        """A commit that changes ``files`` (None removes) on ``branch``; open pull requests follow.

        A new branch starts at ``start``, by default at the default branch's head.
        """
        repo = self.repository(repository)
        parent = repo.branches.get(branch) or start or repo.branches.get(repo.default_branch)
        tree = dict(self.commits[parent].files) if parent else {}
        for path, text in files.items():
            if text is None:
                tree.pop(path, None)
            else:
                tree[path] = text
        identity = f"{repository} {branch} {message} {self.new_id()}"
        commit = Commit(
            sha=sha or hashlib.sha1(identity.encode(), usedforsecurity=False).hexdigest(),
            message=message,
            author=self.user(author or repo.owner).login,
            date=self.now(),
            parents=[parent] if parent else [],
            files=tree,
        )
        self.commits[commit.sha] = commit
        self.move_branch(repository, branch, commit.sha)
        return commit

    def move_branch(self, repository: str, branch: str, sha: str) -> None:
        """Point ``branch`` at ``sha``; open pull requests from it follow."""
        repo = self.repository(repository)
        repo.branches[branch] = sha
        for pull in self.pulls:
            if (pull.head_repository, pull.head_ref) == (repo.full_name, branch) and (
                pull.state == "open"
            ):
                pull.head_sha = sha
                pull.updated_at = self.now()

    def commit_at(self, repository: Repository, ref: str) -> Commit:
        """The commit that a branch, ``owner:branch`` or SHA names; raises ``NotHere``."""
        if ":" in ref:
            owner, ref = ref.split(":", 1)
            repository = one(
                self.network(repository), lambda it: it.owner.lower() == owner.lower(), "fork"
            )
        name = ref.removeprefix("refs/heads/").removeprefix("heads/")
        sha = repository.branches.get(name, ref)
        if sha not in self.commits:
            raise NotHere(f"commit {ref}")
        return self.commits[sha]

    def network(self, repository: Repository) -> list[Repository]:
        """The repository, its parent and all forks of either: they share commits."""
        root = repository.parent or repository.full_name
        return [it for it in self.repositories.values() if root in (it.full_name, it.parent)]

    # Issues, pull requests and comments

    def add_issue(self, repository: str, title: str, *, author: str, body: str = "") -> Issue:
        """An issue that is no pull request."""
        issue = Issue(
            id=self.new_id(),
            repository=self.repository(repository).full_name,
            number=self._next_number(repository),
            title=title,
            body=body,
            author=self.user(author).login,
            created_at=self.now(),
            updated_at=self.now(),
        )
        self.issues.append(issue)
        return issue

    def add_pull(
        self,
        repository: str,
        *,
        head: tuple[str, str],
        title: str = "A pull request",
        body: str | None = None,
        author: str | None = None,
        base_ref: str | None = None,
        draft: bool = False,
        labels: Iterable[str] = (),
        files: list[ChangedFile] | None = None,
    ) -> PullRequest:
        """A pull request from ``head`` (repository, branch), whose branch must exist."""
        base, head_repository = self.repository(repository), self.repository(head[0])
        pull = PullRequest(
            id=self.new_id(),
            repository=base.full_name,
            number=self._next_number(repository),
            title=title,
            body=body,
            author=self.user(author or head_repository.owner).login,
            created_at=self.now(),
            updated_at=self.now(),
            head_repository=head_repository.full_name,
            head_ref=head[1],
            head_sha=head_repository.branches[head[1]],
            base_ref=base_ref or base.default_branch,
            base_sha=base.branches[base_ref or base.default_branch],
            draft=draft,
            labels=list(labels),
            files=files,
        )
        self.pulls.append(pull)
        return pull

    def pull(self, repository: str, number: int) -> PullRequest:
        """That pull request; raises ``NotHere``."""
        return one(
            self.pulls,
            lambda it: (it.repository, it.number) == (repository, number),
            "pull request",
        )

    def issue(self, repository: str, number: int) -> Issue:
        """That issue or pull request; raises ``NotHere``."""
        return one(
            [*self.issues, *self.pulls],
            lambda it: (it.repository, it.number) == (repository, number),
            "issue",
        )

    def _next_number(self, repository: str) -> int:
        full_name = self.repository(repository).full_name
        mine = [it.number for it in [*self.issues, *self.pulls] if it.repository == full_name]
        return max(mine, default=0) + 1

    def add_comment(
        self, repository: str, number: int, login: str, body: str, *, app: str | None = None
    ) -> Comment:
        """A comment on an issue or pull request."""
        issue = self.issue(self.repository(repository).full_name, number)
        comment = Comment(
            id=self.new_id(),
            repository=issue.repository,
            number=number,
            login=self.user(login).login,
            body=body,
            created_at=self.now(),
            updated_at=self.now(),
            app=app,
        )
        self.comments.append(comment)
        issue.updated_at = self.now()
        return comment

    def comments_on(self, repository: str, number: int) -> list[Comment]:
        """The comments of one conversation, oldest first."""
        return [it for it in self.comments if (it.repository, it.number) == (repository, number)]

    # Workflow runs and artifacts

    def add_run(
        self,
        repository: str,
        *,
        path: str,
        event: str,
        head: tuple[str, str],
        head_sha: str | None = None,
        actor: str | None = None,
        name: str = "OpDiff check",
        conclusion: Conclusion | None = "success",
    ) -> WorkflowRun:
        """A run of the workflow file ``path`` for ``head`` (repository, branch).

        ``pull_requests`` is filled as GitHub does: empty for a head in a fork. A run without a
        conclusion is still in progress.
        """
        base, head_repository = self.repository(repository), self.repository(head[0])
        sha = head_sha or head_repository.branches[head[1]]
        same_path = [it for it in self.runs if (it.repository, it.path) == (base.full_name, path)]
        pulls = [it for it in self.pulls if it.repository == base.full_name and it.state == "open"]
        own_head = head_repository.full_name == base.full_name
        run = WorkflowRun(
            id=self.new_id(),
            repository=base.full_name,
            workflow_id=same_path[0].workflow_id if same_path else self.new_id(),
            path=path,
            name=name,
            event=event,
            run_number=len(same_path) + 1,
            head_repository=head_repository.full_name,
            head_branch=head[1],
            head_sha=sha,
            actor=self.user(actor or head_repository.owner).login,
            created_at=self.now(),
            attempts=[self._attempt(conclusion)],
            pull_requests=[
                it.number
                for it in pulls
                if own_head and (it.head_repository, it.head_ref) == (base.full_name, head[1])
            ],
        )
        self.runs.append(run)
        return run

    def _attempt(self, conclusion: Conclusion | None) -> Attempt:
        return Attempt(
            status="completed" if conclusion else "in_progress",
            conclusion=conclusion,
            started_at=self.now(),
            updated_at=self.now(),
        )

    def complete_run(self, run: WorkflowRun, conclusion: Conclusion = "success") -> None:
        """End the current attempt."""
        attempt = run.attempts[-1]
        attempt.status, attempt.conclusion = "completed", conclusion
        attempt.updated_at = self.now()

    def rerun(self, run: WorkflowRun, *, failed_jobs_only: bool = False) -> None:
        """Begin the next attempt, queued."""
        attempt = self._attempt(None)
        attempt.status, attempt.failed_jobs_only = "queued", failed_jobs_only
        run.attempts.append(attempt)

    def add_artifact(self, run: WorkflowRun, name: str, archive: bytes) -> Artifact:
        """An artifact of ``run``; ``archive`` is the ZIP's bytes."""
        artifact = Artifact(
            id=self.new_id(),
            repository=run.repository,
            run_id=run.id,
            name=name,
            archive=base64.b64encode(archive).decode(),
            digest=f"sha256:{hashlib.sha256(archive).hexdigest()}",
            size=len(archive),
            created_at=self.now(),
            expires_at=self.now() + timedelta(days=ARTIFACT_DAYS),
        )
        self.artifacts.append(artifact)
        return artifact

    def run(self, repository: str, run_id: int) -> WorkflowRun:
        """That run; raises ``NotHere``."""
        return one(
            self.runs, lambda it: (it.repository, it.id) == (repository, run_id), "workflow run"
        )


T = TypeVar("T")


def one(items: Iterable[T], wanted: Callable[[T], bool], what: str) -> T:
    """The first of ``items`` that is ``wanted``; raises ``NotHere`` naming ``what``."""
    for item in items:
        if wanted(item):
            return item
    raise NotHere(what)
