"""The image, run as GitHub's runner runs it: another user, nothing writable, no network, no capability."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from end_to_end.container_engine import ROOT, Image

RUNNER = 1001  # the uid and gid of GitHub's own runners
SECRET = "ghs_a-token-that-nothing-inside-may-see"
PATCH = ROOT / "examples/oneflow-layer-norm.patch"

pytestmark = pytest.mark.timeout(1800)  # the first build of a machine


@pytest.fixture(scope="session")
def workspace() -> Iterator[Path]:
    """The runner's folder, where its user may get to and write."""
    folder = Path(f"/var/tmp/opdiff-workspace-{os.getpid()}")
    folder.mkdir(mode=0o755)
    shutil.copy(PATCH, folder / "change.patch")
    (folder / "out").mkdir()
    if os.geteuid() == 0:
        for path in (folder, folder / "out", folder / "change.patch"):
            os.chown(path, RUNNER, RUNNER)
    yield folder
    shutil.rmtree(folder)


def runner_options(image: Image, *more: str, sandbox: bool = True) -> list[str]:
    """What the action gives every container; ``sandbox``: what the check's needs beside that."""
    uid = RUNNER if os.geteuid() == 0 else os.getuid()
    gid = RUNNER if os.geteuid() == 0 else os.getgid()
    options = [
        "--rm", "--init", "--no-healthcheck", "--user", f"{uid}:{gid}", "--network", "none", "--read-only",
        "--tmpfs", "/tmp:rw,exec,nosuid,nodev,mode=1777", "--cap-drop", "ALL", "--pids-limit", "4096",
        "--security-opt", "no-new-privileges", *image.prepared_options,
    ]  # fmt: skip
    if sandbox:
        allowed = [f"seccomp={ROOT / '.github/action/seccomp.json'}"]
        allowed += (
            ["unmask=ALL"]
            if image.engine.is_podman
            else ["systempaths=unconfined", "apparmor=unconfined"]
        )
        for option in allowed:
            options += ["--security-opt", option]
    return [*options, *more]


def opdiff(
    image: Image, *arguments: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return image.engine.run("run", *runner_options(image, *options), image.name, *arguments)


@dataclass
class Watch:
    """What could be seen of the container's processes from outside, by name of what runs in them."""

    container_namespace: str
    secrets: list[str] = field(default_factory=list)
    workers: list[dict[str, str]] = field(default_factory=list)

    def look(self, main: int) -> None:
        """Take in every process below ``main``."""
        for pid in descendants(main):
            try:
                process = Path(f"/proc/{pid}")
                command = process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
                if SECRET.encode() in process.joinpath("environ").read_bytes():
                    self.secrets.append(command)
                status = dict(
                    line.split(":\t", 1)
                    for line in process.joinpath("status").read_text().splitlines()
                    if ":\t" in line
                )
                status["user"] = str((process / "ns/user").readlink())
                status["network"] = str((process / "ns/net").readlink())
                status["command"] = command
            except OSError:
                continue  # it has ended
            # The sandbox's own process names the worker too, in its arguments.
            if "bot/worker" in command and Path(command.split()[0]).name.startswith("python"):
                self.workers.append(status)


def descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(below for child in children for below in descendants(int(child)))]


def test_help_and_health(image: Image) -> None:
    shown = opdiff(image, "--help")
    assert shown.returncode == 0, shown.stderr
    assert "check" in shown.stdout
    healthy = opdiff(image, "envs", "doctor")
    assert healthy.returncode == 0, healthy.stdout + healthy.stderr
    assert [line.split(":")[0] for line in sorted(healthy.stdout.splitlines())] == [
        "ok     oneflow==0.9.0",
        "ok     torch==2.13.0",
    ]


