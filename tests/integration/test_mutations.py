"""Mutants on real frameworks: most are legal, the same build agrees on all, and they find what samples do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from bot.oracle.compare import Comparator
from bot.programs.mutation.known import Known
from bot.programs.mutation.signature_source import signatures_of
from bot.programs.mutation.signatures import Signatures
from bot.programs.mutation.source import MutationSource
from bot.programs.opinfo_source import OpenWorker, OpInfoSource
from bot.programs.source import SourceCounts, SourcedProgram, SourceEntry, SourceRequest
from bot.programs.source_cache import SourceCache
from bot.targets.environment import Environment
from bot.targets.job import Job, PoolTarget
from bot.targets.launcher import open_worker
from bot.targets.pool import Pool
from bot.targets.target import parse_target

LABELS = ["torch==2.13.0:cpu", "torch==2.13.0:cpu#2"]
OPS = ("nn.functional.softplus", "sum", "nn.functional.max_pool2d", "index_select")
EACH = 60


@pytest.fixture(scope="module")
def target(torch_environment: Environment) -> PoolTarget:
    return PoolTarget(parse_target("torch==2.13.0:cpu"), torch_environment)


@pytest.fixture(scope="module")
def opener(target: PoolTarget) -> OpenWorker:
    return lambda: open_worker(target)


@pytest.fixture(scope="module")
def signatures(opener: OpenWorker, tmp_path_factory: pytest.TempPathFactory) -> Signatures:
    cache = SourceCache(tmp_path_factory.mktemp("signatures"))
    read = signatures_of(opener, "test", cache)

    def nobody() -> None:
        raise AssertionError("the cache has them")

    assert signatures_of(nobody, "test", cache) == read  # type: ignore[arg-type]
    return read


@pytest.fixture(scope="module")
def mutants(
    opener: OpenWorker, signatures: Signatures, tmp_path_factory: pytest.TempPathFactory
) -> list[SourcedProgram]:
    made = MutationSource(0, lambda op: Known(signatures))
    cache = SourceCache(tmp_path_factory.mktemp("cache"))
    with OpInfoSource(opener, "test", cache) as source:
        requests = [
            SourceRequest(SourceEntry("opinfo", op, group=op), kinds=("sample",)) for op in OPS
        ]
        for program in source.programs(requests, SourceCounts()):
            made.offer(program)
    counts = SourceCounts()
    return [program for op in OPS for program in made.programs(op, EACH, counts)]


@pytest.fixture(scope="module")
def pool(target: PoolTarget) -> Iterator[Pool]:
    with Pool([target, target]) as opened:
        yield opened


def test_what_pytorch_says_of_its_parameters(signatures: Signatures) -> None:
    """Of native_functions.yaml and torch/nn/functional.py of the release."""
    softplus = {p.name: p.type for p in signatures.parameters("nn.functional.softplus")}
    assert softplus == {"self": "Tensor", "beta": "Scalar", "threshold": "Scalar"}
    pool2d = {p.name: p.type for p in signatures.parameters("nn.functional.max_pool2d")}
    assert (pool2d["kernel_size"], pool2d["ceil_mode"]) == ("int[2]", "bool")
    resize = {p.name: p.type for p in signatures.parameters("nn.functional.interpolate")}
    assert (resize["scale_factor"], resize["antialias"]) == ("float[]?", "bool")
    assert signatures.name_of("Tensor.sum", 1) == "dim"


def test_most_mutants_are_legal_and_one_build_agrees_on_all(
    pool: Pool, mutants: list[SourcedProgram]
) -> None:
    assert Counter(program.op for program in mutants) == dict.fromkeys(OPS, EACH)
    comparator = Comparator(LABELS, ["torch", "torch"], ["one", "one"])
    statuses: Counter[str] = Counter()
    for result in pool.run([Job(i, program.blob) for i, program in enumerate(mutants)]):
        program = mutants[result.job.id]
        assert comparator.compare(program, result.outcomes).mismatches == (), program.op
        statuses[result.outcomes[0].decode().status] += 1
    assert statuses["ok"] > 0.55 * len(mutants)
    assert statuses["exception"] > 0.03 * len(mutants)  # illegal arguments are tried too
    assert statuses["refused"] + statuses["crash"] + statuses["hang"] == 0
