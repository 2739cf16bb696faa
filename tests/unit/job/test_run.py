"""Resuming a folder that somebody else may have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from bot.errors import OpDiffError
from bot.plan import Plan, PlannedTarget
from bot.run import resume
from bot.run_directory import RunDirectory


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
