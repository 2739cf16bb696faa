"""The pool with a stand-in worker: exact blame, nothing lost, nothing left behind."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standin import (
    ANSWER,
    gone,
    jobs,
    manner,
    manners,
    run_all,
    standin_pool,
    standin_target,
    value,
    wait_until,
)

from bot.targets.job import Job, Limits
from bot.targets.outcome import decode_outcome
from bot.targets.target import TargetError

DEATHS: dict[str, tuple[dict[str, Any], str]] = {
    "abort": ({"do": "die", "signal": "SIGABRT"}, "crash SIGABRT confirmed"),
    "division": ({"do": "die", "signal": "SIGFPE"}, "crash SIGFPE confirmed"),
    "segfault": ({"do": "die", "signal": "SIGSEGV"}, "crash SIGSEGV confirmed"),
    "killed": ({"do": "die", "signal": "SIGKILL"}, "crash SIGKILL confirmed"),
    "exit": ({"do": "exit", "status": 3}, "crash exit 3 confirmed"),
    "exit 0": ({"do": "exit", "status": 0}, "crash exit 0 confirmed"),
    "exit 134": ({"do": "exit", "status": 134}, "crash exit 134 confirmed"),
    "exception": ({"do": "no such thing"}, "crash exit 1 confirmed"),
    "huge sizes": ({"do": "raw", "hex": "ff" * 12}, "crash protocol confirmed"),
    "bad JSON": ({"do": "raw", "hex": "02000000" + "00" * 8 + "7b7b"}, "crash protocol confirmed"),
    "wrong id": ({"do": "wrong_id", "id": 987654}, "crash protocol confirmed"),
    "half a frame": ({"do": "half_frame"}, "crash exit 0 confirmed"),
}


@pytest.fixture(scope="module")
def pool():
    with standin_pool() as pool:
        yield pool


@pytest.fixture(scope="module")
def pair():
    with standin_pool(standin_target(), standin_target({"other": "1"})) as pool:
        yield pool


class TestAnswers:
    def test_every_job_is_answered_by_every_target_with_its_own_value(self, pair):
        programs = [{"do": "answer", "value": index} for index in range(2000)]
        results = run_all(pair, programs)
        assert [value(result, 0) for result in results] == list(range(2000))
        assert [value(result, 1) for result in results] == list(range(2000))

    def test_equal_answers_are_equal_bytes(self, pair):
        (result,) = run_all(pair, [{"do": "answer", "value": 1.5}])
        assert result.outcomes[0] == result.outcomes[1]

    def test_payloads_larger_than_any_buffer(self, pool):
        sizes = [0, 1, 4096, (1 << 20) - 1, 1 << 20, 5_000_000, 3]
        results = run_all(pool, [{"do": "payload", "bytes": size} for size in sizes])
        assert [r.outcomes[0].payload for r in results] == [b"p" * size for size in sizes]

    def test_programs_larger_than_any_buffer(self, pool):
        results = run_all(
            pool, [{"do": "answer", "value": "v" * size} for size in (10, 9_000_000, 20)]
        )
        assert [len(value(result)) for result in results] == [10, 9_000_000, 20]

    def test_a_slow_source_of_jobs_does_not_hold_back_results(self, pool):
        seen: list[float] = []

        def slowly():
            for job in jobs([ANSWER] * 4):
                yield job
                time.sleep(0.2)

        begin = time.monotonic()
        for _ in pool.run(slowly()):
            seen.append(time.monotonic() - begin)
        assert seen[0] < 0.65 < seen[-1]

    @pytest.mark.parametrize("fresh", [False, True])
    def test_a_job_is_run_on_the_targets_that_it_is_for(self, pair, fresh):
        only = [None, frozenset([0]), frozenset([1]), frozenset()]
        asked = [replace(job, only=only[job.id % 4]) for job in jobs([ANSWER] * 8)]
        ran = {
            result.job.id: [decode_outcome(o.header, o.payload).status for o in result.outcomes]
            for result in pair.run(asked, fresh=fresh)
        }
        no = "unsupported"
        rows = [["ok", "ok"], ["ok", no], [no, "ok"], [no, no]]
        assert [ran[number] for number in range(8)] == rows * 2

    def test_time_with_programs_on_their_way_is_counted(self, pair):
        before = [(c.answered, c.busy_seconds) for c in pair.counts()]
        run_all(pair, [ANSWER] * 50)
        for (answered, seconds), counts in zip(before, pair.counts(), strict=True):
            assert counts.answered == answered + 50
            assert counts.busy_seconds > seconds

    def test_no_jobs(self, pool):
        assert run_all(pool, []) == []

    def test_jobs_are_read_only_a_window_ahead(self, pool):
        taken = 0

        def endless():
            nonlocal taken
            for number in range(1_000_000):
                taken += 1
                yield Job(number, b'{"do": "answer"}')

        results = pool.run(endless())
        for _ in range(100):
            next(results)
        results.close()
        assert taken < 5000

    def test_an_id_given_twice_is_refused(self, pool):
        with pytest.raises(ValueError, match="job id 7 was given twice"):
            list(pool.run([Job(7, b'{"do": "answer"}')] * 2))
        assert manners(run_all(pool, [ANSWER])) == ["ok"]

    def test_facts(self, pair):
        facts = pair.facts()
        assert [fact.ready["hello"]["options"] for fact in facts] == [{}, {"other": "1"}]
        assert [(fact.isolation, fact.unisolated) for fact in facts] == [("process", None)] * 2


class TestBlame:
    @pytest.mark.parametrize("death", DEATHS)
    def test_each_way_to_die(self, pool, death):
        program, expected = DEATHS[death]
        assert manners(run_all(pool, [ANSWER, program, ANSWER])) == ["ok", expected, "ok"]

    @given(
        st.lists(st.sampled_from([None, None, None, None, *DEATHS]), min_size=1, max_size=12),
    )
    @settings(max_examples=12, deadline=None)
    def test_at_every_position(self, pool, sequence):
        programs = [ANSWER if name is None else DEATHS[name][0] for name in sequence]
        expected = ["ok" if name is None else DEATHS[name][1] for name in sequence]
        assert manners(run_all(pool, programs)) == expected

    def test_in_the_middle_of_a_long_stream_nothing_is_lost(self, pair):
        programs: list[dict[str, Any]] = [{"do": "answer", "value": n} for n in range(3000)]
        for place in (0, 127, 128, 1500, 1501, 2999):
            programs[place] = {"do": "die", "signal": "SIGABRT"}
        results = run_all(pair, programs)
        for place, result in enumerate(results):
            for target in (0, 1):
                if programs[place]["do"] == "die":
                    assert manner(result, target) == "crash SIGABRT confirmed"
                else:
                    assert value(result, target) == place

    def test_only_one_of_two_targets_dies(self, tmp_path):
        """The other target's outcome of the same program is there."""
        with standin_pool(standin_target(), standin_target({"start": "ok"})) as pool:
            program = {"do": "die_if", "option": "start", "signal": "SIGFPE"}
            (result,) = run_all(pool, [program])
        assert manners([result], 0) == ["ok"]
        assert manners([result], 1) == ["crash SIGFPE confirmed"]

    def test_last_words_are_the_programs_own(self, pool):
        results = run_all(
            pool,
            [
                {"do": "answer", "say": "words of another"},
                {"do": "die", "signal": "SIGABRT", "say": "F1130 check failed: x"},
            ],
        )
        death = results[1].outcomes[0].death
        assert death is not None
        assert death.last_words == "F1130 check failed: x"

    def test_a_worker_killed_from_outside_is_blamed_on_nobody(self, pool):
        """Nothing kills itself with SIGKILL: what the program does alone is its answer."""
        killed = {"do": "die_once", "signal": "SIGKILL"}
        assert manners(run_all(pool, [ANSWER, killed, ANSWER])) == ["ok", "ok", "ok"]
        assert pool.counts()[0].unconfirmed == 1

    def test_a_death_that_does_not_happen_alone_is_not_confirmed(self, pool):
        """``die_once`` dies unless it is the first program of its worker."""
        results = run_all(
            pool, [ANSWER, {"do": "die_once", "signal": "SIGSEGV", "say": "odd"}, ANSWER]
        )
        assert manners(results) == ["ok", "crash SIGSEGV unconfirmed", "ok"]

    def test_a_hang(self, pool):
        results = run_all(pool, [ANSWER, {"do": "hang"}, ANSWER, {"do": "spin"}, ANSWER])
        hang = "hang timeout confirmed"
        assert manners(results) == ["ok", hang, "ok", hang, "ok"]

    def test_printing_without_end_is_a_hang_too(self, pool):
        results = run_all(pool, [ANSWER, {"do": "babble"}, ANSWER])
        assert manners(results) == ["ok", "hang timeout confirmed", "ok"]
        assert results[1].outcomes[0].death.last_words.endswith("babble babble")

    def test_a_frame_that_never_ends_is_a_hang_too(self, monkeypatch):
        monkeypatch.setattr("bot.targets.worker_process.ARRIVING_SECONDS", 0.5)
        with standin_pool() as pool:
            results = run_all(pool, [ANSWER, {"do": "trickle"}, ANSWER])
        assert manners(results) == ["ok", "hang timeout confirmed", "ok"]

    def test_a_worker_that_closes_its_pipe_and_stays(self, pool):
        results = run_all(pool, [{"do": "close_pipe"}, ANSWER])
        assert manners(results) == ["crash protocol confirmed", "ok"]

    def test_slow_programs_are_no_hang_each_has_its_own_time(self, pool):
        """Five programs take 2 s together, over the limit of 1.5 s for one."""
        assert manners(run_all(pool, [{"do": "sleep", "seconds": 0.4}] * 5)) == ["ok"] * 5

    @pytest.mark.parametrize("do", ["eat", "eat_in_child"])
    def test_memory(self, do):
        with standin_pool(limits=Limits(program_seconds=20, memory_bytes=200 << 20)) as pool:
            results = run_all(pool, [ANSWER, {"do": do, "megabytes": 900}, ANSWER])
            assert manners(results) == ["ok", "memory memory confirmed", "ok"]
            assert pool.counts()[0].memory == 1

    def test_address_space_limit(self):
        """RLIMIT_AS makes the allocation itself fail: a MemoryError in the worker."""
        limits = Limits(program_seconds=20, memory_bytes=4 << 30)
        with standin_pool(limits=limits, address_space_bytes={"standin": 512 << 20}) as pool:
            results = run_all(pool, [{"do": "eat", "megabytes": 2000}, ANSWER])
        assert manners(results) == ["crash exit 1 confirmed", "ok"]
        assert results[0].outcomes[0].death.last_words.endswith("MemoryError")

    def test_a_flood_of_words_neither_blocks_nor_fills(self, pool):
        before = psutil.Process().memory_info().rss
        results = run_all(pool, [{"do": "flood", "megabytes": 200}, ANSWER])
        assert manners(results) == ["ok", "ok"]
        assert psutil.Process().memory_info().rss - before < 100 << 20

    def test_an_answer_given_twice_blames_no_other_program(self, pool):
        lies = len(pool.counts()[0].lies)
        results = run_all(pool, [{"do": "twice"}, *[ANSWER] * 5, {"do": "many"}, *[ANSWER] * 5])
        assert manners(results)[:6] == ["ok"] * 6
        assert manners(results)[7:] == ["ok"] * 5
        assert len(pool.counts()[0].lies) > lies

    def test_answering_for_the_previous_program_for_ever_ends(self):
        """It looks like a second answer, which blames nobody, until a fresh worker does it too.

        A pool of its own: a second answer that an earlier test left in the pipe would be the first program's death.
        """
        with standin_pool() as pool:
            results = run_all(pool, [ANSWER, {"do": "wrong_id", "id": 0}, ANSWER])
        assert manners(results) == ["ok", "crash protocol confirmed", "ok"]

    def test_a_second_answer_among_deferred_programs_blames_no_other(self):
        die = {"do": "die", "signal": "SIGFPE", "group": "g"}
        fine, twice = {"do": "answer", "group": "g"}, {"do": "twice", "group": "g"}
        with standin_pool() as pool:
            results = run_all(pool, [die, die, die, twice, fine, twice, fine])
            assert manners(results)[3:] == ["ok"] * 4
            assert pool.counts()[0].deferred == 4

    def test_an_outcome_that_does_not_add_up_is_found_when_looked_into(self, pool):
        from bot.worker.protocol import ProtocolError

        with pytest.raises(ProtocolError):
            decode_outcome(b'{"id":0,"type":"outcome"}', b"")


