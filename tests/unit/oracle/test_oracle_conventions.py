"""Conventions: each takes away the documented difference, and a fault beside it is still reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from made_outcomes import out, outcome, raised
from pydantic import ValidationError

from bot.oracle.compare import Comparison, compare
from bot.oracle.conventions import TABLE, Conventions, load_conventions
from bot.programs.builder import ProgramBuilder
from bot.programs.program import Origin, digest
from bot.programs.source import SourcedProgram

NAN = float("nan")


def between(frameworks: str, made: SourcedProgram, *outcomes: Any) -> Comparison:
    """A comparison of targets of these frameworks, written with spaces between them."""
    names = frameworks.split()
    labels = [f"{name}=={place}:cpu" for place, name in enumerate(names)]
    return compare(made, outcomes, labels, names)


def made_of(builder: ProgramBuilder, op: str) -> SourcedProgram:
    blob = builder.blob()
    return SourcedProgram(blob, digest(blob), op)


def calling(
    op: str, x: Any, *args: Any, flowing: Any = None, origin: Origin | None = None, **kwargs: Any
) -> SourcedProgram:
    """One call of op on x (float32 for floats, int64 for integers); ``flowing``: the output's gradient."""
    builder = ProgramBuilder(op, origin=origin)
    x = np.asarray(x)
    x = x.astype("f4") if x.dtype.kind == "f" else x
    builder.tensor("x", x, requires_grad=x.dtype.kind == "f")
    passed = [
        builder.tensor(f"t{place}", arg) if isinstance(arg, np.ndarray) else arg
        for place, arg in enumerate(args)
    ]
    result = builder.call(op, {"ref": "x"}, *passed, **kwargs)
    builder.output(result)
    if flowing is not None:
        builder.backward(result, np.asarray(flowing, "f4"))
    return made_of(builder, op)


def gradient(values: Any, name: str = "x"):
    return outcome(("gradient", name, np.asarray(values, "f4")))


def member(path: int, values: Any, dtype: Any):
    return outcome(("output", f"r0[{path}]", np.asarray(values, dtype)))


def differing(comparison: Comparison) -> int:
    """How many elements of the only mismatch differ; 0 without a mismatch."""
    if not comparison.mismatches:
        return 0
    (mismatch,) = comparison.mismatches
    assert mismatch.difference is not None
    return mismatch.difference.differing


# the rules of the table


def test_both_frameworks_must_document_other_values():
    """torch and OneFlow both say that the gradient of abs at 0 is 0; JAX says 1. Any number in [-1, 1] is a subgradient."""
    made = calling("abs", [0.0, 2.0], flowing=[3, 3])
    zero, one = gradient([0, 3]), gradient([3, 3])
    assert differing(between("torch jax", made, zero, one)) == 0
    assert differing(between("torch oneflow", made, zero, one)) == 1
    assert differing(between("torch torch", made, zero, one)) == 1
    assert differing(between("torch numpy", made, zero, one)) == 1


def test_a_side_must_have_the_number_that_its_framework_documents():
    made = calling("abs", [0.0, 2.0], flowing=[3, 3])
    assert differing(between("torch jax", made, gradient([0, 3]), gradient([-3, 3]))) == 1
    assert differing(between("torch jax", made, gradient([3, 3]), gradient([0, 3]))) == 1


def test_other_elements_are_judged_all_the_same():
    made = calling("abs", [0.0, 2.0], flowing=[3, 3])
    assert differing(between("torch jax", made, gradient([0, 3]), gradient([3, 4]))) == 1


def test_what_was_excused_is_counted():
    made = calling("abs", [0.0], flowing=[3])
    assert between("torch jax", made, gradient([0]), gradient([3])).counts.by_convention == 1


def test_a_row_that_excuses_nothing_is_refused():
    row = {"name": "n", "ops": ["abs"], "role": "gradient", "condition": "input_is_zero"}
    with pytest.raises(ValidationError, match="nothing is excused"):
        Conventions.model_validate(
            {"elements": [{**row, "documented": {"torch": "0", "jax": "0"}, "source": "s"}]}
        )


def test_the_table_has_every_difference_of_the_design():
    """What frameworks are known to document differently, each under some heading of the table."""
    text = yaml.safe_dump(yaml.safe_load(TABLE.read_text(encoding="utf-8")), width=10_000).lower()
    for words in (
        "degrees of freedom", "median of an even length", "approximation of gelu", "float to integer",
        "without x64", "abs at 0", "clip at its edges", "norm at 0", "sign of nan",
        "never written", "written twice", "equal elements", "phase", "tf32", "momentum", "overflow",
    ):  # fmt: skip
        assert words in text, words


