"""PaddlePaddle 2.6 to 3.3 on the CPU or CUDA, by its own ops, in-place ops, autograd and layers."""

from __future__ import annotations

import ctypes
import os
import re
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy

# Read by Paddle when it is imported. Flags that a release does not know it ignores.
os.environ.setdefault("FLAGS_cudnn_deterministic", "1")
os.environ.setdefault("FLAGS_embedding_deterministic", "1")
os.environ.setdefault("FLAGS_cpu_deterministic", "1")
os.environ.setdefault("FLAGS_allow_tf32_cublas", "0")
os.environ.setdefault("FLAGS_allow_tf32_cudnn", "0")
os.environ.setdefault("GLOG_minloglevel", "2")  # each promotion of a dtype is warned of

import paddle
from framework import (
    ITEM_BYTES,
    MAX_TENSOR_BYTES,
    Backward,
    Read,
    RefusedError,
    StartError,
    UnsupportedError,
    same_bytes,
)
from mapped_framework import MappedFramework
from module_layout import StateView
from program_function import ProgramFunction

DTYPES: Dict[str, Any] = {
    name: getattr(paddle, name) for name in ITEM_BYTES if hasattr(paddle, name)
}
NAMES: Dict[Any, str] = {dtype: name for name, dtype in DTYPES.items()}
_SYMBOL: Any = getattr(getattr(paddle, "pir", None), "Value", ())
"""What a tensor is while ``to_static`` traces a function."""
_SIZES: Any = getattr(paddle, "Size", ())

_LACKS = re.compile(
    # No kernel for the dtype, no implementation, no such signature.
    r"\(Unimplemented\)|is not registered|NotImplementedError|not (yet )?(implemented|supported)|"
    r"[Tt]he data type of .* must be|dtype of .* must be|only supports? |does not support|"
    r"unexpected keyword argument|positional arguments? but|missing \d+ required|"
    r"got multiple values for argument|'Tensor' object has no attribute|\(position \d+\) must be|Type promotion only support|"
    # Paddle keeps an in-place op's input for backward, and says that it is gone: no gradient through this op in place.
    r"used in gradient computation has been modified by an inplace operation"
)
_LACKS_RANK = re.compile(
    # No such number of axes, which PyTorch takes: no batch axis, no axis at all.
    r"[Ee]xcepted Input X is \d-D|[Ii]nput x should be \dD|should be 4-D or 5-D|must be (a )?(\d|one)-?[Dd]\b|"
    r"must be \d-dimensional|expected to be a \d-D|dimension of input should be \d or \d|be at least one-dimensional|"
    r"number of dimension at least 1|dimensions of x should be \d|tensor dimension must be in \[|"
    r"data format should be in \[|Expected (input )?\d(D| or more dimensions)|minus the (kernel )?size .*be equal to 2|"
    r"in (the )?range of \[-0, (0\)|-1\])|in range \[-rank\(x\), rank\(x\)\)|input dim must be larger than 1|"
    r"input of Op\(Conv\) should be|filter's dimension of Op\(Conv\) should be equal|"
    r"should be a sequence of \d integers|same number of dimensions|expected \dD input|"
    # No broadcasting, no uneven parts, no negative padding, no empty tensor.
    r"must have the same dimension size|is not equal to the Input\(Other\)|'shape' of Input\(X\) should be equal|"
    r"must be evenly divisible|'paddings' should >= 0|dims of Input\(X\) should be greater than 0|"
    r"should be larger than 0, but received num|"
    # Arguments for which PyTorch's result is NaN.
    r"input argument [xy] must be greater than or equal to 0"
)
_LACKS_WHILE_TRACED = re.compile(
    # What stands for a tensor has no values yet, and is written to by no op.
    r"'Value' object has no attribute|object is not supported in static|'paddle\.base\.libpaddle\.pir\.Value'|"
    r"static (graph|mode)|dynamic mode"
)
_TRANSFORMED = re.compile(r"^ {4}(?:\w+\.)*\w+(?:Error|Exception): ", re.MULTILINE)
"""Where the exception itself stands, after the places that it came through."""
_BUILD_PATH = re.compile(r"\s*\(at /[^)\s]*:\d+\)|/[^\s:\"']*/(?=[^/\s]+\.(?:cc|h|cu|py)\b)")
_LOST_DEVICE = re.compile(
    r"CUDA error\((700|702|709|710|714|715|716|717|718|719)\)|"
    r"an illegal memory access was encountered|device-side assert triggered"
)