class TestDeferral:
    def test_after_three_alike_the_group_runs_last_and_needs_no_second_run(self):
        die = {"do": "die", "signal": "SIGFPE", "group": "div", "say": "at 0x7f01 line 12"}
        programs = [die] * 8 + [{"do": "answer", "group": "add"}] * 300
        with standin_pool() as pool:
            order = [result.job.id for result in pool.run(jobs(programs))]
            counts = pool.counts()[0]
            assert sorted(order) == list(range(308))
            assert order[-5:] == [3, 4, 5, 6, 7]
            assert (counts.crashes, counts.alike, counts.deferred) == (8, 5, 5)
            # 1 worker, 3 deaths x 2 runs, 5 x 1; a spare may wait at the end, one more replaces it
            assert counts.starts <= 1 + 3 * 2 + 5 + 2

    def test_all_are_confirmed_and_answers_among_them_are_kept(self):
        die = {"do": "die", "signal": "SIGFPE", "group": "div"}
        fine = {"do": "answer", "group": "div", "value": "fine"}
        with standin_pool(standin_target(), standin_target()) as pool:
            results = run_all(pool, [die, die, die, fine, die, fine, die])
        assert [manner(result) for result in results] == [
            *["crash SIGFPE confirmed"] * 3, "ok", "crash SIGFPE confirmed", "ok", "crash SIGFPE confirmed",
        ]  # fmt: skip

    def test_a_different_death_in_the_group_is_confirmed_by_itself(self):
        die = {"do": "die", "signal": "SIGFPE", "group": "div"}
        other = {"do": "die_once", "signal": "SIGSEGV", "group": "div"}
        with standin_pool() as pool:
            results = run_all(pool, [die, die, die, ANSWER, {**ANSWER, "group": "div"}, other])
        assert manners(results)[-1] == "crash SIGSEGV unconfirmed"

    def test_numbers_and_addresses_do_not_make_deaths_different(self):
        programs = [
            {"do": "die", "signal": "SIGABRT", "group": "g", "say": f"check {n} at 0x{n}f"}
            for n in range(6)
        ]
        with standin_pool() as pool:
            run_all(pool, programs)
            assert pool.counts()[0].alike == 3

    def test_another_group_is_not_put_off(self):
        die = {"do": "die", "signal": "SIGFPE", "group": "div"}
        with standin_pool() as pool:
            run_all(pool, [die, die, die, *[{"do": "answer", "group": "other"}] * 10])
            assert pool.counts()[0].deferred == 0

    def test_a_window_full_of_deferred_jobs_does_not_stop_the_stream(self):
        die = {"do": "die", "signal": "SIGFPE", "group": "g"}
        fine = {"do": "answer", "group": "g"}
        with standin_pool(standin_target(), standin_target()) as pool:
            results = run_all(pool, [die] * 3 + [fine] * 3000 + [ANSWER] * 1000)
        assert manners(results).count("ok") == 4000