# contracts


def test_illegal_inputs_bind_those_who_document_pytorchs_interface():
    made = calling("exp", [1.0], origin=Origin(source="opinfo", kind="error"))
    found = between("torch oneflow numpy jax", made, raised(), out([1]), out([2]), out([3]))
    (mismatch,) = found.mismatches
    assert mismatch.kind == "accepts"
    assert mismatch.sides == (("oneflow==1:cpu",), ("torch==0:cpu",)) or mismatch.sides == (
        ("torch==0:cpu",),
        ("oneflow==1:cpu",),
    )


def test_a_framework_with_another_contract_is_held_to_its_own_builds():
    made = calling("exp", [1.0], origin=Origin(source="opinfo", kind="error"))
    alone = between("torch paddle", made, raised(), out([1]))
    assert alone.mismatches == ()
    assert alone.counts.compared == 0
    assert any("illegal" in reason for reason in alone.counts.skipped)
    (mismatch,) = between("torch paddle paddle", made, raised(), raised(), out([1])).mismatches
    assert mismatch.sides == (("paddle==1:cpu",), ("paddle==2:cpu",))


def test_what_every_pytorch_refuses_of_a_mutation_is_illegal():
    mutated = calling("exp", [1.0], origin=Origin(source="mutation"))
    assert between("torch numpy", mutated, raised(), out([1])).mismatches == ()
    sample = calling("exp", [1.0], origin=Origin(source="opinfo"))
    for made, frameworks, outcomes in (
        (sample, "torch numpy", (raised(), out([1]))),
        (mutated, "torch numpy", (raised(phase="backward", call=None), out([1]))),
        (mutated, "torch torch numpy", (raised(), out([1]), out([1]))),
        (mutated, "oneflow numpy", (raised(), out([1]))),
    ):
        assert between(frameworks, made, *outcomes).mismatches[0].kind == "refuses"


# shapes and states


def test_megengine_has_no_scalars():
    made = calling("exp", 1.0)
    assert between("torch megengine", made, out(2.0), out([2.0])).mismatches == ()
    assert between("torch megengine", made, out(2.0), out([3.0])).mismatches[0].kind == "value"
    assert between("torch paddle", made, out(2.0), out([2.0])).mismatches[0].kind == "shape"
    assert between("torch megengine", made, out(2.0), out([[2.0]])).mismatches[0].kind == "shape"
    # A build that has the shape () shows that the other has lost it.
    lost = between("torch megengine megengine", made, out(2.0), out(2.0), out([2.0]))
    assert lost.mismatches[0].kind == "shape"


def test_a_buffer_that_a_framework_does_not_have():
    def module(*buffers):
        return outcome(*buffers, ("output", "r1", np.ones(2, "f4")))

    builder = ProgramBuilder("nn.BatchNorm1d")
    builder.tensor("x", np.ones((2, 2), "f4"))
    builder.module(
        "nn.BatchNorm1d", 2, state={"num_batches_tracked": np.asarray(0), "running_mean": np.ones(2, "f4")}
    )  # fmt: skip
    made = made_of(builder, "nn.BatchNorm1d")
    counted = module(("buffer", "r0.num_batches_tracked", np.asarray(1)))
    moved = module(("buffer", "r0.running_mean", np.full(2, 2, "f4")))
    assert between("torch paddle", made, counted, module()).mismatches == ()
    assert between("torch oneflow", made, counted, module()).mismatches[0].kind == "side-effect"
    assert between("torch paddle", made, moved, module()).mismatches[0].kind == "side-effect"


def test_running_variance_of_n_or_n_minus_1():
    """Batch 1, 3 in one channel: variance 1 over n, 2 over n - 1; began with 1, momentum 0.1: 1.0 and 1.1."""
    builder = ProgramBuilder("nn.functional.batch_norm")
    builder.tensor("x", np.array([[1], [3]], "f4"))
    builder.tensor("mean", np.zeros(1, "f4"))
    builder.tensor("var", np.ones(1, "f4"))
    refs = [{"ref": name} for name in ("x", "mean", "var")]
    builder.output(builder.call("nn.functional.batch_norm", *refs, training=True))
    made = made_of(builder, "nn.functional.batch_norm")

    def var(value):
        return outcome(("side-effect", "var", np.array([value], "f4")))

    assert differing(between("torch paddle", made, var(1.1), var(1.0))) == 0
    assert differing(between("torch paddle", made, var(1.1), var(1.05))) == 1
    assert differing(between("torch paddle", made, var(1.0), var(1.1))) == 1
    assert differing(between("torch oneflow", made, var(1.1), var(1.0))) == 1


