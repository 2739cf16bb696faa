"""MegEngine 1.13 on the CPU, by its own functions and its gradient manager.

MegEngine has neither float64 nor int64: it would turn both into 32 bits without a word. float64 inputs are therefore
refused. int64 inputs are kept as such and given as int32 only where a form says so (``ops.int32(index)``), because
PyTorch's index arguments are int64 and MegEngine's are int32.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy

os.environ.setdefault("MGE_LOGGING_LEVEL", "ERROR")

import megengine
import megengine.module
import megengine_ops
from framework import Backward, StartError, UnsupportedError
from mapped_framework import MappedFramework
from megengine.autodiff import GradManager
from megengine.jit import trace
from program_function import ProgramFunction

DTYPES: Dict[str, Any] = {
    name: numpy.dtype(name)
    for name in ("bool", "int8", "uint8", "int16", "uint16", "int32", "float16", "float32")
}
"""What a tensor can be made with. complex64 is a result only."""

RESULT_DTYPES = frozenset((*DTYPES, "complex64"))

_LACKS = re.compile(
    r"unsupported (numpy )?dtype|[Uu]nsupported|not (yet )?(implemented|supported)|NotImplemented|"
    r"unexpected keyword argument|positional arguments? but|missing \d+ required|"
    r"requires 2 bool tensors|[Uu]nhandled dtype|dtype mismatch|bad dtype|invalid dtype|"
    # A number of dimensions that a layer does not take: samples without a batch, none at all.
    r"input dimension of conv1d should be|filter\.ndim == img_ndim|src\.ndim >= 5|data\.ndim == 4|"
    r"ret\.ndim > 0|out of bounds for tensor of dimension 0"
)
_BACKTRACE = re.compile(r"\s*\n\s*backtrace:.*", re.S)
_SOURCE = re.compile(r" at /[^\s:]+:\d+: .*", re.S)


class Int64:
    """An int64 input, which MegEngine has no tensor for; ``int32`` is one where all elements fit."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape
        self.ndim = array.ndim
        self._int32: Optional[Any] = None

    @property
    def int32(self) -> Any:
        """A MegEngine tensor of the elements. Raises UnsupportedError where one has no such int32."""
        if self._int32 is None:
            narrow = self.array.astype(numpy.int32)
            if not numpy.array_equal(narrow, self.array):
                raise UnsupportedError("megengine has no int64")
            self._int32 = megengine.Tensor(narrow)
        return self._int32


