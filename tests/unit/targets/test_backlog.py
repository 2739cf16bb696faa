"""What waits between workers and judge is bounded in bytes, and no lane waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
from standin import ANSWER, jobs, manners, standin_pool, standin_target

from bot.targets import backlog
from bot.targets.backlog import Backlog
from bot.targets.job import Limits

MIB = 1 << 20
FRAME = 24 * MIB
FLOOD: dict[str, Any] = {"do": "payload_if", "option": "lie", "bytes": FRAME, "seconds": 0.15}
PATIENT = Limits(program_seconds=20, start_seconds=20)


@contextmanager
def peak_growth() -> Iterator[list[int]]:
    """How much this process's resident memory grew at most, in bytes."""
    me = psutil.Process()
    before = me.memory_info().rss
    peak = [0]
    done = threading.Event()

    def sample() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], me.memory_info().rss - before)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def with_bound(pool: Any, size: int) -> None:
    for lane in pool._lanes:
        lane.backlog = Backlog(size)


# The bound, the frame that overran it, one that is arriving (held once as it comes and once as it is taken out), and
# one with the judge.
BOUND = backlog.WAITING_BYTES + 4 * FRAME + 32 * MIB


def test_a_flood_of_large_outcomes_waits_in_the_workers_pipe() -> None:
    """40 outcomes of 24 MiB make 960 MiB; the other target is slow, so that they would all wait for it."""
    with standin_pool(standin_target({"lie": "1"}), standin_target(), limits=PATIENT) as pool:
        pool.facts()
        with peak_growth() as peak:
            answered = sum(
                len(result.outcomes[0].payload) for result in pool.run(jobs([FLOOD] * 40))
            )
        assert answered == 40 * FRAME > 2 * BOUND
    assert peak[0] < BOUND


def test_a_slow_judge_holds_back_a_single_target_too() -> None:
    with standin_pool(standin_target({"lie": "1"}), limits=PATIENT) as pool:
        pool.facts()
        with peak_growth() as peak:
            for _ in pool.run(jobs([FLOOD] * 40)):
                time.sleep(0.15)
    assert peak[0] < BOUND


def test_waiting_for_room_is_no_hang() -> None:
    """The judge takes longer over one outcome than a program may run."""
    with standin_pool(limits=Limits(program_seconds=0.5, start_seconds=20)) as pool:
        with_bound(pool, MIB)
        manner: list[str] = []
        for result in pool.run(jobs([{"do": "payload", "bytes": 2 * MIB}] * 6)):
            time.sleep(0.7)
            manner.append("ok" if result.outcomes[0].death is None else "dead")
    assert manner == ["ok"] * 6


def test_two_lanes_over_their_bound_do_not_wait_for_each_other() -> None:
    """Each puts off another group, so that each holds outcomes that only the other's can release."""
    big = {"do": "payload", "bytes": MIB}
    a = {"do": "die_if", "option": "a", "signal": "SIGFPE", "group": "g"}
    b = {"do": "die_if", "option": "b", "signal": "SIGFPE", "group": "h"}
    rest = [{**big, "group": "g"}, {**big, "group": "h"}, {**big, "group": "i"}] * 40
    one, two = standin_target({"a": "1"}), standin_target({"b": "1"})
    with standin_pool(one, two, limits=PATIENT) as pool:
        with_bound(pool, 2 * MIB)
        ended: list[int] = []
        work = jobs([a, a, a, b, b, b, *rest])
        thread = threading.Thread(
            target=lambda: ended.extend(result.job.id for result in pool.run(work)), daemon=True
        )
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        assert sorted(ended) == list(range(126))
        assert [counts.deferred for counts in pool.counts()] == [40, 40]


def test_one_lane_far_ahead_and_deaths_in_the_other() -> None:
    program = {"do": "payload_if", "option": "lie", "bytes": MIB, "seconds": 0.001}
    die = {"do": "die_if", "option": "dies", "signal": "SIGABRT"}
    work = ([program] * 20 + [die]) * 4
    targets = standin_target({"lie": "1"}), standin_target({"dies": "1"})
    with standin_pool(*targets, limits=PATIENT) as pool:
        with_bound(pool, MIB)
        results = sorted(pool.run(jobs(work)), key=lambda result: result.job.id)
    died = [result.job.id for result in results if result.outcomes[1].death is not None]
    assert died == [20, 41, 62, 83]
    assert [result.outcomes[0].death for result in results] == [None] * 84


def test_stopping_a_lane_that_waits() -> None:
    with standin_pool(standin_target({"lie": "1"}), standin_target(), limits=PATIENT) as pool:
        with_bound(pool, MIB)
        slow = {**FLOOD, "bytes": 2 * MIB, "seconds": 2}
        results = pool.run(jobs([slow] * 20))
        next(results)
        time.sleep(0.3)
        begun = time.monotonic()
        results.close()
        assert time.monotonic() - begun < 2
        assert manners(list(pool.run(jobs([ANSWER])))) == ["ok"]


def test_an_answer_over_the_bound_of_one_is_a_lie() -> None:
    """A length of 512 MiB and one byte, of which nothing needs to come."""
    prefix = (2).to_bytes(4, "little") + ((1 << 29) + 1).to_bytes(8, "little")
    with standin_pool() as pool:
        results = sorted(
            pool.run(jobs([ANSWER, {"do": "raw", "hex": prefix.hex()}, ANSWER])),
            key=lambda result: result.job.id,
        )
    assert manners(results) == ["ok", "crash protocol confirmed", "ok"]
