"""The split of op groups: whole, even within Graham's bound, and the same however it is asked for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import OpDiffError
from bot.shards.split import Part, budget_of, parse_part, shard_count, share_of, split

costs_of_ops = st.dictionaries(
    st.text("abcdef.", min_size=1, max_size=6),
    st.integers(0, 10_000).map(float) | st.floats(0, 1e6),
    max_size=40,
)
counts = st.integers(1, 12)


@given(costs_of_ops, counts)
def test_every_op_is_in_exactly_one_shard(costs: dict[str, float], count: int) -> None:
    shards = split(costs, costs.__getitem__, count)
    assert [str(shard.part) for shard in shards] == [f"{n}/{count}" for n in range(1, count + 1)]
    assert sorted(op for shard in shards for op in shard.ops) == sorted(costs)


@given(costs_of_ops, counts)
def test_no_shard_costs_more_than_the_mean_and_the_largest_op(
    costs: dict[str, float], count: int
) -> None:
    shards = split(costs, costs.__getitem__, count)
    heaviest = max(math.fsum(costs[op] for op in shard.ops) for shard in shards)
    bound = math.fsum(costs.values()) / count + max(costs.values(), default=0.0)
    assert heaviest <= bound * (1 + 1e-9)


@given(costs_of_ops, counts, st.randoms())
def test_the_order_of_the_ops_does_not_matter(costs: dict[str, float], count: int, random) -> None:
    ops = list(costs) * 2
    random.shuffle(ops)
    assert split(ops, costs.__getitem__, count) == split(costs, costs.__getitem__, count)


@given(costs_of_ops, counts)
def test_a_shard_computes_its_own_share(costs: dict[str, float], count: int) -> None:
    shards = split(costs, costs.__getitem__, count)
    for shard in shards:
        assert share_of(costs, costs.__getitem__, shard.part) == shard.ops
    assert share_of(costs, costs.__getitem__, None) == tuple(sorted(costs))


@given(costs_of_ops.filter(bool), counts)
def test_with_as_many_shards_as_make_sense_none_is_empty(
    costs: dict[str, float], wanted: int
) -> None:
    count = shard_count(costs, wanted)
    assert 1 <= count <= wanted
    assert all(shard.ops for shard in split(costs, costs.__getitem__, count))


def test_by_hand() -> None:
    costs = {"a": 7.0, "b": 5.0, "c": 4.0, "d": 3.0, "e": 1.0}
    first, second = split(costs, costs.__getitem__, 2)
    # a | b, then c to b's 5, d to a's 7, e to the 9 of b (10 against 9)
    assert (first.ops, first.cost) == (("a", "d"), 10.0)
    assert (second.ops, second.cost) == (("b", "c", "e"), 10.0)


def test_no_op_is_one_shard_that_is_empty() -> None:
    assert shard_count((), 4) == 1
    (only,) = split((), lambda op: 1.0, 1)
    assert only.ops == ()


def test_the_budget_goes_by_cost() -> None:
    costs = {"a": 30.0, "b": 10.0}
    shards = split(costs, costs.__getitem__, 2)
    assert [budget_of(shard, shards, 600.0) for shard in shards] == [450.0, 150.0]
    (only,) = split((), lambda op: 1.0, 1)
    assert budget_of(only, (only,), 600.0) == 600.0


@pytest.mark.parametrize(
    "text", ["", "1", "0/4", "5/4", "1/257", "1/4/4", "-1/4", "1/ 4", "١/٤", "01/4"]
)
def test_a_part_that_is_none(text: str) -> None:
    with pytest.raises(OpDiffError, match="K/N"):
        parse_part(text)


def test_a_part() -> None:
    assert parse_part("3/4") == Part(3, 4)
    assert str(parse_part("3/4")) == "3/4"
