"""Mutants: valid whatever is mutated, the same for the same seed, and what each mutator promises."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.programs.builder import ProgramBuilder
from bot.programs.draft import Draft
from bot.programs.mutation.known import Known
from bot.programs.mutation.layouts import channels_last, mutate_layouts
from bot.programs.mutation.novelty import Novelty, components_of, layout_class, score
from bot.programs.mutation.op_mutator import MAX_BYTES, Mutator, OpMutator
from bot.programs.mutation.scalars import mutate_scalars
from bot.programs.mutation.sequences import mutate_sequences
from bot.programs.mutation.setbacks import Setbacks
from bot.programs.mutation.signatures import Parameter, Signatures, read_signatures
from bot.programs.mutation.sizes import mutate_sizes, resized
from bot.programs.mutation.source import HELD_BACK, MutationSource
from bot.programs.mutation.special import special_numbers
from bot.programs.mutation.values import mutate_values, thresholds
from bot.programs.program import decode, digest
from bot.programs.source import SourceCounts, SourcedProgram


def softplus() -> bytes:
    builder = ProgramBuilder("nn.functional.softplus")
    x = builder.tensor("x", np.linspace(-2, 2, 6, dtype=np.float32), requires_grad=True)
    result = builder.call("nn.functional.softplus", x, beta=4, threshold=1.5)
    builder.output(result)
    builder.backward(result, np.ones(6, np.float32))
    return builder.blob()


def convolution() -> bytes:
    builder = ProgramBuilder("nn.functional.conv2d")
    x = builder.tensor("x", np.ones((2, 3, 5, 5), np.float32), requires_grad=True)
    weight = builder.tensor("weight", np.ones((4, 3, 3, 3), np.float32), requires_grad=True)
    bias = builder.tensor("bias", np.ones(4, np.float32))
    result = builder.call(
        "nn.functional.conv2d", x, weight, bias, stride=(2, 1), padding="same", groups=1
    )
    builder.output(result)
    return builder.blob()


def indexing() -> bytes:
    builder = ProgramBuilder("gather")
    x = builder.tensor("x", np.arange(12, dtype=np.float64).reshape(3, 4))
    index = builder.tensor("index", np.array([[0, 2, 1, 2]]))
    builder.output(builder.call("gather", x, -2, index))
    return builder.blob()


def module() -> bytes:
    builder = ProgramBuilder("nn.BatchNorm1d")
    made = builder.module(
        "nn.BatchNorm1d", 3, state={"running_mean": np.zeros(3, np.float32)}, affine=False
    )
    x = builder.tensor("x", np.ones((2, 3), np.float32), requires_grad=True)
    builder.output(builder.call("nn.Module.__call__", made, x))
    return builder.blob()


def odd() -> bytes:
    """Complex with a conj bit and no dimension, bool, empty, a view, a list of tensors, and a dtype argument."""
    builder = ProgramBuilder("stack")
    z = builder.tensor("z", np.array(1 + 2j, np.complex64), conj=True)
    flags = builder.tensor("flags", np.array([True, False]))
    empty = builder.tensor("empty", np.zeros((0, 3), np.float16))
    builder.tensor("base", np.arange(6, dtype=np.float32))
    view = builder.view("view", "base", [2, 2], [3, 1], offset=1)
    builder.call("stack", [z, flags, empty], 0, result="s")
    builder.output(builder.call("sum", view, dtype={"dtype": "float64"}, dim=[0, 1]))
    return builder.blob()


BASES = (softplus, convolution, indexing, module, odd)
SIGNATURES = Signatures(
    {
        "nn.functional.softplus": [
            [
                Parameter(name="self", type="Tensor"),
                Parameter(name="beta", type="Scalar", required=False),
                Parameter(name="threshold", type="Scalar", required=False),
            ]
        ],
        "sum": [
            [Parameter(name="self", type="Tensor"), Parameter(name="dim", type="int[1]?")],
            [Parameter(name="self", type="Tensor")],
        ],
    }
)


def mutants(blob: bytes, count: int, seed: int = 0) -> list[bytes]:
    made = OpMutator("op", [(digest(blob), blob)], Known(SIGNATURES), seed).mutants()
    return [next(made).blob for _ in range(count)]


@pytest.mark.parametrize("base", BASES)
def test_every_mutant_is_a_program_and_none_changes_what_it_is_made_of(base: Any) -> None:
    blob = base()
    before = bytes(blob)
    op = decode(blob)[0].op
    for mutant in mutants(blob, 300):
        program, _ = decode(mutant)
        assert (program.op, program.origin.source, program.origin.kind) == (
            op,
            "mutation",
            "sample",
        )
        assert len(mutant) <= MAX_BYTES
    assert blob == before


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(BASES))
def test_the_same_seed_gives_the_same_mutants(seed: int, base: Any) -> None:
    assert mutants(base(), 20, seed) == mutants(base(), 20, seed)


def test_another_seed_gives_others() -> None:
    assert mutants(softplus(), 20, 1) != mutants(softplus(), 20, 2)


def test_mutants_reach_most_settings_soon() -> None:
    """Each of these is one setting that a fault may need; a few hundred mutants of one sample must have them all."""
    seen: set[str] = set()
    for mutant in mutants(softplus(), 300):
        seen.update(components_of(Draft(mutant), Known(SIGNATURES)))
    wanted = (
        "x:nan-one x:inf-one x:zero-one x:minus-zero x:constant x:halves x:float64 x:float16 x:-1=0 x:-1=17 "
        "x:rank=0 x:rank=2 x:layout=gaps x:layout=expanded x:layout=contiguous+offset arg:threshold=0.0 arg:beta=0.5 "
        "arg:beta=1.0"
    )
    assert [what for what in wanted.split() if what not in seen] == []


def test_each_mode_gets_the_numbers_of_its_arguments_soon() -> None:
    bases: list[tuple[str, bytes]] = []
    for mode in ("nearest", "linear", "cubic"):
        builder = ProgramBuilder("resize")
        x = builder.tensor("x", np.ones((1, 2, 4), np.float32))
        builder.output(builder.call("resize", x, scale=1.7, mode=mode))
        bases.append((digest(builder.blob()), builder.blob()))
    made = OpMutator("resize", bases, Known(), 0).mutants()
    seen: set[Any] = set()
    for mutant in [next(made) for _ in range(250)]:
        (call, *_) = decode(mutant.blob)[0].calls
        if call.kwargs.get("scale") == 1.03:
            seen.add(call.kwargs.get("mode"))
    assert {"nearest", "linear", "cubic"} <= seen


def apply(mutator: Mutator, blob: bytes, seed: int) -> tuple[Draft, str | None]:
    draft = Draft(blob)
    known = Known(SIGNATURES)
    known.learn(draft)
    return draft, mutator(draft, known, Random(seed))


def test_numbers_lie_at_an_arguments_threshold_and_at_quotients() -> None:
    found = thresholds(Draft(softplus()), Known(SIGNATURES))
    # beta = 4 and threshold = 1.5: the switch is at beta * x = 1.5, which is x = 0.375.
    assert {4.0, 1.5, 6.0, 0.375, -4.0, -1.5} <= set(found)


def test_some_mutant_lies_on_both_sides_of_where_softplus_switches() -> None:
    for seed in range(200):
        draft, label = apply(mutate_values, softplus(), seed)
        if label == "values/x/thresholds":
            values = draft.array("x")
            if (values < 0.375).any() and ((values > 0.375) & (values < 1.5)).any():
                return
    pytest.fail("no mutant in 200")


@pytest.mark.parametrize("seed", range(40))
def test_a_layout_never_changes_the_values_unless_it_repeats_them(seed: int) -> None:
    before = Draft(convolution())
    draft, label = apply(mutate_layouts, convolution(), seed)
    assert label is not None
    if "/one-" in label:
        return
    for name in ("x", "weight", "bias"):
        now, old = draft.array(name), before.array(name)
        assert now.reshape(-1)[: old.size].tolist() == old.reshape(-1).tolist()


def test_images_of_one_channel_stay_related_and_one_is_channels_last() -> None:
    for seed in range(200):
        draft, label = apply(mutate_layouts, convolution(), seed)
        if label == "layouts/weight/one-channel":
            assert draft.tensors["x"].shape == [2, 1, 5, 5]
            # The NHWC strides of 4, 1, 3, 3: C*H*W, 1, W*C, C.
            assert draft.tensors["weight"].strides == [9, 1, 3, 1]
            return
    pytest.fail("no mutant in 200")


def test_channels_last_strides() -> None:
    # The NHWC strides of N, C, H, W = 2, 3, 4, 5: C*H*W, 1, W*C, C.
    assert channels_last([2, 3, 4, 5]) == [60, 1, 15, 3]
    assert channels_last([2, 3]) is None
    draft = Draft(convolution())
    draft.put("x", draft.array("x"), strides=channels_last([2, 3, 5, 5]))
    assert layout_class(draft.tensors["x"]) == "channels-last"


@pytest.mark.parametrize("seed", range(60))
def test_what_is_resized_together_keeps_its_relations(seed: int) -> None:
    draft, label = apply(mutate_sizes, convolution(), seed)
    if label is None or not label.startswith("sizes/together"):
        return
    shapes = [draft.tensors[name].shape for name in ("x", "weight", "bias")]
    assert shapes[0][1] == shapes[1][1]  # input channels
    assert shapes[1][0] == shapes[2][0]  # output channels
    assert all(entry.gradient is None for entry in draft.backward)


def test_indices_stay_within_a_shorter_dimension() -> None:
    for seed in range(200):
        draft, label = apply(mutate_sizes, indexing(), seed)
        length = draft.tensors["x"].shape[:1]
        if label == "sizes/together/2" and length == [2]:
            assert draft.array("index").max() < 2
            return
    pytest.fail("no mutant in 200")


def test_resized_repeats_and_cuts() -> None:
    assert resized(np.array([[1, 2, 3]]), [2, 2]).tolist() == [[1, 2], [1, 2]]
    assert resized(np.array([1, 2]), [5]).tolist() == [1, 2, 1, 2, 1]
    assert resized(np.zeros((0, 2)), [0, 3]).shape == (0, 3)
    assert resized(np.zeros(0, np.int64), [3]).shape == (3,)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int64"]
)
def test_special_numbers_are_what_the_dtype_holds(dtype: str) -> None:
    numbers = special_numbers(dtype)
    draft = Draft(softplus())
    draft.put("x", np.array(list(numbers.values())), dtype)
    held = dict(zip(numbers, draft.array("x").tolist(), strict=True))
    if "int" in dtype:
        assert held == numbers
    else:
        assert np.isnan(held["nan"])
        assert held["inf"] == np.inf
        assert np.signbit(held["minus-zero"])
        assert 0 < held["subnormal"] < held["tiny"] < 1e-4
        assert np.isfinite(held["max"])


def test_the_extremes_of_float32() -> None:
    # IEEE 754 binary32.
    numbers = special_numbers("float32")
    assert numbers["max"] == float.fromhex("0x1.fffffep127")
    assert numbers["tiny"] == 2.0**-126
    assert numbers["subnormal"] == 2.0**-149


def test_a_number_becomes_a_tensor_only_where_one_may_stand() -> None:
    """Neither the samples nor the schema let softplus' beta be a tensor; gather's index is no number."""
    for seed in range(50):
        assert apply(mutate_scalars, softplus(), seed)[1] is None
        assert apply(mutate_scalars, indexing(), seed)[1] is None


def test_a_view_before_the_op_hands_it_the_same_values() -> None:
    labels: set[str | None] = set()
    for seed in range(80):
        draft, label = apply(mutate_sequences, convolution(), seed)
        labels.add(label)
        if label == "sequences/view-transpose":
            (view, call) = draft.calls
            name = view.args[0]["ref"]
            assert view.args[1:] == [-1, -2]
            assert {"ref": view.result} in call.args
            original = Draft(convolution()).array(name)
            assert np.swapaxes(draft.array(name), -1, -2).tolist() == original.tolist()
    assert {"sequences/view-slice", "sequences/view-transpose", "sequences/twice"} <= labels


def test_a_module_runs_in_its_other_mode() -> None:
    for seed in range(80):
        draft, label = apply(mutate_sequences, module(), seed)
        if label == "sequences/eval":
            assert [call.fn for call in draft.calls] == [
                "nn.BatchNorm1d", "nn.Module.eval", "nn.Module.__call__",
            ]  # fmt: skip
            return
    pytest.fail("no mutant in 80")


def test_parameters_that_were_never_given_together_exclude_each_other() -> None:
    known = Known()
    for kwargs in (
        {"size": 3, "mode": "a"},
        {"size": 4, "mode": "b"},
        {"scale": 2, "mode": "a"},
        {"scale": 3, "size": None},
    ):
        builder = ProgramBuilder("resize")
        builder.output(builder.call("resize", **kwargs))
        known.learn(Draft(builder.blob()))
    builder = ProgramBuilder("resize")
    builder.output(builder.call("resize", size=3, mode="a"))
    (call,) = Draft(builder.blob()).calls
    assert known.excluded(call, "scale") == {"size"}
    assert known.excluded(call, "unheard") == set()


def test_novelty_counts_a_new_component_above_new_pairs() -> None:
    novelty = Novelty()
    novelty.add(["a", "b"])
    novelty.add(["c"])
    assert (novelty.components, novelty.pairs) == (3, 1)
    assert score(novelty.new_pairs(["a", "b"])) == 0
    assert score(novelty.new_pairs(["a", "c"])) == 1
    assert score(novelty.new_pairs(["d"])) > score(novelty.new_pairs(["a", "b", "c"]))


def test_what_fails_often_is_held_back_and_its_neighbourhood_is_not() -> None:
    setbacks = Setbacks()
    for _ in range(4):
        assert not setbacks.holds_back(["nan"])
        setbacks.record(["nan"], failed=True, died=False)
        setbacks.record(["other"], failed=False, died=False)
    held = [setbacks.holds_back(["nan", "other"]) for _ in range(16)]
    assert held.count(False) == 2
    assert not setbacks.holds_back(["other"])


def test_what_fails_seldom_goes_on() -> None:
    setbacks = Setbacks()
    for number in range(20):
        setbacks.record(["transposed"], failed=number < 4, died=False)
    assert not setbacks.holds_back(["transposed"])


def test_a_death_weighs_more() -> None:
    setbacks = Setbacks()
    setbacks.record(["zero", "float32"], failed=True, died=True)
    assert not setbacks.holds_back(["zero"])
    setbacks.record(["zero", "float32"], failed=True, died=True)
    for _ in range(20):
        setbacks.record(["float32"], failed=False, died=False)
    assert setbacks.holds_back(["zero", "float32"])
    assert not setbacks.holds_back(["float32"])


def sourced(blob: bytes) -> SourcedProgram:
    return SourcedProgram(blob, digest(blob), decode(blob)[0].op)


def test_a_source_counts_and_never_gives_a_program_twice() -> None:
    source, counts = MutationSource(0, lambda op: Known()), SourceCounts()
    base = sourced(softplus())
    source.offer(base)
    made = [*source.programs(base.op, 50, counts), *source.programs(base.op, 50, counts)]
    assert len({program.digest for program in made} - {base.digest}) == 100
    assert (counts.cases, counts.programs, counts.skipped) == (100, 100, {})
    assert list(source.programs("unheard", 5, counts)) == []


def test_a_source_holds_back_mutants_of_what_fails() -> None:
    source, counts = MutationSource(0, lambda op: Known()), SourceCounts()
    base = sourced(softplus())
    source.offer(base)
    source.note(base.digest, failed=True, died=False)
    made = list(source.programs(base.op, 80, counts))
    assert len(made) == 10  # one in eight
    assert counts.skipped == {HELD_BACK: 70}


def test_signatures_are_read_as_hostile_data() -> None:
    text = b'{"add": [[{"name": "self", "type": "Tensor"}, {"name": "alpha", "type": "Scalar", "required": false}]]}'
    signatures = read_signatures(text)
    assert signatures is not None
    assert signatures.name_of("add", 1) == "alpha"
    assert signatures.name_of("add", 2) == "2"
    assert [p.name for p in signatures.optional("add")] == ["alpha"]
    assert read_signatures(b'{"add": [[{"type": "Tensor"}]]}') is None
    assert read_signatures(b"[]") is None