class MegengineFramework(MappedFramework):
    """One MegEngine, synchronous, so that an abort is blamed on its cause."""

    name = "megengine"
    version = str(megengine.__version__)
    options_known = frozenset(("threads", "trace"))

    def __init__(self, hello: Dict[str, Any]) -> None:
        if str(hello.get("device", "cpu")) != "cpu":
            raise StartError("megengine runs on the cpu only, not on %r" % hello["device"])
        megengine.set_default_device("cpu0")
        megengine.config.async_level = 0
        megengine.config.deterministic_kernel = True
        self._manager: Optional[Any] = None
        self._leaves: List[Any] = []
        namespace = {
            "megengine": megengine,
            "F": megengine.functional,
            "M": megengine.module,
            "ops": megengine_ops,
        }
        super().__init__(hello, DTYPES, namespace)
        self.compiles = "trace" in self.options
        self._traced: Optional[_Traced] = None

    def facts(self) -> Dict[str, Any]:
        """Version, device and thread count, for the report. A traced graph draws other random numbers."""
        return {**super().facts(), "same_random": not self.compiles}

    def seed(self, seed: int) -> None:
        """Reseed MegEngine, and end the recording of the program before."""
        if self._manager is not None:
            self._manager.release()
            self._manager = None
        self._leaves.clear()
        self._traced = None
        megengine.random.seed(seed)

    # Tensors.

    def from_numpy(self, array: Any, dtype: str) -> Any:
        """A tensor with a copy of the array's elements."""
        if dtype == "int64":
            return Int64(array)
        return megengine.Tensor(array, dtype=DTYPES[dtype])

    def to_numpy(self, tensor: Any) -> Any:
        """The elements, computed by now."""
        if isinstance(tensor, Int64):
            return tensor.array
        return numpy.asarray(tensor.numpy())

    def dtype_of(self, tensor: Any) -> Optional[str]:
        """The dtype that the tensor really has."""
        if isinstance(tensor, Int64):
            return "int64"
        name = numpy.dtype(tensor.dtype).name
        return name if name in RESULT_DTYPES else None

    def is_tensor(self, value: Any) -> bool:
        """Whether it is a tensor or an int64 input."""
        return isinstance(value, (megengine.Tensor, Int64))

    def shape(self, tensor: Any) -> Tuple[int, ...]:
        """A tensor's shape."""
        return tuple(int(length) for length in tensor.shape)

    def apply(self, function: Any, values: List[Any]) -> Any:
        """Call a form's function. Unsupported where it takes an int64 input as it is."""
        try:
            return function(*values)
        except Exception:
            if any(isinstance(value, Int64) for value in _flat(values)):
                raise UnsupportedError("megengine has no int64, or no such index") from None
            raise

    def assign(self, target: Any, result: Any) -> Any:
        """Put a result of the same shape and dtype into a tensor. Raises UnsupportedError for another or a leaf."""
        if isinstance(target, Int64) or isinstance(result, Int64):
            raise UnsupportedError("megengine has no int64")
        if tuple(target.shape) != tuple(result.shape) or target.dtype != result.dtype:
            raise UnsupportedError("an in-place result of another shape or dtype")
        target[...] = result
        return target

    # Compiled.

    def run_compiled(
        self, program: ProgramFunction, inputs: List[Any], backward: Backward
    ) -> Sequence[Any]:
        """As one graph of ``megengine.jit.trace``."""
        if program.writes_inputs:
            raise UnsupportedError("what megengine traces does not write to its inputs")
        if any(isinstance(tensor, Int64) for tensor in inputs):
            raise UnsupportedError("megengine has no int64")
        if any(gradient is None for _, _, gradient in backward):
            raise UnsupportedError("jit.trace must be given the output gradients before it runs")
        self._traced = _Traced(program, inputs, backward, self._leaves)
        return self._in_trace(self._traced.forward)

    def _in_trace(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception:
            # A trace that stopped half-way is left in the process.
            self.worn = True
            raise

    # Gradients.

    def require_grad(self, tensor: Any) -> None:
        """Record what is done to a tensor from now on."""
        if isinstance(tensor, Int64):
            raise UnsupportedError("megengine has no gradient of int64")
        if self.compiles:
            self._leaves.append(tensor)
            return
        manager = self._manager
        if manager is None:
            manager = self._manager = GradManager()
            manager.record()
        manager.attach([tensor])
        self._leaves.append(tensor)

    def backward(self, outputs: List[Any], gradients: List[Any]) -> None:
        """Run backward from all outputs at once."""
        if self._traced is not None:
            self._in_trace(self._traced.gradients)
            return
        if self._manager is None:
            raise UnsupportedError("no input wants a gradient")
        # A leaf that is an output itself has a gradient only as the input of something.
        results = [
            output * 1 if any(output is leaf for leaf in self._leaves) else output
            for output in outputs
        ]
        self._manager.backward(results, gradients)

    def gradient(self, leaf: Any) -> Optional[Any]:
        """The gradient that backward left on a leaf."""
        return leaf.grad if self._traced is None else self._traced.found.get(id(leaf))

    # Modules.

    def is_module(self, value: Any) -> bool:
        """Whether it is a megengine.module.Module."""
        return isinstance(value, megengine.module.Module)

    def own_state(self, module: Any) -> List[Tuple[str, str, Any]]:
        """Parameters, then buffers, by MegEngine's own names."""
        parameters = [("parameter", name, tensor) for name, tensor in module.named_parameters()]
        return parameters + [("buffer", name, tensor) for name, tensor in module.named_buffers()]

    def put_state(self, module: Any, name: str, tensor: Any) -> None:
        """Put values into the module's own tensor; a parameter's gradient is wanted from then on."""
        role, target = {key: (role, own) for role, key, own in self.own_state(module)}[name]
        target.set_value(tensor)
        if role == "parameter":
            self.require_grad(target)

    def reshaped(self, tensor: Any, shape: Sequence[int]) -> Any:
        """A copy with another shape."""
        return megengine.functional.reshape(tensor, tuple(shape))

    # Errors.

    def classify(self, error: Exception, name: str, phase: str) -> str:
        """Unsupported also where MegEngine says that it lacks a dtype or an argument."""
        cause = _cause(error)
        known = (AssertionError, RuntimeError, TypeError, ValueError)
        if isinstance(cause, known) and _LACKS.search(str(cause)):
            return "unsupported"
        return super().classify(cause, name, phase)

    def describe(self, error: Exception) -> Tuple[str, str]:
        """Without the backtrace and the places of the build."""
        kind, message = super().describe(_cause(error))
        return kind, _SOURCE.sub("", _BACKTRACE.sub("", message)).strip()

    def _require_dtype(self, dtype: Any) -> None:
        if dtype != "int64":
            super()._require_dtype(dtype)


class _Traced:
    """A program under ``trace(symbolic=True)``: the first run of a function records it, the second runs what it became.

    Forward is one function, forward with backward another: what has no gradient has its results all the same.
    """

    def __init__(
        self, program: ProgramFunction, inputs: List[Any], backward: Backward, leaves: List[Any]
    ) -> None:
        self._program = program
        self._inputs = inputs
        self._backward = backward
        self._wanted = [
            index for index, tensor in enumerate(inputs) if any(tensor is leaf for leaf in leaves)
        ]
        self.found: Dict[int, Any] = {}

    def forward(self) -> List[Any]:
        """The results of the program's calls."""
        shape: List[Any] = []

        def run(*given: Any) -> List[Any]:
            tensors: List[Any] = []
            shape.append([_taken_apart(r, tensors) for r in self._program.function(*given)])
            return tensors

        tensors = self._twice(run, self._inputs)
        return [_put_together(result, tensors) for result in shape[0]]

    def gradients(self) -> None:
        """Gather the gradients of the inputs that want one."""
        count = len(self._inputs)
        there: List[List[int]] = []

        def run(*given: Any) -> List[Any]:
            manager = GradManager()
            manager.attach([given[index] for index in self._wanted])
            with manager:
                results = self._program.function(*given[:count])
                outputs: List[Any] = []
                for place, path, _ in self._backward:
                    output = results[place]
                    for step in path:
                        output = output[step]
                    outputs.append(output * 1)  # an input itself has none as an output
                manager.backward(outputs, list(given[count:]))
            there.append([index for index in self._wanted if given[index].grad is not None])
            return [given[index].grad for index in there[-1]]

        gradients = [gradient for _, _, gradient in self._backward]
        tensors = self._twice(run, [*self._inputs, *gradients])
        self.found = {id(self._inputs[index]): tensor for index, tensor in zip(there[0], tensors)}

    def _twice(self, run: Callable[..., List[Any]], given: Sequence[Any]) -> List[Any]:
        traced = trace(run, symbolic=True)
        tensors: List[Any] = []
        for _ in range(2):
            tensors = list(traced(*[megengine.Tensor(tensor) for tensor in given]))
        for tensor in tensors:
            tensor.numpy()
        return tensors


class _Place(int):
    """Where in a traced function's outputs a tensor is."""


def _taken_apart(result: Any, tensors: List[Any]) -> Any:
    """A result with places for its tensors, which are appended to the list."""
    if isinstance(result, megengine.Tensor):
        tensors.append(result)
        return _Place(len(tensors) - 1)
    if isinstance(result, (list, tuple)):
        return [_taken_apart(item, tensors) for item in result]
    return result


def _put_together(result: Any, tensors: Sequence[Any]) -> Any:
    if isinstance(result, _Place):
        return tensors[result]
    if isinstance(result, list):
        return [_put_together(item, tensors) for item in result]
    return result


def _cause(error: Exception) -> Exception:
    """What an AsyncError, which says nothing itself, was raised for."""
    cause = error.__cause__
    return cause if isinstance(cause, Exception) else error


def _flat(values: Sequence[Any]) -> List[Any]:
    found: List[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found.extend(_flat(value))
        else:
            found.append(value)
    return found


def make(hello: Dict[str, Any]) -> MegengineFramework:
    """A MegEngine ready to run programs. Raises StartError for an unknown option or device."""
    return MegengineFramework(hello)
