"""What people do to branches, forks and pull requests while programs are at work."""

from __future__ import annotations

from .model import PullRequest
from .state import State


def close(state: State, pull: PullRequest) -> None:
    """Close a pull request, not merged."""
    pull.state, pull.updated_at = "closed", state.now()


def retarget(state: State, pull: PullRequest, base_ref: str) -> None:
    """Let a pull request be for another branch of the same repository, as it is now."""
    pull.base_ref = base_ref
    pull.base_sha = state.repository(pull.repository).branches[base_ref]
    pull.updated_at = state.now()


def delete_branch(state: State, repository: str, branch: str) -> None:
    """Delete a branch; GitHub closes the open pull requests from it, which keep its name and commit."""
    full_name = state.repository(repository).full_name
    del state.repository(repository).branches[branch]
    for pull in state.pulls:
        if (pull.head_repository, pull.head_ref) == (full_name, branch) and pull.state == "open":
            close(state, pull)


def delete_fork(state: State, repository: str) -> None:
    """Delete a fork. Its pull requests and runs stay, as from an unknown repository; commits stay too."""
    full_name = state.repository(repository).full_name
    del state.repositories[full_name]
    for it in (*state.pulls, *state.runs):
        if it.head_repository == full_name:
            it.head_repository = None