# numbers


@pytest.mark.parametrize(
    ("value", "excused"),
    [(NAN, True), (2.0**31, True), (-(2.0**31), False), (-5.0, False), (7.5, False)],
)
def test_float_to_integer_only_where_it_cannot_be_represented(value, excused):
    made = calling("Tensor.int", [value])
    found = between("torch oneflow", made, out([0], "i4"), out([1], "i4"))
    assert (found.mismatches == ()) is excused


@pytest.mark.parametrize(
    ("x", "args", "excused"),
    [([2, 2], (), False), ([2**40, 2**40], (), True), ([2**31, 2**31, 2], (), True)],
)
def test_products_of_integers_only_where_they_overflow(x, args, excused):
    made = calling("prod", np.array(x), *args)
    found = between("torch oneflow", made, out(4, "i8"), out(5, "i8"))
    assert (found.mismatches == ()) is excused


def test_powers_of_integers_only_where_they_overflow():
    made = calling("pow", np.array([2, 3, 10]), 40)
    # 2^40 fits into 64 bits; 3^40 is about 1.2e19, beyond 2^63 of about 9.2e18; so is 10^40.
    assert differing(between("torch numpy", made, out([1, 1, 1], "i8"), out([2, 2, 2], "i8"))) == 1


def test_sign_of_nan():
    made = calling("sign", [NAN, 2.0])
    assert differing(between("torch numpy", made, out([0, 1]), out([NAN, 1]))) == 0
    assert differing(between("torch numpy", made, out([1, 1]), out([NAN, 1]))) == 1
    assert differing(between("torch numpy", made, out([0, 1]), out([NAN, NAN]))) == 1


def test_gradient_of_a_norm_at_0():
    made = calling("linalg.vector_norm", [[0.0, 0.0], [0.0, 2.0]], 2, 1)
    nothing, nans = gradient([[0, 0], [0, 1]]), gradient([[NAN, NAN], [0, 1]])
    assert differing(between("torch jax", made, nothing, nans)) == 0
    assert differing(between("torch jax", made, nothing, gradient([[NAN, 0], [NAN, 1]]))) == 1


# order and ties


@pytest.mark.parametrize("op", ["topk", "kthvalue"])
def test_indices_of_ties(op):
    made = calling(op, [3.0, 1.0, 3.0], 2)
    first, other = member(1, [0, 2], "i8"), member(1, [2, 0], "i8")
    assert differing(between("torch oneflow", made, first, other)) == 0
    assert differing(between("torch oneflow", made, first, member(1, [0, 1], "i8"))) == 1
    assert differing(between("torch oneflow", made, first, member(1, [0, 5], "i8"))) == 1


def test_indices_of_ties_along_a_dimension_in_32_bits():
    """MegEngine has 32-bit indices; elements of the first column are tied, those of the second are not."""
    made = calling("sort", [[1.0, 1.0], [1.0, 2.0]], 0)
    rows = member(1, [[0, 0], [1, 1]], "i8")
    assert differing(between("torch megengine", made, rows, member(1, [[1, 0], [0, 1]], "i4"))) == 0
    assert differing(between("torch megengine", made, rows, member(1, [[1, 1], [0, 0]], "i4"))) == 2


def test_a_stable_sort_has_one_order():
    made = calling("sort", [1.0, 1.0], stable=True)
    indices = member(1, [0, 1], "i8"), member(1, [1, 0], "i8")
    assert differing(between("torch oneflow", made, *indices)) == 2


def test_argmax_is_the_first_where_two_frameworks_say_so():
    made = calling("argmax", [1.0, 1.0, 0.0])
    assert differing(between("torch numpy", made, out(0, "i8"), out(1, "i8"))) == 1
    assert differing(between("torch torch", made, out(0, "i8"), out(1, "i8"))) == 1
    assert differing(between("torch paddle", made, out(0, "i8"), out(1, "i8"))) == 0
    assert differing(between("torch paddle", made, out(0, "i8"), out(2, "i8"))) == 1


def test_gradients_of_ties():
    made = calling("amax", [1.0, 1.0, 0.0])
    evenly, one, wrong = gradient([0.5, 0.5, 0]), gradient([1, 0, 0]), gradient([0.5, 0.5, 1])
    assert differing(between("torch paddle", made, evenly, one)) == 0
    assert differing(between("torch paddle", made, evenly, wrong)) == 1
    assert differing(between("torch torch", made, evenly, one)) == 2


