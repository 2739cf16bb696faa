"""A run that cannot begin, and resuming a folder that somebody else may have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from bot.errors import OpDiffError
from bot.plan import Plan, PlannedTarget
from bot.progress import Progress
from bot.run import resume, run
from bot.run_directory import RunDirectory
from bot.targets.environment_store import EnvironmentStore
from bot.targets.target import TargetError
from bot.workshop import Workshop


def test_a_plan_from_elsewhere_chooses_no_programs_of_this_machine(tmp_path: Path) -> None:
    """The interpreter that it names would be started, outside any sandbox, before anything else."""
    started = tmp_path / "started"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {started}\n")
    evil.chmod(0o755)
    targets = (PlannedTarget(spec=f"python={evil}:cpu"), PlannedTarget(spec="torch==2.13.0:cpu"))
    folder = tmp_path / "run"
    RunDirectory.create(folder, Plan(command="run", targets=targets, ops=("exp",))).close()
    with pytest.raises(OpDiffError, match="--allow-paths"):
        resume(folder, cast("Any", None))
    assert not started.exists()


def test_a_target_that_cannot_be_made_leaves_the_older_report(tmp_path: Path) -> None:
    store = EnvironmentStore(tmp_path / "cache")
    workshop = Workshop(store, Progress(Console(stderr=True), quiet=True))
    targets = tuple(PlannedTarget(spec=f"python={tmp_path}/{name}:cpu") for name in ("a", "b"))
    plan = Plan(command="run", targets=targets, ops=("exp",))
    out = tmp_path / "run"
    RunDirectory.create(out, plan).close()
    (out / "report.md").write_text("the older report")
    (out / "results.json").write_text("{}")
    with pytest.raises(TargetError, match="no such file"):
        run(plan.model_copy(update={"seed": 5}), out, workshop)
    assert (out / "report.md").read_text() == "the older report"
    assert (out / "results.json").exists()
    assert RunDirectory.resume(out).plan.seed == 0
