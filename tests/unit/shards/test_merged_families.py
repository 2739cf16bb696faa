"""A family of which each shard saw other ops is one finding with the ops of all."""

from __future__ import annotations

from bot.report.results import FindingRow
from bot.shards.merged_rows import merged_finding


def family(op: str, *ops: str) -> FindingRow:
    return FindingRow(
        fingerprint="ab" * 8, op=op, ops=ops, kind="shape", verdict="upstream", confidence="weak",
        program=op.encode().hex(),
    )  # fmt: skip


def test_the_ops_of_all_shards_are_listed_once() -> None:
    found = merged_finding([family("abs", "exp", "sin"), family("add", "exp", "mul")])
    assert sorted((found.op, *found.ops)) == ["abs", "add", "exp", "mul", "sin"]
