"""Pytest fixtures: a fake GitHub for one test."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator

import pytest

from .server import FakeGitHub


@contextlib.contextmanager
def judged_github() -> Generator[FakeGitHub]:
    """A GitHub with nothing in it. Raises AssertionError at its end when a request or a response was
    not as GitHub's description says; who wants that clears ``log``."""
    with FakeGitHub() as github:
        yield github
    assert not github.violations, "\n".join(["GitHub's OpenAPI description:", *github.violations])


@pytest.fixture
def fake_github() -> Iterator[FakeGitHub]:
    """``judged_github`` for one test."""
    with judged_github() as github:
        yield github