class TestFresh:
    def test_each_program_has_its_own_worker(self):
        with standin_pool() as pool:
            results = run_all(pool, [{"do": "attempt", "what": "pid"}] * 4, fresh=True)
            assert len({value(result) for result in results}) == 4

    def test_a_worker_that_has_run_nothing_yet_is_fresh(self):
        with standin_pool() as pool:
            pool.facts()
            pool.run_alone(Job(0, b'{"do": "answer"}'))
            assert pool.counts()[0].starts == 1

    def test_run_alone(self):
        with standin_pool() as pool:
            run_all(pool, [ANSWER])
            result = pool.run_alone(Job(5, b'{"do": "die_once", "signal": "SIGSEGV"}'))
            assert manner(result) == "ok"
            result = pool.run_alone(Job(6, b'{"do": "die", "signal": "SIGSEGV"}'))
            assert manner(result) == "crash SIGSEGV confirmed"
            assert manners(run_all(pool, [ANSWER])) == ["ok"]


class TestViews:
    def test_one_target_alone(self, pair):
        other = pair.only(1)
        (result,) = run_all(other, [{"do": "attempt", "what": "pid"}])
        both = run_all(pair, [{"do": "attempt", "what": "pid"}])[0]
        assert len(result.outcomes) == 1
        assert value(result) == value(both, 1) != value(both, 0)

    def test_stopping_the_pool_stops_a_view(self):
        with standin_pool(standin_target(), standin_target()) as pool:
            results = pool.only(1).run(jobs([ANSWER, {"do": "sleep", "seconds": 1}, ANSWER]))
            next(results)
            with pytest.raises(RuntimeError, match="already running"):
                next(pool.run(jobs([ANSWER])))
            threading.Timer(0.1, pool.stop).start()
            assert list(results) == []

    def test_closing_the_pool_ends_a_view_that_an_error_left_unfinished(self):
        with standin_pool(standin_target(), standin_target()) as pool:
            results = pool.only(1).run(jobs([ANSWER, {"do": "sleep", "seconds": 60}, ANSWER]))
            next(results)
        assert list(results) == []

    def test_renew(self, pair):
        before = value(run_all(pair, [{"do": "attempt", "what": "pid"}])[0])
        pair.renew()
        assert value(run_all(pair, [{"do": "attempt", "what": "pid"}])[0]) != before


