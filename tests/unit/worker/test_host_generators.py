"""Reseeding: after any history the next draws are those of a freshly seeded generator."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.worker.host_generators import Reseeder, numpy_reseeder, python_reseeder

CASES = [
    (python_reseeder, random.random, lambda seed: random.Random(seed).random()),
    (numpy_reseeder, np.random.rand, lambda seed: np.random.RandomState(seed).rand()),
]


@pytest.mark.parametrize(("make", "draw", "fresh"), CASES)
@given(history=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8))
@settings(max_examples=30, deadline=None)
def test_any_history(make: Any, draw: Any, fresh: Any, history: list[tuple[int, int]]) -> None:
    reseed = make()
    for seed, draws in history:
        reseed(seed)
        for number in range(draws):
            value = draw()
            assert number or value == fresh(seed)


@pytest.mark.parametrize(("make", "draw", "fresh"), CASES)
def test_a_whole_round_of_the_twister_is_noticed(make: Any, draw: Any, fresh: Any) -> None:
    reseed = make()
    reseed(5)
    for _ in range(624 // 2):  # a float takes two words: the position is where it began
        draw()
    reseed(5)
    assert draw() == fresh(5)


@pytest.mark.parametrize(("make", "draw", "fresh"), CASES)
def test_somebody_else_seeding_is_noticed(make: Any, draw: Any, fresh: Any) -> None:
    reseed = make()
    reseed(5)
    random.seed(6)
    np.random.seed(6)
    reseed(5)
    assert draw() == fresh(5)


def test_without_a_known_layout_it_seeds_every_time() -> None:
    seeds: list[int] = []
    reseed = Reseeder(seeds.append, lambda: None, None, None)
    for _ in range(3):
        reseed(4)
    assert seeds == [4, 4, 4]


@pytest.mark.parametrize("make", [python_reseeder, numpy_reseeder])
def test_the_layout_is_known_here(make: Any) -> None:
    assert make()._position is not None
