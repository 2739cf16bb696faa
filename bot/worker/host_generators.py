"""Python's and NumPy's global generators, reseeded before each program at little cost.

Seeding a Mersenne twister costs microseconds, as much as a small op, and hardly any program draws from these two. So
a generator that was seeded with the same seed before, and that nobody has drawn from since, is left alone. Whether
somebody has drawn is read off the generator's own position in memory. That layout is an implementation's detail: it is
proven at start by drawing, and where the proof fails the generator is seeded every time.
"""

from __future__ import annotations

import ctypes
import random
from typing import Any, Callable, Optional

import numpy

STATE_WORDS = 624
"""Words in a Mersenne twister's state; its position is this number after seeding, and moves with each draw."""

WORD = 1
"""The word that tells two seeds apart; the first one is the same for all seeds of Python's."""


class Reseeder:
    """Brings one generator to a seed. ``position`` and ``word`` lie in its state, None where not known."""

    def __init__(
        self,
        seed: Callable[[int], Any],
        draw: Callable[[], Any],
        position: Optional[ctypes.c_uint32],
        word: Optional[ctypes.c_uint32],
    ) -> None:
        self._seed = seed
        self._position = position
        self._word = word
        self._last: Optional[int] = None
        self._seen = 0
        if position is not None and word is not None and not self._proven(draw):
            self._position = None

    def _proven(self, draw: Callable[[], Any]) -> bool:
        assert self._position is not None
        self._seed(1)
        fresh = self._position.value
        draw()
        drawn = self._position.value
        return fresh == STATE_WORDS and 0 < drawn < STATE_WORDS

    def __call__(self, seed: int) -> None:
        """Make the generator as it is right after seeding with ``seed``."""
        position, word = self._position, self._word
        if position is None or word is None:
            self._seed(seed)
        elif seed != self._last or position.value != STATE_WORDS or word.value != self._seen:
            self._seed(seed)
            self._last = seed
            self._seen = word.value


def python_reseeder() -> Reseeder:
    """The generator behind the functions of ``random``: in CPython an int and 624 words after the object's head."""
    instance = getattr(random, "_inst", None)
    position = word = None
    if instance is not None and type(instance).__basicsize__ >= object.__basicsize__ + 2500:
        address = id(instance) + object.__basicsize__
        position = ctypes.c_uint32.from_address(address)
        word = ctypes.c_uint32.from_address(address + 4 + 4 * WORD)
    return Reseeder(random.seed, random.random, position, word)


def numpy_reseeder() -> Reseeder:
    """The generator behind the functions of ``numpy.random``: 624 words, then the position."""
    position = word = None
    try:
        bits = getattr(numpy.random.mtrand, "_rand")._bit_generator  # noqa: B009
        if type(bits).__name__ == "MT19937":
            address = bits.ctypes.state_address
            position = ctypes.c_uint32.from_address(address + 4 * STATE_WORDS)
            word = ctypes.c_uint32.from_address(address + 4 * WORD)
    except AttributeError:
        pass
    return Reseeder(
        lambda seed: numpy.random.seed(seed & 0xFFFFFFFF), numpy.random.rand, position, word
    )
