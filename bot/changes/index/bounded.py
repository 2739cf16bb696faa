"""A dictionary that forgets what was not asked for longest, once what it holds weighs more than its limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Bounded(Generic[Key, Value]):
    """Values with a weight each, of ``limit`` in all; the newest one is kept whatever it weighs."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.weight = 0
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Value:
        """A kept value, which counts as asked for. Raises KeyError."""
        value = self._kept[key][0]
        self._kept.move_to_end(key)
        return value

    def put(self, key: Key, value: Value, weight: int) -> Value:
        """Keep a value and forget the oldest ones beyond the limit; returns the value."""
        if key in self._kept:
            self.weight -= self._kept.pop(key)[1]
        self._kept[key] = (value, weight)
        self.weight += weight
        while self.weight > self.limit and len(self._kept) > 1:
            self.weight -= self._kept.popitem(last=False)[1][1]
        return value
