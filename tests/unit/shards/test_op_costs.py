"""The shipped costs: of the pinned release, by op group, and names as people write them."""

from __future__ import annotations

import pytest
import yaml

from bot.programs.op_groups import group_of
from bot.programs.opinfo_source import PINNED_RELEASE
from bot.shards.costs import (
    FILE,
    cost_of,
    known_op,
    known_ops,
    load_op_costs,
    op_costs,
)
from bot.shards.measure_costs import op_costs_text


def test_the_costs_are_of_the_pinned_release() -> None:
    assert op_costs().release == PINNED_RELEASE


def test_groups_are_op_groups_and_float32_is_a_part_of_all() -> None:
    assert len(op_costs().groups) > 600
    for group, (programs, few) in op_costs().groups.items():
        assert group_of(group) == group
        assert 0 <= few <= programs


def test_an_op_without_programs_costs_little_but_something() -> None:
    assert 0 < cost_of("no.such.op") < cost_of("add")
    assert cost_of("add", float32_alone=True) < cost_of("add")


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("add", "add"),
        ("torch.add", "add"),
        ("Tensor.add_", "add"),
        ("softplus", "nn.functional.softplus"),
        ("nn.Softplus", "nn.functional.softplus"),
        ("torch.nn.functional.softplus", "nn.functional.softplus"),
        ("no_such_op", "no_such_op"),
        ("oneflow.nn.FusedBatchNorm2d", "oneflow.nn.FusedBatchNorm2d"),
    ],
)
def test_names_as_people_write_them(name: str, group: str) -> None:
    assert known_op(name) == group


def test_what_is_written_is_read_back() -> None:
    rows = {"add": (3, 1), "Tensor.add": (0, 0)}
    read = load_op_costs(op_costs_text(rows))
    assert read.groups == rows
    assert list(read.groups) == sorted(rows)


@pytest.mark.parametrize("row", ["[1]", "[-1, 0]", "[1, .nan]", "[1, 2, 3]", "x"])
def test_a_file_that_does_not_add_up_is_refused(row: str) -> None:
    with pytest.raises(ValueError, match=FILE.name):
        load_op_costs(f"source: s\nrelease: r\ngroups:\n  add: {row}\n")


def test_the_file_is_plain_yaml() -> None:
    assert yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"].keys() == set(known_ops())
