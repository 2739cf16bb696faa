"""A pull request split into shards, checked in jobs of their own, and merged: the same as checked in one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import ROOT, opdiff

from bot.report.results import FindingRow, Results, read_results
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore

CONFIG = """\
version: 1
shards: 3
ops: [{paths: ["**/normalization.py"], ops: [nn.functional.hardswish]}]
ignore: [{op: nn.functional.layer_norm, kind: refuses, reason: no such dtype yet}]
"""
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false")


def git(repository: Path, *arguments: str | Path) -> str:
    words = [*GIT, "-C", str(repository), *map(str, arguments)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def pull_request(
    environment_store: EnvironmentStore,
    oneflow_environment: Environment,
    tmp_path_factory: pytest.TempPathFactory,
) -> list[str | Path]:
    """The example's pull request, in git: the released Python files and a configuration, then the patch."""
    repository = tmp_path_factory.mktemp("repository")
    source = environment_store.site_packages(oneflow_environment)
    for file in (source / "oneflow").rglob("*.py"):
        copy = repository / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    (repository / ".github").mkdir()
    (repository / ".github" / "opdiff.yml").write_text(CONFIG)
    git(repository, "init", "-q")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "base")
    base = git(repository, "rev-parse", "HEAD")
    git(repository, "apply", ROOT / "examples" / "oneflow-layer-norm.patch")
    (repository / ".github" / "opdiff.yml").write_text("version: 1\nfail-on: never\n")
    git(repository, "commit", "-q", "-a", "-m", "head")
    event = repository / ".git" / "event.json"
    pull = {
        "number": 7,
        "base": {"sha": base},
        "head": {"sha": git(repository, "rev-parse", "HEAD")},
    }
    event.write_text(json.dumps({"action": "opened", "pull_request": pull}))
    return ["--repo", repository, "--event", event, "--event-name", "pull_request"]


def named(rows: tuple[FindingRow, ...]) -> list[tuple[Any, ...]]:
    return sorted(
        (row.fingerprint, row.op, row.kind, row.verdict, row.status, row.program, row.count, row.ignored)
        for row in rows
    )  # fmt: skip


def test_the_merged_shards_are_the_whole(pull_request: list[str | Path], tmp_path: Path) -> None:
    asked = ["--op", "dot"]
    planned = json.loads(opdiff("plan", *pull_request, *asked, "--json").stdout)
    rows = planned["matrix"]["include"]
    assert [row["shard"] for row in rows] == ["1/3", "2/3", "3/3"]
    assert planned["ops"] == ["dot", "nn.functional.hardswish", "nn.functional.layer_norm"]

    codes: list[int] = []
    for number, row in enumerate(rows):
        words = ["--shard", row["shard"], "--device", row["device"], "--op", row["ops"]]
        out = tmp_path / "shards" / f"shard-{number}"
        done = opdiff("check", *pull_request, *words, "--fail-on", "never", "--out", out, "--quiet")
        codes.append(done.returncode)
        assert (out / "results.json").is_file(), done.stderr
    assert set(codes) <= {0, 1}
    merged = opdiff("merge", tmp_path / "shards", "--expected", "3", "--out", tmp_path / "all")
    whole = opdiff("check", *pull_request, *asked, "--out", tmp_path / "whole", "--quiet")
    assert (merged.returncode, whole.returncode) == (2, 2), (merged.stderr, whole.stderr)

    parts = read_results(tmp_path / "all" / "results.json")
    one = read_results(tmp_path / "whole" / "results.json")
    assert named(parts.findings) == named(one.findings)
    planted = next(row for row in parts.findings if row.kind == "gradient")
    assert (planted.op, planted.status, planted.ignored) == (
        "nn.functional.layer_norm",
        "new",
        None,
    )
    assert (tmp_path / "all" / planted.folder / "repro.py").is_file()
    ignored = {row.kind for row in parts.findings if row.ignored == "ignored: no such dtype yet"}
    assert ignored == {"refuses"}

    assert {row.op: row.tested for row in parts.coverage} == {
        row.op: row.tested for row in one.coverage
    }
    assert parts.counts == one.counts
    assert comparable(parts) == comparable(one)
    assert [(shard.shard, shard.state) for shard in parts.shards] == [
        (row["shard"], "whole") for row in rows
    ]


def comparable(results: Results) -> dict[str, Any]:
    """What does not speak of time and machine."""
    kept = {"fail_on", "configured_fail_on", "changes", "result", "shortfalls"}
    return results.model_dump(include=kept)
