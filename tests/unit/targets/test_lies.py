"""Workers that lie: each lie ends as the liar's own death or one line, at once, and no other lane is blamed."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from standin import ANSWER, manners, run_all, standin_pool, standin_target

from bot.oracle.exact import decoded
from bot.targets.job import Limits
from bot.targets.outcome import RawOutcome
from bot.targets.target import TargetError
from bot.worker.protocol import PREFIX

# Patient, so that a hang would be seen as one.
LIMITS = Limits(program_seconds=20, start_seconds=20)


def framed(text: str) -> str:
    data = text.encode()
    return (PREFIX.pack(len(data), 0) + data).hex()


FIRST_WORDS = {
    "NaN": framed('{"type":"ready","version":NaN}'),
    "a list": framed("[]"),
    "no JSON": framed("ready"),
    "half a character": framed('{"type":"ready","version":"\\ud800"}'),
    "a number of 5,000 digits": framed('{"type":"ready","threads":' + "9" * 5000 + "}"),
    "nested too deep": framed('{"type":"ready","x":' + "[" * 100_000),
    "an outcome": framed('{"type":"outcome","id":0}'),
    "a size of -1": "ff" * 12,
}


@pytest.mark.parametrize("words", FIRST_WORDS)
def test_lies_while_starting_are_one_line(words: str) -> None:
    target = standin_target({"start": f"raw={FIRST_WORDS[words]}"})
    begun = time.monotonic()
    with (
        standin_pool(target, standin_target(), limits=LIMITS) as pool,
        pytest.raises(TargetError) as caught,
    ):
        pool.facts()
    assert time.monotonic() - begun < 15
    assert str(caught.value).startswith(f"target {target.label}: ")
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize("number", ["99", "-1"])
def test_an_outcome_of_a_program_that_was_never_sent(number: str) -> None:
    """It comes before any program, in every worker: whatever this target is asked, it answers falsely."""
    liar = standin_target({"start": f"unasked={number}"})
    begun = time.monotonic()
    with standin_pool(liar, standin_target(), limits=LIMITS) as pool:
        results = run_all(pool, [ANSWER] * 3)
    assert time.monotonic() - begun < 15
    assert manners(results, 0) == ["crash protocol confirmed"] * 3
    assert manners(results, 1) == ["ok"] * 3


LIES = {
    "two ids": '{"id":0,"absent":[],"call":null,"error":null,"id":1,"phase":"backward","status":"no",'
    '"tensors":[],"type":"outcome","values":[]}',
    "NaN": '{"absent":[],"call":NaN,"error":null,"id":0,"phase":"backward","status":"ok","tensors":[],'
    '"type":"outcome","values":[]}',
    "a negative size": '{"absent":[],"call":null,"error":null,"id":0,"phase":"backward","status":"ok",'
    '"tensors":[["output","r",[],"float32",[-1]]],"type":"outcome","values":[]}',
    "more than there is": '{"absent":[],"call":null,"error":null,"id":0,"phase":"backward","status":"ok",'
    '"tensors":[["output","r",[],"float32",[1048576]]],"type":"outcome","values":[]}',
    "nothing else": '{"id":0,"type":"outcome"}',
    "cut short": '{"id":0,"type":"outcome"',
}


@pytest.mark.parametrize("lie", LIES)
def test_an_outcome_that_does_not_add_up_is_a_crash_of_its_own_lane(lie: str) -> None:
    program = {"do": "raw_if", "option": "lies", "hex": framed(LIES[lie])}
    targets = standin_target({"lies": "1"}), standin_target()
    with standin_pool(*targets, limits=LIMITS) as pool:
        (result,) = run_all(pool, [program])
    outcome = decoded(result.outcomes[0])
    assert outcome.status == "crash"
    assert outcome.death is not None
    assert outcome.death.signal == "protocol"
    assert "\n" not in outcome.death.last_words
    assert decoded(result.outcomes[1]).status == "ok"


def test_a_shape_that_no_memory_holds_allocates_nothing() -> None:
    rows = [["output", "r", [], "float64", [1 << 40, 0, 1 << 40]]]
    header = {
        "type": "outcome", "id": 0, "status": "ok", "phase": "backward", "call": None, "error": None,
        "tensors": rows, "values": [], "absent": [],
    }  # fmt: skip
    outcome = decoded(RawOutcome(json.dumps(header).encode(), b""))
    assert outcome.status == "crash" or np.prod(outcome.tensors[0].array.shape) == 0
