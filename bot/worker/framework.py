"""What the executor asks of a framework. One file per framework implements it; :data:`FRAMEWORKS` finds that file.

A framework is one object that lives as long as its worker. It holds the allow-list: a dict from canonical op names to
callables, made at start. Names that come from a program are looked up in it and nowhere else.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

if TYPE_CHECKING:
    from program_function import ProgramFunction

FRAMEWORKS: Dict[str, str] = {
    "torch": "torch_framework",
    "oneflow": "oneflow_framework",
    "numpy": "numpy_framework",
    "megengine": "megengine_framework",
    "mindspore": "mindspore_framework",
    "paddle": "paddle_framework",
    "jax": "jax_framework",
    "tensorflow": "tensorflow_framework",
}
"""A framework's name -> the module beside this one whose ``make(hello)`` gives its :class:`Framework`."""

ITEM_BYTES: Dict[str, int] = {
    "bool": 1, "int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4,
    "float32": 4, "complex32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""Canonical dtype name -> bytes per element."""

MAX_TENSOR_BYTES = 1 << 28
"""The most that one observed tensor may hold; more is unsupported."""

Read = Tuple[str, List[int], bytes]
"""A tensor pulled to host memory: canonical dtype name, shape, C-contiguous little-endian bytes."""

Backward = Sequence[Tuple[int, Tuple[int, ...], Any]]
"""Outputs to run backward from: index of the result, path into it, gradient."""

Arguments = Tuple[List[Any], Dict[str, Any]]
Adapter = Callable[[List[Any], Dict[str, Any]], Arguments]


_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def same_bytes(first: int, second: int, size: int) -> bool:
    """Whether the ``size`` bytes at two addresses are equal."""
    return _memcmp(first, second, size) == 0


class UnsupportedError(Exception):
    """This framework has no such op, argument, dtype or gradient: coverage, never a finding."""


class RefusedError(Exception):
    """The program asks for something that no worker does: a callable outside the allow-list, broken references."""


class StartError(Exception):
    """The worker cannot run what ``hello`` asks for; the message is one line for the user."""


class Framework:
    """Base of every framework's file.

    ``table`` maps canonical op names to callables and is the allow-list. ``known`` holds canonical names that some
    framework has: a name outside ``table`` but in ``known`` is unsupported, any other is refused. ``adapters`` maps
    names to functions that rewrite a call's arguments, or raise :class:`UnsupportedError`, before it is made.
    """

    name = ""

    compiles = False
    """Whether a program's calls are run as one function, by :meth:`run_compiled`: what a mode such as ``compile`` does."""

    compiles_methods = False
    """Whether the compiler wants methods of tensors called as methods."""

    compile_seconds = 0.0
    """The most that compiling one program may take; 0 for no bound. From ``hello``."""

    spoiled = False
    """Whether an earlier program has broken this process so that it cannot begin another: that one is for a new worker."""

    worn = False
    """Whether this process ought to be replaced before the next program, for what the last ones left in it."""

    def __init__(self) -> None:
        self.table: Dict[str, Callable[..., Any]] = {}
        self.known: frozenset[str] = frozenset()
        self.adapters: Dict[str, Adapter] = {}

    def facts(self) -> Dict[str, Any]:
        """Version, device, thread count and the like, for the report. Plain JSON values."""
        raise NotImplementedError

    def reset(self, seed: int) -> None:
        """Reseed every generator and undo whatever the program before may have left in global state."""
        raise NotImplementedError

    # Tensors in.

    def owned(self, dtype: str, shape: Sequence[int], address: int, nbytes: int) -> Tuple[Any, Any]:
        """A new contiguous tensor with a copy of the ``nbytes`` at ``address``, and its storage.

        Raises UnsupportedError.
        """
        raise NotImplementedError

    def storage(self, dtype: str, address: int, nbytes: int) -> Any:
        """A storage with a copy of the ``nbytes`` at ``address``, for :meth:`view`. Raises UnsupportedError."""
        raise NotImplementedError

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
        """A tensor over a storage; strides and offset in elements. Raises UnsupportedError."""
        raise NotImplementedError

    def require_grad(self, tensor: Any) -> None:
        """Make a tensor a leaf that wants a gradient. Raises UnsupportedError."""
        raise NotImplementedError

    # Tensors out.

    def is_tensor(self, value: Any) -> bool:
        """Whether a call's result is a tensor."""
        raise NotImplementedError

    def read(self, tensor: Any) -> Read:
        """A tensor's values in host memory, conj and neg bits resolved; waits for pending work."""
        raise NotImplementedError

    def changed(self, storage: Any, address: int, nbytes: int) -> bool:
        """Whether a storage no longer holds the ``nbytes`` at ``address`` that it was made with."""
        raise NotImplementedError

    def shape(self, tensor: Any) -> Tuple[int, ...]:
        """A tensor's shape."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until everything that was asked for has happened, so that a death is blamed on its cause."""

    # Gradients and modules.

    def backward(self, outputs: List[Any], gradients: List[Any]) -> None:
        """Run backward from all outputs at once; each is a tensor of its gradient's shape."""
        raise NotImplementedError

    def gradient(self, leaf: Any) -> Optional[Any]:
        """What :meth:`backward` left on a leaf, or None."""
        raise NotImplementedError

    def parameter_gradient(self, parameter: Any) -> Optional[Any]:
        """The gradient of a parameter that :meth:`module_state` has named."""
        return self.gradient(parameter)

    def is_module(self, value: Any) -> bool:
        """Whether a call's result is a module."""
        raise NotImplementedError

    def module_state(self, module: Any) -> List[Tuple[str, str, Any]]:
        """``("parameter" | "buffer", dotted name, tensor)`` for everything that a module holds, in its order."""
        raise NotImplementedError

    def load_state(self, module: Any, state: Dict[str, Any]) -> None:
        """Replace parameters and buffers by name. Raises RefusedError for a name that the module does not have."""
        raise NotImplementedError

    # Compiled.

    def run_compiled(
        self, program: "ProgramFunction", inputs: List[Any], backward: Backward
    ) -> Sequence[Any]:
        """Compile a program's function, run it once, and return what it returns.

        ``backward`` is what will be asked of :meth:`backward` right after, for compilers that must know it when they
        compile. Raises UnsupportedError for what the compiler does not take; what else it raises is the outcome.
        """
        raise NotImplementedError

    # Values.

    def argument(self, key: str, value: Any) -> Any:
        """An argument of the grammar's ``{key: value}`` form: dtype, device, layout, memory_format, generator, size.

        Raises UnsupportedError when this framework has no such thing.
        """
        raise NotImplementedError

    def is_plain_sequence(self, result: Any) -> bool:
        """Whether a tuple or list is one value (a size), not a nesting of results."""
        return False

    def value(self, result: Any) -> Any:
        """A result that is neither tensor nor plain Python, in the program's value grammar."""
        return {"object": type(result).__name__}

    def classify(self, error: Exception, name: str, phase: str) -> str:
        """``exception``, or ``unsupported`` where the error says that this framework lacks something."""
        return "unsupported" if isinstance(error, UnsupportedError) else "exception"

    def is_fatal(self, error: Exception) -> bool:
        """Whether no later program can run after this error: the worker then dies, and the death names its program."""
        return False

    def describe(self, error: Exception) -> Tuple[str, str]:
        """An exception's class name and message, freed of what says nothing about the cause."""
        return type(error).__name__, str(error)

    def lookup(self, name: str) -> Callable[..., Any]:
        """The callable of a canonical name. Raises UnsupportedError or RefusedError; never looks anywhere but in the table."""
        try:
            return self.table[name]
        except (KeyError, TypeError):
            self._refuse(name)

    def _refuse(self, name: str) -> NoReturn:
        if name in self.known:
            raise UnsupportedError("%s has no %s" % (self.name, name))
        raise RefusedError("%r is not an allowed callable" % (name,))


def make(hello: Dict[str, Any]) -> Framework:
    """The framework that a ``hello`` asks for. Raises StartError when it is unknown or does not start."""
    name = hello.get("framework")
    module = FRAMEWORKS.get(name) if isinstance(name, str) else None
    if module is None:
        raise StartError("no framework %r; known are %s" % (name, ", ".join(sorted(FRAMEWORKS))))
    return importlib.import_module(module).make(hello)


def known_names() -> "frozenset[str]":
    """Canonical names of the pinned PyTorch releases: what is missing here but in this list is coverage."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops", "names.txt")
    with open(path, encoding="ascii") as lines:
        return frozenset(line.strip() for line in lines if not line.startswith("#"))
