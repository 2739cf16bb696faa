"""The output gradient that a program leaves to the worker: fixed numbers over the elements of whatever comes out.

A program made by changing sizes cannot hold the gradient of an output whose shape nobody knows yet. Element i of the
flattened output, in C order, is given ``CYCLE[i % 7]``; a complex one has ``CYCLE[(i + 3) % 7]`` as its imaginary part.
Every number is exact in every floating dtype, and the length has no common factor with sizes that are powers of two, so
that no row of a power of two is given the row before's again. The bot imports this file too, to write the same gradient down.
"""

from __future__ import annotations

from typing import Dict, Sequence

import numpy

CYCLE = (1.0, -0.5, 2.0, 0.25, -1.5, 0.75, -2.0)
_IMAGINARY = 3  # places ahead
_COMPONENTS: Dict[str, str] = {
    "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex32": "<f2", "complex64": "<f4", "complex128": "<f8",
}  # fmt: skip
DTYPES = frozenset([*_COMPONENTS, "bfloat16"])
"""The dtypes of outputs that can be given one."""


def generated(dtype: str, shape: Sequence[int]) -> bytes:
    """The little-endian bytes of the output gradient for a dtype of :data:`DTYPES` and a shape, contiguous."""
    elements = 1
    for length in shape:
        elements *= length
    places = numpy.arange(elements)
    cycle = numpy.array(CYCLE)
    values = cycle[places % len(CYCLE)]
    if dtype.startswith("complex"):
        imaginary = cycle[(places + _IMAGINARY) % len(CYCLE)]
        values = numpy.stack([values, imaginary], axis=-1)
    if dtype == "bfloat16":  # the upper half of a float32; these numbers have no lower half
        return bytes((values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes())
    return bytes(values.astype(_COMPONENTS[dtype]).tobytes())
