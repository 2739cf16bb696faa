"""What `.github/action/run.sh` gives each container, seen by an engine that only writes down what it is asked for."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RUN = ROOT / ".github/action/run.sh"
TOKEN = "ghs_verysecret"
ENGINE = r"""#!/usr/bin/env bash
{ printf 'TOKEN=%s' "${OPDIFF_GITHUB_TOKEN:-}"; printf '\t%s' "$@"; echo; } >>"$CALLS"
case "$1" in
inspect) echo bridge ;;
exec) echo "::set-output name=result::clean"; echo "::add-mask::x" ;;
esac
if [[ "$1" == network && -n "${STUBBORN:-}" ]]; then exit 1; fi
"""


@dataclass
class Job:
    """A job of the Action on a machine of its own, with its workspace and its temporary folder."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    printed: str = ""

    def __post_init__(self) -> None:
        self.workspace = self.folder / "workspace"
        self.temporary = self.folder / "temporary"
        self.workspace.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", self.workspace], check=True)
        engine = self.folder / "engine"
        engine.write_text(ENGINE)
        engine.chmod(0o755)
        event = self.folder / "event.json"
        event.write_text("{}")
        action = yaml.safe_load((ROOT / "action.yml").read_text())
        names = {
            name
            for step in action["runs"]["steps"]
            for name in step.get("env", {})
            if name.startswith("OPDIFF_")
        }
        self.environment = {
            **dict.fromkeys(names, ""),
            "PATH": os.environ["PATH"],
            "CALLS": str(self.folder / "calls"),
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "RUNNER_TEMP": str(self.temporary),
            "OPDIFF_ENGINE": str(engine),
            "OPDIFF_IMAGE": "image",
            "OPDIFF_PATH": ".",
            "OPDIFF_CANDIDATE": "overlay",
            "OPDIFF_SHARD": "1/2",
            "OPDIFF_ARTIFACT_NAME": "opdiff",
            "OPDIFF_CHECK_WORKFLOW": ".github/workflows/opdiff.yml",
            "OPDIFF_PR_COMMENT": "true",
            "OPDIFF_CHECK_RUN": "true",
            **self.environment,
        }

    def run(self, mode: str, **more: str) -> list[list[str]]:
        """The engine's calls; a token is in the step's environment as action.yml puts it there."""
        calls = self.folder / "calls"
        calls.write_text("")
        environment = self.environment | {"OPDIFF_MODE": mode, "OPDIFF_GITHUB_TOKEN": TOKEN} | more
        done = subprocess.run(
            ["bash", str(RUN)], env=environment, capture_output=True, text=True, timeout=60
        )
        self.printed = done.stdout
        return [line.split("\t")[1:] for line in calls.read_text().splitlines()]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def volumes(call: list[str]) -> list[str]:
    return [value for option, value in pairwise(call) if option == "--volume"]


def environments(call: list[str]) -> list[str]:
    return [value for option, value in pairwise(call) if option == "--env"]


def network(call: list[str]) -> str:
    return call[call.index("--network") + 1]


@pytest.mark.parametrize("mode", ["check", "merge"])
def test_no_token_where_a_strangers_code_or_report_is(job: Job, mode: str) -> None:
    calls = job.run(mode)
    assert calls
    for call in calls:
        assert TOKEN not in " ".join(call)
        assert not environments(call)


@pytest.mark.parametrize("mode", ["plan", "publish", "command"])
def test_a_token_only_by_its_name_where_nothing_of_a_stranger_runs(job: Job, mode: str) -> None:
    (call,) = [call for call in job.run(mode) if call[0] == "run"]
    assert "OPDIFF_GITHUB_TOKEN" in environments(call)
    assert TOKEN not in " ".join(call)


@pytest.mark.parametrize("mode", ["plan", "check", "merge", "publish", "command"])
def test_each_container_has_no_rights_and_writes_only_where_its_report_goes(
    job: Job, mode: str
) -> None:
    calls = [call for call in job.run(mode) if call[0] == "run"]
    assert calls
    for call in calls:
        text = " ".join(call)
        for option in ("--cap-drop ALL", "--read-only", "--security-opt no-new-privileges"):
            assert option in text
        for volume in volumes(call):
            host, *_, last = volume.split(":")
            writable = last != "ro"
            assert not writable or Path(host).is_relative_to(job.temporary), volume
        if mode == "merge":
            assert network(call) == "none"


def test_the_network_is_cut_between_preparing_and_checking(job: Job) -> None:
    calls = job.run("check")
    order = [
        "prepare" if "--prepare-only" in call else "cut" if call[0] == "network" else "check"
        for call in calls
        if call[0] in ("exec", "network")
    ]
    assert order == ["prepare", "cut", "check"]


def test_nothing_is_checked_with_a_network_that_stays(job: Job) -> None:
    calls = job.run("check", STUBBORN="1")
    assert [("--prepare-only" in call) for call in calls if call[0] == "exec"] == [True]
    calls = job.run("check", OPDIFF_CHECK_NETWORK="host")
    assert not [call for call in calls if call[0] in ("run", "exec")]


def test_what_a_check_prints_is_no_command_to_the_runner(job: Job) -> None:
    """All of it is between ``stop-commands`` and a token that nobody can guess, and another one each time."""
    tokens: set[str] = set()
    for _ in range(2):
        job.run("check")
        lines = job.printed.splitlines()
        (begin,) = [line for line in lines if line.startswith("::stop-commands::")]
        token = begin.removeprefix("::stop-commands::")
        assert len(token) == 64
        inside = lines[lines.index(begin) + 1 : lines.index(f"::{token}::")]
        assert [line for line in lines if line.startswith(("::set-output", "::add-mask"))] == [
            line for line in inside if line.startswith(("::set-output", "::add-mask"))
        ]
        assert inside
        tokens.add(token)
    assert len(tokens) == 2


def test_a_checkout_that_holds_a_token_is_refused(job: Job) -> None:
    git = ["git", "-C", str(job.workspace)]
    subprocess.run([*git, "config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic eA=="], check=True)  # fmt: skip
    assert not [call for call in job.run("check") if call[0] in ("run", "exec")]
    assert "::error title=OpDiff::the checkout in . holds a token" in job.printed


def test_the_program_store_of_a_job_is_the_jobs_own(job: Job) -> None:
    """A pull request's check writes below ``RUNNER_TEMP``, which the runner empties; no other job reads it.

    No step keeps a cache between runs but the builder's layers, which GitHub scopes by branch.
    """
    for mode in ("check", "merge", "plan", "publish", "command"):
        for call in job.run(mode):
            caches = [it for it in volumes(call) if it.endswith("/.cache")]
            assert bool(caches) == (mode == "check" and call[0] == "run")
            assert all(Path(it.split(":")[0]).is_relative_to(job.temporary) for it in caches)
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    for path in sorted((ROOT / ".github/workflows").glob("opdiff-*.yml")):
        for one in yaml.safe_load(path.read_text())["jobs"].values():
            steps += one.get("steps", [])
    assert len(steps) > 5
    assert not [it for it in steps if "cache" in it.get("uses", "").partition("@")[0]]
    kept = [it["with"] for it in steps if "cache-to" in it.get("with", {})]
    assert [it["cache-to"].partition(",")[0] for it in kept] == ["type=gha"]
