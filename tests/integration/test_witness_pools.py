"""Targets beside a run's own, for real: NumPy, and PyTorch by other code than it takes by default."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from one_call import program
from rich.console import Console

from bot.oracle.witness_targets import WitnessTarget
from bot.progress import Progress
from bot.targets.environment_store import EnvironmentStore
from bot.targets.job import Job
from bot.targets.outcome import Outcome
from bot.targets.resolve import resolve
from bot.witness_pools import WitnessPools
from bot.workshop import Workshop

NEW, OLD = "torch==2.13.0:cpu", "torch==1.12.1:cpu"


@pytest.fixture
def pools(environment_store: EnvironmentStore) -> Iterator[WitnessPools]:
    workshop = Workshop(environment_store, Progress(Console(stderr=True), quiet=True))
    targets = [resolve(label, environment_store) for label in (NEW, OLD)]
    with WitnessPools(targets, [NEW, OLD], workshop, ()) as opened:
        yield opened


def run(target: WitnessTarget, blob: bytes) -> list[Outcome]:
    return [result.outcomes[0].decode() for result in target.rerun([Job(1, blob)])]


def test_numpy_answers(pools: WitnessPools, environment_store: EnvironmentStore) -> None:
    environment_store.prepare("numpy==2.4.6")
    reference = pools.reference()
    assert reference is not None
    assert reference.party.framework == "numpy"
    (outcome,) = run(reference, program("square", np.array([3.0])))
    assert outcome.tensors[0].array.tolist() == [9.0]


def test_paths_reach_other_code_and_give_the_same_result(pools: WitnessPools) -> None:
    """sinh with vectors and without them: the last bit of some differs, and all are right to a few of them."""
    values = np.linspace(-5, 5, 10_000, dtype=np.float32)
    blob = program("sinh", values)
    found = [
        (path.party.label, outcome.tensors[0].array)
        for path in pools.paths(NEW)
        if path.party.label in (f"{NEW}:onednn=off", f"{NEW}:isa=default")
        for outcome in run(path, blob)
    ]
    (first, without_onednn), (second, without_vectors) = found
    assert (first, second) == (f"{NEW}:onednn=off", f"{NEW}:isa=default")
    for array in (without_onednn, without_vectors):
        np.testing.assert_allclose(array, np.sinh(values.astype(np.float64)), rtol=1e-6)
    assert (without_onednn != without_vectors).any()


def test_a_path_that_does_not_start_answers_nothing(pools: WitnessPools) -> None:
    """PyTorch 1.12 has no ``torch.compile``."""
    blob = program("square", np.array([3.0]))
    scripted, compiled = [
        path
        for path in pools.paths(OLD)
        if path.party.label in (f"{OLD}:compile=inductor", f"{OLD}:script")
    ]
    assert run(compiled, blob) == []
    (outcome,) = run(scripted, blob)
    assert outcome.tensors[0].array.tolist() == [9.0]


def test_a_path_that_takes_long_is_not_waited_for(environment_store: EnvironmentStore) -> None:
    """A first function is compiled when a compiling worker starts: no machine does that in a tenth of a second."""
    workshop = Workshop(environment_store, Progress(Console(stderr=True), quiet=True))
    with WitnessPools([resolve(NEW, environment_store)], [NEW], workshop, (), 0.1) as pools:
        (path,) = [path for path in pools.paths(NEW) if "compile" in path.party.label]
        before = time.monotonic()
        assert run(path, program("square", np.array([3.0]))) == []
        assert time.monotonic() - before < 10
