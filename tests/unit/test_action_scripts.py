"""The action's scripts with a stand-in for the container engine: what it is told, and what a cancelled step leaves."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / ".github" / "action"
# Writes a line of what it is told; "run" and "exec" stand in for opdiff too, as far as its files go.
ENGINE = """#!/bin/bash
printf '%s ' "$@" >>"$FAKE_LOG"; echo >>"$FAKE_LOG"
case "$1" in
--version) echo "${FAKE_VERSION:-Docker version 28.0.1}" ;;
info) echo "$FAKE_SECURITY" ;;
ps) printf '%s' "$FAKE_LEFT" ;;
inspect) echo "bridge " ;;
image) exit "${FAKE_NO_IMAGE:-1}" ;;
buildx) exit 1 ;;
esac
out="" last=""
for word in "$@"; do
  [[ "$last" != --out ]] || out="$word"
  last="$word"
done
case "$1 $*" in
*--prepare-only*) ;;
exec*" check "*)
  printf '%s' "${FAKE_PRINTS:-}"
  [[ -z "${FAKE_HANGS:-}" ]] || exec sleep 60
  for device in ${FAKE_FOLDERS:-.}; do
    mkdir -p "$out/$device"
    echo '{}' >"$out/$device/results.json"
    mkdir -p "$out/$device/"{failing,findings}
    touch "$out/$device/"{report.md,journal.jsonl}
  done
  eval "${FAKE_PLANTS:-}"
  exit "${FAKE_CODE:-0}" ;;
run*" merge "*)
  mkdir -p "$out"
  echo '{}' >"$out/results.json"
  exit 1 ;;
