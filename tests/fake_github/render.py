"""The state's records in GitHub's JSON: check runs, workflow runs, artifacts, and all the rest."""

from __future__ import annotations

from .model import Annotation, Artifact, CheckRun, Repository, WorkflowRun
from .render_accounts import Json, when
from .render_conversations import ConversationRenderer


class Renderer(ConversationRenderer):
    """Renders every kind of record."""

    def check_run(self, run: CheckRun) -> Json:
        """A check run."""
        url = f"{self.repository_url(run.repository)}/check-runs/{run.id}"
        html = self.web(f"{run.repository}/runs/{run.id}")
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
        href = self.web(f"{run.repository}/blob/{run.head_sha}/{annotation.path}")
        return annotation.model_dump() | {"blob_href": href}

    def workflow(self, run: WorkflowRun) -> Json:
        """The workflow that ``run`` is a run of."""
        url = f"{self.repository_url(run.repository)}/actions/workflows/{run.workflow_id}"
        return {
            "id": run.workflow_id,
            "node_id": f"W_{run.workflow_id}",
            "name": run.name,
            "path": run.path,
            "state": "active",
            "created_at": when(run.created_at),
            "updated_at": when(run.created_at),
            "url": url,
            "html_url": self.web(f"{run.repository}/blob/main/{run.path}"),
            "badge_url": self.web(f"{run.repository}/workflows/{run.name}/badge.svg"),
        }

    def run(self, run: WorkflowRun, *, number: int | None = None, pulls: bool = True) -> Json:
        """A workflow run at its attempt ``number``, by default the current one."""
        number = number or run.run_attempt
        attempt = run.attempts[number - 1]
        url = f"{self.repository_url(run.repository)}/actions/runs/{run.id}"
        commit = self.state.commits[run.head_sha]
        head = self._head(run)
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
            "workflow_url": f"{self.repository_url(run.repository)}/actions/workflows/{run.workflow_id}",
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
            "head_repository": self.repository(head, "minimal-repository") if head else None,
            **({"head_repository_id": head.id} if head else {}),
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
            "html_url": self.web(f"{run.repository}/actions/runs/{run.id}"),
            "rerun_url": f"{url}/rerun",
        }
        return self.filler.filled("workflow-run", values, url)

    def _head(self, run: WorkflowRun) -> Repository | None:
        return self.state.repository(run.head_repository) if run.head_repository else None

    def job(self, run: WorkflowRun, number: int, name: str, conclusion: str) -> Json:
        """A job of a run that is over; ``number`` counts from 1."""
        identifier = run.id * 100 + number
        url = f"{self.repository_url(run.repository)}/actions/jobs/{identifier}"
        attempt = run.attempts[-1]
        values = {
            "id": identifier,
            "run_id": run.id,
            "run_url": f"{self.repository_url(run.repository)}/actions/runs/{run.id}",
            "run_attempt": run.run_attempt,
            "head_sha": run.head_sha,
            "head_branch": run.head_branch,
            "name": name,
            "status": "completed",
            "conclusion": conclusion,
            "created_at": when(attempt.started_at),
            "started_at": when(attempt.started_at),
            "completed_at": when(attempt.updated_at),
            "url": url,
        }
        return self.filler.filled("job", values, url)

    def artifact(self, artifact: Artifact) -> Json:
        """An artifact."""
        url = f"{self.repository_url(artifact.repository)}/actions/artifacts/{artifact.id}"
        run = self.state.run(artifact.repository, artifact.run_id)
        head = self._head(run)
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
                "head_branch": run.head_branch,
                "head_sha": run.head_sha,
                **({"head_repository_id": head.id} if head else {}),
            },
        }
