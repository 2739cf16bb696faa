"""NumPy with SciPy: no gradients, no devices, but the reference that everybody knows."""

from __future__ import annotations

import importlib
import re
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy
import numpy_indexing
import numpy_ops
import numpy_windows
import scipy
from framework import StartError, UnsupportedError
from mapped_framework import MappedFramework

DTYPES: Dict[str, Any] = {
    name: numpy.dtype(name)
    for name in (
        "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip


SUBPACKAGES = ("fft", "integrate", "linalg", "signal", "spatial", "special")
"""Of SciPy: those that forms name. They are not there by importing scipy alone in older releases."""


_NO_LOOP = re.compile(
    r"not supported for the input types|did not contain a loop|unsupported in linalg|no matching signature"
)
"""What a function says of a dtype that it has no code for."""


class NumpyFramework(MappedFramework):
    """NumPy and SciPy on arrays in host memory."""

    name = "numpy"
    version = str(numpy.__version__)

    def __init__(
        self, hello: Dict[str, Any], dtypes: Dict[str, Any], namespace: Dict[str, Any]
    ) -> None:
        super().__init__(hello, dtypes, {**namespace, "functional": self.functional})

    def from_numpy(self, array: Any, dtype: str) -> Any:
        """The array itself, which is a copy already."""
        return array

    def to_numpy(self, tensor: Any) -> Any:
        """The array itself."""
        return numpy.asarray(tensor)

    def dtype_of(self, tensor: Any) -> Optional[str]:
        """Its dtype's own name, where programs have that dtype."""
        name = str(tensor.dtype)
        return name if name in DTYPES else None

    def is_tensor(self, value: Any) -> bool:
        """Whether it is an array, or a scalar that a reduction gave."""
        return isinstance(value, (numpy.ndarray, numpy.generic))

    def is_dtype(self, value: Any) -> bool:
        """Whether it is a NumPy dtype."""
        return isinstance(value, numpy.dtype)

    def classify(self, error: Exception, name: str, phase: str) -> str:
        """Unsupported also where a function has no code for a dtype."""
        if isinstance(error, TypeError) and _NO_LOOP.search(str(error)):
            return "unsupported"
        return super().classify(error, name, phase)

    def apply(self, function: Callable[..., Any], values: List[Any]) -> Any:
        """Call a form's function; a scalar that it gives is an array of no dimensions, which can be written to."""
        return _arrays(function(*values))

    def reshaped(self, tensor: Any, shape: Sequence[int]) -> Any:
        """A copy with another shape."""
        return numpy.array(tensor).reshape(shape)

    def assign(self, target: Any, result: Any) -> Any:
        """Copy a result of the same shape and dtype into the array."""
        if target.shape != result.shape or target.dtype != result.dtype:
            raise UnsupportedError("an in-place result of another shape or dtype")
        target[...] = result
        return target


def _arrays(result: Any) -> Any:
    if isinstance(result, numpy.generic):
        return numpy.asarray(result)
    if type(result) in (list, tuple):
        return type(result)(_arrays(member) for member in result)
    return result


def make(hello: Dict[str, Any]) -> NumpyFramework:
    """A NumPy ready to run programs. Raises StartError for an unknown option or device."""
    if hello.get("device", "cpu") != "cpu":
        raise StartError("numpy runs on the cpu only, not on %r" % hello["device"])
    # What a function warns of, a division by zero, is in its result.
    numpy.seterr(all="ignore")
    for name in SUBPACKAGES:
        importlib.import_module("scipy." + name)
    namespace = {
        "numpy": numpy,
        "scipy": scipy,
        "ops": numpy_ops,
        "places": numpy_indexing,
        "windows": numpy_windows,
    }
    return NumpyFramework(hello, DTYPES, namespace)
