"""Small repositories in real git, made in temporary folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from git_repository import Files, commit, git

from bot.changes.change import Changes
from bot.changes.find import find_changes
from bot.changes.git_changeset import GitChangeSet


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    git(path, "init", "-q")
    return path


@pytest.fixture
def changes_of(repository: Path) -> Callable[[Files, Files], Changes]:
    """The changes between a tree and the same tree with some files edited."""

    def run(before: Files, edits: Files) -> Changes:
        base = commit(repository, before)
        head = commit(repository, edits)
        with GitChangeSet(repository, base, head) as changeset:
            return find_changes(changeset)

    return run
