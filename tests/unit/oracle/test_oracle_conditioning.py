"""Conditioning: what rounding the inputs explains is nobody's fault. Numbers by the functions' derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from bot.oracle.conditioning import DRAWS, moved, spread
from bot.programs.builder import ProgramBuilder
from bot.programs.draft import Draft
from bot.programs.program import ProgramError

U = 2.0**-24


def _program(x: object, dtype: type = np.float64) -> bytes:
    builder = ProgramBuilder("id")
    tensor = builder.tensor("x", np.asarray(x, dtype))
    builder.output(builder.call("id", tensor))
    return builder.blob()


def _results(x: object, function: object) -> list[np.ndarray]:
    return [function(Draft(blob).array("x")) for blob in moved(_program(x), U)]


def test_every_element_moves_by_one_roundoff_and_then_the_other_way() -> None:
    x = np.array([1.0, -3.0, 0.0, 2.0**100])
    results = _results(x, lambda x: x)
    assert len(results) == 2 * DRAWS
    for one, other in zip(results[::2], results[1::2], strict=True):
        assert np.abs(one - x).tolist() == (np.abs(x) * U).tolist()
        assert (one - x).tolist() == (x - other).tolist()


def test_integers_stay() -> None:
    (blob, *_) = moved(_program([1, 2], np.int64), U)
    assert blob == _program([1, 2], np.int64)


def test_near_a_pole_the_spread_is_that_of_the_derivative() -> None:
    """d/dx (1 - x*x)^-0.5 = x (1 - x*x)^-1.5: at 0.999 11,176, so that x moved by 0.999 u moves it by 6.65e-4."""
    x = np.array([0.999])
    at = (1 - x * x) ** -0.5
    found = spread(at, _results(x, lambda x: (1 - x * x) ** -0.5))
    assert found == pytest.approx([11176 * 0.999 * U], rel=1e-3)


def test_a_difference_of_large_terms_has_their_spread() -> None:
    """1e6 - 999999 = 1: where the signs differ, both terms' roundings add up."""
    x = np.array([1e6, 999_999.0])
    found = spread(np.array([1.0]), _results(x, lambda x: x[:1] - x[1:]))
    assert found[0] == pytest.approx(2e6 * U, rel=0.01) or found[0] == pytest.approx(U, rel=0.01)


def test_at_a_jump_there_is_no_spread() -> None:
    assert spread(np.array([2.0]), _results([2.0], np.floor)).tolist() == [0.0]


def test_results_that_are_missing_or_not_finite_say_nothing() -> None:
    at = np.array([1.0])
    assert spread(at, [None, at + 1, np.array([np.inf]), np.array([np.nan])]).tolist() == [0.0]
    with pytest.raises(ProgramError, match="1 results"):
        spread(at, [at])
