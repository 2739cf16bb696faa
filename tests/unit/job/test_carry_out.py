"""Which op groups a plan runs."""

import pytest

from bot.carry_out import groups_of
from bot.errors import OpDiffError
from bot.plan import Plan, PlannedTarget
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


def test_a_changed_op_without_programs_does_not_stop_the_others() -> None:
    plan = Plan(command="check", targets=TARGETS, ops=(NOBODY_CALLS, "Tensor.add", "add"))
    assert groups_of(plan, INDEX) == (NOBODY_CALLS, "add")
