"""A pull request from a fork, its finished check with a report, and the jobs that publish and command."""

from __future__ import annotations

import io
import json
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import made_findings as made
from fake_github import events
from fake_github.model import CheckRun, Comment, Level, PullRequest, WorkflowRun
from fake_github.server import FakeGitHub
from fake_github.state import State

from bot.answer import Answered, answer
from bot.github.client import Clock
from bot.publish import Published, PublishOptions, publish
from bot.report.results import ChangedOpRow, ChangesRow, LinesRow, Results
from bot.report.write import write_report

BASE = "framework/framework"
FORK = "stranger/framework"
BRANCH = "fix/softplus"
WORKFLOW = ".github/workflows/opdiff.yml"
BOT = "github-actions[bot]"
STARTED = 1_900_000_000.0
"""When the scene begins, in seconds since 1970."""

LEAST: dict[str, dict[str, Level]] = {
    "publish": {
        "actions": "read",
        "checks": "write",
        "contents": "read",
        "pull-requests": "write",
    },
    "command": {"actions": "write", "contents": "read", "pull-requests": "write"},
    "plan": {"contents": "read", "pull-requests": "read"},
    "precision": {"pull-requests": "read"},
}
"""The least that each command's token needs: what docs/action.md and the workflows say."""


class Time:
    """A clock whose sleeps cost nothing; shared by the fake GitHub and its clients."""

    def __init__(self) -> None:
        self._now = STARTED
        self._lock = threading.Lock()
        self.slept: list[float] = []

    def now(self) -> float:
        with self._lock:
            return self._now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds
            self.slept.append(seconds)

    def pass_by(self, seconds: float) -> None:
        """Time that something else takes."""
        with self._lock:
            self._now += seconds

    def utc(self) -> datetime:
        return datetime.fromtimestamp(self.now(), UTC).replace(microsecond=0)

    @property
    def clock(self) -> Clock:
        return Clock(self.now, self.sleep)


@dataclass
class Scene:
    """The fake GitHub with the pull request ``pull``, whose check ``run`` is done."""

    github: FakeGitHub
    folder: Path
    time: Time
    pull: PullRequest
    run: WorkflowRun
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> State:
        return self.github.state

    def job(
        self, token: str, event_name: str, event: Mapping[str, Any], **more: str
    ) -> dict[str, str]:
        """The environment of a job for an event."""
        path = self.folder / f"job-{next(self.numbers)}.json"
        path.write_text(json.dumps(event))
        return {
            "OPDIFF_GITHUB_TOKEN": token,
            "GITHUB_API_URL": self.github.url,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REPOSITORY": BASE,
            "GITHUB_EVENT_NAME": event_name,
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_RUN_ID": "77",
            "GITHUB_RUN_ATTEMPT": "1",
            **self.environment,
            **more,
        }

    def publish(self, run: WorkflowRun | None = None, **options: Any) -> Published:
        """What the publishing workflow does when a check run is completed."""
        timeout = options.pop("timeout", 30.0)
        clock = options.pop("clock", self.time.clock)
        event = events.workflow_run_completed(self.state, run or self.run)
        environment = self.job("publish", "workflow_run", event)
        out = Path(environment["GITHUB_EVENT_PATH"]).with_suffix("")
        wanted = PublishOptions(out, **options)
        return publish(environment, wanted, clock, timeout)

    def comment(self, body: str, author: str = "maintainer") -> Comment:
        """Somebody comments, some seconds later."""
        self.time.sleep(10)
        return self.state.add_comment(BASE, self.pull.number, author, body)

    def command(
        self,
        comment: Comment,
        event: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        clock: Clock | None = None,
    ) -> Answered:
        """What the commanding workflow does when a comment is made."""
        payload = event or events.issue_comment(self.state, comment)
        job = self.job("command", "issue_comment", payload)
        return answer(job, None, clock or self.time.clock, timeout)

    def report(self, run: WorkflowRun | None = None, **more: Any) -> bytes:
        """The artifact of a run about this pull request."""
        return archive_of(report_files(claims(self.pull, run or self.run, **more)))

    @property
    def own_comments(self) -> list[Comment]:
        return [it for it in self.state.comments_on(BASE, self.pull.number) if it.login == BOT]

    @property
    def comment_body(self) -> str:
        (comment,) = self.own_comments
        return comment.body

    @property
    def check_run(self) -> CheckRun:
        (run,) = self.state.check_runs
        return run

    def check_again(self, **more: Any) -> WorkflowRun:
        """The fork pushes, and its check runs to the end with a report."""
        self.time.sleep(60)
        self.state.push(FORK, BRANCH, {"op.py": f"x = {self.time.now()}\n"})
        run = self.state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(FORK, BRANCH))
        self.state.add_artifact(run, "opdiff", self.report(run, **more))
        return run


