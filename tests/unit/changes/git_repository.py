"""Commits in real git, for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

Files = Mapping[str, str | bytes | None]


def git(repository: Path, *arguments: str) -> str:
    environment = os.environ | {
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
    }  # fmt: skip
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], env=environment, check=True, capture_output=True
    )
    return done.stdout.decode().removesuffix("\n")


def commit(repository: Path, files: Files) -> str:
    """Write (or, for None, delete) files and commit; returns the commit."""
    for name, content in files.items():
        path = repository / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "--allow-empty", "-m", "change")
    return git(repository, "rev-parse", "HEAD")
