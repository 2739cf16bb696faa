"""Which op groups a plan runs."""

import pytest

from bot.carry_out import entries_of, groups_of
from bot.errors import OpDiffError
from bot.plan import ChangeSource, Plan, PlannedTarget
from bot.programs.op_index import OpIndex
from bot.programs.source import SourceEntry

ADD = SourceEntry("opinfo", "add", group="add", names=("add", "Tensor.add"))
INDEX = OpIndex([ADD])
TARGETS = (PlannedTarget(spec="torch==2.13.0:cpu"), PlannedTarget(spec="oneflow==0.9.0:cpu"))
NOBODY_CALLS = "oneflow.nn.FusedBatchNorm2d"


def test_an_op_that_a_person_named_must_be_known() -> None:
    plan = Plan(command="run", targets=TARGETS, ops=("add", NOBODY_CALLS))
    with pytest.raises(OpDiffError, match=r"no op 'oneflow\.nn\.FusedBatchNorm2d' is known"):
        groups_of(plan, INDEX)


def test_a_namesake_does_not_stand_for_a_changed_op() -> None:
    """Whoever types `norm` means the one there is; a diff that changes `norm` does not change `linalg.norm`."""
    index = OpIndex(
        [SourceEntry("opinfo", "linalg.norm", group="linalg.norm", names=("linalg.norm",))]
    )
    typed = Plan(command="run", targets=TARGETS, ops=("norm",))
    assert groups_of(typed, index) == ("linalg.norm",)
    changed = Plan(
        command="check", candidate="overlay", change=ChangeSource(), targets=TARGETS, ops=("norm",)
    )
    assert groups_of(changed, index) == ("norm",)
    assert entries_of(changed, ("norm",), index) == ()


def test_a_changed_op_without_programs_does_not_stop_the_others() -> None:
    plan = Plan(
        command="check",
        candidate="overlay",
        change=ChangeSource(),
        targets=TARGETS,
        ops=(NOBODY_CALLS, "Tensor.add", "add"),
    )
    assert groups_of(plan, INDEX) == (NOBODY_CALLS, "add")
