"""What the forms of ``ops/megengine.yml`` call where MegEngine takes an argument in another shape or dtype than PyTorch."""

from __future__ import annotations

from typing import Any, Tuple


def int32(index: Any) -> Any:
    """An index as MegEngine's index arguments are: an int64 input as its int32."""
    return getattr(index, "int32", index)


def each(value: Any, n: int) -> Tuple[int, ...]:
    """One value per dimension: a number, or a list of one, stands for all of them."""
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return values * n if len(values) == 1 else values


def matrix(shape: Any) -> Tuple[int, int]:
    """The shape of a tensor as one matrix with the same rows: -1 is no length of a tensor without elements."""
    rows = 1
    for length in shape[:-1]:
        rows *= int(length)
    return rows, int(shape[-1])
