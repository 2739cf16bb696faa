"""The state's records in GitHub's JSON."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .filled import Filler
from .model import (
    Annotation,
    Artifact,
    ChangedFile,
    CheckRun,
    Comment,
    Commit,
    Issue,
    PullRequest,
    Reaction,
    Repository,
    WorkflowRun,
)
from .state import State
from .trees import ahead, changed_files, merge_base

Json = dict[str, Any]
_REACTIONS = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")


def when(time: datetime | None) -> str | None:
    """A time in GitHub's form."""
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Renderer:
    """Renders records; ``api`` is the address of the API that the caller used."""

    state: State
    filler: Filler
    api: str

    def _repository_url(self, full_name: str) -> str:
        return f"{self.api}/repos/{full_name}"

    def _web(self, path: str) -> str:
        return f"{self.state.server_url}/{path}"

    def user(self, login: str, schema: str = "simple-user") -> Json:
        """An account."""
        user = self.state.user(login)
        url = f"{self.api}/users/{login}"
        values = {
            "id": user.id,
            "login": login,
            "type": user.type,
            "url": url,
            "html_url": self._web(login),
            "node_id": f"U_{user.id}",
            "gravatar_id": "",
        }
        if schema in ("public-user", "private-user"):
            values |= {
                "user_view_type": schema.removesuffix("-user"),
                "created_at": "2020-01-01T00:00:00Z",
            }
        return self.filler.filled(schema, values, url)

    def app(self, slug: str) -> Json:
        """A GitHub App."""
        app = self.state.app(slug)
        values = {
            "id": app.id,
            "slug": slug,
            "name": app.name,
            "node_id": f"A_{app.id}",
            "owner": self.user("github"),
            "html_url": self._web(f"apps/{slug}"),
        }
        return self.filler.filled("integration", values)

    def repository(self, repository: Repository, schema: str = "full-repository") -> Json:
        """A repository; ``schema`` one of the description's three sizes."""
        url = self._repository_url(repository.full_name)
        html = self._web(repository.full_name)
        values: Json = {
            "id": repository.id,
            "name": repository.name,
            "full_name": repository.full_name,
            "node_id": f"R_{repository.id}",
            "owner": self.user(repository.owner),
            "private": repository.private,
            "visibility": "private" if repository.private else "public",
            "fork": repository.parent is not None,
            "url": url,
            "html_url": html,
            "clone_url": f"{html}.git",
            "default_branch": repository.default_branch,
            "has_issues": True,
            "has_projects": True,
            "has_wiki": True,
            "has_downloads": True,
            "has_discussions": False,
            "topics": [],
            "created_at": when(repository.created_at),
            "updated_at": when(repository.created_at),
            "pushed_at": when(repository.created_at),
        }
        if schema == "full-repository" and repository.parent:
            parent = self.repository(self.state.repository(repository.parent), "repository")
            values |= {"parent": parent, "source": parent}
        return self.filler.filled(schema, values, url)

    def labels(self, issue: Issue) -> list[Json]:
        """The labels of an issue; ids are made of the names."""
        return [
            {
                "id": int(hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:8], 16),
                "node_id": f"L_{name}",
                "url": f"{self._repository_url(issue.repository)}/labels/{name}",
                "name": name,
                "description": None,
                "color": "ededed",
                "default": False,
            }
            for name in issue.labels
        ]

    def _association(self, repository: str, login: str) -> str:
        level = self.state.repository(repository).permissions.get(login, "none")
        if level == "admin":
            return "OWNER"
        return "COLLABORATOR" if level in ("maintain", "write", "triage") else "NONE"

    def issue(self, issue: Issue) -> Json:
        """An issue, or the issue side of a pull request."""
        url = f"{self._repository_url(issue.repository)}/issues/{issue.number}"
        is_pull = isinstance(issue, PullRequest)
        html = self._web(f"{issue.repository}/{'pull' if is_pull else 'issues'}/{issue.number}")
        values: Json = {
            "id": issue.id,
            "node_id": f"I_{issue.id}",
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "state": issue.state,
            "locked": issue.locked,
            "user": self.user(issue.author),
            "labels": self.labels(issue),
            "assignees": [],
            "reactions": self._rollup(url, []),
            "comments": len(self.state.comments_on(issue.repository, issue.number)),
            "created_at": when(issue.created_at),
            "updated_at": when(issue.updated_at),
            "closed_at": None if issue.state == "open" else when(issue.updated_at),
            "author_association": self._association(issue.repository, issue.author),
            "url": url,
            "html_url": html,
            "comments_url": f"{url}/comments",
            "repository_url": self._repository_url(issue.repository),
        }
        if is_pull:
            values["pull_request"] = {
                "url": f"{self._repository_url(issue.repository)}/pulls/{issue.number}",
                "html_url": html,
                "diff_url": f"{html}.diff",
                "patch_url": f"{html}.patch",
                "merged_at": None,
            }
        return self.filler.filled("issue", values, url)

    def pull(self, pull: PullRequest, schema: str = "pull-request-simple") -> Json:
        """A pull request; ``schema`` is ``pull-request`` where GitHub tells its counts too."""
        issue = self.issue(pull)
        url = f"{self._repository_url(pull.repository)}/pulls/{pull.number}"
        shared = (
            "node_id",
            "number",
            "title",
            "body",
            "state",
            "locked",
            "user",
            "labels",
            "html_url",
        )
        more = ("created_at", "updated_at", "closed_at", "author_association", "comments_url")
        ends = {
            "head": self._end(pull, pull.head_repository, pull.head_ref, pull.head_sha),
            "base": self._end(pull, pull.repository, pull.base_ref, pull.base_sha),
        }
        links = {"self": url, "html": issue["html_url"], "issue": issue["url"]}
        values: Json = {name: issue[name] for name in (*shared, *more)} | {
            "id": pull.id,
            "url": url,
            "issue_url": issue["url"],
            "diff_url": f"{issue['html_url']}.diff",
            "patch_url": f"{issue['html_url']}.patch",
            "draft": pull.draft,
            "merged_at": when(pull.updated_at) if pull.merged else None,
            "assignees": [],
            "requested_reviewers": [],
            "requested_teams": [],
            "_links": {
                name: {"href": links.get(name, f"{url}/{name}")}
                for name in (
                    *("self", "html", "issue", "comments", "review_comments"),
                    *("review_comment", "commits", "statuses"),
                )
            },
            **ends,
        }
        if schema == "pull-request":
            files = self.files_of(pull)
            values |= {
                "merged": pull.merged,
                "mergeable": None,
                "mergeable_state": "unknown",
                "comments": issue["comments"],
                "commits": len(ahead(self.state, pull.base_sha, pull.head_sha)),
                "changed_files": len(files),
                "additions": sum(it.additions for it in files),
                "deletions": sum(it.deletions for it in files),
            }
        return self.filler.filled(schema, values, url)

    def _end(self, pull: PullRequest, full_name: str | None, ref: str, sha: str) -> Json:
        repository = self.state.repositories.get(full_name or "")
        owner = repository.owner if repository else pull.author
        return {
            "label": f"{owner}:{ref}",
            "ref": ref,
            "sha": sha,
            "user": self.user(owner),
            "repo": self.repository(repository, "repository") if repository else None,
        }

    def reference(self, pull: PullRequest) -> Json:
        """The short form of a pull request in workflow runs and check runs."""

        def end(full_name: str | None, ref: str, sha: str) -> Json:
            repository = self.state.repository(full_name or "")
            url = self._repository_url(repository.full_name)
            return {
                "ref": ref,
                "sha": sha,
                "repo": {"id": repository.id, "url": url, "name": repository.name},
            }

        return {
            "id": pull.id,
            "number": pull.number,
            "url": f"{self._repository_url(pull.repository)}/pulls/{pull.number}",
            "head": end(pull.head_repository, pull.head_ref, pull.head_sha),
            "base": end(pull.repository, pull.base_ref, pull.base_sha),
        }

    # Commits and files

    def files_of(self, pull: PullRequest) -> list[ChangedFile]:
        """What a pull request changes: as the scene says, else from the trees."""
        if pull.files is not None:
            return pull.files
        base = merge_base(self.state, pull.base_sha, pull.head_sha)
        return changed_files(base, self.state.commits[pull.head_sha])

    def file(self, repository: str, sha: str, file: ChangedFile) -> Json:
        """A changed file."""
        web, path = self._web(repository), f"{sha}/{file.filename}"
        given = {"patch": file.patch, "previous_filename": file.previous_filename}
        return {
            "sha": hashlib.sha1(path.encode(), usedforsecurity=False).hexdigest(),
            "filename": file.filename,
            "status": file.status,
            "additions": file.additions,
            "deletions": file.deletions,
            "changes": file.additions + file.deletions,
            "blob_url": f"{web}/blob/{path}",
            "raw_url": f"{web}/raw/{path}",
            "contents_url": f"{self._repository_url(repository)}/contents/{file.filename}?ref={sha}",
        } | {name: value for name, value in given.items() if value is not None}

    def commit(self, repository: str, commit: Commit) -> Json:
        """A commit."""
        url = f"{self._repository_url(repository)}/commits/{commit.sha}"
        identity = {"name": commit.author, "email": "", "date": when(commit.date)}
        identity["email"] = f"{commit.author}@users.noreply.github.com"
        values = {
            "sha": commit.sha,
            "node_id": f"C_{commit.sha}",
            "url": url,
            "html_url": self._web(f"{repository}/commit/{commit.sha}"),
            "author": self.user(commit.author),
            "committer": self.user(commit.author),
            "commit": {
                "message": commit.message,
                "author": identity,
                "committer": identity,
                "tree": {"sha": commit.sha, "url": f"{url}/tree"},
                "comment_count": 0,
            },
            "parents": [
                {"sha": it, "url": f"{self._repository_url(repository)}/commits/{it}"}
                for it in commit.parents
            ],
        }
        return self.filler.filled("commit", values, url)

    def content(self, repository: str, ref: str, path: str, text: str) -> Json:
        """A file's contents; over 1 MB GitHub leaves them out."""
        data = text.encode()
        url = f"{self._repository_url(repository)}/contents/{path}?ref={ref}"
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        git = f"{self._repository_url(repository)}/git/blobs/{blob}"
        html = self._web(f"{repository}/blob/{ref}/{path}")
        small = len(data) <= 1_000_000
        return {
            "type": "file",
            "name": path.rsplit("/", 1)[-1],
            "path": path,
            "sha": blob,
            "size": len(data),
            "content": base64.encodebytes(data).decode() if small else "",
            "encoding": "base64" if small else "none",
            "url": url,
            "git_url": git,
            "html_url": html,
            "download_url": self._web(f"{repository}/raw/{ref}/{path}"),
            "_links": {"self": url, "git": git, "html": html},
        }

    def folder(self, repository: str, ref: str, path: str) -> Json:
        """A folder in a listing."""
        url = f"{self._repository_url(repository)}/contents/{path}?ref={ref}"
        html = self._web(f"{repository}/tree/{ref}/{path}")
        git = f"{self._repository_url(repository)}/git/trees/{ref}"
        return {
            "type": "dir",
            "name": path.rsplit("/", 1)[-1],
            "path": path,
            "sha": hashlib.sha1(path.encode(), usedforsecurity=False).hexdigest(),
            "size": 0,
            "url": url,
            "git_url": git,
            "html_url": html,
            "download_url": None,
            "_links": {"self": url, "git": git, "html": html},
        }

    # Conversations

    def comment(self, comment: Comment) -> Json:
        """A comment with its reactions counted."""
        url = f"{self._repository_url(comment.repository)}/issues/comments/{comment.id}"
        issue = self.issue(self.state.issue(comment.repository, comment.number))
        return {
            "id": comment.id,
            "node_id": f"IC_{comment.id}",
            "url": url,
            "html_url": f"{issue['html_url']}#issuecomment-{comment.id}",
            "issue_url": issue["url"],
            "user": self.user(comment.login),
            "body": comment.body,
            "created_at": when(comment.created_at),
            "updated_at": when(comment.updated_at),
            "author_association": self._association(comment.repository, comment.login),
            "performed_via_github_app": self.app(comment.app) if comment.app else None,
            "reactions": self._rollup(url, comment.reactions),
        }

    def _rollup(self, url: str, reactions: list[Reaction]) -> Json:
        counts = Counter(it.content for it in reactions)
        counted = {content: counts[content] for content in _REACTIONS}
        return {"url": f"{url}/reactions", "total_count": len(reactions), **counted}

    def reaction(self, reaction: Reaction) -> Json:
        """A reaction."""
        return {
            "id": reaction.id,
            "node_id": f"REA_{reaction.id}",
            "user": self.user(reaction.login),
            "content": reaction.content,
            "created_at": when(reaction.created_at),
        }

    # Checks

    def check_run(self, run: CheckRun) -> Json:
        """A check run."""
        url = f"{self._repository_url(run.repository)}/check-runs/{run.id}"
        html = self._web(f"{run.repository}/runs/{run.id}")
        pulls = [
            it
            for it in self.state.pulls
            if (it.repository, it.head_repository) == (run.repository, run.repository)
            and it.head_sha == run.head_sha
        ]
        return {
            "id": run.id,
            "node_id": f"CR_{run.id}",
            "name": run.name,
            "head_sha": run.head_sha,
            "external_id": run.external_id or "",
            "url": url,
            "html_url": html,
            "details_url": run.details_url or html,
            "status": run.status,
            "conclusion": run.conclusion,
            "started_at": when(run.started_at),
            "completed_at": when(run.completed_at),
            "output": {
                "title": run.title,
                "summary": run.summary,
                "text": run.text,
                "annotations_count": len(run.annotations),
                "annotations_url": f"{url}/annotations",
            },
            "check_suite": {"id": run.id + 1_000_000},
            "app": self.app(run.app),
            "pull_requests": [self.reference(it) for it in pulls],
        }

    def annotation(self, run: CheckRun, annotation: Annotation) -> Json:
        """An annotation of a check run."""
        href = self._web(f"{run.repository}/blob/{run.head_sha}/{annotation.path}")
        return annotation.model_dump() | {"blob_href": href}

    # Actions

    def workflow(self, run: WorkflowRun) -> Json:
        """The workflow that ``run`` is a run of."""
        url = f"{self._repository_url(run.repository)}/actions/workflows/{run.workflow_id}"
        return {
            "id": run.workflow_id,
            "node_id": f"W_{run.workflow_id}",
            "name": run.name,
            "path": run.path,
            "state": "active",
            "created_at": when(run.created_at),
            "updated_at": when(run.created_at),
            "url": url,
            "html_url": self._web(f"{run.repository}/blob/main/{run.path}"),
            "badge_url": self._web(f"{run.repository}/workflows/{run.name}/badge.svg"),
        }

    def run(self, run: WorkflowRun, *, number: int | None = None, pulls: bool = True) -> Json:
        """A workflow run at its attempt ``number``, by default the current one."""
        number = number or run.run_attempt
        attempt = run.attempts[number - 1]
        url = f"{self._repository_url(run.repository)}/actions/runs/{run.id}"
        commit = self.state.commits[run.head_sha]
        head = self.state.repository(run.head_repository)
        identity = {"name": commit.author, "email": f"{commit.author}@users.noreply.github.com"}
        repository = self.state.repository(run.repository)
        linked = [self.state.pull(run.repository, it) for it in run.pull_requests] if pulls else []
        values = {
            "id": run.id,
            "node_id": f"WFR_{run.id}",
            "name": run.name,
            "display_title": commit.message,
            "path": run.path,
            "event": run.event,
            "run_number": run.run_number,
            "run_attempt": number,
            "status": attempt.status,
            "conclusion": attempt.conclusion,
            "workflow_id": run.workflow_id,
            "workflow_url": f"{self._repository_url(run.repository)}/actions/workflows/{run.workflow_id}",
            "check_suite_id": run.id + 1_000_000,
            "head_branch": run.head_branch,
            "head_sha": run.head_sha,
            "head_commit": {
                "id": commit.sha,
                "tree_id": commit.sha,
                "message": commit.message,
                "timestamp": when(commit.date),
                "author": identity,
                "committer": identity,
            },
            "head_repository": self.repository(head, "minimal-repository"),
            "head_repository_id": head.id,
            "repository": self.repository(repository, "minimal-repository"),
            "actor": self.user(run.actor),
            "triggering_actor": self.user(run.actor),
            "pull_requests": [self.reference(it) for it in linked],
            "referenced_workflows": [],
            "created_at": when(run.created_at),
            "run_started_at": when(attempt.started_at),
            "updated_at": when(attempt.updated_at),
            "previous_attempt_url": f"{url}/attempts/{number - 1}" if number > 1 else None,
            "url": url,
            "html_url": self._web(f"{run.repository}/actions/runs/{run.id}"),
            "rerun_url": f"{url}/rerun",
        }
        return self.filler.filled("workflow-run", values, url)

    def artifact(self, artifact: Artifact) -> Json:
        """An artifact."""
        url = f"{self._repository_url(artifact.repository)}/actions/artifacts/{artifact.id}"
        run = self.state.run(artifact.repository, artifact.run_id)
        return {
            "id": artifact.id,
            "node_id": f"ART_{artifact.id}",
            "name": artifact.name,
            "size_in_bytes": artifact.size,
            "digest": artifact.digest,
            "expired": artifact.expired,
            "created_at": when(artifact.created_at),
            "updated_at": when(artifact.created_at),
            "expires_at": when(artifact.expires_at),
            "url": url,
            "archive_download_url": f"{url}/zip",
            "workflow_run": {
                "id": run.id,
                "repository_id": self.state.repository(run.repository).id,
                "head_repository_id": self.state.repository(run.head_repository).id,
                "head_branch": run.head_branch,
                "head_sha": run.head_sha,
            },
        }
