"""The main job as a user runs it: ``opdiff check``, ``run`` and ``replay`` in processes of their own, on real releases."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import ROOT, opdiff, the_error

from bot.oracle.finding import Finding, Kind, Mismatch, Observation
from bot.programs.builder import ProgramBuilder
from bot.programs.program import digest
from bot.report.bundle import FindingBundle, TargetOutcome
from bot.report.finding_folder import write_finding
from bot.report.folder_files import read_folder
from bot.report.read_back import read_run
from bot.report.results import FindingRow, Results, RunFacts, TargetFacts, read_results
from bot.report.write import write_report
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore
from bot.targets.outcome import Death, Outcome

SELF = ("--target", "torch==2.13.0:cpu", "--target", "torch==2.13.0:cpu")
OLD = ("--target", "torch==1.8.1:cpu", "--target", "torch==2.13.0:cpu")
ONEFLOW = ("--target", "oneflow==0.9.0:cpu", "--target", "torch==2.13.0:cpu")
EXAMPLES = {"oneflow": "oneflow-layer-norm.patch", "torch": "torch-normalize.patch"}


@pytest.fixture(scope="module")
def sources(
    environment_store: EnvironmentStore,
    torch_environment: Environment,
    oneflow_environment: Environment,
) -> dict[str, Path]:
    """The released packages' folders, by framework."""
    return {
        made.framework: environment_store.site_packages(made)
        for made in (torch_environment, oneflow_environment)
    }


@pytest.fixture(scope="module")
def checked(
    sources: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, subprocess.CompletedProcess[str]]]:
    """Both example pull requests, checked: the report's folder and what the command said."""
    done: dict[str, tuple[Path, subprocess.CompletedProcess[str]]] = {}
    for framework, patch in EXAMPLES.items():
        out = tmp_path_factory.mktemp(framework)
        words = ["--patch", ROOT / "examples" / patch, "--source", sources[framework]]
        done[framework] = (out, opdiff("check", *words, "--out", out, "--json"))
    return done


def planted(results: Results) -> list[FindingRow]:
    return [
        row
        for row in results.findings
        if (row.verdict, row.status) == ("candidate", "new") and row.folder
    ]


def run_script(script: Path, target: TargetFacts) -> subprocess.CompletedProcess[str]:
    """As the report tells: the target's interpreter, with its import path in front."""
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(target.import_paths),
        "LD_LIBRARY_PATH": os.pathsep.join(target.library_paths),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [target.python, script], env=variables, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(
    ("framework", "op", "kind"),
    [
        ("oneflow", "nn.functional.layer_norm", "gradient"),
        ("torch", "nn.functional.normalize", "gradient"),
    ],
)
class TestExamplePullRequests:
    def test_the_planted_fault_is_found_and_fails_the_check(
        self, checked: Any, framework: str, op: str, kind: str
    ) -> None:
        out, done = checked[framework]
        assert done.returncode == 2, done.stderr
        assert json.loads(done.stdout) == json.loads((out / "results.json").read_text())
        results = read_results(out / "results.json")
        assert results.result == "findings"
        assert results.changes is not None
        assert op in [row.op for row in results.changes.ops]
        assert {(row.op, row.kind) for row in planted(results)} >= {(op, kind)}
        assert [target.role for target in results.targets] == ["candidate", "baseline", "peer"]
        assert results.targets[0].origin == "overlay"

    def test_only_the_changed_ops_differ_from_the_baseline(
        self, checked: Any, framework: str, op: str, kind: str
    ) -> None:
        results = read_results(checked[framework][0] / "results.json")
        assert results.changes is not None
        changed = {row.op for row in results.changes.ops}
        assert {row.op for row in planted(results)} <= changed
        tested = {row.op: row.tested for row in results.coverage}
        assert tested[op]

    def test_the_script_tells_candidate_from_baseline(
        self, checked: Any, framework: str, op: str, kind: str
    ) -> None:
        out, _ = checked[framework]
        results = read_results(out / "results.json")
        row = next(row for row in planted(results) if (row.op, row.kind) == (op, kind))
        script = out / row.folder / "repro.py"
        candidate, baseline, _ = results.targets
        on_candidate, on_baseline = run_script(script, candidate), run_script(script, baseline)
        assert on_candidate.returncode == 1, on_candidate
        assert on_baseline.returncode == 0, on_baseline

    def test_the_finding_replays(self, checked: Any, framework: str, op: str, kind: str) -> None:
        out, _ = checked[framework]
        row = planted(read_results(out / "results.json"))[0]
        replayed = opdiff("replay", out / row.folder, "--json")
        assert replayed.returncode == 2, replayed.stderr
        assert json.loads(replayed.stdout)["differs"] is True