run*" outputs "*) echo "result=clean" ;;
run*" step-summary "*) echo "summary" ;;
esac
"""


@dataclass(frozen=True)
class Runner:
    """A job's folders and environment, with the stand-in for docker and podman on its PATH."""

    root: Path
    variables: dict[str, str]

    @property
    def told(self) -> list[str]:
        """The engine's command lines."""
        return (self.root / "log").read_text().splitlines()

    @property
    def outputs(self) -> dict[str, str]:
        lines = (self.root / "output").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def start(self, script: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(SCRIPTS / script)],
            env=self.variables | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, script: str, **variables: str) -> tuple[int, str]:
        process = self.start(script, **variables)
        printed, _ = process.communicate(timeout=30)
        return process.returncode, printed

    def line(self, *words: str) -> str:
        """The only command line that has these words."""
        (found,) = [line for line in self.told if all(word in line for word in words)]
        return found


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("docker", "podman"):
        (tools / name).write_text(ENGINE)
        (tools / name).chmod(0o755)
    (tmp_path / "workspace").mkdir()
    for name in ("output", "summary", "event.json"):
        (tmp_path / name).write_text("")
    names = "PATH FRAMEWORK CANDIDATE BASELINE PEERS DEVICES GPUS BUDGET SHARDS SHARD OPS CONFIG ACCEPTED FAIL_ON REPORT BUILD_ARGUMENTS"
    return Runner(
        tmp_path,
        {
            **{f"OPDIFF_{name}": "" for name in names.split()},
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "FAKE_LOG": str(tmp_path / "log"),
            "FAKE_SECURITY": "[name=seccomp,profile=builtin]",
            "FAKE_LEFT": "",
            "GITHUB_WORKSPACE": str(tmp_path / "workspace"),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_SERVER_URL": "https://github.com",
            "RUNNER_TEMP": str(tmp_path / "temp"),
            "RUNNER_NAME": "gpu-7",
            "OPDIFF_ENGINE": "docker",
            "OPDIFF_IMAGE": "image",
            "OPDIFF_BUILD": "no",
            "OPDIFF_MODE": "check",
            "OPDIFF_ALL_OPS": "false",
            "OPDIFF_ARTIFACT_NAME": "opdiff",
        },
    )


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_check_leaves_no_container(
    runner: Runner, signal_number: signal.Signals
) -> None:
    """GitHub's runner kills a step 10 s after it was told to end; the container is the engine's and would stay."""
    process = runner.start("run.sh", FAKE_HANGS="1")
    deadline = time.monotonic() + 20
    while not any(
        line.startswith("exec") and "--prepare-only" not in line
        for line in (runner.told if (runner.root / "log").exists() else [])
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    begun = time.monotonic()
    process.send_signal(signal_number)
    process.communicate(timeout=20)
    assert time.monotonic() - begun < 5
    assert process.returncode == 130
    name = runner.line("run --detach").split("--name ")[1].split()[0]
    assert runner.told[-1].strip() == f"rm --force {name}"


def test_what_a_killed_job_of_this_runner_left_is_removed_first(runner: Runner) -> None:
    runner.run("run.sh", FAKE_LEFT="0123abcd")
    job = hashlib.sha256(f"gpu-7:{runner.root / 'temp'}\n".encode()).hexdigest()
    label = f"opdiff.runner={job[:32]}"
    assert [line.strip() for line in runner.told[:2]] == [
        f"ps --all --quiet --filter label={label}",
        "rm --force 0123abcd",
    ]
    assert f"--label {label}" in runner.line("run --detach")


def test_the_runner_takes_commands_again_after_a_line_that_does_not_end(runner: Runner) -> None:
    _, printed = runner.run("run.sh", FAKE_PRINTS="::set-output name=x::no end of line")
    (stop,) = [line for line in printed.splitlines() if line.startswith("::stop-commands::")]
    assert f"::{stop.removeprefix('::stop-commands::')}::" in printed.splitlines()


def test_a_check_on_two_devices_uploads_one_report(runner: Runner) -> None:
    code, _ = runner.run(
        "run.sh", OPDIFF_DEVICES="cpu,cuda", FAKE_FOLDERS="cpu cuda", FAKE_CODE="2"
    )
    assert code == 0  # the action's next step takes the code
    merged = runner.line(" merge ")
    assert "--expected 2" in merged
    assert runner.outputs["code"] == "1"
    assert runner.outputs["artifact"] == "opdiff"
    assert merged.split("--out ")[1].split()[0] == runner.outputs["folder"]


def test_a_device_that_the_configuration_names_is_missed(runner: Runner) -> None:
    """The first device's report alone must not pass for the whole."""
    runner.run("run.sh", FAKE_FOLDERS="cpu", FAKE_CODE="1")
    assert "--expected 2" in runner.line(" merge ")


def test_rootless_engines(runner: Runner) -> None:
    """Their root is the runner's user, who may write to the output folder; 1001 in there would be nobody."""
    runner.run("run.sh", FAKE_SECURITY="[name=seccomp,profile=builtin name=rootless]")
    assert "--user 0:0" in runner.line("run --detach")


def test_gpus_by_engine(runner: Runner) -> None:
    tool = runner.root / "tools" / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho GPU 0: something\n")
    tool.chmod(0o755)
    runner.run("run.sh", OPDIFF_GPUS="device=0,1")
    assert "--gpus device=0,1 " in runner.line("run --detach")
    (runner.root / "log").unlink()
    runner.run("run.sh", OPDIFF_GPUS="device=0,1", OPDIFF_ENGINE="podman")
    assert "--device nvidia.com/gpu=0 --device nvidia.com/gpu=1 " in runner.line("run --detach")


def test_the_artifact_holds_the_report_alone(runner: Runner) -> None:
    """The programs that failed, which a resumed run reads, may be more than publish takes."""
    runner.run("run.sh")
    there = {path.name for path in Path(runner.outputs["folder"]).iterdir()}
    assert there == {"results.json", "report.md", "findings"}


@pytest.mark.parametrize(
    ("server", "uploads"),
    [
        ("https://github.com", True),
        ("https://octo.ghe.com", True),
        ("https://github.example.org:8443", False),  # upload-artifact v4 and later refuse it
        ("https://notgithub.com", False),
    ],
)
def test_artifacts_go_where_the_server_takes_them(
    runner: Runner, server: str, uploads: bool
) -> None:
    _, printed = runner.run("run.sh", GITHUB_SERVER_URL=server)
    assert ("upload" in runner.outputs) == uploads
    assert ("::notice" in printed) != uploads
    assert runner.outputs["folder"].endswith("/report")


@pytest.mark.parametrize(("event", "refused"), [("pull_request", True), ("schedule", False)])
def test_a_pull_request_does_not_bring_its_own_configuration(
    runner: Runner, event: str, refused: bool
) -> None:
    workspace = runner.root / "workspace"
    (workspace / "opdiff.yml").write_text("version: 1\n")
    for words in (["init", "--quiet"], ["add", "opdiff.yml"]):
        subprocess.run(["git", *words], cwd=workspace, check=True)
    code, printed = runner.run("run.sh", OPDIFF_CONFIG="opdiff.yml", GITHUB_EVENT_NAME=event)
    assert (code == 1) == refused
    assert ("::error" in printed) == refused


def made_nested(workspace: Path) -> None:
    """A checkout with a submodule, another repository, and tracked links, all of them with a configuration in reach."""
    (workspace / "opdiff.yml").write_text("version: 1\n")
    (workspace / "link.yml").symlink_to("../elsewhere.yml")
    (workspace / "folder").symlink_to("..")
    (workspace.parent / "elsewhere.yml").write_text("version: 1\n")
    own = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "-c",
        "protocol.file.allow=always",
    ]

    def git(folder: Path, *words: str) -> None:
        subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)

    git(workspace, "init", "--quiet")
    for nested in ("nested", "empty"):
        (workspace / nested).mkdir()
        (workspace / nested / "opdiff.yml").write_text("version: 1\n")
        git(workspace / nested, "init", "--quiet")
    git(workspace / "nested", "add", "opdiff.yml")
    git(workspace / "nested", "commit", "--quiet", "--message", "x")
    git(workspace, "submodule", "add", "./nested", "module")
    git(workspace, "add", "opdiff.yml", "link.yml", "folder")
    git(workspace, "commit", "--quiet", "--message", "x")


