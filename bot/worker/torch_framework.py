"""PyTorch 1.8 to 2.13, CPU and CUDA."""

from __future__ import annotations

import ctypes
import os
import re
import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from framework import (
    ITEM_BYTES,
    MAX_TENSOR_BYTES,
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
from process_memory import resident_bytes
from program_function import ProgramFunction
from torch_modes import WORN_BYTES, mode_of, shortened
from torch_names import build_table

_DTYPES: Dict[str, Any] = {
    name: getattr(torch, name) for name in ITEM_BYTES if hasattr(torch, name)
}
_NAMES: Dict[Any, str] = {dtype: name for name, dtype in _DTYPES.items()}
_LAYOUTS = {
    name: getattr(torch, name)
    for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
    if hasattr(torch, name)
}
_MEMORY_FORMATS = {
    name: getattr(torch, name)
    for name in ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")
}
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
"""Rank -> the layout that the option ``channels_last`` gives to inputs that have no layout of their own."""
_LACKS_DTYPE = re.compile(
    r"not implemented for '|not supported for '|derivative for .* is not implemented|unsupported (scalar|data) ?type|does not support .*(Half|BFloat16|half)"
)
_NO_SUCH_SIGNATURE = re.compile(
    r"unexpected keyword argument|invalid combination of arguments|positional arguments? but|"
    r"missing \d+ required positional|object is not callable"
)
# "This leaves the process in an inconsistent state and any further CUDA work will return the same error":
# https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html (cudaErrorAssert and its kin)
_LOST_DEVICE = re.compile(
    r"CUDA error: (device-side assert triggered|an illegal memory access|misaligned address|an illegal instruction|"
    r"unspecified launch failure|the launch timed out|hardware stack error|invalid program counter|"
    r"operation not supported on global/shared address space|unknown error)"
)
OPTIONS = frozenset(
    ("channels_last", "compile", "deterministic", "isa", "onednn", "script", "threads")
)
CHOICES = {"isa": ("default", "avx2"), "onednn": ("0", "1", "off", "on")}
"""Option -> its values. ``isa`` takes effect through variables that the worker is started with."""


class TorchFramework(Framework):
    """One PyTorch, on one device, with everything that makes results vary held fixed."""

    name = "torch"

    def __init__(self, device: str, options: Dict[str, str], threads: int) -> None:
        super().__init__()
        self.device = _device(device)
        self.on_cpu = self.device.type == "cpu"
        self.threads = int(options.get("threads") or threads)
        self.options = options
        _settle(options, self.threads)
        self.mode = mode_of(options)
        self.compiles = self.mode is not None
        self.compiles_methods = self.mode is not None and self.mode.methods
        self._channels_last = "channels_last" in options
        self._seed = 0
        self.table = build_table()
        self.known = known_names()
        self.dtypes = _DTYPES
        self._default_dtype = torch.get_default_dtype()
        self._generators = [torch.default_generator]
        self._has_conj = hasattr(torch.Tensor, "is_conj")
        self._has_neg = hasattr(torch.Tensor, "is_neg")
        self._run_backward = torch.autograd.Variable._execution_engine.run_backward
        self._reseed_numpy = numpy_reseeder()
        self._reseed_python = python_reseeder()
        self._module_class = torch.nn.Module
        self._tensor_class = torch.Tensor

    def facts(self) -> Dict[str, Any]:
        """Versions, build, device and instruction set, for the report."""
        return {
            "version": str(torch.__version__),
            "device": str(self.device),
            "device_name": "" if self.on_cpu else torch.cuda.get_device_name(self.device),
            "git_version": str(getattr(torch.version, "git_version", "") or ""),
            "cuda": str(torch.version.cuda or ""),
            "capability": _cpu_capability(),
            "threads": torch.get_num_threads(),
            "options": dict(sorted(self.options.items())),
            "compiles": self.compiles,
            "same_random": not self._channels_last and (self.mode is None or self.mode.same_random),
        }

    def reset(self, seed: int) -> None:
        """Reseed PyTorch, NumPy and random; put back the global switches that an op could have left turned."""
        if self.mode is not None:
            self.mode.reset()
        self._seed = seed
        self._reseed(seed)
        if not torch.is_grad_enabled():
            torch.set_grad_enabled(True)
        if torch.get_default_dtype() is not self._default_dtype:
            torch.set_default_dtype(self._default_dtype)

    def _reseed(self, seed: int) -> None:
        for generator in self._generators:
            generator.manual_seed(seed)
        if not self.on_cpu:
            torch.cuda.manual_seed_all(seed)
        self._reseed_numpy(seed)
        self._reseed_python(seed)

    def owned(self, dtype: str, shape: Sequence[int], address: int, nbytes: int) -> Tuple[Any, Any]:
        """A new contiguous tensor with a copy of the bytes; PyTorch's allocator aligns it to 64 bytes."""
        kind = _DTYPES.get(dtype)
        if kind is None:
            raise UnsupportedError("torch %s has no dtype %s" % (torch.__version__, dtype))
        tensor = torch.empty(shape, dtype=kind)
        size = tensor.numel() * ITEM_BYTES[dtype]
        if size > nbytes:
            raise RefusedError("a tensor larger than its bytes")
        if size:
            ctypes.memmove(tensor.data_ptr(), address, size)
        if not self.on_cpu:
            tensor = tensor.to(self.device)
        if self._channels_last and tensor.dim() in _CHANNELS_LAST:
            tensor = tensor.to(memory_format=_CHANNELS_LAST[tensor.dim()])
            return tensor, _Rearranged(self, tensor)
        return tensor, tensor

    def storage(self, dtype: str, address: int, nbytes: int) -> Any:
        """A flat tensor that holds the bytes."""
        return self.owned(dtype, [nbytes // ITEM_BYTES[dtype]], address, nbytes)[0]

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
        """An alias of the storage with this layout that PyTorch does not count as a view of it."""
        base = storage
        if _NAMES[base.dtype] != dtype:
            base = _reinterpret(base, dtype)
        tensor = base.as_strided(shape, strides, offset).detach()
        if conj:
            if not self._has_conj:
                raise UnsupportedError("torch %s has no conj bit" % torch.__version__)
            tensor = tensor.conj().detach()
        if neg:
            if not self._has_neg:
                raise UnsupportedError("torch %s has no neg bit" % torch.__version__)
            tensor = torch._neg_view(tensor).detach()
        return tensor

    def require_grad(self, tensor: Any) -> None:
        """Make it a leaf that wants a gradient."""
        tensor.requires_grad_()

    def is_tensor(self, value: Any) -> bool:
        """Whether it is a torch.Tensor."""
        return isinstance(value, torch.Tensor)

    def read(self, tensor: Any) -> Read:
        """Values in host memory. Sparse and mkldnn tensors as dense ones, quantized ones dequantized."""
        if tensor.layout is not torch.strided or tensor.is_quantized:
            tensor = _dense(tensor)
        name = _NAMES.get(tensor.dtype)
        if name is None:
            raise UnsupportedError("a result of dtype %s" % tensor.dtype)
        if tensor.is_meta:
            raise UnsupportedError("a result without data (meta device)")
        nbytes = tensor.numel() * ITEM_BYTES[name]
        if nbytes > MAX_TENSOR_BYTES:
            raise UnsupportedError("a result of %d bytes" % nbytes)
        shape = list(tensor.shape)
        if nbytes == 0:
            return name, shape, b""
        if not self.on_cpu:
            tensor = tensor.detach().cpu()
        if self._has_conj and tensor.is_conj():
            tensor = tensor.detach().resolve_conj()
        if self._has_neg and tensor.is_neg():
            tensor = tensor.detach().resolve_neg()
        if not tensor.is_contiguous():
            tensor = tensor.detach().contiguous()
        address = tensor.data_ptr()
        if not address:  # PyTorch's zero tensors, which stand for zeros without having any memory
            tensor = tensor.detach().clone()
            address = tensor.data_ptr()
        return name, shape, ctypes.string_at(address, nbytes)

    def changed(self, storage: Any, address: int, nbytes: int) -> bool:
        """Whether the storage no longer holds the bytes at ``address``."""
        if isinstance(storage, _Rearranged):
            return storage.changed()
        size = min(nbytes, storage.numel() * storage.element_size())
        if not size:
            return False
        if not self.on_cpu:
            storage = storage.detach().cpu()
        return not same_bytes(storage.data_ptr(), address, size)

    def shape(self, tensor: Any) -> Tuple[int, ...]:
        """The shape as a tuple."""
        return tuple(tensor.shape)

    def backward(self, outputs: List[Any], gradients: List[Any]) -> None:
        """Run backward from all outputs at once.

        Straight on the engine: what ``torch.autograd.backward`` puts in front of it checks that shapes agree, which
        the executor has done, and takes as long as the backward of a small op.
        """
        self._run_backward(
            tuple(outputs),
            tuple(gradients),
            False,
            False,
            (),
            allow_unreachable=True,
            accumulate_grad=True,
        )

    def gradient(self, leaf: Any) -> Optional[Any]:
        """The leaf's ``grad``."""
        return leaf.grad

    def run_compiled(
        self, program: ProgramFunction, inputs: List[Any], backward: Backward
    ) -> Sequence[Any]:
        """By the target's mode. What is loaded stays loaded, so that a process that has grown large is replaced."""
        assert self.mode is not None
        results = self.mode.run(program, inputs, lambda: self._reseed(self._seed))
        self.worn = resident_bytes() > WORN_BYTES
        return results

    def is_module(self, value: Any) -> bool:
        """Whether it is a torch.nn.Module."""
        return isinstance(value, torch.nn.Module)

    def module_state(self, module: Any) -> List[Tuple[str, str, Any]]:
        """Parameters, then buffers, in the module's order. Those of a lazy module that has not run are left out."""
        lazy = getattr(torch.nn.parameter, "UninitializedTensorMixin", ())
        entries = [("parameter", key, value) for key, value in module.named_parameters()]
        entries += [("buffer", key, value) for key, value in module.named_buffers()]
        return [entry for entry in entries if not (lazy and isinstance(entry[2], lazy))]

    def load_state(self, module: Any, state: Dict[str, Any]) -> None:
        """Put the program's tensors, layouts included, in place of the module's own."""
        slots = {key: tensor for _, key, tensor in self.module_state(module)}
        for key, tensor in state.items():
            if key not in slots:
                raise RefusedError("the module has no parameter or buffer %r" % key)
            slots[key].data = tensor

    def argument(self, key: str, value: Any) -> Any:
        """Dtypes, devices, layouts, memory formats, sizes and generators."""
        if key == "dtype":
            return self._named(_DTYPES, value, "dtype")
        if key == "device":
            return self.device if value == "target" else torch.device(_known_device(value))
        if key == "layout":
            return self._named(_LAYOUTS, value, "layout")
        if key == "memory_format":
            return self._named(_MEMORY_FORMATS, value, "memory format")
        if key == "size":
            return torch.Size(value)
        if key == "generator":
            return torch.Generator(self.device).manual_seed(int(value))
        raise RefusedError("not a value: %r" % key)

    def _named(self, table: Dict[str, Any], value: Any, what: str) -> Any:
        found = table.get(value)
        if found is None:
            raise UnsupportedError("torch %s has no %s %s" % (torch.__version__, what, value))
        return found

    def is_plain_sequence(self, result: Any) -> bool:
        """Whether it is a torch.Size."""
        return isinstance(result, torch.Size)

    def value(self, result: Any) -> Any:
        """Sizes, dtypes, devices, layouts and memory formats in the program's grammar."""
        if isinstance(result, torch.Size):
            return {"size": [int(length) for length in result]}
        if isinstance(result, torch.dtype):
            return {"dtype": _NAMES.get(result, str(result).replace("torch.", ""))}
        if isinstance(result, torch.device):
            return {"device": "target" if result.type == self.device.type else result.type}
        if isinstance(result, torch.layout):
            return {"layout": str(result).replace("torch.", "")}
        if isinstance(result, torch.memory_format):
            return {"memory_format": str(result).replace("torch.", "")}
        return super().value(result)

    def is_fatal(self, error: Exception) -> bool:
        """A CUDA error after which every call of the process fails with the same one, whatever it does."""
        return not self.on_cpu and _LOST_DEVICE.search(str(error)) is not None

    def classify(self, error: Exception, name: str, phase: str) -> str:
        """Unsupported: a dtype without a kernel, or a signature that this version's op does not have."""
        if isinstance(error, UnsupportedError):
            return "unsupported"
        if self.mode is not None:
            original = self.mode.original(error)
            if original is error and self.mode.lacks(error):
                return "unsupported"
            error = original
        text = str(error)
        if isinstance(error, TypeError):
            return "unsupported" if _NO_SUCH_SIGNATURE.search(text) else "exception"
        if isinstance(error, NotImplementedError) or _LACKS_DTYPE.search(text):
            return "unsupported"
        return "exception"

    def describe(self, error: Exception) -> Tuple[str, str]:
        """What an op raised under a compiler is what it raises without one."""
        if self.mode is None or isinstance(error, UnsupportedError):
            return super().describe(error)
        original = self.mode.original(error)
        if original is not error:
            return type(original).__name__, str(original)
        lacks = self.mode.lacks(error)
        return (type(error).__name__, lacks) if lacks else shortened(error)


class _Rearranged:
    """What an input held that lies in memory otherwise than the program's bytes."""

    def __init__(self, framework: TorchFramework, tensor: Any) -> None:
        self._framework = framework
        self._tensor = tensor.detach()
        self._before = framework.read(self._tensor)[2]

    def changed(self) -> bool:
        return self._framework.read(self._tensor)[2] != self._before


def make(hello: Dict[str, Any]) -> TorchFramework:
    """A PyTorch ready to run programs. Raises StartError for an unknown option or a device that is not there."""
    options = {str(key): str(value) for key, value in hello.get("options", {}).items()}
    unknown = sorted(set(options) - OPTIONS)
    if unknown:
        raise StartError(
            "torch has no target option %s; known are %s"
            % (", ".join(unknown), ", ".join(sorted(OPTIONS)))
        )
    for key, values in CHOICES.items():
        if key in options and options[key] not in values:
            raise StartError(
                "torch: the target option %s is one of %s, not %r"
                % (key, ", ".join(values), options[key])
            )
    return TorchFramework(hello.get("device", "cpu"), options, int(hello.get("threads", 1)))


def _device(name: str) -> Any:
    kind, _, index = name.partition(".")
    if kind == "cpu":
        return torch.device("cpu")
    if kind == "cuda":
        if not torch.cuda.is_available():
            raise StartError("torch %s sees no CUDA device here" % torch.__version__)
        return torch.device("cuda", int(index or 0))
    raise StartError("torch has no device %r" % name)


def _known_device(value: Any) -> str:
    if value not in ("cpu", "meta"):
        raise UnsupportedError("no device %r" % (value,))
    return str(value)


def _settle(options: Dict[str, str], threads: int) -> None:
    """Hold fixed what makes results vary: threads, TF32, cuDNN's choice of algorithm."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(threads)
    cudnn = torch.backends.cudnn
    cudnn.deterministic = True
    cudnn.benchmark = False
    cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    if options.get("onednn") in ("0", "off"):
        torch.backends.mkldnn.enabled = False
        torch._C._set_mkldnn_enabled(False)
    if options.get("deterministic"):
        torch.use_deterministic_algorithms(True)


def _cpu_capability() -> str:
    """The instruction set that PyTorch's kernels were chosen for, e.g. ``AVX2``."""
    try:
        return str(torch.backends.cpu.get_cpu_capability())
    except AttributeError:
        match = re.search(r"CPU capability usage: (\S+)", torch.__config__.show())
        return match.group(1) if match else ""


def _reinterpret(base: Any, dtype: str) -> Any:
    """The same storage read as another dtype."""
    try:
        return base.view(_DTYPES[dtype])
    except (KeyError, RuntimeError) as error:
        raise UnsupportedError("no alias of %s as %s: %s" % (base.dtype, dtype, error)) from None


def _dense(tensor: Any) -> Any:
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor.dequantize() if tensor.is_quantized else tensor