def test_a_comment_changes_no_op(sources: dict[str, Path], tmp_path: Path) -> None:
    file = "oneflow/nn/modules/normalization.py"
    lines = (sources["oneflow"] / file).read_text().splitlines()
    number = next(i for i, line in enumerate(lines) if line.startswith("def layer_norm"))
    (tmp_path / "comment.patch").write_text(
        f"--- a/{file}\n+++ b/{file}\n@@ -{number + 1},1 +{number + 1},2 @@\n"
        f" {lines[number]}\n+    # Statistics are over the last axes.\n"
    )
    words = ["--patch", tmp_path / "comment.patch", "--source", sources["oneflow"]]
    done = opdiff("check", *words, "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    results = read_results(tmp_path / "out" / "results.json")
    assert results.changes is not None
    assert (results.result, results.changes.ops, results.findings) == ("clean", (), ())
    assert results.counts.programs == 0


def test_a_repository_gives_what_the_patch_gives(
    sources: dict[str, Path], checked: Any, tmp_path: Path
) -> None:
    """In the layout of OneFlow's own repository: ``python/oneflow``."""
    repository = tmp_path / "repository"
    for file in sorted((sources["oneflow"] / "oneflow").rglob("*.py")):
        copy = repository / "python" / file.relative_to(sources["oneflow"])
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(repository)]
    patch = ROOT / "examples" / EXAMPLES["oneflow"]
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", "release"],
        ["apply", "--directory=python", str(patch)],
        ["commit", "-qam", "pull request"],
    ):
        subprocess.run([*git, *command], check=True, capture_output=True)
    words = ["--repo", repository, "--base", "HEAD~1", "--head", "HEAD"]
    done = opdiff("check", *words, "--out", tmp_path / "out", "--quiet")
    assert done.returncode == 2, done.stderr
    ours = read_results(tmp_path / "out" / "results.json")
    theirs = read_results(checked["oneflow"][0] / "results.json")
    assert ours.changes is not None
    assert theirs.changes is not None
    assert [row.op for row in ours.changes.ops] == [row.op for row in theirs.changes.ops]
    assert [stripped(row) for row in ours.findings] == [stripped(row) for row in theirs.findings]
    assert ours.counts == theirs.counts


def stripped(row: FindingRow) -> tuple[object, ...]:
    return (row.fingerprint, row.op, row.kind, row.verdict, row.status, row.program, row.count)


