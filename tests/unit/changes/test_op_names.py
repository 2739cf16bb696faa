"""Frameworks' public names to canonical ops: regular forms, rows, and false friends."""

from __future__ import annotations

import pytest

from bot.changes.op_names import canonical_op, framework_names, torch_names
from bot.programs.op_groups import group_of


@pytest.mark.parametrize(
    ("framework", "alias", "op"),
    [
        ("oneflow", "oneflow.nn.functional.softplus", "nn.functional.softplus"),
        ("oneflow", "oneflow.nn.Softplus", "nn.functional.softplus"),
        ("oneflow", "oneflow.relu_", "nn.functional.relu"),
        ("oneflow", "oneflow.Tensor.relu_", "nn.functional.relu"),
        ("oneflow", "oneflow._C.relu", "nn.functional.relu"),
        ("oneflow", "oneflow.Tensor.__eq__", "eq"),
        ("oneflow", "oneflow.Tensor.matrix_norm", "linalg.matrix_norm"),
        ("oneflow", "oneflow.linalg.matrix_norm", "linalg.matrix_norm"),
        ("oneflow", "oneflow.Tensor.silu", "nn.functional.silu"),
        ("oneflow", "oneflow.Tensor.cast", "oneflow.Tensor.cast"),
        ("oneflow", "oneflow.gather", "gather"),
        ("oneflow", "oneflow._C.dim_gather", "gather"),
        ("oneflow", "oneflow._C.gather", "oneflow._C.gather"),
        ("oneflow", "oneflow.nn.FusedBatchNorm2d", "oneflow.nn.FusedBatchNorm2d"),
        ("megengine", "megengine.functional.nn.conv2d", "nn.functional.conv2d"),
        ("megengine", "megengine.module.Conv2d", "nn.functional.conv2d"),
        ("paddle", "paddle._C_ops.softmax", "softmax"),
        ("paddle", "paddle.nn.functional.relu", "nn.functional.relu"),
        ("mindspore", "mindspore.mint.nn.functional.relu", "nn.functional.relu"),
        ("torch", "Tensor.add_", "add"),
        ("unheard-of", "unheard-of.add", "add"),
    ],
)
def test_names_of_one_op_have_one_canonical_name(framework: str, alias: str, op: str) -> None:
    assert canonical_op(alias, framework) == op


@pytest.mark.parametrize("framework", ["oneflow", "paddle", "mindspore", "megengine"])
def test_rows_lead_to_ops_that_pytorch_or_the_framework_has(framework: str) -> None:
    rows = framework_names(framework)
    for op, names in rows.ops.items():
        assert (
            op.startswith(f"{framework}.") or op in torch_names() or group_of(op) in torch_names()
        )
        assert not rows.own & set(names), op
    listed = [name for names in rows.ops.values() for name in names]
    assert len(listed) == len(set(listed)), "a name under two ops"
