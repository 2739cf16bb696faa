from __future__ import annotations

import pytest
from pydantic import ValidationError

from bot.plan import CHECK_DTYPES, ChangeSource, Plan, PlannedTarget
from bot.programs.validation import ITEM_BYTES

PLAN = Plan(
    command="check",
    arguments=("opdiff", "check", "--patch", 'a "b".patch'),
    targets=(
        PlannedTarget(spec="oneflow@pr:cpu", role="candidate"),
        PlannedTarget(spec="oneflow==0.9.0:cpu", role="baseline"),
        PlannedTarget(spec="torch==2.13.0:cpu"),
    ),
    ops=("nn.functional.interpolate",),
    budget=12.5,
    fail_on="candidate",
    candidate="overlay",
    change=ChangeSource(framework="oneflow", patch="/p", source="/s"),
)


def test_a_plan_reads_back_as_itself() -> None:
    assert Plan.model_validate_json(PLAN.model_dump_json()) == PLAN


def test_roles_are_in_the_order_of_the_targets() -> None:
    assert PLAN.roles == ("candidate", "baseline", "peer")


def test_no_ops_and_all_ops_are_told_apart() -> None:
    """A diff that changes no op runs none; ``--all`` is None."""
    for ops in ((), None):
        plan = PLAN.model_copy(update={"ops": ops})
        assert Plan.model_validate_json(plan.model_dump_json()).ops == ops


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "shell"},
        {"targets": [{"spec": "a", "role": "judge"}]},
        {"fail_on": "sometimes"},
        {"environment": "python=/evil"},
        {"change": {"shell": "x"}},
    ],
)
def test_what_no_plan_says_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Plan.model_validate(PLAN.model_dump() | fields)


def test_every_dtype_of_a_check_is_one_that_programs_have() -> None:
    assert set(CHECK_DTYPES) <= set(ITEM_BYTES)


@pytest.mark.parametrize(
    "change",
    [
        {"targets": []},
        {"targets": [{"spec": "torch==2.13.0:cpu"}]},
        {"ops": []},
        {"dtypes": ["float7"]},
        {"sources": ["imagination"]},
        {"sources": []},
        {"seed": -1},
        {"budget": 0},
        {"command": "check"},
    ],
)
def test_a_plan_from_elsewhere_must_be_whole(change: dict[str, object]) -> None:
    """A run has two targets and an op at least; a check has a change and a candidate."""
    run = Plan(command="run", targets=PLAN.targets[1:], ops=("exp",)).model_dump(mode="json")
    assert Plan.model_validate(run)
    with pytest.raises(ValidationError):
        Plan.model_validate(run | change)


@pytest.mark.parametrize("spec", ["python=/tmp/x:cpu", " python=x:cpu", "a/b.whl:cpu", "x.whl:cpu"])
def test_paths_of_a_plan_are_told(spec: str) -> None:
    targets = (PlannedTarget(spec="torch==2.13.0:cpu"), PlannedTarget(spec=spec))
    assert Plan(command="run", targets=targets, ops=("exp",)).paths == (spec,)
    assert PLAN.paths == ()
    assert PLAN.model_copy(update={"candidate": "dist/*.whl"}).paths == ("dist/*.whl",)
