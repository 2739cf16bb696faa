"""``opdiff publish`` after runs that did not end as usual: what is said, and when it is better to say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_github.server import FakeGitHub
from publishing import BASE, BRANCH, FORK, WORKFLOW, Scene, set_up


@pytest.fixture
def unreported(fake_github: FakeGitHub, tmp_path: Path) -> Scene:
    """A check run without an artifact."""
    return set_up(fake_github, tmp_path, report=False)


def nothing_posted(scene: Scene) -> bool:
    return not scene.github.writes() and not scene.state.comments and not scene.state.check_runs


def test_a_skipped_check_beside_a_build_is_not_broken(unreported: Scene) -> None:
    """A draft whose wheel is built all the same: the run is a success, and the check's jobs were skipped."""
    unreported.run.jobs = {"wheel": "success", "opdiff / Plan": "skipped"}
    published = unreported.publish()
    assert nothing_posted(unreported)
    assert "skipped its check" in published.note
    assert published.output_lines() == ["comment-url="]


@pytest.mark.parametrize("conclusion", ["success", "failure"])
def test_a_check_that_ran_and_left_nothing_is_broken(unreported: Scene, conclusion: str) -> None:
    """Also where another job was skipped, as the merge of a plan that failed."""
    skipped = {} if conclusion == "success" else {"opdiff / Report": "skipped"}
    unreported.run.jobs = {"opdiff / Plan": conclusion, **skipped}
    unreported.state.complete_run(unreported.run, conclusion)
    assert "left no artifact" in unreported.publish().broken
    assert unreported.check_run.conclusion == "failure"


def test_a_run_that_gave_way_to_a_later_one_is_quiet(unreported: Scene) -> None:
    """Reopened or labelled while it ran: concurrency cancels it, and the later run of this commit publishes."""
    unreported.state.complete_run(unreported.run, "cancelled")
    later = unreported.state.add_run(
        BASE, path=WORKFLOW, event="pull_request", head=(FORK, BRANCH), conclusion=None
    )
    published = unreported.publish()
    assert nothing_posted(unreported)
    assert f"run {later.id} of the same commit" in published.note


def test_a_later_run_that_was_skipped_says_nothing_for_this_one(unreported: Scene) -> None:
    unreported.state.complete_run(unreported.run, "cancelled")
    unreported.state.add_run(
        BASE, path=WORKFLOW, event="pull_request", head=(FORK, BRANCH), conclusion="skipped"
    )
    assert "cancelled before it was done" in unreported.publish().broken
    assert unreported.check_run.conclusion == "failure"


@pytest.mark.parametrize("conclusion", ["cancelled", "timed_out"])
def test_a_report_of_a_run_in_which_a_shard_ran_out_of_time_is_shown(
    unreported: Scene, conclusion: str
) -> None:
    """GitHub cancels a job at its time limit, and the run with it; the merge has run all the same."""
    unreported.state.complete_run(unreported.run, conclusion)
    unreported.state.add_artifact(unreported.run, "opdiff", unreported.report())
    published = unreported.publish()
    assert not published.broken
    assert "op0" in unreported.comment_body


def test_a_run_that_waits_for_approval_is_not_broken(unreported: Scene) -> None:
    """GitHub calls it completed; a first contribution must not be greeted with a failure."""
    unreported.state.complete_run(unreported.run, "action_required")
    assert "approval" in unreported.publish().note
    assert nothing_posted(unreported)


@pytest.mark.parametrize("conclusion", ["cancelled", "timed_out", "startup_failure", "stale"])
def test_a_run_that_did_not_end_is_said_to_be_broken(unreported: Scene, conclusion: str) -> None:
    unreported.state.complete_run(unreported.run, conclusion)
    assert "left no artifact" not in unreported.publish().broken  # but why there is none
    assert "could not report" in unreported.comment_body
    assert unreported.check_run.conclusion == "failure"
