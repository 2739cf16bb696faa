"""Commits and files in GitHub's JSON."""

from __future__ import annotations

import base64
import hashlib

from .model import ChangedFile, Commit
from .render_accounts import AccountRenderer, Json, when


class GitRenderer(AccountRenderer):
    """Renders commits, changed files and contents too."""

    def file(self, repository: str, sha: str, file: ChangedFile) -> Json:
        """A changed file."""
        web, path = self.web(repository), f"{sha}/{file.filename}"
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
            "contents_url": f"{self.repository_url(repository)}/contents/{file.filename}?ref={sha}",
        } | {name: value for name, value in given.items() if value is not None}

    def commit(self, repository: str, commit: Commit) -> Json:
        """A commit."""
        url = f"{self.repository_url(repository)}/commits/{commit.sha}"
        identity = {"name": commit.author, "email": "", "date": when(commit.date)}
        identity["email"] = f"{commit.author}@users.noreply.github.com"
        values = {
            "sha": commit.sha,
            "node_id": f"C_{commit.sha}",
            "url": url,
            "html_url": self.web(f"{repository}/commit/{commit.sha}"),
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
                {"sha": it, "url": f"{self.repository_url(repository)}/commits/{it}"}
                for it in commit.parents
            ],
        }
        return self.filler.filled("commit", values, url)

    def content(self, repository: str, ref: str, path: str, text: str) -> Json:
        """A file's contents; over 1 MB GitHub leaves them out."""
        data = text.encode()
        url = f"{self.repository_url(repository)}/contents/{path}?ref={ref}"
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        git = f"{self.repository_url(repository)}/git/blobs/{blob}"
        html = self.web(f"{repository}/blob/{ref}/{path}")
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
            "download_url": self.web(f"{repository}/raw/{ref}/{path}"),
            "_links": {"self": url, "git": git, "html": html},
        }

    def folder(self, repository: str, ref: str, path: str) -> Json:
        """A folder in a listing."""
        url = f"{self.repository_url(repository)}/contents/{path}?ref={ref}"
        html = self.web(f"{repository}/tree/{ref}/{path}")
        git = f"{self.repository_url(repository)}/git/trees/{ref}"
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