def set_up(
    github: FakeGitHub, folder: Path, *, findings: int = 1, report: bool = True, **more: Any
) -> Scene:
    """The scene; ``report`` False: the check run left no artifact."""
    clock = Time()
    state = github.state
    state.use_clock(clock.utc)
    state.add_repository(BASE, files={"op.py": "x = 1\n", ".github/opdiff.yml": "version: 1\n"})
    state.repositories[BASE].permissions["maintainer"] = "write"
    for name in ("maintainer", "reader", "passer-by"):
        state.user(name)
    state.repositories[BASE].permissions["reader"] = "read"
    state.add_fork(BASE, "stranger")
    state.push(FORK, BRANCH, {"op.py": "x = 2\n"})
    pull = state.add_pull(BASE, head=(FORK, BRANCH))
    run = state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(FORK, BRANCH))
    for name, permissions in LEAST.items():
        state.app_token(name, permissions, repository=BASE)
    scene = Scene(github, folder, clock, pull, run)
    if report:
        state.add_artifact(run, "opdiff", scene.report(findings=findings, **more))
    return scene


@dataclass(frozen=True)
class Claims:
    """What a report says that it is about."""

    number: int | None
    base: str
    head: str
    findings: int = 1
    first: int = 0
    upstream: bool = False
    """The findings are PyTorch's fault."""


def claims(pull: PullRequest, run: WorkflowRun, **more: Any) -> Claims:
    fields: dict[str, Any] = {
        "number": pull.number,
        "base": pull.base_sha,
        "head": run.head_sha,
    }
    return Claims(**(fields | more))


@cache
def report_files(claimed: Claims) -> Mapping[str, bytes]:
    """A report with findings in as many ops, each of which changes five places of ``op.py``."""
    chosen = range(claimed.first, claimed.first + claimed.findings)
    verdict: dict[str, Any] = (
        {"verdict": "upstream", "blamed": (made.RIGHT,)} if claimed.upstream else {}
    )
    bundles = [
        made.doubled_bundle(framework="oneflow", fingerprint=f"{n:08x}", op=f"op{n}", **verdict)
        for n in chosen
    ]
    ops = tuple(
        ChangedOpRow(
            op=f"op{n}",
            how="direct",
            lines=tuple(LinesRow(file="op.py", first=k, last=k) for k in range(1, 6)),
        )
        for n in chosen
    )
    changes = ChangesRow(
        framework="oneflow",
        base=claimed.base,
        head=claimed.head,
        pull_request=claimed.number,
        ops=ops,
    )
    results: Results = made.results(changes=changes, result="findings" if ops else "clean")
    with TemporaryDirectory() as folder:
        write_report(Path(folder), results, bundles)
        return files_of(Path(folder))


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, raw in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)


def archive_of(files: Mapping[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, raw in files.items():
            zipped.writestr(name, raw)
    return data.getvalue()


def posted(state: State) -> dict[str, Any]:
    """All that people can see of the bot: what must be the same however it came about."""
    return {
        "comments": [(it.login, it.body) for it in state.comments],
        "reactions": sorted(
            (it.body, reaction.login, reaction.content)
            for it in state.comments
            for reaction in it.reactions
        ),
        "check runs": [
            it.model_dump(exclude={"id", "started_at", "completed_at"}) for it in state.check_runs
        ],
        "attempts": [len(it.attempts) for it in state.runs],
    }


def at_once(*jobs: Callable[[], Any]) -> list[Any]:
    """Do all at the same time; returns what they returned, or raised."""
    barrier = threading.Barrier(len(jobs))
    ended: list[Any] = [None] * len(jobs)

    def work(index: int) -> None:
        barrier.wait()
        try:
            ended[index] = jobs[index]()
        except Exception as error:
            ended[index] = error

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(jobs))]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    return ended
