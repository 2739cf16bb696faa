"""TensorFlow on the CPU, eagerly: the worked example of CONTRIBUTING, "Add a framework"."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # before the import, which reads it

import tensorflow  # pyright: ignore[reportMissingModuleSource]
from framework import StartError, UnsupportedError
from mapped_framework import MappedFramework

DTYPES: Dict[str, Any] = {
    name: getattr(tensorflow, name)
    for name in ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128")
}  # fmt: skip
"""Canonical dtype name -> TensorFlow's: they have the same names."""


class TensorflowFramework(MappedFramework):
    """Tensors cannot be changed, and one tape records what each program does to the inputs that want a gradient."""

    name = "tensorflow"
    version = str(tensorflow.__version__)

    def reset(self, seed: int) -> None:
        """Reseed, and begin a new tape: what the program before left on the old one is forgotten."""
        super().reset(seed)
        tensorflow.random.set_seed(seed)
        self._leaves: List[Any] = []
        self._gradients: Dict[int, Any] = {}
        self._tape = tensorflow.GradientTape(watch_accessed_variables=False)

    def from_numpy(self, array: Any, dtype: str) -> Any:
        """A constant, which copies."""
        return tensorflow.constant(array, dtype=DTYPES[dtype])

    def to_numpy(self, tensor: Any) -> Any:
        """A copy in host memory."""
        return tensor.numpy()

    def dtype_of(self, tensor: Any) -> Optional[str]:
        """TensorFlow's own name, where programs have that dtype."""
        return tensor.dtype.name if tensor.dtype.name in DTYPES else None

    def is_tensor(self, value: Any) -> bool:
        """Whether it is a tensorflow.Tensor."""
        return isinstance(value, tensorflow.Tensor)

    def require_grad(self, tensor: Any) -> None:
        """Remember it: the tape must be open when an input is watched, and is opened by the first."""
        if not self._leaves:
            self._tape.__enter__()
        self._tape.watch(tensor)
        self._leaves.append(tensor)

    def backward(self, outputs: List[Any], gradients: List[Any]) -> None:
        """Close the tape and play it back. An input that an output does not depend on has no gradient: None."""
        if not self._leaves:
            raise UnsupportedError("no input wants a gradient")
        self._tape.__exit__(None, None, None)
        found: Any = self._tape.gradient(outputs, self._leaves, output_gradients=gradients)
        for leaf, gradient in zip(self._leaves, found):
            dense = gradient if gradient is None else tensorflow.convert_to_tensor(gradient)
            self._gradients[id(leaf)] = dense

    def gradient(self, leaf: Any) -> Optional[Any]:
        """What :meth:`backward` found for it."""
        return self._gradients.get(id(leaf))


def make(hello: Dict[str, Any]) -> TensorflowFramework:
    """A TensorFlow ready to run programs. Raises StartError for an unknown option or device."""
    if hello.get("device", "cpu") != "cpu":
        raise StartError("tensorflow runs on the cpu only here, not on %r" % hello["device"])
    made = TensorflowFramework(hello, DTYPES, {"tf": tensorflow})
    tensorflow.config.threading.set_intra_op_parallelism_threads(made.threads)
    tensorflow.config.threading.set_inter_op_parallelism_threads(made.threads)
    return made
