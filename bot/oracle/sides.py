"""Sides: the partition of targets into those that agree with each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence


def unique_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels made unique by ``#2``, ``#3``...: the same target may be compared with itself."""
    seen: dict[str, int] = {}
    result: list[str] = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        result.append(label if seen[label] == 1 else f"{label}#{seen[label]}")
    return tuple(result)


def partition(count: int, agree: Callable[[int, int], bool]) -> list[list[int]]:
    """The connected components of ``agree`` over 0..count-1: being within tolerance is taken to be transitive.

    So the sides don't depend on the order of the targets. Ordered by size, then by first member.
    """
    parent = list(range(count))

    def root(index: int) -> int:
        while parent[index] != index:
            index = parent[index]
        return index

    for left in range(count):
        for right in range(left + 1, count):
            if agree(left, right):
                parent[max(root(left), root(right))] = min(root(left), root(right))
    members: dict[int, list[int]] = {}
    for index in range(count):
        members.setdefault(root(index), []).append(index)
    return in_order(members.values())


def partition_by(keys: Sequence[Hashable]) -> list[list[int]]:
    """The partition by equal keys, in the same order."""
    members: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    return in_order(members.values())


def in_order(sides: Iterable[list[int]]) -> list[list[int]]:
    """Smallest side first (the odd one), ties by first member."""
    return sorted(sides, key=lambda members: (len(members), members[0]))
