"""Issues, pull requests, comments and reactions in GitHub's JSON."""

from __future__ import annotations

import hashlib
from collections import Counter

from .model import ChangedFile, Comment, Issue, PullRequest, Reaction
from .render_accounts import Json, when
from .render_git import GitRenderer
from .trees import ahead, changed_files, merge_base

_REACTIONS = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")


class ConversationRenderer(GitRenderer):
    """Renders issues, pull requests and what is said on them too."""

    def labels(self, issue: Issue) -> list[Json]:
        """The labels of an issue; ids are made of the names."""
        return [
            {
                "id": int(hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:8], 16),
                "node_id": f"L_{name}",
                "url": f"{self.repository_url(issue.repository)}/labels/{name}",
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
        url = f"{self.repository_url(issue.repository)}/issues/{issue.number}"
        is_pull = isinstance(issue, PullRequest)
        html = self.web(f"{issue.repository}/{'pull' if is_pull else 'issues'}/{issue.number}")
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
            "repository_url": self.repository_url(issue.repository),
        }
        if is_pull:
            values["pull_request"] = {
                "url": f"{self.repository_url(issue.repository)}/pulls/{issue.number}",
                "html_url": html,
                "diff_url": f"{html}.diff",
                "patch_url": f"{html}.patch",
                "merged_at": None,
            }
        return self.filler.filled("issue", values, url)

    def pull(self, pull: PullRequest, schema: str = "pull-request-simple") -> Json:
        """A pull request; ``schema`` is ``pull-request`` where GitHub tells its counts too."""
        issue = self.issue(pull)
        url = f"{self.repository_url(pull.repository)}/pulls/{pull.number}"
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
            url = self.repository_url(repository.full_name)
            return {
                "ref": ref,
                "sha": sha,
                "repo": {"id": repository.id, "url": url, "name": repository.name},
            }

        return {
            "id": pull.id,
            "number": pull.number,
            "url": f"{self.repository_url(pull.repository)}/pulls/{pull.number}",
            "head": end(pull.head_repository, pull.head_ref, pull.head_sha),
            "base": end(pull.repository, pull.base_ref, pull.base_sha),
        }

    def files_of(self, pull: PullRequest) -> list[ChangedFile]:
        """What a pull request changes: as the scene says, else from the trees."""
        if pull.files is not None:
            return pull.files
        base = merge_base(self.state, pull.base_sha, pull.head_sha)
        return changed_files(base, self.state.commits[pull.head_sha])

    def comment(self, comment: Comment) -> Json:
        """A comment with its reactions counted."""
        url = f"{self.repository_url(comment.repository)}/issues/comments/{comment.id}"
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