class TestStart:
    @pytest.mark.parametrize(
        ("how", "message"),
        [
            (
                "die",
                "died of exit 1 while starting; its last words: no such library: libnothing.so",
            ),
            ("hang", "was not ready after 0.5 s"),
            ("failed", "no framework here"),
        ],
    )
    def test_a_worker_that_does_not_start_is_named(self, how, message):
        limits = Limits(start_seconds=0.5 if how == "hang" else 20)
        with (
            standin_pool(standin_target({"start": how}), limits=limits) as pool,
            pytest.raises(TargetError) as caught,
        ):
            list(pool.run(jobs([ANSWER])))
        assert str(caught.value).startswith(f"target standin==1:cpu:start={how}")
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert pool.counts()[0].starts == (1 if how == "failed" else 2)

    def test_the_other_targets_end_too(self):
        with (
            standin_pool(standin_target(), standin_target({"start": "die"})) as pool,
            pytest.raises(TargetError),
        ):
            list(pool.run(jobs([ANSWER] * 1000)))

    def test_a_start_that_fails_once_is_tried_again(self, tmp_path):
        option = {"start": f"once={tmp_path / 'flag'}"}
        with standin_pool(standin_target(option)) as pool:
            assert manners(run_all(pool, [ANSWER])) == ["ok"]

    def test_no_such_interpreter(self):
        target = standin_target(python=Path("/nowhere/python"))
        with standin_pool(target) as pool, pytest.raises(TargetError, match="/nowhere/python"):
            pool.facts()