@pytest.mark.parametrize(
    "config",
    [
        "module/opdiff.yml",
        "nested/opdiff.yml",
        "empty/opdiff.yml",
        "link.yml",
        "folder/elsewhere.yml",
        ".git/config",
        "no-such.yml",
    ],
)
def test_only_what_git_calls_untracked_is_taken_from_the_checkout(
    runner: Runner, config: str
) -> None:
    made_nested(runner.root / "workspace")
    code, printed = runner.run("run.sh", OPDIFF_CONFIG=config, GITHUB_EVENT_NAME="pull_request")
    assert (code, "::error" in printed) == (1, True)
    assert "lies in the checkout" in printed


def test_nothing_is_taken_from_a_checkout_of_which_git_says_nothing(runner: Runner) -> None:
    (runner.root / "workspace" / "opdiff.yml").write_text("version: 1\n")
    code, printed = runner.run(
        "run.sh", OPDIFF_CONFIG="opdiff.yml", GITHUB_EVENT_NAME="pull_request"
    )
    assert (code, "lies in the checkout" in printed) == (1, True)


def test_a_configuration_of_another_checkout_is_taken(runner: Runner) -> None:
    workspace = runner.root / "workspace"
    for name in ("theirs", "ours"):
        (workspace / name).mkdir()
        subprocess.run(["git", "init", "--quiet"], cwd=workspace / name, check=True)
    (workspace / "ours" / "opdiff.yml").write_text("version: 1\n")
    subprocess.run(["git", "add", "opdiff.yml"], cwd=workspace / "ours", check=True)
    runner.run("run.sh", OPDIFF_PATH="theirs", OPDIFF_CONFIG="ours/opdiff.yml")
    expected = f"--config {workspace / 'ours' / 'opdiff.yml'} "
    assert expected in runner.line("exec", "--prepare-only")


def test_a_configuration_beside_the_checkout_is_taken(runner: Runner) -> None:
    workspace = runner.root / "workspace"
    subprocess.run(["git", "init", "--quiet"], cwd=workspace, check=True)
    (workspace / "ours.yml").write_text("version: 1\n")
    runner.run("run.sh", OPDIFF_CONFIG="ours.yml")
    assert f"--config {workspace / 'ours.yml'} " in runner.line("exec", "--prepare-only")


@pytest.mark.parametrize(("event", "how"), [("pull_request", "ro"), ("schedule", "rw")])
def test_failed_programs_are_written_outside_pull_requests_alone(
    runner: Runner, event: str, how: str
) -> None:
    runner.run("run.sh", OPDIFF_FAILED_PROGRAMS="memory", GITHUB_EVENT_NAME=event)
    folder = runner.root / "workspace" / "memory"
    assert folder.is_dir()
    assert f"--failed-programs {folder} " in runner.line("exec", "--prepare-only")
    assert f"--volume {folder}:{folder}:{how} " in runner.line("run", "--detach")


def test_failed_programs_behind_a_link_are_refused(runner: Runner) -> None:
    (runner.root / "elsewhere").mkdir()
    (runner.root / "workspace" / "memory").symlink_to(runner.root / "elsewhere")
    for folder in ("memory", "../elsewhere", "memory/inner"):
        code, printed = runner.run("run.sh", OPDIFF_FAILED_PROGRAMS=folder)
        assert code == 1
        assert "failed-programs: " in printed


