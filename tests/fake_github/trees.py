"""Histories and trees of the fake's commits compared."""

from __future__ import annotations

import difflib

from .model import ChangedFile, Commit
from .state import State


def history(state: State, sha: str) -> list[Commit]:
    """``sha`` and its ancestors, newest first."""
    found: dict[str, Commit] = {}
    todo = [sha]
    while todo:
        commit = state.commits[todo.pop(0)]
        if commit.sha not in found:
            found[commit.sha] = commit
            todo += commit.parents
    return list(found.values())


def ahead(state: State, base: str, head: str) -> list[Commit]:
    """The commits of ``head`` that ``base`` lacks, oldest first."""
    known = {it.sha for it in history(state, base)}
    return [it for it in reversed(history(state, head)) if it.sha not in known]


def merge_base(state: State, base: str, head: str) -> Commit:
    """The newest commit that both histories have."""
    known = {it.sha for it in history(state, base)}
    return next(it for it in history(state, head) if it.sha in known)


def changed_files(base: Commit, head: Commit) -> list[ChangedFile]:
    """The files that differ between two trees, with patches as GitHub shows them: no file header."""
    found: list[ChangedFile] = []
    for path in sorted(base.files.keys() | head.files.keys()):
        old, new = base.files.get(path), head.files.get(path)
        if old == new:
            continue
        before, after = (old or "").splitlines(), (new or "").splitlines()
        patch = list(difflib.unified_diff(before, after, lineterm=""))[2:]
        found.append(
            ChangedFile(
                filename=path,
                status="added" if old is None else "removed" if new is None else "modified",
                additions=sum(it.startswith("+") for it in patch),
                deletions=sum(it.startswith("-") for it in patch),
                patch="\n".join(patch) or None,
            )
        )
    return found
