"""Comparing outcomes: each rule with arrays by hand and what mathematics says of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from made_outcomes import FRAMEWORKS, LABELS, crashed, out, outcome, program, raised

from bot.oracle.compare import Comparator, Comparison, compare
from bot.programs.program import Origin, Tolerance
from bot.targets.outcome import Death, RawOutcome, dead

INF, NAN = float("inf"), float("nan")


def two(a, b, made=None) -> Comparison:
    return compare(made or program(), [a, b], LABELS, FRAMEWORKS)


def only(comparison: Comparison):
    (mismatch,) = comparison.mismatches
    return mismatch


def test_equal_outcomes_agree_and_are_counted():
    a = outcome(("output", "r0", np.ones(3, "f4")), ("gradient", "x", np.ones(3, "f4")))
    comparison = two(a, a)
    assert comparison.mismatches == ()
    assert comparison.counts.by_name == {
        "compared": 1,
        "outputs": 1,
        "gradients": 1,
        "elements": 6,
    }
    assert [status.status for status in comparison.statuses] == ["ok", "ok"]


def test_ids_of_batches_do_not_matter():
    a, b = (
        out([1, 2]),
        RawOutcome(out([1, 2]).header.replace(b'"id":7', b'"id":8'), out([1, 2]).payload),
    )
    assert a.header != b.header
    assert two(a, b).mismatches == ()


def test_shapes_are_never_broadcast():
    mismatch = only(two(out([1, 1, 1]), out([[1, 1, 1]])))
    assert mismatch.kind == "shape"
    assert [o.shape for o in mismatch.observations] == [(3,), (1, 3)]


def test_empty_tensors_have_shapes_too():
    assert only(two(out(np.ones((0, 3))), out(np.ones((3, 0))))).kind == "shape"
    assert two(out(np.ones((0, 3))), out(np.ones((0, 3)))).mismatches == ()


def test_float64_against_float32_is_a_dtype_mismatch():
    mismatch = only(two(out([1, 2], "f4"), out([1, 2], "f8")))
    assert mismatch.kind == "dtype"
    assert [o.dtype for o in mismatch.observations] == ["float32", "float64"]


def test_one_wrong_element_in_a_million():
    a = np.linspace(1, 2, 10**6, dtype="f4")
    b = a.copy()
    b[123_456] *= np.float32(1.001)
    mismatch = only(two(out(a), out(b)))
    assert mismatch.kind == "value"
    assert mismatch.difference is not None
    assert mismatch.difference.differing == 1
    assert mismatch.difference.elements == 10**6
    assert mismatch.difference.first_index == (123_456,)
    assert mismatch.difference.largest_relative == pytest.approx(1 - 1 / 1.001, rel=1e-3)
    assert mismatch.observations[0].value == str(a[123_456])
    assert mismatch.observations[1].value == str(b[123_456])


@pytest.mark.parametrize(
    ("dtype", "relative"),
    [("f2", 1e-3), (ml_dtypes.bfloat16, 1.6e-2), ("f4", 1.3e-6), ("f8", 1e-7)],
)
def test_the_base_tolerance_of_each_dtype(dtype, relative):
    """2^k is exact in every dtype, and its neighbour is one epsilon further."""
    base = np.full(4, 1024, dtype)
    epsilon = float(ml_dtypes.finfo(np.dtype(dtype)).eps)
    inside = int(relative / epsilon)  # whole steps within the tolerance
    near = (1024 * (1 + epsilon * np.full(4, inside))).astype(dtype)
    far = (1024 * (1 + epsilon * np.full(4, inside + 1 + int(1e-5 / 1024 / epsilon + 1)))).astype(
        dtype
    )
    made = program(x=np.ones(4), dtype=dtype)
    assert two(out(base, dtype), out(near, dtype), made).mismatches == ()
    assert only(two(out(base, dtype), out(far, dtype), made)).kind == "value"


def test_an_override_widens_but_never_narrows():
    wide = program(origin=Origin(source="opinfo", tolerance=Tolerance(atol=0.1, rtol=0)))
    narrow = program(origin=Origin(source="opinfo", tolerance=Tolerance(atol=0, rtol=0)))
    assert two(out([1.0]), out([1.05]), wide).mismatches == ()
    assert only(two(out([1.0]), out([1.2]), wide)).kind == "value"
    assert two(out([1.0]), out([1.000001]), narrow).mismatches == ()


def test_sums_of_many_terms_get_more_room_than_sums_of_few():
    """sqrt(2^20) * 2^-24 * 2 = 1.2e-4 for a million terms; 1.3e-6 for three."""
    many, few = program("sum", np.ones(2**20)), program("sum", np.ones(3))
    assert two(out(1000.0), out(1000.05), many).mismatches == ()
    assert only(two(out(1000.0), out(1000.05), few)).kind == "value"
    assert only(two(out(1000.0), out(1001.0), many)).kind == "value"


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        ([1, NAN], [1, NAN], None),
        ([1, NAN], [NAN, 1], "nan"),
        ([1, NAN], [1, 2], "nan"),
        ([INF, 1], [INF, 1], None),
        ([INF, 1], [-INF, 1], "nan"),
        ([INF, 1], [NAN, 1], "nan"),
        ([INF, 1], [60000, 1], "nan"),
        ([0.0, 1], [-0.0, 1], None),
    ],
)
def test_special_values(dtype, left, right, kind):
    for a, b in ((left, right), (right, left)):
        # The second time something else differs within tolerance, so that no fast path is taken for equal bytes.
        found = two(out([*a, 0], dtype), out([*b, 5e-8], dtype), program(dtype=dtype)).mismatches
        assert [m.kind for m in found] == ([kind] if kind else [])


def test_the_sign_of_zero_counts_where_it_is_the_result():
    assert only(two(out([0.0]), out([-0.0]), program("copysign"))).kind == "value"
    assert two(out([0.0]), out([-0.0]), program("add")).mismatches == ()


def test_nan_payloads_do_not_matter():
    a = np.array([0x7FC00000], "u4").view("f4")
    b = np.array([0xFFC00001], "u4").view("f4")
    assert two(out(a), out(b)).mismatches == ()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "?"])
def test_integers_and_bool_are_exact(dtype):
    assert only(two(out([0, 1], dtype), out([0, 0], dtype))).difference.largest_ulp is None
    assert two(out([0, 1], dtype), out([0, 1], dtype)).mismatches == ()


def test_large_integers_are_not_rounded():
    mismatch = only(two(out([2**62], "i8"), out([2**62 + 1], "i8")))
    assert mismatch.difference.largest_absolute == 1


def test_complex_numbers_by_their_parts():
    """The imaginary part is off by 1e-3 of itself, which is nothing beside the modulus."""
    a, b = np.array([1e6 + 1j], "c8"), np.array([1e6 + 1.001j], "c8")
    mismatch = only(two(out(a, "c8"), out(b, "c8"), program(x=[1 + 1j], dtype="c8")))
    assert mismatch.kind == "value"
    assert mismatch.observations[0].value == "(1e+06+1.0j)"
    assert two(out(a, "c8"), out(a * (1 + 1e-7), "c8")).mismatches == ()


def test_every_member_of_a_tuple():
    a = outcome(("output", "r0[0]", np.ones(2, "f4")), ("output", "r0[1]", np.zeros(2, "f4")))
    b = outcome(("output", "r0[0]", np.zeros(2, "f4")), ("output", "r0[1]", np.ones(2, "f4")))
    found = two(a, b).mismatches
    assert [m.label for m in found] == ["output r0[0]", "output r0[1]"]
    short = outcome(("output", "r0[0]", np.ones(2, "f4")))
    mismatch = only(two(a, short))
    assert (mismatch.kind, mismatch.path, mismatch.note) == ("shape", (1,), "nothing")


def test_a_gradient_times_two():
    a = outcome(("output", "r0", np.ones(2, "f4")), ("gradient", "x", np.full(2, 2, "f4")))
    b = outcome(("output", "r0", np.ones(2, "f4")), ("gradient", "x", np.full(2, 4, "f4")))
    mismatch = only(two(a, b))
    assert (mismatch.kind, mismatch.label) == ("gradient", "gradient of x")
    assert mismatch.difference.largest_relative == 0.5


def test_an_absent_gradient_is_zero():
    absent = outcome(("output", "r0", np.ones(1, "f4")), absent=["x"])
    zero = outcome(("output", "r0", np.ones(1, "f4")), ("gradient", "x", np.zeros(3, "f4")))
    one = outcome(("output", "r0", np.ones(1, "f4")), ("gradient", "x", np.ones(3, "f4")))
    assert two(absent, zero).mismatches == ()
    mismatch = only(two(absent, one))
    assert (mismatch.kind, mismatch.observations[0].happened) == ("gradient", "no gradient")


def test_an_in_place_effect_on_one_side_only():
    """x began as [1, 2, 3]: one side doubled it, the other left it alone."""
    done = outcome(
        ("output", "r0", np.ones(1, "f4")), ("side-effect", "x", np.array([2, 4, 6], "f4"))
    )
    undone = outcome(("output", "r0", np.ones(1, "f4")))
    mismatch = only(two(done, undone))
    assert (mismatch.kind, mismatch.role) == ("side-effect", "side-effect")
    assert [o.value for o in mismatch.observations] == ["2.0", "1.0"]


def test_an_in_place_effect_within_tolerance_of_none():
    done = outcome(("side-effect", "x", np.array([1, 2, 3.0000002], "f4")))
    assert two(done, outcome()).mismatches == ()


def test_an_intermediate_that_is_a_tensor_with_a_name_already_is_not_missing():
    """x[0:] may be x itself or a view of it; a tuple for a tensor is another structure."""
    view = outcome(("intermediate", "r0", np.ones(1, "f4")), ("output", "r1", np.ones(1, "f4")))
    same = outcome(("output", "r1", np.ones(1, "f4")))
    assert two(view, same).mismatches == ()
    number = outcome(("output", "r1", np.ones(1, "f4")), values=[("intermediate", "r0", [], 1)])
    assert [m.kind for m in two(view, number).mismatches] == ["shape"]


def test_intermediates_parameters_and_buffers():
    a = outcome(("intermediate", "r0", np.ones(1, "f4")), ("buffer", "m.mean", np.ones(1, "f4")))
    b = outcome(("intermediate", "r0", np.zeros(1, "f4")), ("buffer", "m.mean", np.zeros(1, "f4")))
    assert [(m.kind, m.role) for m in two(a, b).mismatches] == [
        ("value", "intermediate"),
        ("value", "buffer"),
    ]


def test_values_that_are_no_tensors():
    def value(v):
        return outcome(values=[("output", "r0", [], v)])

    assert two(value(3), value(3)).counts.values == 1
    assert only(two(value(3), value(4))).kind == "value"
    assert only(two(value(True), value(1))).kind == "value"
    assert two(value(1.0), value(1.0000001)).mismatches == ()
    assert two(value({"float": "nan"}), value({"float": "nan"})).mismatches == ()
    assert only(two(value({"float": "inf"}), value({"float": "-inf"}))).kind == "value"
    assert two(value({"tuple": [1, 2]}), value([1, 2])).mismatches == ()
    assert only(two(value({"size": [1, 2]}), value({"size": [1, 3]}))).kind == "value"
    assert only(two(value(1), out(1.0))).kind == "shape"


def test_an_exception_against_a_result():
    mismatch = only(two(raised("ValueError", "bad size 3"), out([1])))
    assert (mismatch.kind, mismatch.sides) == ("refuses", ((LABELS[0],), (LABELS[1],)))
    assert mismatch.observations[0].happened == "raised ValueError in forward, call 0: bad size 3"
    assert mismatch.note == "ValueError: bad size #"


def test_an_error_input_that_one_side_accepts():
    made = program(origin=Origin(source="opinfo", kind="error", expected_error="ValueError"))
    assert only(two(out([1]), raised("ValueError"), made)).kind == "accepts"
    both = two(raised("ValueError", phase="build"), raised("RuntimeError"), made)
    assert both.mismatches == ()
    assert both.counts.exceptions == 1


def test_exception_types_within_one_framework():
    a, b = raised("ValueError"), raised("TypeError")
    assert two(a, b).mismatches == ()
    same = compare(
        program(), [a, b], ["torch==1.10.0:cpu", "torch==2.13.0:cpu"], ["torch", "torch"]
    )
    assert only(same).note == "exception type: TypeError / ValueError"


def test_backward_raises_on_one_side():
    """What was computed before is still compared; the gradient is not."""
    a = outcome(
        ("output", "r0", np.ones(1, "f4")), status="exception", phase="backward", error=("E", "m")
    )
    b = outcome(("output", "r0", np.zeros(1, "f4")), ("gradient", "x", np.ones(3, "f4")))
    assert [m.kind for m in two(a, b).mismatches] == ["refuses", "value"]


def test_unsupported_and_refused_are_coverage():
    for status in ("unsupported", "refused"):
        a = outcome(status=status, phase="forward", call=0, error=("AttributeError", "no op\nx"))
        comparison = two(a, out([1]))
        assert comparison.mismatches == ()
        assert comparison.counts.compared == 0
        assert comparison.counts.not_compared == {f"{status} on {LABELS[0]}: no op": 1}
        assert two(a, a).counts.not_compared == {f"{status} on {x}: no op": 1 for x in LABELS}


def test_a_crash_is_a_mismatch_whatever_the_others_did():
    unsupported = outcome(status="unsupported", error=("E", "no"))
    for other in (out([1]), raised(), unsupported):
        mismatch = only(two(crashed(), other))
        assert (mismatch.kind, mismatch.note) == ("crash", "SIGABRT: Check failed: x > #")
        assert mismatch.observations[0].happened == "died of SIGABRT: Check failed: x > 0"
    assert only(two(crashed(), crashed())).sides == (LABELS,)
    assert len(only(two(crashed("SIGFPE"), crashed())).sides) == 2


def test_too_big_for_everybody_is_no_mismatch():
    memory = dead("memory", Death("memory", "", True))
    assert two(memory, memory).mismatches == ()
    assert only(two(memory, out([1]))).kind == "memory"


def test_words_that_do_not_add_up_are_a_crash():
    cut = RawOutcome(out([1, 2]).header, out([1, 2]).payload[:-1])
    assert only(two(cut, out([1, 2]))).kind == "crash"


def test_random_programs_by_contract_across_builds():
    made = program("rand_like", x=np.ones(16), origin=Origin(source="opinfo", random=True))
    a, b = np.linspace(0, 1, 16), np.linspace(1, 0, 16)
    labels = ("torch==2.13.0:cpu", "torch==2.13.0:cpu#2")
    comparison = two(out(a), out(b), made)
    assert comparison.mismatches == ()
    assert comparison.counts.by_contract == 1
    assert only(two(out(a), out(b + 2), made)).kind == "value"
    assert only(two(out(a), out(np.where(b == 1, NAN, b)), made)).kind == "nan"
    assert only(two(out(a), out(b[:8]), made)).kind == "shape"
    same = compare(made, [out(a), out(b)], labels, ("torch", "torch"))
    assert only(same).kind == "value"


def test_uninitialised_memory_by_shape_and_dtype():
    made = program("empty_like", origin=Origin(source="opinfo", uninitialised=True))
    assert two(out([1, 2]), out([3, NAN]), made).mismatches == ()
    assert only(two(out([1, 2]), out([1]), made)).kind == "shape"


def test_three_targets_and_their_sides():
    labels, frameworks = ("a", "b", "c"), ("torch", "torch", "oneflow")
    found = compare(program(), [out([1]), out([2]), out([1])], labels, frameworks)
    assert only(found).sides == (("b",), ("a", "c"))
    three = compare(program(), [out([1]), out([2]), out([3])], labels, frameworks)
    assert only(three).sides == (("a",), ("b",), ("c",))


def test_a_comparator_needs_unique_labels():
    with pytest.raises(ValueError, match="same label"):
        Comparator(["a", "a"], ["torch", "torch"])