class PaddleFramework(MappedFramework):
    """One Paddle, on one device. Inputs are views of a storage of Paddle's own, with exactly their layout."""

    name = "paddle"
    version = str(paddle.__version__)
    options_known = frozenset(("threads", "to_static"))

    def __init__(self, hello: Dict[str, Any]) -> None:
        device = str(hello.get("device", "cpu"))
        self.place = _place(device)
        self.on_cpu = device == "cpu"
        paddle.set_device(device.replace("cuda.", "gpu:").replace("cuda", "gpu:0"))
        self._generator = paddle.base.core.default_cpu_generator()
        self._offset_unit = _offset_unit()
        self._backward = paddle.autograd.backward
        self._default_dtype = paddle.get_default_dtype()
        super().__init__(hello, DTYPES, {"paddle": paddle})
        self.compiles = "to_static" in self.options
        if self.compiles and not _SYMBOL:
            raise StartError("paddle %s has no to_static over PIR; 3.0 has" % self.version)
        if hasattr(paddle.base.core, "set_num_threads"):
            paddle.base.core.set_num_threads(self.threads)

    def facts(self) -> Dict[str, Any]:
        """Version, build and device, for the report."""
        facts = super().facts()
        facts["git_version"] = str(getattr(paddle.version, "commit", ""))
        cuda = str(paddle.version.cuda())
        facts["cuda"] = "" if cuda == "False" else cuda
        if not self.on_cpu:
            facts["device_name"] = str(paddle.device.cuda.get_device_name(self.place))
        return facts

    def seed(self, seed: int) -> None:
        """Reseed Paddle's generators, and put back the global switches that an op could have left turned."""
        if self.on_cpu:
            self._generator.manual_seed(seed)
        else:
            paddle.seed(seed)
        if not paddle.is_grad_enabled():
            paddle.set_grad_enabled(True)
        if paddle.get_default_dtype() != self._default_dtype:
            paddle.set_default_dtype(self._default_dtype)

    # Tensors in.

    def from_numpy(self, array: Any, dtype: str) -> Any:
        """A new tensor of the array's elements; of its bits, where NumPy has no such dtype."""
        array = numpy.ascontiguousarray(array).reshape(array.shape)
        return self._made(dtype, array.shape, array.ctypes.data, array.nbytes)

    def _made(self, dtype: str, shape: Sequence[int], address: int, nbytes: int) -> Any:
        """A new tensor with a copy of bytes in memory: every dtype and shape by one way, and no promotion."""
        self._require_dtype(dtype)
        tensor = paddle.empty(list(shape), DTYPES[dtype])
        size = _elements(shape) * ITEM_BYTES[dtype]
        if size > nbytes:
            raise RefusedError("a tensor larger than its bytes")
        if not size:
            return tensor
        if self.on_cpu:
            ctypes.memmove(tensor.data_ptr(), address, size)
            return tensor
        host = paddle.empty(list(shape), DTYPES[dtype], device="cpu")
        ctypes.memmove(host.data_ptr(), address, size)
        return host.to(self.place)

    def owned(self, dtype: str, shape: Sequence[int], address: int, nbytes: int) -> Tuple[Any, Any]:
        """A new contiguous tensor with a copy of the bytes, which is its own storage."""
        tensor = self._made(dtype, shape, address, nbytes)
        return tensor, tensor.detach()

    def storage(self, dtype: str, address: int, nbytes: int) -> Any:
        """A flat tensor that holds the bytes."""
        return self._made(dtype, [nbytes // ITEM_BYTES[dtype]], address, nbytes)

    def view(
        self,
        storage: Any,
        dtype: str,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: int,
        conj: bool,
        neg: bool,
    ) -> Any:
        """An alias of the storage with this layout, and no view of it to Paddle's autograd."""
        if conj or neg:
            raise UnsupportedError("paddle has no conj or neg bit")
        if NAMES[storage.dtype] != dtype:
            raise UnsupportedError("paddle makes no alias of another dtype")
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides))
        if offset < 0 or (0 not in shape and not 0 <= last < _elements(storage.shape)):
            raise RefusedError("a tensor that reaches outside its storage")
        start = offset * (ITEM_BYTES[dtype] if self._offset_unit == "bytes" else 1)
        return paddle.as_strided(storage, list(shape), list(strides), start).detach()

    def changed(self, storage: Any, address: int, nbytes: int) -> bool:
        """Whether the storage no longer holds the bytes at ``address``."""
        size = min(nbytes, _elements(storage.shape) * ITEM_BYTES[NAMES[storage.dtype]])
        if not size:
            return False
        if not self.on_cpu:
            storage = storage.cpu()
        return not same_bytes(storage.data_ptr(), address, size)

    def require_grad(self, tensor: Any) -> None:
        """Make it a leaf that wants a gradient."""
        tensor.stop_gradient = False

    # Tensors out.

    def is_tensor(self, value: Any) -> bool:
        """Whether it is a paddle.Tensor, or what stands for one while a function is traced."""
        return isinstance(value, paddle.Tensor) or (self.compiles and isinstance(value, _SYMBOL))

    def is_dtype(self, value: Any) -> bool:
        """Whether it is a dtype of Paddle's."""
        return type(value) is type(paddle.float32)

    def dtype_of(self, tensor: Any) -> Optional[str]:
        """The dtype's name in programs."""
        return NAMES.get(tensor.dtype)

    def to_numpy(self, tensor: Any) -> Any:
        """A copy in host memory; a dtype that NumPy lacks as its bits."""
        name, shape, data = self.read(tensor)
        try:
            kind = numpy.dtype(name)
        except TypeError:
            kind = numpy.dtype("uint%d" % (8 * ITEM_BYTES[name]))
        return numpy.frombuffer(data, kind).reshape(shape)

    def read(self, tensor: Any) -> Read:
        """Values in host memory, straight from the tensor's own: that has every dtype, which ``numpy()`` has not."""
        if isinstance(tensor, StateView):
            return self.read_view(tensor)
        if not tensor.is_dense():
            tensor = tensor.to_dense()
        name = NAMES.get(tensor.dtype)
        if name is None:
            raise UnsupportedError("a result of dtype %s" % tensor.dtype)
        shape = [int(length) for length in tensor.shape]
        nbytes = _elements(shape) * ITEM_BYTES[name]
        if nbytes > MAX_TENSOR_BYTES:
            raise UnsupportedError("a result of %d bytes" % nbytes)
        if not nbytes:
            return name, shape, b""
        if not self.on_cpu:
            tensor = tensor.detach().cpu()
        if not tensor.is_contiguous():
            tensor = tensor.detach().contiguous()
        address = tensor.data_ptr()
        if not address:
            raise RuntimeError("a tensor of shape %s that holds no memory" % shape)
        return name, shape, ctypes.string_at(address, nbytes)

    def synchronize(self) -> None:
        """Wait for the device."""
        if not self.on_cpu:
            paddle.device.synchronize()

    # Compiled.

    def run_compiled(
        self, program: ProgramFunction, inputs: List[Any], backward: Backward
    ) -> Sequence[Any]:
        """As one graph of ``paddle.jit.to_static``, whose autograd is that of one op.

        Forms are not to be translated from their source: they are run once, on what stands for tensors.
        """
        if program.writes_inputs:
            raise UnsupportedError("what to_static compiles does not write to its inputs")
        if program.modules:
            raise UnsupportedError("layers are not run in to_static yet, only functions")
        scope = program.function.__globals__
        for index in range(len(program.ops)):
            name = "f%d" % index
            if name in scope:
                scope[name] = paddle.jit.not_to_static(_function(scope[name]))
        return paddle.jit.to_static(program.function, full_graph=True)(*inputs)

    # Gradients.

    def assign(self, target: Any, result: Any) -> Any:
        """Put a result into the target by Paddle's own copy, which its autograd sees."""
        if list(target.shape) != list(result.shape) or target.dtype != result.dtype:
            raise UnsupportedError("an in-place result of another shape or dtype")
        if target.is_leaf and not target.stop_gradient:
            raise UnsupportedError("paddle.assign does not refuse a leaf that wants a gradient")
        if result.stop_gradient and not target.stop_gradient:
            raise UnsupportedError(
                "paddle.assign of what has no gradient keeps the target's old one"
            )
        return paddle.assign(result, target)

    def backward(self, outputs: List[Any], gradients: List[Any]) -> None:
        """Run backward from all outputs at once. Raises UnsupportedError where an op of theirs has no backward."""
        for output in outputs:
            if output.stop_gradient:
                raise UnsupportedError("paddle gives this result no gradient")
        self._backward(outputs, gradients)

    def gradient(self, leaf: Any) -> Optional[Any]:
        """The leaf's ``grad``."""
        return leaf.grad

    # Modules.

    def is_module(self, value: Any) -> bool:
        """Whether it is a paddle.nn.Layer."""
        return isinstance(value, paddle.nn.Layer)

    def own_state(self, module: Any) -> List[Tuple[str, str, Any]]:
        """Parameters, then buffers, by the layer's own names. BatchNorm's statistics are parameters that do not train."""
        entries = [
            ("parameter" if tensor.trainable else "buffer", name, tensor)
            for name, tensor in module.named_parameters()
        ]
        entries += [("buffer", name, tensor) for name, tensor in module.named_buffers()]
        return entries

    def put_state(self, module: Any, name: str, tensor: Any) -> None:
        """Copy values into the layer's own tensor; a layer of another floating dtype is cast as a whole."""
        target = {key: own for _, key, own in self.own_state(module)}[name]
        if target.dtype != tensor.dtype:
            module.to(dtype=tensor.dtype)
            target = {key: own for _, key, own in self.own_state(module)}[name]
        target.set_value(tensor.detach())

    def swapped(self, tensor: Any) -> Any:
        """A contiguous copy with the last two axes swapped."""
        axes = list(range(tensor.ndim))
        axes[-2:] = axes[:-3:-1]
        return paddle.transpose(tensor, perm=axes).contiguous()

    def reshaped(self, tensor: Any, shape: Sequence[int]) -> Any:
        """A copy with another shape."""
        return paddle.reshape(tensor, list(shape)).clone()

    # Values and errors.

    def is_plain_sequence(self, result: Any) -> bool:
        """Whether it is a paddle.Size, which releases before 3.3 lack."""
        return isinstance(result, _SIZES)

    def value(self, result: Any) -> Any:
        """Dtypes and sizes in the program's grammar."""
        if isinstance(result, _SIZES):
            return {"size": [int(length) for length in result]}
        if type(result) is type(paddle.float32):
            return {"dtype": NAMES.get(result, str(result).replace("paddle.", ""))}
        return super().value(result)

    def classify(self, error: Exception, name: str, phase: str) -> str:
        """Unsupported: Paddle says that it has no such kernel, dtype or signature."""
        if isinstance(error, (UnsupportedError, NotImplementedError)):
            return "unsupported"
        text = str(error)
        if self.compiles and _LACKS_WHILE_TRACED.search(text):
            return "unsupported"
        return "unsupported" if _LACKS.search(text) or _LACKS_RANK.search(text) else "exception"

    def is_fatal(self, error: Exception) -> bool:
        """A CUDA error after which every call of the process fails."""
        return not self.on_cpu and _LOST_DEVICE.search(str(error)) is not None

    def describe(self, error: Exception) -> Tuple[str, str]:
        """Without the source lines of the machine that Paddle was built on, and of what ``to_static`` ran."""
        text = _BUILD_PATH.sub("", str(error)).strip()
        said = list(_TRANSFORMED.finditer(text)) if text.startswith("In transformed code:") else []
        return type(error).__name__, text[said[-1].end() :] if said else text


def make(hello: Dict[str, Any]) -> PaddleFramework:
    """A Paddle ready to run programs. Raises StartError for an unknown option or a device that is not there."""
    warnings.simplefilter("ignore")
    return PaddleFramework(hello)


def _place(device: str) -> Any:
    kind, _, index = device.partition(".")
    if kind == "cpu":
        return paddle.CPUPlace()
    if kind != "cuda":
        raise StartError("paddle has no device %r" % device)
    if not paddle.is_compiled_with_cuda():
        raise StartError("this paddle is a CPU build; paddlepaddle-gpu has CUDA")
    if not paddle.device.cuda.device_count() > int(index or 0):
        raise StartError("paddle %s sees no CUDA device %s here" % (paddle.__version__, index or 0))
    return paddle.CUDAPlace(int(index or 0))


def _function(call: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function, which is what can be marked as not to be translated."""
    return lambda *args, **kwargs: call(*args, **kwargs)


def _offset_unit() -> str:
    """What as_strided's offset counts: its documentation does not say, and releases may differ."""
    four = paddle.as_strided(paddle.arange(8, dtype="float32"), [1], [1], 4)
    return "bytes" if four.item() == 1 else "elements"


def _elements(shape: Sequence[int]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size
