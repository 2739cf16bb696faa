"""Modes in targets and pools: their names, the time that a compiler has, and workers that ask to be replaced."""

from __future__ import annotations

import json

import pytest
from standin import ANSWER, manners, run_all, standin_pool, standin_target

from bot.targets.job import Limits
from bot.targets.target import mode_of
from bot.worker.protocol import PREFIX, RETIREMENT


@pytest.mark.parametrize(
    ("label", "mode"),
    [
        ("torch==2.13.0:cpu", ""),
        ("torch==2.13.0:cpu:threads=2,onednn=off", ""),
        ("torch==2.13.0:cpu:compile", "compile"),
        ("torch==2.13.0:cuda:threads=2,compile=aot_eager#2", "compile=aot_eager"),
        ('python="/a b/python":cpu:channels_last,script=trace', "channels_last,script=trace"),
        ("oneflow@pr:cpu:graph", "graph"),
        ("a float64 run", ""),
    ],
)
def test_the_mode_of_a_label(label: str, mode: str) -> None:
    assert mode_of(label) == mode


def test_a_compiler_has_its_time_on_top_of_the_programs() -> None:
    limits = Limits(program_seconds=0.5, compile_seconds=15, start_seconds=20)
    slow = {"do": "sleep", "seconds": 2.0}
    with standin_pool(standin_target(), standin_target({"compiles": ""}), limits=limits) as pool:
        results = run_all(pool, [ANSWER, slow, ANSWER])
    assert manners(results, 0) == ["ok", "hang timeout confirmed", "ok"]
    assert manners(results, 1) == ["ok", "ok", "ok"]


def test_workers_that_retire_are_replaced_and_nothing_is_blamed() -> None:
    retire = {"do": "retire"}
    with standin_pool() as pool:
        results = run_all(pool, [ANSWER, retire, retire, ANSWER, ANSWER, retire, ANSWER])
        (counts,) = pool.counts()
    assert manners(results) == ["ok"] * 7
    assert counts.retired == 3
    assert (counts.crashes, counts.unconfirmed, counts.idle, counts.protocol) == (0, 0, 0, 0)


def test_a_worker_that_retires_without_an_answer_is_a_liar() -> None:
    frame = (PREFIX.pack(len(RETIREMENT), 0) + RETIREMENT).hex()
    with standin_pool(limits=Limits(program_seconds=20, start_seconds=20)) as pool:
        results = run_all(pool, [{"do": "raw", "hex": frame}])
        (counts,) = pool.counts()
    assert manners(results) == ["crash protocol confirmed"]
    assert counts.retired == 0
    assert json.loads(RETIREMENT) == {"type": "retired"}
