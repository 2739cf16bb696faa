"""Conditioning: how far would the exact result move if the inputs were rounded otherwise?

An input of a narrow dtype stands for every number that rounds to it, and an algorithm that rounds while it computes gives
the exact result for inputs a little off (backward stability: Higham, Accuracy and Stability of Numerical Algorithms,
chapter 1). Near a pole, or where large terms cancel, the exact result itself moves by much more than the dtype's tolerance
then, and no framework is wrong that is off by as much.

The float64 form of a program runs with every floating element moved by the narrow dtype's unit roundoff u, by random signs
and by the opposite ones. An element's *spread* is the smaller one of the two moves, the larger one of :data:`DRAWS` draws:
at a jump or kink, where only one direction moves it, there is no spread, so that a wrong floor(2) stays wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bot.programs.program import ProgramError, decode, encode

Array = npt.NDArray[Any]

ROUNDOFF: Final[dict[str, float]] = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}
DRAWS: Final = 2
ROUNDINGS: Final = 4.0
"""How many roundings of the inputs an algorithm may cost: x*x in 1 - x*x is one, and few are more than two."""

_FLOATING: Final = {"float64", "complex128"}


def moved(blob: bytes, roundoff: float) -> list[bytes]:
    """The float64 program with its elements moved: for each draw by its signs, then by the opposite ones.

    Raises ProgramError for a blob that is no program.
    """
    program, data = decode(blob)
    blobs: list[bytes] = []
    for draw in range(DRAWS):
        for direction in (1.0, -1.0):
            random = np.random.Generator(np.random.PCG64(draw))
            changed = bytearray(data)
            for index, storage in enumerate(program.storages):
                users = {tensor.dtype for tensor in program.tensors if tensor.storage == index}
                if not users or not users <= _FLOATING:
                    continue
                numbers: Array = np.frombuffer(
                    changed, np.float64, storage.nbytes // 8, storage.offset
                )
                signs = random.choice([-1.0, 1.0], numbers.size)
                with np.errstate(all="ignore"):
                    numbers *= 1.0 + direction * roundoff * signs
            blobs.append(encode(program, bytes(changed)))
    return blobs


def spread(at: Array, results: Sequence[Array | None]) -> Array:
    """The spread (absolute, per element) of a result, from those of the programs that :func:`moved` gave.

    A draw of which a result is missing or of another size says nothing. Raises ProgramError for another number of results.
    """
    if len(results) != 2 * DRAWS:
        raise ProgramError(f"{len(results)} results, and {2 * DRAWS} programs were moved")
    widest: Array = np.zeros(at.shape)
    with np.errstate(all="ignore"):
        for one, other in zip(results[::2], results[1::2], strict=True):
            if one is None or other is None or one.shape != at.shape or other.shape != at.shape:
                continue
            moves = np.minimum(np.abs(one - at), np.abs(other - at))
            widest = np.maximum(widest, np.where(np.isfinite(moves), moves, 0.0))
    return widest