def test_one_place_written_twice():
    index, source = np.array([0, 0, 2]), np.array([5, 6, 7], "f4")
    made = calling("scatter", [1.0, 1.0, 1.0], 0, index, source)
    assert differing(between("torch jax", made, out([5, 1, 7]), out([6, 1, 7]))) == 0
    assert differing(between("torch jax", made, out([5, 1, 7]), out([6, 2, 8]))) == 2
    picked = gradient([1, 0, 1], "t2"), gradient([0, 1, 1], "t2")
    assert differing(between("torch jax", made, *picked)) == 0
    assert differing(between("torch jax", made, picked[0], gradient([0, 1, 2], "t2"))) == 1
    added = calling("scatter", [1.0, 1.0, 1.0], 0, index, source, reduce="add")
    assert differing(between("torch jax", added, out([5, 1, 7]), out([6, 1, 7]))) == 1


def test_index_put_of_duplicates():
    builder = ProgramBuilder("index_put")
    builder.tensor("x", np.zeros(3, "f4"))
    builder.tensor("i", np.array([1, 1]))
    builder.tensor("v", np.array([5, 6], "f4"))
    refs = [{"ref": "x"}, {"tuple": [{"ref": "i"}]}, {"ref": "v"}]
    builder.output(builder.call("index_put", *refs))
    made = made_of(builder, "index_put")
    assert differing(between("torch jax", made, out([0, 5, 0]), out([0, 6, 0]))) == 0
    assert differing(between("torch jax", made, out([0, 5, 0]), out([0, 6, 1]))) == 1


# decompositions


def test_eigenvalues_in_another_order():
    made = calling("linalg.eigvals", np.eye(3))
    one, other = out([1, 2j, -2j], "c8"), out([-2j, 1, 2j], "c8")
    assert differing(between("torch numpy", made, one, other)) == 0
    assert differing(between("torch numpy", made, one, out([-2j, 1, 1], "c8"))) == 3


def test_eigenvectors_in_another_phase():
    """Columns (1, 0) and (0, 1): times -1 and times i they are eigenvectors all the same; (1, 1) is another one."""
    made = calling("linalg.eig", np.eye(2))
    plain = member(1, [[1, 0], [0, 1]], "c8")
    turned, swapped = member(1, [[-1, 0], [0, 1j]], "c8"), member(1, [[0, 1j], [1, 0]], "c8")
    assert differing(between("torch mindspore", made, plain, turned)) == 0
    assert differing(between("torch mindspore", made, plain, swapped)) == 0
    wrong, longer = member(1, [[1, 1], [0, 1]], "c8"), member(1, [[1, 0], [0, 3]], "c8")
    assert differing(between("torch mindspore", made, plain, wrong)) == 1
    assert differing(between("torch mindspore", made, plain, longer)) == 1


def test_signs_of_q_and_r():
    made = calling("linalg.qr", np.eye(2))
    q, r = member(0, [[1, 0], [0, 1]], "f4"), member(1, [[1, 2], [0, 3]], "f4")
    assert differing(between("torch numpy", made, q, member(0, [[-1, 0], [0, 1]], "f4"))) == 0
    assert differing(between("torch numpy", made, r, member(1, [[-1, -2], [0, 3]], "f4"))) == 0
    assert differing(between("torch numpy", made, r, member(1, [[-1, 2], [0, 3]], "f4"))) > 0


def test_dtypes_that_two_frameworks_document():
    """oneflow.sort documents int32 indices, torch.sort int64 ones; the indices themselves must agree."""
    made = calling("sort", [2.0, 1.0])
    wide, narrow = member(1, [1, 0], "i8"), member(1, [1, 0], "i4")
    assert between("oneflow torch", made, narrow, wide).mismatches == ()
    assert between("oneflow torch", made, narrow, wide).counts.by_convention == 1
    assert between("oneflow torch", made, wide, narrow).mismatches[0].kind == "dtype"
    other = between("oneflow torch", made, narrow, member(1, [0, 1], "i8"))
    assert other.mismatches[0].kind == "value"


def test_every_row_says_where_it_is_documented():
    table = load_conventions()
    rows = [*table.elements, *table.dtypes, *table.contracts, *table.no_scalars, *table.no_state]
    assert all(len(row.source) > 20 for row in [*rows, *table.by_mapping, *table.unordered])
