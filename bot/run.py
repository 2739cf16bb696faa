"""``opdiff run``: ops by name, or all, on the targets given."""

from __future__ import annotations

from pathlib import Path

from bot.carry_out import Assignment, carry_out
from bot.check import resume_assignment
from bot.errors import OpDiffError
from bot.plan import Plan
from bot.report.results import Results
from bot.run_directory import RunDirectory
from bot.targets.resolve import resolve
from bot.targets.target import parse_target
from bot.workshop import Workshop


def run(plan: Plan, out: Path, workshop: Workshop) -> Results:
    """Run a plan from its start. Raises OpDiffError, TargetError."""
    parsed = [parse_target(target.spec) for target in plan.targets]  # before anything is written
    with RunDirectory.create(out, plan) as directory:
        workshop.progress.step("preparing environments")
        targets = tuple(resolve(target, workshop.store) for target in parsed)
        return carry_out(Assignment(plan, targets), directory, workshop)


def resume(out: Path, workshop: Workshop, allow_paths: bool = False) -> Results:
    """Go on with an interrupted run: what its journal holds is not run again.

    The folder may come from anywhere, so its plan may not choose programs of this machine unless ``allow_paths`` says
    that it is the user's own. Raises OpDiffError.
    """
    with RunDirectory.resume(out) as directory:
        if directory.plan.paths and not allow_paths:
            raise OpDiffError(
                f"{out} was planned with {directory.plan.paths[0]}, a program of some machine: "
                "say --allow-paths when the folder is your own"
            )
        if directory.plan.command == "check":
            assignment = resume_assignment(directory.plan, workshop)
        else:
            specs = [target.spec for target in directory.plan.targets]
            targets = tuple(resolve(parse_target(spec), workshop.store) for spec in specs)
            assignment = Assignment(directory.plan, targets)
        return carry_out(assignment, directory, workshop)
