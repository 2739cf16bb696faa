"""What plan, check and shards work on: the same for all of them, and nothing that the pull request may choose."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from made_repository import git, pull_request

from bot.changes.changeset import ChangesError
from bot.check import CheckRequest, find_subject, plan_check
from bot.config import ConfigError
from bot.errors import OpDiffError
from bot.plan import ChangeSource, Plan
from bot.shards.costs import known_ops
from bot.shards.matrix import plan_shards

CONFIG = ".github/opdiff.yml"
OPS = ("nn.functional.elu", "nn.functional.softsign", "nn.functional.tanhshrink")
IGNORES_ALL = "version: 1\nfail-on: never\nignore: [{op: '*', reason: all is well}]\n"
STRICT = """\
version: 1
framework: torch
baseline: torch==1.8.1
peers: []
devices: [cpu, cuda]
budget: 90
shards: 2
seed: 5
fail-on: any
ops: [{paths: ["aten/**"], ops: [sinc]}]
"""


def request(repository: Path, base: str, head: str, **more: Any) -> CheckRequest:
    return CheckRequest(ChangeSource(repository=str(repository), base=base, head=head), **more)


def test_a_pull_requests_own_configuration_is_not_read(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {CONFIG: STRICT}, {CONFIG: IGNORES_ALL})
    subject = find_subject(request(*made))
    assert (subject.config.fail_on, subject.config.ignore) == ("any", ())
    without = pull_request(tmp_path / "b", {}, {CONFIG: IGNORES_ALL})
    subject = find_subject(request(*without))
    assert (subject.config.fail_on, subject.config.ignore) == ("candidate", ())


def test_the_base_itself_is_asked_not_the_merge_base(tmp_path: Path) -> None:
    repository, base, head = pull_request(tmp_path, {}, {})
    git(repository, "checkout", "-q", base)
    (repository / ".github").mkdir()
    (repository / CONFIG).write_text(STRICT)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "configuration")
    newer = git(repository, "rev-parse", "HEAD")
    subject = find_subject(request(repository, newer, head))
    assert subject.config.fail_on == "any"
    assert subject.ops == OPS
    assert (subject.change.base, subject.change.head) == (newer, head)


def test_a_broken_configuration_of_the_base_is_one_line_with_its_commit(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {CONFIG: "version: 1\nfail-on: maybe\n"}, {})
    with pytest.raises(ConfigError) as caught:
        find_subject(request(*made))
    assert str(caught.value).startswith(f"{CONFIG} of {made[1][:12]}:2: fail-on: ")


def test_a_configuration_that_is_a_link_or_too_large_is_refused(tmp_path: Path) -> None:
    large = pull_request(tmp_path, {CONFIG: "#" * 300_000}, {})
    with pytest.raises(ChangesError, match="more than"):
        find_subject(request(*large))
    repository, _, _ = pull_request(tmp_path / "b", {}, {})
    (repository / ".github").mkdir()
    (repository / CONFIG).symlink_to("/etc/passwd")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "link")
    linked = git(repository, "rev-parse", "HEAD")
    with pytest.raises(ChangesError, match="not a plain file"):
        find_subject(request(repository, linked, linked))


def test_a_configuration_that_was_named_comes_first(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {CONFIG: "not: valid"}, {})
    file = tmp_path / "own.yml"
    file.write_text("version: 1\nfail-on: never\n")
    assert find_subject(request(*made, config=file)).config.fail_on == "never"
    file.write_text("?")
    with pytest.raises(ConfigError, match=r"own\.yml:1: "):
        find_subject(request(*made, config=file))
    with pytest.raises(ConfigError, match="cannot be read"):
        find_subject(request(*made, config=tmp_path / "none.yml"))


def test_the_configuration_fills_what_the_command_line_leaves_out(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {CONFIG: STRICT}, {"aten/soft.cpp": "int x;"})
    asked = request(*made, shard="1/1")
    subject = find_subject(asked)
    assert subject.ops == (*OPS, "sinc")
    plan = plan_check(asked, subject)
    assert (plan.fail_on, plan.seed, plan.budget) == ("any", 5, 90.0)
    assert [target.spec for target in plan.targets] == ["torch@pr:cpu", "torch==1.8.1:cpu"]
    own = request(*made, fail_on="never", seed=6, budget=7.0, baseline="torch==2.13.0")
    plan = plan_check(own, find_subject(own))
    assert (plan.fail_on, plan.seed, plan.budget) == ("never", 6, 7.0)
    assert plan.targets[1].spec == "torch==2.13.0:cpu"
    assert Plan.model_validate_json(plan.model_dump_json()) == plan  # as a resumed run reads it


def test_the_shards_of_a_plan_share_its_ops_and_its_budget(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {CONFIG: STRICT}, {})
    planned = plan_shards(find_subject(request(*made, ops=("softplus",))), asked=("softplus",))
    rows = planned.matrix()["include"]
    assert [(row["shard"], row["device"]) for row in rows] == [
        ("1/2", "cpu"), ("2/2", "cpu"), ("1/2", "cuda"), ("2/2", "cuda"),
    ]  # fmt: skip
    ran: list[str] = []
    for row in rows[:2]:
        # As a job does it: nothing but the row and the diff.
        job = request(*made, ops=tuple(row["ops"].split(",")), shard=row["shard"])
        plan = plan_check(job, find_subject(job))
        assert plan.ops is not None
        assert len(plan.ops) == row["op-count"]
        assert plan.budget == row["budget"]
        ran += plan.ops
    assert sorted(ran) == sorted(planned.subject.ops)
    assert sum(row["budget"] for row in rows[:2]) == pytest.approx(90, abs=0.2)


def test_no_more_shards_than_ops_and_one_for_none(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {}, {})
    assert len(plan_shards(find_subject(request(*made)), shards=100).shards) == 3
    nothing = find_subject(request(made[0], made[2], made[2]))
    planned = plan_shards(nothing, shards=4, budget=60)
    assert [(one.shard, one.ops, one.budget) for one in planned.shards] == [("1/1", 0, 60.0)]
    lines = dict(line.split("=", 1) for line in planned.output_lines())
    assert lines["shards"] == "1"
    assert lines["accepted"] == ""
    assert json.loads(lines["matrix"])["include"][0]["shard"] == "1/1"


def test_all_ops(tmp_path: Path) -> None:
    repository, _, _ = pull_request(tmp_path, {CONFIG: "version: 1\nbudget: 60\n"}, {})
    asked = CheckRequest(ChangeSource(repository=str(repository)), every=True, shard="2/3")
    subject = find_subject(asked)
    assert (subject.framework, subject.ops, subject.changes) == ("torch", known_ops(), None)
    plan = plan_check(asked, subject)
    assert plan.every
    assert plan.ops
    assert len(plan.ops) < len(known_ops())
    # Without a build of the commit there is no candidate of its own: the release is compared with the peers.
    assert [(t.spec, t.role) for t in plan.targets] == [
        ("torch==2.13.0:cpu", "candidate"), ("oneflow==0.9.0:cpu", "peer"),
    ]  # fmt: skip
    built = CheckRequest(asked.change, every=True, candidate="dist/*.whl")
    roles = [target.role for target in plan_check(built, find_subject(built)).targets]
    assert roles == ["candidate", "baseline", "peer"]


def test_a_named_framework_needs_no_repository(tmp_path: Path) -> None:
    subject = find_subject(CheckRequest(ChangeSource(framework="oneflow"), every=True))
    assert (subject.framework, subject.ops) == ("oneflow", known_ops())


@pytest.mark.parametrize("shard", ["0/2", "3/2", "x", "1/1000"])
def test_a_shard_that_is_none(tmp_path: Path, shard: str) -> None:
    made = pull_request(tmp_path, {}, {})
    asked = request(*made, shard=shard)
    with pytest.raises(OpDiffError, match="K/N"):
        plan_check(asked, find_subject(asked))


def test_a_plan_of_all_ops_takes_a_second(tmp_path: Path) -> None:
    subject = find_subject(CheckRequest(ChangeSource(framework="oneflow"), every=True))
    began = time.process_time()
    planned = plan_shards(subject, devices=("cpu", "cuda"), shards=256)
    assert time.process_time() - began < 2
    assert len(planned.shards) == 256  # GitHub's limit of jobs in a matrix
    assert len(planned.output_lines()[0]) < 1 << 20  # GitHub's limit of a job's output