def test_what_the_image_says_of_itself(image: Image) -> None:
    (described,) = json.loads(image.engine("image", "inspect", image.name))
    configuration = described.get("Config") or described
    assert configuration["User"] == "1001:1001"
    assert configuration["Entrypoint"] == ["opdiff"]
    assert configuration["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    health = described.get("Healthcheck") or configuration["Healthcheck"]
    assert health["Test"] == ["CMD", "opdiff", "envs", "doctor"]
    variables = dict(pair.split("=", 1) for pair in configuration["Env"])
    assert variables["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    # What was needed to build it here is nobody else's business.
    text = json.dumps(described) + image.engine(
        "history", "--no-trunc", "--format", "{{.CreatedBy}}", image.name
    )
    for name in (
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
        "SSL_CERT_FILE",
        "PIP_CERT",
    ):
        assert name not in variables
        assert not os.environ.get(name) or os.environ[name] not in text


def test_nothing_of_the_image_belongs_to_the_runner_or_can_be_written(image: Image) -> None:
    script = "id -u; git --version; find / -xdev -writable -not -type l -not -path '/proc/*' -not -path '/tmp*' | head; touch /opt/opdiff/x"
    # Without --read-only: the permissions alone must do.
    options = [
        option
        for option in runner_options(image, "--entrypoint", "/bin/sh")
        if option != "--read-only"
    ]
    done = image.engine.run("run", *options, image.name, "-c", script)
    uid, git, *writable = done.stdout.splitlines()
    assert uid == str(RUNNER if os.geteuid() == 0 else os.getuid())
    assert git.startswith("git version 2.")
    assert [
        path for path in writable if not path.startswith(("/dev", "/var/tmp", "/run/lock"))
    ] == []
    assert "Permission denied" in done.stderr or "Read-only" in done.stderr


def test_check_as_the_runner_runs_it(image: Image, workspace: Path) -> None:
    """The demo's planted fault is found, by a sandboxed candidate, and no process sees the runner's secrets."""
    sources = opdiff(image, "envs", "path", "oneflow==0.9.0").stdout.strip()
    name = f"opdiff-test-{os.getpid()}"
    options = runner_options(image, "--name", name, "--volume", f"{workspace}:{workspace}:ro", "--workdir", str(workspace),
                             "--volume", f"{workspace}/out:{workspace}/out:rw")  # fmt: skip
    arguments = [
        "check",
        "--patch",
        f"{workspace}/change.patch",
        "--source",
        sources,
        "--out",
        f"{workspace}/out/report",
    ]
    secrets = {
        "GITHUB_TOKEN": SECRET,
        "ACTIONS_RUNTIME_TOKEN": SECRET,
        "INPUT_GITHUB-TOKEN": SECRET,
    }
    process = subprocess.Popen(
        [image.engine.name, "run", *options, image.name, *arguments],
        env=image.engine.environment | secrets,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    watch = watched(image, name, process)
    output = process.stdout.read() if process.stdout else ""
    assert process.wait(600) == 2, output
    results = json.loads((workspace / "out/report/results.json").read_text())
    (finding,) = [row for row in results["findings"] if row["status"] == "new"]
    assert finding["op"] == "nn.functional.layer_norm"
    assert finding["verdict"] == "candidate"
    assert (workspace / "out/report/report.md").stat().st_uid == (
        RUNNER if os.geteuid() == 0 else os.getuid()
    )
    isolation = {row["role"]: row.get("isolation", "") for row in results["targets"]}
    assert isolation["candidate"] == "bubblewrap"
    assert "unisolated" not in json.dumps(results)
    if os.geteuid() == 0:  # else their processes' environments cannot be read from outside
        assert watch.secrets == []
        shut_in = [
            worker for worker in watch.workers if worker["user"] != watch.container_namespace
        ]
        assert shut_in
        for worker in shut_in:
            assert int(worker["CapEff"], 16) == 0
            assert int(worker["CapBnd"], 16) == 0 or worker["NoNewPrivs"] == "1"
            assert worker["Seccomp"] == "2"


def watched(image: Image, name: str, process: subprocess.Popen[str]) -> Watch:
    """Look at the container's processes from outside until it ends."""
    watch, main = Watch(""), 0
    while process.poll() is None:
        if not main:
            asked = image.engine.run("inspect", "--format", "{{.State.Pid}}", name)
            main = int(asked.stdout.strip() or 0) if asked.returncode == 0 else 0
            if main:
                watch.container_namespace = str(Path(f"/proc/{main}/ns/user").readlink())
        else:
            watch.look(main)
        time.sleep(0.2)
    return watch


def test_a_host_that_allows_no_sandbox_is_reported(image: Image) -> None:
    """With the engine's own masks and filter nothing can be isolated, and what goes into the report says why."""
    probe = "from bot.targets.sandbox import probe_sandbox; print(probe_sandbox().unisolated)"
    options = runner_options(image, "--entrypoint", "python", sandbox=False)
    done = image.engine.run("run", *options, image.name, "-c", probe)
    assert done.returncode == 0, done.stderr
    assert "bwrap: " in done.stdout
    assert "unshare: " in done.stdout
