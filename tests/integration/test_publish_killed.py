"""``opdiff publish`` is killed at each of its calls after a push; run again, it ends as if nothing had happened."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fake_github import events
from fake_github.server import FakeGitHub
from fake_github.state import State
from publish_process import start_publish
from publishing import Scene, Time, posted, set_up


@dataclass(frozen=True)
class Ended:
    """What was there at the end, and the calls of the first process."""

    posted: dict[str, Any]
    calls: tuple[str, ...]
    returned: int | None


@cache
def published_and_pushed() -> str:
    """The state after a publish, a push and its check, which has more annotations than a request takes."""
    with TemporaryDirectory() as folder, FakeGitHub() as github:
        scene = set_up(github, Path(folder), findings=12)
        scene.publish()
        scene.check_again(findings=11, first=5)
        return github.state.model_dump_json()


def publish_after_a_push(kill_at: int | None) -> Ended:
    """The second push's publish, killed while its ``kill_at``-th call is carried out, and then once more, undisturbed.

    A process that is killed before a call has left what one leaves that is killed at the call before.
    """
    state = State.model_validate_json(published_and_pushed())
    with TemporaryDirectory() as folder, FakeGitHub(state) as github:
        scene = Scene(github, Path(folder), Time(), state.pulls[0], state.runs[-1])
        scene.time.pass_by(3600)
        state.use_clock(scene.time.utc)
        event = events.workflow_run_completed(scene.state, scene.run)
        with github.locked():
            process = start_publish(
                scene.job("publish", "workflow_run", event), scene.folder / "out"
            )
            if kill_at is not None:
                kill_at_call(github, process, kill_at)
        process.join(60)
        process.kill()
        with github.locked():
            calls = tuple(f"{it.method} {it.path}" for it in github.log)
        if kill_at is not None:
            scene.publish()
        assert not github.violations
        assert not github.missing_permissions
        assert len(scene.own_comments) == 1
        return Ended(posted(github.state), calls, process.exitcode)


def kill_at_call(github: FakeGitHub, process: ForkServerProcess, nth: int) -> None:
    """Let the process die when the server has its nth call, which is carried out all the same."""

    def strike_at(method: str) -> None:
        def strike() -> None:
            if len(github.log) == nth:
                process.kill()  # it waits for the answer, and never gets it
            else:
                strike_at(method)

        github.before(method, "", strike)

    for method in ("GET", "POST", "PATCH", "DELETE"):
        strike_at(method)


@cache
def undisturbed() -> Ended:
    return publish_after_a_push(None)


def test_a_publish_that_is_killed_at_any_call_and_run_again_ends_the_same() -> None:
    whole = undisturbed()
    assert whole.returned == 0
    writes = {it.split()[0] for it in whole.calls} - {"GET"}
    assert writes == {"POST", "PATCH"}
    attempts = [it["external_id"] for it in whole.posted["check runs"]]
    assert len(attempts) == len(set(attempts)) == 2
    for nth in range(1, len(whole.calls) + 1):
        ended = publish_after_a_push(nth)
        assert ended.returned == -signal.SIGKILL, f"call {nth}"
        assert ended.calls == whole.calls[:nth], f"call {nth}"
        assert ended.posted == whole.posted, f"call {nth}: {whole.calls[nth - 1]}"