def processes() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


class TestEnd:
    def test_stop_from_another_thread(self):
        with standin_pool() as pool:
            results = pool.run(jobs([ANSWER, {"do": "sleep", "seconds": 1}, *[ANSWER] * 50]))
            next(results)
            threading.Timer(0.1, pool.stop).start()
            begin = time.monotonic()
            left = list(results)
            assert time.monotonic() - begin < 0.9
            assert len(left) < 51
            assert manners(run_all(pool, [ANSWER])) == ["ok"]

    def test_closing_the_iterator_while_a_worker_hangs(self):
        with standin_pool(limits=Limits(program_seconds=100)) as pool:
            before = set(threading.enumerate())
            results = pool.run(jobs([ANSWER, {"do": "hang"}, ANSWER]))
            next(results)
            begin = time.monotonic()
            results.close()
            assert time.monotonic() - begin < 2
            assert not [t for t in set(threading.enumerate()) - before if t.name.startswith("lane")]

    def test_closing_the_pool_while_results_are_outstanding(self):
        """An error in the caller's loop keeps its iterator alive; the pool must end all the same."""
        threads = set(threading.enumerate())
        before = processes()
        with standin_pool(limits=Limits(program_seconds=100)) as pool:
            results = pool.run(jobs([ANSWER, {"do": "hang"}, ANSWER]))
            next(results)
        assert processes() <= before
        assert set(threading.enumerate()) <= threads
        assert list(results) == []

    def test_an_error_in_the_source_of_jobs_ends_the_run(self, pool):
        def broken():
            yield from jobs([ANSWER] * 3)
            raise LookupError("no more")

        with pytest.raises(LookupError):
            list(pool.run(broken()))
        assert manners(run_all(pool, [ANSWER])) == ["ok"]

    def test_nothing_is_left(self, tmp_path):
        threads = set(threading.enumerate())
        before = processes()
        fds = len(list(Path("/proc/self/fd").iterdir()))
        with standin_pool(standin_target(), standin_target()) as pool:
            results = run_all(pool, [{"do": "children"}, {"do": "die", "signal": "SIGABRT"}])
            started = value(results[0])
            scratch = pool.facts()[0].ready["home"]
            assert Path(scratch).is_dir()
        assert gone(started)
        assert processes() <= before
        assert set(threading.enumerate()) <= threads
        assert len(list(Path("/proc/self/fd").iterdir())) == fds
        assert wait_until(lambda: not Path(scratch).exists())

    def test_a_killed_workers_children_go_with_it(self, pool):
        results = run_all(pool, [{"do": "children"}, {"do": "die", "signal": "SIGKILL"}, ANSWER])
        assert wait_until(lambda: gone(value(results[0])))

    def test_many_workers_leave_no_descriptors(self):
        with standin_pool() as pool:
            run_all(pool, [{"do": "exit", "status": 1}])
            fds = len(list(Path("/proc/self/fd").iterdir()))
            run_all(pool, [{"do": "exit", "status": 1}] * 10)
            assert len(list(Path("/proc/self/fd").iterdir())) <= fds