def test_a_release_does_not_differ_from_itself(tmp_path: Path) -> None:
    ops = ["--op", "add", "--op", "nn.functional.softmax", "--op", "nn.functional.conv2d"]
    done = opdiff("run", *ops, *SELF, "--dtype", "float32", "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    results = read_results(tmp_path / "results.json")
    assert results.findings == ()
    counts = results.counts
    assert counts.programs > 200
    assert counts.compared > 0.9 * counts.programs  # the release supports not every mutant
    assert counts.outputs + counts.exceptions >= counts.compared
    assert counts.gradients > 200
    assert all(row.tested for row in results.coverage)
    assert len({target.label for target in results.targets}) == 2


def test_an_old_release_has_its_wrong_gradient(tmp_path: Path) -> None:
    """softplus of torch 1.8.1 above its threshold: the gradient forgets beta's part."""
    words = ["--op", "softplus", *OLD, "--dtype", "float32", "--out", tmp_path, "--json"]
    done = opdiff("run", *words)
    assert done.returncode == 2, done.stderr
    rows = read_results(tmp_path / "results.json").findings
    assert {row.op for row in rows} == {"nn.functional.softplus"}
    # Mutants with beta = 0 may add another, of NaN.
    gradients = [row for row in rows if row.kind == "gradient"]
    (mismatch,) = gradients[0].mismatches[:1]
    assert mismatch.label == "gradient of input"


@pytest.fixture(scope="module")
def roll(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OneFlow divides by zero when an empty tensor is rolled."""
    out = tmp_path_factory.mktemp("roll")
    words = ["--op", "roll", *ONEFLOW, "--dtype", "float32", "--out", out, "--json"]
    done = opdiff("run", *words)
    assert done.returncode == 2, done.stderr
    return out


def test_a_death_is_a_finding_that_names_its_signal(roll: Path) -> None:
    results = read_results(roll / "results.json")
    crashes = [row for row in results.findings if row.kind == "crash"]
    assert len(crashes) == 1
    (row,) = crashes
    assert (row.op, row.blamed, row.confidence) == ("roll", ("oneflow==0.9.0:cpu",), "proved")
    happened = {seen.target: seen.happened for seen in row.mismatches[0].observations}
    assert "SIGFPE" in (happened["oneflow==0.9.0:cpu"] or "")
    (coverage,) = [row for row in results.coverage if row.op == "roll"]
    assert [target.died for target in coverage.targets] == [row.count, 0]
    assert results.counts.programs > row.count  # the others ran on


def test_a_death_replays_to_the_same_death(roll: Path) -> None:
    (row,) = [row for row in read_results(roll / "results.json").findings if row.kind == "crash"]
    replayed = opdiff("replay", roll / row.folder, "--json")
    assert replayed.returncode == 2, replayed.stderr
    said = json.loads(replayed.stdout)
    assert said["differs"] is True
    assert any("SIGFPE" in str(seen["happened"]) for seen in said["same"][0]["observations"])


def test_a_report_that_is_read_back_is_written_the_same(roll: Path, tmp_path: Path) -> None:
    """What a publish stage does with it: from programs and tensors alone, the paths of this machine left out."""
    run = read_run(read_folder(roll))
    written = write_report(tmp_path, run.results, run.bundles())
    assert written.results.findings == read_results(roll / "results.json").findings
    for row in written.results.findings:
        for file in (roll / row.folder).iterdir():
            if file.name != "finding.json":  # which holds the interpreters' paths
                assert (tmp_path / row.folder / file.name).read_bytes() == file.read_bytes(), file
    assert str(roll) not in written.path.read_text()
    assert not any(target.python for target in written.results.targets)


def hand_made(out: Path, builder: ProgramBuilder, kind: Kind, labels: tuple[str, ...]) -> Path:
    """A finding's folder as somebody could send it."""
    blob = builder.blob()
    died = Outcome("crash", death=Death("SIGFPE", "", True))
    mismatch = Mismatch(
        digest(blob), kind, "", "", (), ((labels[0],), labels[1:]),
        (Observation(labels[0], happened="died of SIGFPE"),),
    )  # fmt: skip
    finding = Finding(
        "0123", "op", kind, "upstream", labels[:1], "proved", None, mismatch.sides, digest(blob),
        (mismatch,), (),
    )  # fmt: skip
    outcomes = tuple(
        TargetOutcome(label, label.split("=")[0], died if label == labels[0] else Outcome("ok"))
        for label in labels
    )
    targets = [TargetFacts(label=label, framework=label.split("=")[0]) for label in labels]
    written = write_finding(
        out, FindingBundle(finding, blob, outcomes), targets, RunFacts(opdiff="0.1.0")
    )
    return out / written.row.folder


def test_an_integer_division_by_zero_kills_oneflow(
    tmp_path: Path, oneflow_environment: Environment, torch_environment: Environment
) -> None:
    builder = ProgramBuilder("floor_divide")
    x, y = builder.tensor("x", np.array([7])), builder.tensor("y", np.array([0]))
    builder.output(builder.call("floor_divide", x, y))
    folder = hand_made(tmp_path, builder, "crash", ("oneflow==0.9.0:cpu", "torch==2.13.0:cpu"))
    replayed = opdiff("replay", folder)
    assert replayed.returncode == 2, replayed
    assert "still differs" in replayed.stdout
    assert "SIGFPE" in replayed.stdout


HOSTILE = ["os.system", "load", "torch.load", "hub.load", "Tensor.__class__"]


def test_a_hostile_program_is_refused(tmp_path: Path, torch_environment: Environment) -> None:
    """Each call alone would leave a trace, or reach what does."""
    trace = tmp_path / "pwned"
    for fn in HOSTILE:
        builder = ProgramBuilder("add")
        builder.call(fn, f"touch {trace}")
        folder = hand_made(
            tmp_path / fn, builder, "value", ("torch==2.13.0:cpu", "torch==1.8.1:cpu")
        )
        said = the_error(opdiff("replay", folder, "--quiet"))
        assert fn in said
        assert "refused" in said
        assert not trace.exists()