def test_links_in_the_report_are_not_uploaded(runner: Runner) -> None:
    """Code without a sandbox can plant them, and upload-artifact follows them."""
    secret = runner.root / "secret"
    secret.write_text("of this machine")
    plants = (
        f'cd "$out/findings"; mkdir -p op; ln -s {secret} zzz; ln -s {secret} op/.x; ln -s / op/r; '
        f"rm ../report.md; ln -s {secret} ../report.md; mkfifo op/fifo; echo 1 >op/finding.json"
    )
    runner.run("run.sh", FAKE_PLANTS=plants)
    folder = Path(runner.outputs["folder"])
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert left == {"results.json", "findings", "findings/op", "findings/op/finding.json"}
    assert secret.read_text() == "of this machine"


def test_a_report_folder_that_became_a_link_is_not_uploaded(runner: Runner) -> None:
    elsewhere = runner.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "results.json").write_text("{}")
    (elsewhere / "private").write_text("of this machine")
    code, printed = runner.run(
        "run.sh", FAKE_PLANTS=f'mv "$out" "$out-was"; ln -s {elsewhere} "$out"'
    )
    assert code == 1
    assert "::error title=OpDiff::the report's folder was made a link" in printed
    assert "upload" not in runner.outputs
    assert (elsewhere / "private").exists()


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("remote.origin.url", "https://x-access-token:ghs_x@github.com/o/r", True),
        ("remote.origin.pushurl", "https://ghs_x@github.com/o/r", True),
        ("url.https://t:ghs_x@github.com/.insteadOf", "https://github.com/", True),
        ("http.https://github.com/.extraheader", "AUTHORIZATION: basic eA==", True),
        ("remote.origin.url", "https://github.com/o/r", False),
        ("remote.origin.url", "git@github.com:o/r.git", False),
        ("remote.origin.url", "https://github.com/o/r@2", False),
    ],
)
def test_a_checkout_that_holds_a_token_is_not_checked(
    runner: Runner, key: str, value: str, refused: bool
) -> None:
    workspace = runner.root / "workspace"
    for words in (["init", "--quiet"], ["config", key, value]):
        subprocess.run(["git", *words], cwd=workspace, check=True)
    code, printed = runner.run("run.sh")
    assert (code == 1, "holds a token" in printed) == (refused, refused)


def test_a_docker_that_is_podman(runner: Runner) -> None:
    """Debian's package podman-docker; what each calls the same option differs."""
    runner.run("engine.sh", OPDIFF_IMAGE="image", FAKE_VERSION="podman version 4.9.3")
    assert runner.outputs["engine"] == "podman"
    (runner.root / "output").write_text("")
    runner.run("engine.sh", OPDIFF_IMAGE="image")
    assert runner.outputs["engine"] == "docker"


def test_only_a_check_needs_an_image_with_environments(runner: Runner) -> None:
    runner.run("engine.sh", OPDIFF_IMAGE="", OPDIFF_MODE="check")
    whole = runner.outputs
    (runner.root / "output").write_text("")
    runner.run("engine.sh", OPDIFF_IMAGE="", OPDIFF_MODE="publish")
    lean = runner.outputs
    assert "arguments" not in whole
    assert lean["arguments"] == "ENVIRONMENTS="
    assert lean["image"] == whole["image"].replace("opdiff:", "opdiff:bot-")
    assert lean["scope"] != whole["scope"]
    (runner.root / "output").write_text("")
    runner.run("engine.sh", OPDIFF_IMAGE="", OPDIFF_MODE="publish", FAKE_NO_IMAGE="0")
    assert runner.outputs["image"] == whole["image"]  # it is there already


def test_a_release_names_an_image_for_checks_and_one_for_all_else(
    runner: Runner, tmp_path: Path
) -> None:
    scripts = tmp_path / "action" / ".github" / "action"
    scripts.mkdir(parents=True)
    shutil.copy(SCRIPTS / "engine.sh", scripts)
    chosen: dict[str, str] = {}
    for text in ("r/o/n@sha256:a\nr/o/n@sha256:b\n", "r/o/n@sha256:a\n"):
        (scripts / "image").write_text(text)
        for mode in ("check", "publish"):
            (runner.root / "output").write_text("")
            runner.run(str(scripts / "engine.sh"), OPDIFF_IMAGE="", OPDIFF_MODE=mode)
            chosen[f"{mode} {text.count('@')}"] = runner.outputs["image"]
    assert chosen == {
        "check 2": "r/o/n@sha256:a",
        "publish 2": "r/o/n@sha256:b",
        "check 1": "r/o/n@sha256:a",
        "publish 1": "r/o/n@sha256:a",
    }


def test_the_step_is_the_script_itself() -> None:
    """The runner signals a step's own process, which must be the one that removes the container."""
    assert 'exec "$GITHUB_ACTION_PATH/.github/action/run.sh"' in (
        SCRIPTS.parents[1] / "action.yml"
    ).read_text(encoding="utf-8")
