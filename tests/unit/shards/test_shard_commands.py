"""``opdiff plan``, ``check``, ``merge``, ``outputs`` and ``step-summary`` as a job calls them, without any framework."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import CommandServer, the_error
from made_repository import commit, pull_request
from made_shards import bundle, results, write

CONFIG = ".github/opdiff.yml"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    with CommandServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    return pull_request(tmp_path_factory.mktemp("git"), {CONFIG: "version: 1\nshards: 2\n"}, {})


def event(folder: Path, name: str, base: str, head: str) -> list[str]:
    payloads: dict[str, Any] = {
        "pull_request": {
            "action": "opened",
            "pull_request": {"number": 7, "base": {"sha": base}, "head": {"sha": head}},
        },
        "merge_group": {"merge_group": {"base_sha": base, "head_sha": head}},
        "push": {"before": base, "after": head},
        "schedule": {"schedule": "17 3 * * *"},
    }
    file = folder / "event.json"
    file.write_text(json.dumps(payloads[name]))
    return ["--event", str(file), "--event-name", name]


def said(finished: Any) -> Any:
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.parametrize(
    ("name", "number"), [("pull_request", 7), ("merge_group", None), ("push", None)]
)
def test_an_event_names_the_commits(
    server: CommandServer, repository: Any, tmp_path: Path, name: str, number: int | None
) -> None:
    folder, base, head = repository
    words = ["plan", "--repo", folder, *event(tmp_path, name, base, head), "--json"]
    plan = said(server.opdiff(*words, folder=tmp_path))
    assert (plan["base"], plan["head"], plan["pull-request"]) == (base, head, number)
    assert len(plan["ops"]) == 3
    assert [row["shard"] for row in plan["matrix"]["include"]] == ["1/2", "2/2"]


def test_a_schedule_plans_all_ops(server: CommandServer, repository: Any, tmp_path: Path) -> None:
    folder, base, head = repository
    words = ["plan", "--repo", folder, *event(tmp_path, "schedule", base, head), "--json"]
    plan = said(server.opdiff(*words, folder=tmp_path))
    assert len(plan["ops"]) > 100
    assert plan["head"] is None


def test_lines_for_github(server: CommandServer, repository: Any, tmp_path: Path) -> None:
    folder, base, head = repository
    words = ["plan", "--repo", folder, "--base", base, "--head", head, "--op", "relu,add"]
    done = server.opdiff(*words, "--device", "cpu,cuda", "--github-output", folder=tmp_path)
    lines = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert set(lines) == {"matrix", "shards", "accepted"}
    rows = json.loads(lines["matrix"])["include"]
    assert lines["shards"] == str(len(rows)) == "4"
    assert {row["ops"] for row in rows} == {"relu,add"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--event-name", "push"], "say what to check"),
        (["--event", "none.json", "--event-name", "push"], "event file cannot be read"),
        (["--event", "zero.json", "--event-name", "push"], "give the base with --base"),
        (["--event", "zero.json"], "--event needs --event-name"),
        (["--event", "zero.json", "--event-name", "watch"], "names no change"),
        (["--all", "--base", "HEAD"], "give no --base"),
        (["--base", "HEAD", "--head", "HEAD", "--op", "a b"], "no op's name"),
        (["--base", "HEAD", "--head", "HEAD", "--shards", "257"], "--shards"),
        (["--base", "0" * 40, "--head", "HEAD"], "no revision"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    server: CommandServer, repository: Any, tmp_path: Path, words: list[str], error: str
) -> None:
    (tmp_path / "zero.json").write_text(json.dumps({"before": "0" * 40, "after": "a" * 40}))
    done = server.opdiff("plan", "--repo", repository[0], *words, folder=tmp_path)
    assert error in the_error(done)


def test_a_broken_configuration_of_the_base_stops_plan_and_check(
    server: CommandServer, tmp_path: Path
) -> None:
    folder, base, head = pull_request(tmp_path, {CONFIG: "version: 1\n\nbudgets: 5\n"}, {})
    for command in ("plan", "check"):
        words = [command, "--repo", folder, "--base", base, "--head", head]
        line = the_error(server.opdiff(*words, folder=tmp_path))
        assert line.startswith(f"{CONFIG} of {base[:12]}:3: budgets: no such key")
    assert not (tmp_path / "opdiff-report").exists()


def test_shards_without_an_op_say_so_and_merge_clean(server: CommandServer, tmp_path: Path) -> None:
    """A pull request that changes documentation alone: no environment is made, in no shard."""
    folder, _, head = pull_request(tmp_path, {}, {})
    newer = commit(folder, {"docs/guide.md": "A word.\n"})
    words = ["--repo", folder, "--base", head, "--head", newer, "--pull-request", "7"]
    for device in ("cpu", "cuda"):
        out = tmp_path / "shards" / device
        done = server.opdiff(
            "check", *words, "--shard", "1/1", "--device", device, "--out", out, folder=tmp_path
        )
        assert done.returncode == 0, done.stderr
        one = json.loads((out / "results.json").read_text())
        assert (one["run"]["shard"], one["run"]["device"]) == ("1/1", device)
        assert one["changes"]["pull_request"] == 7
        assert (one["changes"]["base"], one["changes"]["head"]) == (head, newer)
        again = server.opdiff("run", "--resume", out, folder=tmp_path)
        assert again.returncode == 0, again.stderr
    assert not server.opdiff("check", *words, "--prepare-only", folder=tmp_path).returncode
    assert not (tmp_path / "opdiff-report").exists()
    merged = server.opdiff("merge", "shards", "--expected", "2", "--json", folder=tmp_path)
    assert said(merged)["result"] == "clean"
    lost = server.opdiff(
        "merge", "shards", "--expected", "3", "--out", "lost", "--json", folder=tmp_path
    )
    assert (lost.returncode, json.loads(lost.stdout)["result"]) == (1, "incomplete")


def test_outputs_and_step_summary_of_a_merged_report(server: CommandServer, tmp_path: Path) -> None:
    write(tmp_path / "in" / "one", results("1/1"), bundle("00ab00ab00ab00ab", 1, 2, 3))
    merged = server.opdiff("merge", "in", "--expected", "1", "--out", "out", folder=tmp_path)
    assert merged.returncode == 2, merged.stderr
    lines = server.opdiff("outputs", "out", folder=tmp_path)
    assert lines.returncode == 0, lines.stderr
    assert lines.stdout.splitlines() == [
        "result=findings",
        "findings=1",
        "new-findings=1",
        "report-path=out/report.md",
        "json=out/results.json",
    ]
    summary = server.opdiff("step-summary", "out", folder=tmp_path)
    assert summary.returncode == 0, summary.stderr
    assert "mul" in summary.stdout
    assert "```python" in summary.stdout  # the repro script


@pytest.mark.parametrize("command", ["outputs", "step-summary"])
def test_a_report_that_is_none_is_one_line(
    server: CommandServer, tmp_path: Path, command: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text('{"schema_version": 1}')
    assert "schema version" in the_error(server.opdiff(command, "out", folder=tmp_path))
    assert the_error(server.opdiff(command, "none", folder=tmp_path))
