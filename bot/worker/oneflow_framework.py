"""OneFlow 0.8 and 0.9 on the CPU or CUDA, called by PyTorch's canonical op names."""

from __future__ import annotations

import ctypes
import inspect
import os
import re
import types
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy

os.environ.setdefault("GLOG_minloglevel", "2")  # the import itself warns of a missing GPU

import calling_thread  # before oneflow, which reads at its import what this sets
import oneflow
import values
from call_forms import form_calls
from form_binding import dtype_kind
from framework import (
    ITEM_BYTES,
    MAX_TENSOR_BYTES,
    Arguments,
    Backward,
    Framework,
    Read,
    RefusedError,
    StartError,
    UnsupportedError,
    known_names,
    same_bytes,
)
from host_generators import numpy_reseeder, python_reseeder
from oneflow_graph import GraphRun
from op_mapping import adapters, add_aliases, chain
from program_function import ProgramFunction

_DTYPES: Dict[str, Any] = {
    name: getattr(oneflow, name) for name in ITEM_BYTES if hasattr(oneflow, name)
}
_NAMES: Dict[Any, str] = {dtype: name for name, dtype in _DTYPES.items()}
_NUMPY: Dict[str, Any] = {
    name: numpy.dtype(name)
    for name in ("bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64")
}
ALIGNMENT = 64
VERSION = str(oneflow.__version__)
OPTIONS = frozenset(("graph", "threads"))
MAX_GRAPHS = 400
"""Graphs that one process compiles before it is replaced: OneFlow keeps what it knows of each."""

_NOISE = re.compile(r"\x1b\[[0-9;]*m|\n  File [^\n]*\n[^\n]*|/[^\s:\"]*/")
_OP_COUNTER = re.compile(r"(op_name: \D*)\d+")
_LACKS = re.compile(
    # OneFlow's argument parser, and Python's for what it wraps: the op does not have such a signature.
    r"received an invalid combination of arguments|positional arguments? but|must be .*, not <class|"
    r"unexpected keyword argument|takes no (keyword )?arguments|takes (at most|at least|exactly) |"
    r"missing required argument|missing \d+ required|got multiple values for|"
    r"'(tuple|list|int|float|bool|NoneType)' object has no attribute|"
    r"invalid keyword argument|cannot be interpreted as an integer|argument \d+ must be|"
    # No kernel, no implementation.
    r"op_kernel_not_found_error|unimplemented_error|todo_error|Cannot find the kernel matching|"
    r"[Nn]ot (yet )?support|only supports? |object is not list or tuple|[Uu]nsupported|[Nn]ot (yet )?implemented|"
    r"is not valid to OneFlow data type|GetOrCreateOpGradClosure|CheckAndInitOutGrads"
)
_LACKS_IN_GRAPH = re.compile(
    # What needs a value while the graph is built.
    r"nn\.Graph|[Ll]azy[ _]?(tensor|mode)|LazyMode|Only eager|eager tensors? support|is_eager|[Ee]ager mode|supported by Graph"
    r"|need at least 1 op in net"
)
_NAMESPACES: Tuple[Tuple[str, Any], ...] = (
    ("nn.functional.", oneflow.nn.functional),
    ("nn.init.", oneflow.nn.init),
    ("nn.", oneflow.nn),
    ("linalg.", oneflow.linalg),
    ("Tensor.", oneflow.Tensor),
    ("special.", getattr(oneflow, "special", None)),
    ("fft.", getattr(oneflow, "fft", None)),
    ("", oneflow),
)
_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)


