"""Base of the frameworks that do not speak PyTorch's names: every op is called by a form of ``ops/<framework>.yml``.

A subclass says how its tensors are made from NumPy arrays and read back, how a gradient is had, and what its forms may
name; see :class:`MappedFramework`. Inputs are copies, so that views of one storage cannot be made, which is coverage.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy
from call_forms import FormCall, InPlaceCall, form_calls
from form_binding import dtype_kind
from framework import (
    ITEM_BYTES,
    MAX_TENSOR_BYTES,
    Framework,
    Read,
    RefusedError,
    StartError,
    UnsupportedError,
    known_names,
)
from functional_module import METHODS, FunctionalModule
from host_generators import numpy_reseeder, python_reseeder
from module_layout import MadeModule, ModuleCall, StateView

_NO_SUCH_SIGNATURE = re.compile(
    r"unexpected keyword argument|positional arguments? but|missing \d+ required|multiple values for argument"
)


class MappedFramework(Framework):
    """What most frameworks have in common.

    A subclass sets ``name``, gives :meth:`__init__` its ``dtypes`` (canonical name -> the framework's own) and the
    ``namespace`` of its forms (root name -> module or function), and implements :meth:`from_numpy`,
    :meth:`to_numpy`, :meth:`dtype_of`, :meth:`is_tensor`, :meth:`seed` and :attr:`version`; also what it has of
    :meth:`require_grad`, :meth:`backward`, :meth:`gradient` and :meth:`assign`. One with modules implements
    :meth:`is_module`, :meth:`own_state`, :meth:`put_state`, :meth:`swapped` and :meth:`reshaped`.
    """

    version = ""
    options_known = frozenset(("threads",))

    def __init__(
        self, hello: Dict[str, Any], dtypes: Dict[str, Any], namespace: Dict[str, Any]
    ) -> None:
        super().__init__()
        self.options = {str(key): str(value) for key, value in hello.get("options", {}).items()}
        unknown = sorted(set(self.options) - self.options_known)
        if unknown:
            known = ", ".join(sorted(self.options_known))
            raise StartError(
                "%s has no target option %s; known are %s" % (self.name, ", ".join(unknown), known)
            )
        self.device = str(hello.get("device", "cpu"))
        self.threads = int(self.options.get("threads") or hello.get("threads", 1))
        self.dtypes = dtypes
        self.namespace = namespace
        self.known = known_names()
        self._reseed_numpy = numpy_reseeder()
        self._reseed_python = python_reseeder()
        mapping = hello.get("mapping", {})
        calls = form_calls(
            mapping.get("ops", {}), namespace, self.kind, self.is_dtype, self.apply, self.plain
        )
        self.table.update(calls)
        self.modules: Dict[int, MadeModule] = {}
        """What the running program has made, by identity; the modules live as long as this holds them."""
        for name, row in mapping.get("ops", {}).items():
            if name in calls and "state" in row:
                self.table[name] = ModuleCall(calls[name], row["state"], self._remember)
        for name, (other, how) in mapping.get("same_calls", {}).items():
            if other in calls:
                self.table[name] = self._form_of(calls[other], how)

    def _form_of(self, call: FormCall, how: str) -> Callable[..., Any]:
        if how == "reversed":
            return lambda first, second: call(second, first)
        return InPlaceCall(call, self.assign, self.kept) if how == "in place" else call

    def _remember(self, made: MadeModule) -> None:
        self.modules[id(made.module)] = made

    def functional(
        self, function: str, names: str = "", _shapes: Any = None, **options: Any
    ) -> FunctionalModule:
        """A module as a form makes it, in a framework that has none of its own: a function by PyTorch's name, and its state.

        ``_shapes`` is what PyTorch would make that state of. For :attr:`namespace`.
        """
        if self.compiles:
            raise UnsupportedError("modules are not compiled here, only functions")
        self.table.update(METHODS)
        return FunctionalModule(self.lookup(function), tuple(names.split()), options)

    # What a subclass has to say.

    def from_numpy(self, array: Any, dtype: str) -> Any:
        """A new tensor of a canonical dtype with a copy of the array's elements."""
        raise NotImplementedError

    def to_numpy(self, tensor: Any) -> Any:
        """The tensor's elements as a host array of the same dtype; waits for pending work."""
        raise NotImplementedError

    def dtype_of(self, tensor: Any) -> Optional[str]:
        """The canonical dtype of a tensor, None for one that has no such name."""
        raise NotImplementedError

    def seed(self, seed: int) -> None:
        """Reseed the framework's own generators."""

    def apply(self, function: Callable[..., Any], values: List[Any]) -> Any:
        """Call a form's function. A framework without a tape of its own records the call here."""
        return function(*values)

    def plain(self, value: Any) -> Any:
        """A value as a form's condition sees it."""
        return value

    def kept(self, target: Any) -> Any:
        """What an in-place call computes from, where the target itself may not be written to before backward."""
        return target

    def assign(self, target: Any, result: Any) -> Any:
        """Put a result into the tensor of an in-place call and return that. Raises UnsupportedError."""
        raise UnsupportedError("%s has no in-place ops" % self.name)

    # What follows from it.

    def facts(self) -> Dict[str, Any]:
        """Version, device and thread count, for the report."""
        return {
            "version": self.version,
            "device": self.device,
            "device_name": "",
            "git_version": "",
            "cuda": "",
            "capability": "",
            "threads": self.threads,
            "options": dict(sorted(self.options.items())),
            "compiles": self.compiles,
        }

    def reset(self, seed: int) -> None:
        """Reseed the framework, NumPy and random; forget the modules of the program before."""
        self.modules.clear()
        self.seed(seed)
        self._reseed_numpy(seed)
        self._reseed_python(seed)

    def kind(self, value: Any) -> str:
        """``bool``, ``int``, ``float`` or ``complex`` for a tensor of such a dtype, else an empty text."""
        if not self.is_tensor(value):
            return ""
        return dtype_kind(self.dtype_of(value) or "")

    def is_dtype(self, value: Any) -> bool:
        """Whether a value is one of the framework's dtypes."""
        return any(
            value is dtype or (type(value) is type(dtype) and value == dtype)
            for dtype in self.dtypes.values()
        )

    def owned(self, dtype: str, shape: Sequence[int], address: int, nbytes: int) -> Tuple[Any, Any]:
        """A new tensor with a copy of the bytes, and a snapshot of it that tells whether it was changed."""
        self._require_dtype(dtype)
        flat = _copied(dtype, address, nbytes)
        size = 1
        for length in shape:
            size *= length
        if size > flat.size:
            raise RefusedError("a tensor larger than its bytes")
        tensor = self.from_numpy(flat[:size].reshape(shape), dtype)
        return tensor, _Input(self, tensor)

    def storage(self, dtype: str, address: int, nbytes: int) -> Any:
        """A flat host array of the bytes, which one tensor may take its elements from."""
        self._require_dtype(dtype)
        return _HostStorage(self, dtype, _copied(dtype, address, nbytes))

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
        """A tensor with the elements that such a view shows. Raises UnsupportedError for a second one of a storage."""
        if conj or neg:
            raise UnsupportedError("%s has no conj or neg bit" % self.name)
        return storage.take(dtype, shape, strides, offset)

    def changed(self, storage: Any, address: int, nbytes: int) -> bool:
        """Whether an input no longer holds what it was made with."""
        return storage.changed()

    def read(self, tensor: Any) -> Read:
        """A tensor's values in host memory."""
        if isinstance(tensor, StateView):
            return self.read_view(tensor)
        name = self.dtype_of(tensor)
        if name is None:
            raise UnsupportedError("a result of a dtype that has no canonical name")
        array = self.to_numpy(tensor)
        if array.size * ITEM_BYTES[name] > MAX_TENSOR_BYTES:
            raise UnsupportedError("a result of %d bytes" % (array.size * ITEM_BYTES[name]))
        return name, list(array.shape), array.tobytes()

    def shape(self, tensor: Any) -> Tuple[int, ...]:
        """A tensor's shape."""
        return tuple(int(length) for length in tensor.shape)

    def require_grad(self, tensor: Any) -> None:
        """Nothing, for a framework without gradients: its forward results are compared all the same."""

    def backward(self, outputs: List[Any], gradients: List[Any]) -> None:
        """Raises UnsupportedError."""
        raise UnsupportedError("%s has no gradients" % self.name)

    def gradient(self, leaf: Any) -> Optional[Any]:
        """None."""
        return None

    def is_module(self, value: Any) -> bool:
        """Whether it is a module that stands for a function."""
        return isinstance(value, FunctionalModule)

    def own_state(self, module: Any) -> List[Tuple[str, str, Any]]:
        """``("parameter" | "buffer", name, tensor)`` of a module by the framework's own names."""
        return module.entries()

    def put_state(self, module: Any, name: str, tensor: Any) -> None:
        """Copy a tensor into the module's parameter or buffer of this own name."""
        raise UnsupportedError("%s has no modules" % self.name)

    def swapped(self, tensor: Any) -> Any:
        """A copy of a tensor with its last two axes swapped."""
        raise UnsupportedError("%s has no modules" % self.name)

    def reshaped(self, tensor: Any, shape: Sequence[int]) -> Any:
        """A copy of a tensor with another shape."""
        raise UnsupportedError("%s has no modules" % self.name)

    def module_state(self, module: Any) -> List[Tuple[str, str, Any]]:
        """What a module holds, by PyTorch's names and in its layout."""
        made = self.modules.get(id(module))
        own = self.own_state(module)
        return own if made is None else made.views(own)

    def load_state(self, module: Any, state: Dict[str, Any]) -> None:
        """Put PyTorch's parameters and buffers where the framework keeps them. Raises RefusedError for unknown names."""
        if isinstance(module, FunctionalModule):
            module.load(
                {name: self.reshaped(tensor, self.shape(tensor)) for name, tensor in state.items()}
            )
            for role, _, tensor in module.entries():
                if role == "parameter":
                    self.require_grad(tensor)
            return
        made = self.modules.get(id(module)) or MadeModule(module, {})
        own = {name: tensor for _, name, tensor in self.own_state(module)}
        for key, tensor in state.items():
            if made.lacks(key):
                continue
            place = made.place(key)
            if place.name not in own:
                raise RefusedError("the module has no parameter or buffer %r" % key)
            made.loaded(key, self.shape(tensor))
            if place.transpose:
                tensor = self.swapped(tensor)
            if place.reshape:
                tensor = self.reshaped(tensor, self.shape(own[place.name]))
            self.put_state(module, place.name, tensor)

    def parameter_gradient(self, parameter: Any) -> Optional[Any]:
        """A parameter's gradient, in PyTorch's layout like the parameter itself."""
        if not isinstance(parameter, StateView):
            return self.gradient(parameter)
        gradient = self.gradient(parameter.tensor)
        return None if gradient is None else parameter._replace(tensor=gradient)

    def read_view(self, view: StateView) -> Read:
        """A parameter, buffer or gradient as PyTorch would hold it."""
        name, shape, data = self.read(view.tensor)
        array = view.seen(numpy.frombuffer(data, numpy_dtype(name)).reshape(shape))
        return name, list(array.shape), array.tobytes()

    def argument(self, key: str, value: Any) -> Any:
        """Dtypes and sizes; the target's own device is what a form takes for None."""
        if key == "dtype":
            self._require_dtype(value)
            return self.dtypes[value]
        if key == "size":
            return tuple(value)
        if key == "device" and value in ("target", self.device):
            return None
        if key == "layout" and value == "strided":
            return None
        if key == "memory_format" and value in ("contiguous_format", "preserve_format"):
            return None
        if key in ("device", "layout", "memory_format", "generator"):
            raise UnsupportedError("%s has no %s %s" % (self.name, key, value))
        raise RefusedError("not a value: %r" % key)

    def value(self, result: Any) -> Any:
        """Dtypes in the program's grammar."""
        if self.is_dtype(result):
            for name, dtype in self.dtypes.items():
                if type(dtype) is type(result) and dtype == result:
                    return {"dtype": name}
        return super().value(result)

    def classify(self, error: Exception, name: str, phase: str) -> str:
        """Unsupported also where a function of this release has no such argument."""
        if isinstance(error, (UnsupportedError, NotImplementedError)):
            return "unsupported"
        if isinstance(error, TypeError) and _NO_SUCH_SIGNATURE.search(str(error)):
            return "unsupported"
        return "exception"

    def _require_dtype(self, dtype: Any) -> None:
        if dtype not in self.dtypes:
            raise UnsupportedError("%s %s has no dtype %s" % (self.name, self.version, dtype))


class _Input:
    """An input, and the bytes that it was made with."""

    def __init__(self, framework: MappedFramework, tensor: Any) -> None:
        self._framework = framework
        self._tensor = tensor
        self._before = framework.read(tensor)[2]

    def changed(self) -> bool:
        return self._framework.read(self._tensor)[2] != self._before


class _HostStorage:
    """Bytes that one input takes its elements from; a second one would be an alias, which a copy is not."""

    def __init__(self, framework: MappedFramework, dtype: str, flat: Any) -> None:
        self._framework = framework
        self._dtype = dtype
        self._flat = flat
        self._input: Optional[_Input] = None

    def take(self, dtype: str, shape: Sequence[int], strides: Sequence[int], offset: int) -> Any:
        framework = self._framework
        if self._input is not None or dtype != self._dtype:
            raise UnsupportedError("%s has no two tensors over one storage" % framework.name)
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides))
        if offset < 0 or (0 not in shape and not 0 <= last < self._flat.size):
            raise RefusedError("a tensor that reaches outside its storage")
        steps = [step * self._flat.itemsize for step in strides]
        seen = numpy.lib.stride_tricks.as_strided(self._flat[offset:], shape, steps)
        tensor = framework.from_numpy(numpy.ascontiguousarray(seen).reshape(shape), dtype)
        self._input = _Input(framework, tensor)
        return tensor

    def changed(self) -> bool:
        return self._input is not None and self._input.changed()


def numpy_dtype(name: str) -> Any:
    """The NumPy dtype of a canonical one; bfloat16 and float8 as their bits, which a subclass knows how to take."""
    try:
        return numpy.dtype(name)
    except TypeError:
        return numpy.dtype("uint%d" % (8 * ITEM_BYTES[name]))


def _copied(dtype: str, address: int, nbytes: int) -> Any:
    """A flat array with a copy of the bytes at ``address``."""
    kind = numpy_dtype(dtype)
    return numpy.frombuffer(
        bytearray(ctypes.string_at(address, nbytes)), kind, nbytes // kind.itemsize
    )
