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
from publish_process import start_publish
from publishing import posted, set_up


@dataclass(frozen=True)
class Ended:
    """What was there at the end, and the calls of the first process."""

    posted: dict[str, Any]
    calls: tuple[str, ...]
    returned: int | None


def publish_after_a_push(kill_at: int | None) -> Ended:
    """The second push's publish, killed while its ``kill_at``-th call is carried out, and then once more, undisturbed.

    A process that is killed before a call has left what one leaves that is killed at the call before.
    """
    with TemporaryDirectory() as folder, FakeGitHub() as github:
        scene = set_up(github, Path(folder), findings=12)
        scene.publish()
        scene.run = scene.check_again(findings=11, first=5)
        github.log.clear()
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
