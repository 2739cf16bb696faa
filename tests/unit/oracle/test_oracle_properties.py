"""Properties of comparing: equal bytes agree, the sides don't depend on the order of the targets."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from made_outcomes import out, outcome, program, raised

from bot.oracle.compare import compare
from bot.oracle.conventions import load_conventions
from bot.programs.builder import ProgramBuilder
from bot.programs.program import Origin
from bot.targets.outcome import RawOutcome

MADE = program()
DTYPES = st.sampled_from(["f2", "f4", "f8", "c8", "i4", "i8", "u1", "?"])
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@st.composite
def near_outcomes(draw, count):
    """Outcomes around one array: equal, a little off, far off, with NaN, of another shape, raised."""
    base = draw(hnp.arrays("f4", 3, elements=st.floats(-4, 4, width=32)))
    made = []
    for _ in range(count):
        change = draw(
            st.sampled_from(
                ["same", "near", "far", "nan", "inf", "zero", "shape", "dtype", "raised"]
            )
        )
        array = base.copy()
        if change == "near":
            array *= np.float32(1 + draw(st.floats(-3e-6, 3e-6)))
        elif change in ("far", "nan", "inf", "zero"):
            array[draw(st.integers(0, 2))] = {"far": 9, "nan": np.nan, "inf": np.inf, "zero": -0.0}[
                change
            ]
        elif change == "shape":
            array = array[:, None]
        made.append(
            raised() if change == "raised" else out(array, "f8" if change == "dtype" else "f4")
        )
    return made


def as_sets(comparison):
    return {(m.kind, frozenset(frozenset(side) for side in m.sides)) for m in comparison.mismatches}


@given(near_outcomes(3))
@settings(deadline=None, max_examples=100)
def test_permuting_targets_permutes_sides(outcomes):
    parties = list(zip(outcomes, ("a", "b", "c"), ("torch", "oneflow", "jax"), strict=True))
    seen = []
    for permuted in itertools.permutations(parties):
        these, labels, frameworks = zip(*permuted, strict=True)
        seen.append(as_sets(compare(MADE, these, labels, frameworks)))
    assert all(found == seen[0] for found in seen)


@given(hnp.arrays(DTYPES, SHAPES), st.booleans(), st.booleans())
@settings(deadline=None)
def test_equal_bytes_never_mismatch(array, is_random, uninitialised):
    origin = Origin(source="opinfo", random=is_random, uninitialised=uninitialised)
    made = program(origin=origin)
    found = compare(made, [out(array, array.dtype)] * 2, ("a", "b"), ("torch", "oneflow"))
    assert found.mismatches == ()
    assert found.counts.outputs == 1
    # With another tensor in front that differs in its payload bits only, the exact rules are asked.
    nans = [np.array([bits], "u4").view("f4") for bits in (0x7FC00000, 0xFFC00000)]
    outcomes = [outcome(("output", "r0[0]", nan), ("output", "r0[1]", array)) for nan in nans]
    assert compare(made, outcomes, ("a", "b"), ("torch", "oneflow")).mismatches == ()


@given(near_outcomes(2))
@settings(deadline=None, max_examples=100)
def test_the_fast_path_says_what_the_exact_rules_say(outcomes):
    """A header with other blanks takes no fast path; nothing else may change."""
    parties = (("a", "b"), ("torch", "oneflow"))
    fast = compare(MADE, outcomes, *parties)
    slow_second = RawOutcome(outcomes[1].header.replace(b'"type"', b' "type"'), outcomes[1].payload)
    slow = compare(MADE, [outcomes[0], slow_second], *parties)
    assert fast.mismatches == slow.mismatches
    assert fast.counts == slow.counts


@given(hnp.arrays("f4", 5, elements=st.floats(width=32)), st.integers(0, 4), st.floats(0.01, 10))
@settings(deadline=None)
def test_a_changed_element_is_found(array, index, factor):
    """Scaling one element by 1% or more, or by a number up to 10, is out of any tolerance above 1e-2."""
    changed = array.copy()
    with np.errstate(all="ignore"):
        changed[index] = array[index] * np.float32(1 + factor)
    found = compare(MADE, [out(array), out(changed)], ("a", "b"), ("torch", "oneflow")).mismatches
    differs = np.isfinite(array[index]) and abs(array[index]) > 0.01
    assert bool(found) or not differs
    if found:
        assert found[0].difference.first_index == (index,)
        assert found[0].difference.differing == 1


def test_unsorted_unique_is_compared_in_no_order() -> None:
    """[1, 2, 3] and [3, 1, 2] are both right when nobody asked for an order, and only then."""
    conventions = load_conventions()
    for kwargs, unordered in (({"sorted": False}, True), ({"sorted": True}, False), ({}, False)):
        builder = ProgramBuilder("unique")
        result = builder.call(
            "unique", builder.tensor("x", np.array([3.0, 1.0, 2.0], "f4")), **kwargs
        )
        builder.output(result)
        assert conventions.is_unordered("unique", builder.program()) is unordered
