"""Programs of PyTorch's own suite, traced in the real release and run by a real worker."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from bot.programs.opinfo_source import OpenWorker, OpInfoSource
from bot.programs.program import Program, decode
from bot.programs.source import SourceCounts, SourcedProgram, SourceEntry, SourceRequest
from bot.programs.source_cache import SourceCache
from bot.programs.transform import with_dtype
from bot.targets.environment import Environment
from bot.targets.job import Job, PoolTarget
from bot.targets.launcher import open_worker
from bot.targets.outcome import Outcome
from bot.targets.pool import Pool
from bot.targets.target import parse_target

Traced = list[tuple[SourcedProgram, Program]]
Trace = Callable[..., Traced]


@pytest.fixture(scope="module")
def target(torch_environment: Environment) -> PoolTarget:
    return PoolTarget(parse_target("torch==2.13.0:cpu"), torch_environment)


@pytest.fixture(scope="module")
def opener(target: PoolTarget) -> OpenWorker:
    return lambda: open_worker(target)


@pytest.fixture(scope="module")
def source(opener: OpenWorker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpInfoSource]:
    with OpInfoSource(opener, "test", SourceCache(tmp_path_factory.mktemp("cache"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def pool(target: PoolTarget) -> Iterator[Pool]:
    with Pool([target]) as opened:
        yield opened


def entry_of(source: OpInfoSource, name: str, variant: str = "") -> SourceEntry:
    return next(e for e in source.entries() if (e.name, e.variant) == (name, variant))


@pytest.fixture(scope="module")
def trace(source: OpInfoSource) -> Trace:
    def traced(name: str, variant: str = "", **request: object) -> Traced:
        entry = entry_of(source, name, variant)
        fields = {"kinds": ("sample",), **request}
        found = source.programs([SourceRequest(entry, **fields)], SourceCounts())  # pyright: ignore
        return [(program, decode(program.blob)[0]) for program in found]

    return traced


def run(pool: Pool, programs: Traced) -> list[Outcome]:
    jobs = [Job(index, program.blob, program.op) for index, (program, _) in enumerate(programs)]
    results = {result.job.id: result.outcomes[0].decode() for result in pool.run(jobs)}
    return [results[index] for index in range(len(jobs))]


def calls_of(programs: Traced) -> set[tuple[str, ...]]:
    return {tuple(call.fn for call in program.calls) for _, program in programs}


@pytest.mark.parametrize(
    ("name", "group", "calls"),
    [
        ("nn.functional.softplus", "nn.functional.softplus", {("nn.functional.softplus",)}),
        # An OpInfo named rand_like calls randn_like: the op is the traced call.
        ("rand_like", "randn_like", {("randn_like",)}),
        ("nn.functional.conv2d", "nn.functional.conv2d", {("nn.functional.conv2d",)}),
        ("T", "Tensor.T", {("Tensor.T.__get__",)}),
    ],
)
def test_function_form(trace: Trace, name: str, group: str, calls: set[tuple[str, ...]]) -> None:
    programs = trace(name, forms=("function",))
    assert calls_of(programs) == calls
    assert {program.op for program, _ in programs} == {group}


def test_all_forms_of_add_are_one_op(trace: Trace) -> None:
    programs = trace("add")
    assert calls_of(programs) == {("add",), ("Tensor.add",), ("clone", "Tensor.add_")}
    assert {program.op for program, _ in programs} == {"add"}
    in_place = [p for _, p in programs if p.origin.form == "inplace"]
    assert not any(p.origin.broadcasts_input for p in in_place)
    assert all(p.backward for p in in_place)


def test_programs_run_and_give_gradients(trace: Trace, pool: Pool) -> None:
    for name in ("add", "nn.functional.softplus", "cumsum", "nn.Conv2d", "linalg.svd", "where"):
        programs = trace(name)
        for (_, program), outcome in zip(programs, run(pool, programs), strict=True):
            assert outcome.status == "ok", (name, outcome.error)
            leaves = {tensor.name for tensor in program.tensors if tensor.requires_grad}
            found = {tensor.name for tensor in outcome.tensors if tensor.role == "gradient"}
            assert not program.backward or leaves <= found | set(outcome.absent)


def test_output_gradients_are_random_and_have_the_outputs_shape(trace: Trace, pool: Pool) -> None:
    programs = [pair for pair in trace("mul", forms=("function",)) if pair[1].backward]
    for (source_program, program), outcome in zip(programs, run(pool, programs), strict=True):
        (gradient,) = [t for t in program.tensors if t.name == program.backward[0].gradient]
        (output,) = [t for t in outcome.tensors if t.role == "output"]
        assert tuple(gradient.shape) == output.array.shape
        _, data = decode(source_program.blob)
        storage = program.storages[gradient.storage]
        values = np.frombuffer(data, np.float32, storage.nbytes // 4, storage.offset)
        assert values.size < 2 or len(set(values.tolist())) > 1


def test_views_that_overlap_come_through(trace: Trace, pool: Pool) -> None:
    """torch.isfinite's reference inputs hold non-contiguous and expanded tensors."""
    programs = trace("abs", kinds=("reference",), forms=("function",))
    small = [(s, p) for s, p in programs if len(s.blob) < 1 << 16]
    layouts = {
        "expanded": any(0 in t.strides and max(t.shape) > 1 for _, p in small for t in p.tensors),
        "offset": any(t.offset for _, p in small for t in p.tensors),
        "strided": any(t.strides and t.strides[-1] > 1 for _, p in small for t in p.tensors),
    }
    assert layouts["expanded"] or layouts["strided"]
    for (source_program, program), outcome in zip(small, run(pool, small), strict=True):
        spec = program.inputs()[0]
        _, data = decode(source_program.blob)
        storage = program.storages[spec.storage]
        flat = np.frombuffer(data, np.float32, storage.nbytes // 4, storage.offset)
        view = np.lib.stride_tricks.as_strided(
            flat[spec.offset :], spec.shape, [4 * stride for stride in spec.strides]
        )
        (output,) = [t for t in outcome.tensors if t.role == "output"]
        np.testing.assert_array_equal(output.array, np.abs(view))


def test_a_conjugate_view_keeps_its_bit(trace: Trace, pool: Pool) -> None:
    programs = trace("conj_physical", dtypes=("complex64",), forms=("function",))
    assert programs
    assert {outcome.status for outcome in run(pool, programs)} == {"ok"}


def test_module_state_is_what_the_module_had(trace: Trace, pool: Pool) -> None:
    programs = trace("nn.Linear")
    for (source_program, program), outcome in zip(programs, run(pool, programs), strict=True):
        assert [call.fn for call in program.calls] == ["nn.Linear", "nn.Module.__call__"]
        names = program.state["r0"]
        _, data = decode(source_program.blob)

        def array(name: str, program: Program = program, data: memoryview = data) -> np.ndarray:
            spec = next(t for t in program.tensors if t.name == name)
            storage = program.storages[spec.storage]
            flat = np.frombuffer(data, np.float32, storage.nbytes // 4, storage.offset)
            return flat.reshape(spec.shape).astype(np.float64)

        expected = array("input") @ array(names["weight"]).T
        if "bias" in names:
            expected = expected + array(names["bias"])
        (output,) = [t for t in outcome.tensors if t.role == "output"]
        np.testing.assert_allclose(output.array, expected, rtol=1e-5, atol=1e-5)
        gradients = {t.name for t in outcome.tensors if t.role == "gradient"}
        assert {"r0.weight", "input"} <= gradients


def test_batch_norm_in_both_modes(trace: Trace) -> None:
    programs = trace("nn.BatchNorm1d")
    modes = {("nn.Module.eval" in [call.fn for call in program.calls]) for _, program in programs}
    assert modes == {True, False}
    assert all("r0" in p.state or not p.calls[0].kwargs.get("affine", True) for _, p in programs)


def test_error_inputs_raise_what_they_say(trace: Trace, pool: Pool) -> None:
    for name in ("cat", "nn.functional.conv2d", "gather", "nn.RNNCell"):
        programs = trace(name, kinds=("error",))
        assert programs, name
        for (_, program), outcome in zip(programs, run(pool, programs), strict=True):
            assert program.backward == []
            assert program.outputs
            assert program.origin.kind == "error"
            assert outcome.status == "exception"
            assert outcome.error is not None
            assert outcome.error.type == program.origin.expected_error


def test_origin_facts(trace: Trace) -> None:
    assert all(p.origin.random for _, p in trace("randn", forms=("function",)) if _elements(p))
    assert all(p.origin.uninitialised for _, p in trace("empty_like", forms=("function",)))
    assert any(p.origin.gauge for _, p in trace("svd", forms=("function",)))
    assert not any(p.origin.random or p.origin.uninitialised for _, p in trace("add"))


def _elements(program: Program) -> bool:
    return 0 not in program.calls[0].args


@pytest.mark.parametrize(
    "dtype",
    "float64 float16 bfloat16 int64 int32 int8 uint8 bool complex64".split(),
)
def test_dtypes(trace: Trace, pool: Pool, dtype: str) -> None:
    programs = trace("add", dtypes=(dtype,), forms=("function",))
    assert programs
    assert any(t.dtype == dtype for _, program in programs for t in program.tensors)
    differentiable = dtype.startswith(("float", "bfloat", "complex"))
    assert any(program.backward for _, program in programs) == differentiable
    assert {outcome.status for outcome in run(pool, programs)} == {"ok"}


def test_the_float64_witness_runs(trace: Trace, pool: Pool) -> None:
    narrow = trace("nn.functional.softplus", forms=("function",))
    wide = [
        (SourcedProgram(blob, s.digest, s.op), decode(blob)[0])
        for s, _ in narrow
        for blob in [with_dtype(s.blob)]
    ]
    for one, other in zip(run(pool, narrow), run(pool, wide), strict=True):
        (low,) = [t.array for t in one.tensors if t.role == "output"]
        (high,) = [t.array for t in other.tensors if t.role == "output"]
        assert high.dtype == np.float64
        np.testing.assert_allclose(low, high, rtol=1e-5, atol=1e-6)


def test_the_same_request_gives_the_same_bytes(opener: OpenWorker) -> None:
    """30 entries chosen by a fixed seed, in two processes and in opposite orders.

    Error inputs of amin, cat and gather are tensors that were never written: their bytes once were what memory held.
    """
    with OpInfoSource(opener, "test") as source:
        entries = [e for e in source.entries() if "float32" in e.dtypes]
        chosen = random.Random(20).sample(entries, 30)
        chosen += [e for e in entries if e.name in ("amin", "cat", "gather") and e not in chosen]
        first = {(e.name, e.variant): _digests(source, e) for e in chosen}
    with OpInfoSource(opener, "test") as source:
        second = {(e.name, e.variant): _digests(source, e) for e in reversed(chosen)}
    assert first == second
    assert sum(len(digests) for digests in first.values()) > 100


def test_no_reference_input_is_lost(source: OpInfoSource) -> None:
    """The suite itself cannot make some of these with gradients; they once ended the others, too."""
    for name in ("addcmul", "clamp", "where"):
        counts = SourceCounts()
        request = SourceRequest(entry_of(source, name), kinds=("reference",), forms=("function",))
        programs = list(source.programs([request], counts))
        assert counts.skipped == {}
        assert counts.expressed == counts.cases >= len(programs) > 10


def test_what_cannot_be_written_is_counted(source: OpInfoSource) -> None:
    counts = SourceCounts()
    request = SourceRequest(entry_of(source, "sparse.sampled_addmm"), kinds=("sample",))
    assert list(source.programs([request], counts)) == []
    assert counts.cases == counts.skipped["sparse_csr tensor"] > 0


def test_another_seed_gives_other_bytes(source: OpInfoSource) -> None:
    entry = entry_of(source, "add")
    assert _digests(source, entry) != _digests(source, entry, seed=1)


def _digests(source: OpInfoSource, entry: SourceEntry, seed: int = 0) -> list[str]:
    request = SourceRequest(entry, kinds=("sample", "error"), seed=seed)
    return [program.digest for program in source.programs([request], SourceCounts())]


def test_names_of_the_real_index(source: OpInfoSource) -> None:
    index = source.index()
    assert index.resolve("softplus") == "nn.functional.softplus"
    assert index.resolve("conv2d") == "nn.functional.conv2d"
    names = {entry.name for entry in index.entries_of("nn.functional.conv2d")}
    assert {"nn.functional.conv2d", "nn.Conv2d"} <= names
    assert {entry.name for entry in index.entries_of("randn_like")} == {"randn_like", "rand_like"}
    for entry in source.entries():
        assert entry in index.entries_of(entry.group)


def test_op_groups_name_what_the_release_has(source: OpInfoSource, opener: OpenWorker) -> None:
    """Every irregular name of op_groups.yml exists in the release, so that none is a slip of the pen."""
    from bot.programs.op_groups import op_groups

    with opener() as worker:
        (answer,) = worker.ask({"type": "names"}, until="names", seconds=60)
    known = set(answer[0]["names"])
    short = {name.rsplit(".", 1)[-1] for name in known}
    for name in op_groups().irregular:
        assert name.rsplit(".", 1)[-1] in short or name.startswith(("nn.NLLLoss2d",)), name