class OneFlowFramework(Framework):
    """One OneFlow. Inputs share memory with NumPy arrays of ours, which gives them exact layouts and aliasing."""

    name = "oneflow"

    def __init__(
        self, device: str, options: Dict[str, str], threads: int, mapping: Dict[str, Any]
    ) -> None:
        super().__init__()
        if device != "cpu":
            raise StartError("oneflow runs on the cpu only here, not on %r" % device)
        self.threads = int(options.get("threads") or threads)
        self.options = options
        self.compiles = "graph" in options
        self._graphs = 0
        self._graph_run: Optional[GraphRun] = None
        self._graph_gradients: Dict[int, Any] = {}
        oneflow.set_num_threads(self.threads)
        self._copies_out = hasattr(oneflow.Tensor, "_copy_to_numpy")
        # A graph's own threads hand ops to the scheduler: without its thread they now and then crash.
        self.synchronous = not self.compiles and calling_thread.close_threads(oneflow)
        self.known = known_names()
        self.table = build_table(self.known)
        add_aliases(mapping, self.table)
        self._add_forms(mapping)
        self.adapters = adapters(
            mapping, lambda value: values.decode(value, {}, self), self.is_tensor
        )
        self._windows: Set[int] = set()
        for name in ("as_strided", "Tensor.as_strided"):
            self.adapters[name] = self._whole_storage
        self.adapters["nn.Module.__call__"] = _input_by_position
        for name in self.table:
            if name.startswith("nn.") and isinstance(self.table[name], type):
                self._adapt_constructor(name)
        self._sync = oneflow._oneflow_internal.eager.Sync
        self._reseed_numpy = numpy_reseeder()
        self._reseed_python = python_reseeder()
        self._module_class = oneflow.nn.Module
        self._tensor_class = oneflow.Tensor
        # OneFlow 0.8 has no default dtype to turn.
        self._default_dtype_now = getattr(oneflow, "get_default_dtype", lambda: oneflow.float32)
        self._default_dtype = self._default_dtype_now()

    def _add_forms(self, mapping: Dict[str, Any]) -> None:
        """Ops with call forms; other forms of such an op where OneFlow has none of its own."""
        calls = form_calls(
            mapping.get("ops", {}),
            {"oneflow": oneflow},
            self._kind,
            lambda value: isinstance(value, oneflow.dtype),
            lambda function, values: function(*values),
            lambda value: value,
        )
        self.table.update(calls)
        for name, (other, how) in mapping.get("same_calls", {}).items():
            if other in calls and how == "plain":
                self.table.setdefault(name, calls[other])

    def _kind(self, value: Any) -> str:
        return dtype_kind(_NAMES.get(value.dtype, "")) if self.is_tensor(value) else ""

    def _whole_storage(self, args: List[Any], kwargs: Dict[str, Any]) -> Arguments:
        """as_strided counts from the storage's start, which for an input with an offset OneFlow does not know."""
        if args and id(args[0]) in self._windows:
            raise UnsupportedError("as_strided of an input with a storage offset")
        return args, kwargs

    def _adapt_constructor(self, name: str) -> None:
        """Leave out the device and the default dtype of a module class that takes neither."""
        parameters = inspect.signature(self.table[name].__init__).parameters
        variadic = any(kind.kind is kind.VAR_KEYWORD for kind in parameters.values())
        absent = [key for key in ("device", "dtype") if key not in parameters and not variadic]

        def adapt(args: List[Any], kwargs: Dict[str, Any]) -> Arguments:
            for key in absent:
                value = kwargs.pop(key, None)
                if key == "dtype" and value not in (None, self._default_dtype):
                    raise UnsupportedError("oneflow's %s is made in float32 only" % name)
            return args, kwargs

        known = self.adapters.get(name)
        self.adapters[name] = chain(adapt, known) if known is not None else adapt

    def facts(self) -> Dict[str, Any]:
        """Version, build and device, for the report."""
        return {
            "version": str(oneflow.__version__),
            "device": "cpu",
            "device_name": "",
            "git_version": str(getattr(oneflow, "__git_commit__", "") or ""),
            "cuda": "",
            "capability": "",
            "threads": self.threads,
            "options": dict(sorted(self.options.items())),
            "compiles": self.compiles,
            # Each op of a graph has a generator of its own.
            "same_random": not self.compiles,
        }

    def reset(self, seed: int) -> None:
        """Reseed OneFlow, NumPy and random; put back the global switches that an op could have left turned."""
        self._windows.clear()
        self._graph_run = None
        self._graph_gradients.clear()
        try:
            oneflow.default_generator.manual_seed(seed)
        except Exception as error:
            self.spoiled = self.is_fatal(error)
            raise
        self._reseed_numpy(seed)
        self._reseed_python(seed)
        if not oneflow.is_grad_enabled():
            oneflow.autograd.set_grad_enabled(True)
        if self._default_dtype_now() != self._default_dtype:
            oneflow.set_default_dtype(self._default_dtype)

    def owned(self, dtype: str, shape: Sequence[int], address: int, nbytes: int) -> Tuple[Any, Any]:
        """A tensor over a 64-byte aligned NumPy array with a copy of the bytes."""
        if dtype == "bfloat16":
            tensor = _bfloat16(shape, address, nbytes)
            return tensor, _Snapshot(self, tensor)
        memory = self.storage(dtype, address, nbytes)
        return oneflow.from_numpy(memory.array.reshape(shape)), memory

    def storage(self, dtype: str, address: int, nbytes: int) -> Any:
        """A flat, 64-byte aligned array with a copy of the bytes."""
        kind = _NUMPY.get(dtype)
        if kind is None:
            raise UnsupportedError("oneflow %s takes no input of dtype %s" % (VERSION, dtype))
        # A bytearray, because its address is told at a tenth of the price of a NumPy array's.
        memory = bytearray(nbytes + ALIGNMENT)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        start = -begin % ALIGNMENT
        ctypes.memmove(begin + start, address, nbytes)
        array = numpy.frombuffer(memory, kind, nbytes // kind.itemsize, start)
        return _Memory(array, begin + start)

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
        """A tensor that shares the array's memory with exactly this layout."""
        if conj or neg:
            raise UnsupportedError("oneflow has no conj or neg bit")
        base = storage.array
        if base.dtype != _NUMPY.get(dtype):
            raise UnsupportedError("oneflow has no alias of %s as %s" % (base.dtype, dtype))
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides))
        if 0 not in shape and last >= base.size:
            raise RefusedError("a tensor that reaches outside its storage")
        steps = [step * base.itemsize for step in strides]
        array = numpy.lib.stride_tricks.as_strided(base[offset:], shape, steps)
        tensor = oneflow.from_numpy(array)
        if offset:
            self._windows.add(id(tensor))
        return tensor

    def require_grad(self, tensor: Any) -> None:
        """Make it a leaf that wants a gradient."""
        tensor.requires_grad_()

    def is_tensor(self, value: Any) -> bool:
        """Whether it is a oneflow.Tensor."""
        return isinstance(value, oneflow.Tensor)

    def read(self, tensor: Any) -> Read:
        """Values in host memory; waits until they are computed. bfloat16 by way of float32, which holds it exactly."""
        name = _NAMES.get(tensor.dtype)
        if name is None:
            raise UnsupportedError("a result of dtype %s" % tensor.dtype)
        shape = list(tensor.shape)
        size = ITEM_BYTES[name]
        for length in shape:
            size *= length
        if size > MAX_TENSOR_BYTES:
            raise UnsupportedError("a result of %d bytes" % size)
        if name == "bfloat16":
            wide = tensor.detach().to(oneflow.float32).numpy()
            return name, shape, (wide.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()
        if self._copies_out and name in _NUMPY and tensor.is_contiguous():
            # Ten times as fast as numpy(), which has its dtype parsed from a text.
            array = numpy.empty(shape, _NUMPY[name])
            tensor._copy_to_numpy(array)
            return name, shape, array.tobytes()
        return name, shape, tensor.numpy().tobytes()

    def changed(self, storage: Any, address: int, nbytes: int) -> bool:
        """Whether the memory under an input no longer holds the bytes at ``address``."""
        if isinstance(storage, _Snapshot):
            return storage.changed()
        size = storage.array.nbytes
        return size > 0 and not same_bytes(storage.address, address, size)

    def shape(self, tensor: Any) -> Tuple[int, ...]:
        """The shape as a tuple."""
        return tuple(tensor.shape)

    def synchronize(self) -> None:
        """Wait for everything that was asked for, where OneFlow computes asynchronously."""
        if not self.synchronous:
            self._sync()

    def run_compiled(
        self, program: ProgramFunction, inputs: List[Any], backward: Backward
    ) -> Sequence[Any]:
        """In an ``nn.Graph``, which works on copies of its inputs: ops that write to an input are unsupported there."""
        if program.writes_inputs:
            raise UnsupportedError("oneflow's nn.Graph does not write to its inputs")
        if any(gradient is None for _, _, gradient in backward):
            raise UnsupportedError("nn.Graph must be given the output gradients before it runs")
        self._graph_run = GraphRun(program, inputs, backward)
        return self._in_graph(self._graph_run.forward)

    def _in_graph(self, action: Callable[[], List[Any]]) -> List[Any]:
        assert self._graph_run is not None
        self._graphs += 1
        try:
            return action()
        finally:
            self.worn = self._graph_run.broken or self._graphs > MAX_GRAPHS

    def backward(self, outputs: List[Any], gradients: List[Any]) -> None:
        """Run backward from all outputs at once."""
        if self._graph_run is not None:
            found = self._in_graph(self._graph_run.gradients)
            self._graph_gradients = {id(leaf): gradient for leaf, gradient in found}
            return
        for output in outputs:
            if not output.requires_grad:
                raise UnsupportedError("oneflow has no gradient for what made this output")
        oneflow.autograd.backward(outputs, gradients)

    def gradient(self, leaf: Any) -> Optional[Any]:
        """The leaf's ``grad``."""
        return leaf.grad if self._graph_run is None else self._graph_gradients.get(id(leaf))

    def is_module(self, value: Any) -> bool:
        """Whether it is a oneflow.nn.Module."""
        return isinstance(value, oneflow.nn.Module)

    def module_state(self, module: Any) -> List[Tuple[str, str, Any]]:
        """Parameters, then buffers, in the module's order."""
        entries = [("parameter", key, value) for key, value in module.named_parameters()]
        return entries + [("buffer", key, value) for key, value in module.named_buffers()]

    def load_state(self, module: Any, state: Dict[str, Any]) -> None:
        """Copy the program's tensors into the module's own."""
        slots = {key: tensor for _, key, tensor in self.module_state(module)}
        with oneflow.no_grad():
            for key, tensor in state.items():
                slot = slots.get(key)
                if slot is None or tuple(slot.shape) != tuple(tensor.shape):
                    raise UnsupportedError("oneflow's module has no such parameter as %s" % key)
                if slot.dtype == tensor.dtype:
                    slot.copy_(tensor)
                else:
                    slot.data = tensor

    def argument(self, key: str, value: Any) -> Any:
        """Dtypes, devices, sizes and generators; OneFlow has one layout, for which None stands."""
        if key == "dtype":
            dtype = _DTYPES.get(value)
            if dtype is None:
                raise UnsupportedError("oneflow %s has no dtype %s" % (VERSION, value))
            return dtype
        if key == "device":
            if value not in ("target", "cpu"):
                raise UnsupportedError("oneflow has no device %s" % value)
            return oneflow.device("cpu")
        if key == "size":
            return oneflow.Size(value)
        if key == "generator":
            return oneflow.Generator("cpu").manual_seed(int(value))
        if value in ("strided", "contiguous_format", "preserve_format"):
            return None
        if key in ("layout", "memory_format"):
            raise UnsupportedError("oneflow has no %s" % key)
        raise RefusedError("not a value: %r" % key)

    def is_plain_sequence(self, result: Any) -> bool:
        """Whether it is a oneflow.Size."""
        return isinstance(result, oneflow.Size)

    def value(self, result: Any) -> Any:
        """Sizes, dtypes and devices in the program's grammar."""
        if isinstance(result, oneflow.Size):
            return {"size": [int(length) for length in result]}
        if isinstance(result, oneflow.dtype):
            return {"dtype": _NAMES.get(result, str(result).replace("oneflow.", ""))}
        if isinstance(result, oneflow.device):
            return {"device": "target"}
        return super().value(result)

    def classify(self, error: Exception, name: str, phase: str) -> str:
        """Unsupported: OneFlow says that it has no such signature, kernel, dtype or gradient."""
        if isinstance(error, (UnsupportedError, NotImplementedError)):
            return "unsupported"
        text = str(error)
        if self.compiles and _LACKS_IN_GRAPH.search(text):
            return "unsupported"
        return "unsupported" if _LACKS.search(text) else "exception"

    def is_fatal(self, error: Exception) -> bool:
        """Whether OneFlow's virtual machine has stopped: nothing runs in this process any more."""
        return "vm scheduler not empty" in str(error)

    def describe(self, error: Exception) -> Tuple[str, str]:
        """OneFlow colours its messages for a terminal, and names source lines of the machine it was built on."""
        text = _OP_COUNTER.sub(r"\1", _NOISE.sub("", str(error)))
        return type(error).__name__, text.strip()


class _Memory(NamedTuple):
    """What inputs lie in: an array of ours, and its address, which NumPy tells slowly."""

    array: Any
    address: int


class _Snapshot:
    """What an input held when it was made, where it does not share memory with an array of ours."""

    def __init__(self, framework: OneFlowFramework, tensor: Any) -> None:
        self._framework = framework
        self._tensor = tensor
        self._before = framework.read(tensor)[2]

    def changed(self) -> bool:
        return self._framework.read(self._tensor)[2] != self._before


def make(hello: Dict[str, Any]) -> OneFlowFramework:
    """A OneFlow ready to run programs. Raises StartError for an unknown option or device."""
    options = {str(key): str(value) for key, value in hello.get("options", {}).items()}
    unknown = sorted(set(options) - OPTIONS)
    if unknown:
        raise StartError(
            "oneflow has no target option %s; known are %s"
            % (", ".join(unknown), ", ".join(sorted(OPTIONS)))
        )
    return OneFlowFramework(
        hello.get("device", "cpu"), options, int(hello.get("threads", 1)), hello.get("mapping", {})
    )


def build_table(known: Iterable[str]) -> Dict[str, Callable[..., Any]]:
    """Canonical name -> OneFlow's callable of the same public path.

    The names are those that PyTorch's own list allows (``ops/names.txt``), so nothing is found by walking; module
    classes that PyTorch lacks are added as ``oneflow.nn.X``.
    """
    table: Dict[str, Callable[..., Any]] = {}
    for name in known:
        for prefix, namespace in _NAMESPACES:
            if name.startswith(prefix):
                found = _public(namespace, name[len(prefix) :], prefix)
                if found is not None:
                    table[name] = found
                break
    for name in dir(oneflow.nn):
        cls = getattr(oneflow.nn, name)
        if _is_module_class(cls) and "nn." + name not in known and name != "Module":
            table["oneflow.nn." + name] = cls
    for method in ("__call__", "eval", "train"):
        table["nn.Module." + method] = getattr(oneflow.nn.Module, method)
    return table


def _input_by_position(args: List[Any], kwargs: Dict[str, Any]) -> Arguments:
    """PyTorch's modules name their first input ``input``, OneFlow's ``x``."""
    if len(args) == 1 and "input" in kwargs:
        args = [args[0], kwargs.pop("input")]
    return args, kwargs


def _public(namespace: Any, attribute: str, prefix: str) -> Optional[Callable[..., Any]]:
    if prefix == "Tensor." and attribute.endswith(".__get__"):
        found = getattr(namespace, attribute[: -len(".__get__")], None)
        if isinstance(found, (property, types.GetSetDescriptorType)):
            return found.__get__
        return None
    found = getattr(namespace, attribute, None) if "." not in attribute else None
    if prefix == "nn.":
        return found if _is_module_class(found) else None
    return found if isinstance(found, _FUNCTIONS) else None


def _is_module_class(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, oneflow.nn.Module)


def _bfloat16(shape: Sequence[int], address: int, nbytes: int) -> Any:
    """From float32 values that bfloat16 holds exactly: OneFlow takes no bfloat16 from NumPy."""
    bits = numpy.frombuffer(ctypes.string_at(address, nbytes), numpy.uint16)
    wide = (bits.astype(numpy.uint32) << 16).view(numpy.float32).reshape(shape)
    return oneflow.from_numpy(wide).to(oneflow.bfloat16)
