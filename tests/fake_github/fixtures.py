"""Pytest fixtures: a fake GitHub for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .server import FakeGitHub


@pytest.fixture
def fake_github() -> Iterator[FakeGitHub]:
    """A GitHub with nothing in it. The test fails when a request or a response was not as GitHub's
    description says; a test that wants that clears ``fake_github.log``."""
    with FakeGitHub() as github:
        yield github
    assert not github.violations, "\n".join(["GitHub's OpenAPI description:", *github.violations])
