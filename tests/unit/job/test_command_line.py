"""What a user gets wrong is one line on stderr and exit code 1: by the command itself, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import OPDIFF, CommandServer, environment, the_error

from bot.cli import _exit_code, app
from bot.errors import InterruptedRunError, OpDiffError
from bot.targets.worker_process import WorkerDeath
from bot.worker.protocol import ProtocolError

TWO = ("--target", "torch==2.13.0:cpu", "--target", "oneflow==0.9.0:cpu")
MODULE = "def relu(x, y):\n    return x + y\n"
PATCH = """\
--- a/torch/nn/functional.py
+++ b/torch/nn/functional.py
@@ -1,2 +1,2 @@
 def relu(x, y):
-    return x + y
+    return y + x
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a source tree, a patch that fits it and one that does not, and a git repository."""
    tree = tmp_path / "tree" / "torch" / "nn"
    tree.mkdir(parents=True)
    (tree / "functional.py").write_text(MODULE)
    (tree / "__init__.py").touch()
    (tree.parent / "__init__.py").touch()
    (tmp_path / "fits.patch").write_text(PATCH)
    (tmp_path / "other.patch").write_text(PATCH.replace("return x + y", "return x - y"))
    (tmp_path / "prose.patch").write_text("This is not a patch.\n")
    repository = tmp_path / "repository"
    repository.mkdir()
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *command], cwd=repository, check=True)
    (tmp_path / "torch-2.13.0-cp27-cp27mu-linux_x86_64.whl").write_bytes(b"PK")
    (tmp_path / "empty").mkdir()
    old = tmp_path / "old"
    old.mkdir()
    (old / "plan.json").write_text('{"version": 0}')
    return tmp_path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    with CommandServer(tmp_path_factory.mktemp("server")) as server:
        yield server


Fails = Callable[..., str]


@pytest.fixture
def fails(work: Path, server: CommandServer) -> Fails:
    """Run the command in the folder, with a cache of its own that is empty; give its one line."""

    def run(*arguments: str) -> str:
        cache = str(work / "cache")
        return the_error(server.opdiff(*arguments, folder=work, XDG_CACHE_HOME=cache))

    return run


USAGE = {
    "unknown option": (["run", "--frobnicate"], "No such option: --frobnicate"),
    "unknown command": (["frobnicate"], "No such command 'frobnicate'"),
    "no number": (["run", "--all", "--seed", "x"], "--seed"),
    "no seed": (["run", "--all", "--seed", str(2**80)], "--seed"),
    "an empty op": (["run", "--op", ",", *TWO], "--op names no op"),
    "no time": (["run", "--all", "--budget", "0"], "--budget"),
    "time without an end": (
        ["check", "--repo", "repository", "--base", "HEAD", "--head", "HEAD", "--budget", "inf"],
        "--budget",
    ),
    "shards' time without an end": (
        ["plan", "--repo", "repository", "--base", "HEAD", "--head", "HEAD", "--budget", "inf"],
        "--budget",
    ),
    "a device to check that is none": (
        ["check", "--repo", "repository", "--base", "HEAD", "--head", "HEAD", "--device", "tpu"],
        "--device: device 'tpu' is none of cpu, cuda",
    ),
    "a device to plan that is none": (
        ["plan", "--repo", "repository", "--base", "HEAD", "--head", "HEAD", "--device", "cpu,tpu"],
        "--device: device 'tpu' is none of cpu, cuda",
    ),
    "no such choice": (["check", "--fail-on", "maybe"], "'maybe' is not one of"),
    "a missing argument": (["replay"], "Missing argument 'finding'"),
    "one target": (
        ["run", "--op", "add", "--target", "torch==2.13.0:cpu"],
        "give at least two targets",
    ),
    "no target": (["run", "--all"], "give at least two targets"),
    "neither op nor all": (["run", *TWO], "say what to run: --op OP"),
    "op and all": (["run", "--op", "add", "--all", *TWO], "say what to run"),
    "unknown dtype": (
        ["run", "--op", "add", "--dtype", "float33", *TWO],
        "dtype 'float33' is none of float32, float64",
    ),
    "unknown source": (
        ["run", "--op", "add", "--source", "fuzz", *TWO],
        "source 'fuzz' is not one of this version: opinfo, moduleinfo",
    ),
    "target without a version": (
        ["run", "--quiet", "--op", "add", "--target", "torch", "--target", "torch==2.13.0"],
        "torch: name one version, as in torch==2.13.0",
    ),
    "a peer without a version": (
        ["check", "--patch", "fits.patch", "--source", "tree", "--peer", "oneflow"],
        "--peer: oneflow: name one version, as in oneflow==0.9.0",
    ),
    "a baseline of an unknown framework": (
        ["check", "--patch", "fits.patch", "--source", "tree", "--baseline", "torhc==2.13.0"],
        "--baseline: no recipe for 'torhc': did you mean torch?",
    ),
    "a candidate that is no spec": (
        ["check", "--patch", "fits.patch", "--source", "tree", "--candidate", "overlays"],
        "--candidate: no recipe for 'overlays'",
    ),
    "an op that nobody knows": (
        ["check", "--patch", "fits.patch", "--source", "tree", "--op", "softpluss"],
        "--op: no op 'softpluss' is known; near names: nn.functional.softplus",
    ),
    "a fingerprint that is none": (
        ["merge", "empty", "--expected", "1", "--accept", "zzz"],
        "--accept 'zzz' is no finding's fingerprint",
    ),
    "target that is no spec": (
        ["run", "--op", "add", "--target", "==2", "--target", "torch==2.13.0"],
        "target '==2' is not REQUIREMENT[:DEVICE[:OPTIONS]]",
    ),
    "unknown device": (
        ["run", "--op", "add", "--target", "torch==2.13.0:tpu", "--target", "torch==2.13.0"],
        "device 'tpu' is none of cpu, cuda",
    ),
    "unknown framework": (
        ["run", "--quiet", "--op", "add", "--target", "chainer==2.0.0", "--target", "torch==2.13.0"],
        "no recipe for 'chainer'",
    ),
    "no such version": (
        ["run", "--quiet", "--op", "add", "--target", "torch==0.0.1", "--target", "torch==2.13.0"],
        "0.0.1",
    ),
    "no such interpreter": (
        ["run", "--quiet", "--op", "add", "--target", "python=/no/such:cpu", "--target", "torch==2.13.0"],
        "/no/such",
    ),
    "a candidate without a pull request": (
        ["run", "--quiet", "--op", "add", "--target", "torch@pr:cpu", "--target", "torch==2.13.0"],
        "there is no candidate: this run has no pull request",
    ),
    "nothing to check": (["check"], "say what to check: --repo DIR --base REV --head REV"),
    "a patch without its source": (["check", "--patch", "fits.patch"], "--patch FILE --source DIR"),
    "half a repository": (["check", "--repo", "repository", "--base", "HEAD"], "--head REV"),
    "not a repository": (
        ["check", "--repo", "empty", "--base", "A", "--head", "B"],
        "not a git repository",
    ),
    "no such repository": (["changes", "--repo", "no/where", "--base", "A", "--head", "B"], "no/where"),
    "no such revision": (
        ["check", "--repo", "repository", "--base", "HEAD", "--head", "v9.9"],
        "v9.9",
    ),
    "a revision that is an option": (
        ["changes", "--repo", "repository", "--base", "--output=pwned", "--head", "HEAD"],
        "--output=pwned",
    ),
    "a patch that does not apply": (
        ["check", "--patch", "other.patch", "--source", "tree"],
        "torch/nn/functional.py",
    ),
    "a patch that is none": (["changes", "--patch", "prose.patch", "--source", "tree"], "prose.patch"),
    "no such patch": (["changes", "--patch", "no.patch", "--source", "tree"], "no.patch"),
    "no such source": (["changes", "--patch", "fits.patch", "--source", "nowhere"], "nowhere"),
    "a diff of an unknown framework": (
        ["changes", "--patch", "fits.patch", "--source", "tree", "--framework", "torhc"],
        "torhc",
    ),
    "a wheel for another Python": (
        [
            "check", "--quiet", "--patch", "fits.patch", "--source", "tree", "--framework", "torch",
            "--candidate", "torch-2.13.0-cp27-cp27mu-linux_x86_64.whl",
        ],
        "cp27",
    ),
    "no such wheel": (
        ["check", "--quiet", "--patch", "fits.patch", "--source", "tree", "--framework", "torch", "--candidate", "no/*.whl"],
        "no wheel matches no/*.whl",
    ),
    "nothing to resume": (["run", "--resume", "empty"], "holds no OpDiff run to resume"),
    "nowhere to resume": (["run", "--resume", "nowhere"], "holds no OpDiff run to resume"),
    "a plan of another version": (["run", "--resume", "old"], "has plan version 0; this opdiff reads 1"),
    "resume with another budget": (
        ["run", "--resume", "old", "--budget", "60"],
        "--resume goes on as planned",
    ),
    "resume with something else": (
        ["run", "--resume", "old", "--op", "add"],
        "--resume goes on as planned",
    ),
    "no finding": (["replay", "empty"], "finding.json"),
    "no folder to replay": (["replay", "nowhere"], "nowhere"),
    "somebody's folder": (["run", "--op", "add", *TWO, "--out", "tree"], "not empty and holds no OpDiff run"),
    "a file as folder": (["run", "--op", "add", *TWO, "--out", "fits.patch"], "fits.patch"),
    "ops of an unknown framework": (["ops", "--framework", "torhc"], "torhc"),
}  # fmt: skip


@pytest.mark.parametrize("case", USAGE)
def test_one_line_and_exit_code_1(fails: Fails, work: Path, case: str) -> None:
    arguments, says = USAGE[case]
    before = {str(path.relative_to(work)) for path in work.rglob("*")}
    assert says in fails(*arguments)
    after = {str(path.relative_to(work)) for path in work.rglob("*")}
    assert not [path for path in after - before if not path.startswith(("cache", "opdiff-report"))]


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_json_changes_nothing_about_errors(fails: Fails, as_json: list[str]) -> None:
    assert "No such option" in fails("run", "--frobnicate", *as_json)
    assert "dtype" in fails("run", "--op", "add", "--dtype", "int3", *TWO, *as_json)


def test_a_finding_of_another_schema_version(fails: Fails, work: Path) -> None:
    folder = work / "finding"
    folder.mkdir()
    (folder / "finding.json").write_text('{"schema_version": 99}')
    (folder / "program.opdiff").write_bytes(b"")
    assert "finding.json has schema version '99', and this OpDiff reads 2" in fails(
        "replay", "finding"
    )


def test_a_text_from_outside_is_one_line_without_escapes(fails: Fails) -> None:
    said = fails("run", "--op", "add", "--dtype", "a\nb\x1b[2J[red]:smile:", *TWO)
    assert "\x1b" not in said
    assert "[red]:smile:" in said


def test_no_command_is_help(work: Path, server: CommandServer) -> None:
    for words in ([], ["envs"]):
        shown = server.opdiff(*words, folder=work)
        assert (shown.returncode, shown.stderr) == (1, "")
        assert "Usage: opdiff" in shown.stdout
    for words in (["--help"], ["check", "--help"], ["run", "--help"], ["envs", "--help"]):
        shown = server.opdiff(*words, folder=work)
        assert (shown.returncode, shown.stderr) == (0, "")


def test_changes_as_json_is_json_alone(work: Path, server: CommandServer) -> None:
    words = ["changes", "--patch", "fits.patch", "--source", "tree", "--framework", "torch"]
    shown = server.opdiff(*words, "--json", folder=work)
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert found["framework"] == "torch"
    assert set(found) >= {"ops", "tests", "unmapped"}
    assert "torch" in server.opdiff(*words, folder=work).stdout


@pytest.mark.parametrize(("devices", "documents"), [("cpu", None), ("cpu,cuda", 2)])
def test_a_check_as_json_is_one_document(
    work: Path, server: CommandServer, devices: str, documents: int | None
) -> None:
    (work / "comment.patch").write_text(
        "--- a/torch/nn/functional.py\n+++ b/torch/nn/functional.py\n@@ -1,1 +1,2 @@\n"
        "+# A comment.\n def relu(x, y):\n"
    )
    words = ["--patch", "comment.patch", "--source", "tree", "--framework", "torch"]
    shown = server.opdiff("check", *words, "--device", devices, "--json", folder=work)
    assert (shown.returncode, shown.stdout[:1]) == (0, "[" if documents else "{"), shown
    found = json.loads(shown.stdout)
    assert documents is None or [row["result"] for row in found] == ["clean"] * documents


def test_a_reader_that_goes_away_is_no_traceback(work: Path) -> None:
    """``opdiff changes ... | true``."""
    shown = subprocess.run(
        ["bash", "-c", '"$0" "$@" | true', *OPDIFF, "changes", "--help"],
        env=environment(),
        cwd=work, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(28, "No space left on device"), "no space left while writing the run folder"),
        (OSError(28, "No space left on device", "/a/b"), "no space left while writing /a/b"),
        (OSError(122, "Disk quota exceeded", "/a/b"), "no space left while writing /a/b"),
        (
            PermissionError(13, "Permission denied", "/a/b"),
            "/a/b cannot be read or written: Permission",
        ),
        (OpDiffError("one\ntwo"), "error: one two"),
        (WorkerDeath("crash", "SIGSEGV", ""), "a worker gave no answer: crash: SIGSEGV"),
        (ProtocolError("a lie"), "a worker gave no answer: a lie"),
        (KeyboardInterrupt(), "interrupted\n"),
        (InterruptedRunError("interrupted; go on with [x]"), "interrupted; go on with [x]\n"),
    ],
)
def test_what_happens_in_mid_run_is_one_line(
    error: BaseException, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    assert _exit_code(fail) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert says in captured.err


def test_an_interruption_through_typer_is_no_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bot.cli_run.list_ops", interrupted)
    monkeypatch.setattr("sys.argv", ["opdiff", "ops"])
    assert _exit_code(lambda: app(standalone_mode=False)) == 1
    assert capsys.readouterr().err == "interrupted\n"


def test_an_error_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        _exit_code(lambda: 1 // 0)
