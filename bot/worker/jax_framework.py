"""JAX 0.5 to 0.10 on the CPU or CUDA: ``jax.numpy``, ``jax.nn``, ``jax.lax`` and ``jax.scipy`` by call forms, gradients by ``jax.vjp``.

JAX compiles whatever it runs, once per shape, and compiling costs a hundred times what running does. A call runs as
JAX runs it: op by op, or with the target's option ``compile`` all of a program's calls as one function under
``jax.jit``. Its pullback is one compiled function in both, because nearly all users take gradients so, and op by op it
is ten times as many compilations. ``optimize=0`` has XLA compile without optimisations, another path to the same values.
"""

from __future__ import annotations

import importlib
import os
from collections import OrderedDict
from typing import Any, Callable, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple

import numpy

# Read by XLA when it is loaded: no whole GPU taken in advance, no warnings of a missing one.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import jax
import ml_dtypes
from framework import ITEM_BYTES, Backward, StartError, UnsupportedError
from mapped_framework import MappedFramework, numpy_dtype
from process_memory import give_back_memory, resident_bytes
from program_function import ProgramFunction
from vjp_tape import Primal, Pullback, Variable, VjpTape, mapped

SUBMODULES = (
    "jax.nn",
    "jax.numpy",
    "jax.numpy.fft",
    "jax.numpy.linalg",
    "jax.scipy.linalg",
    "jax.scipy.special",
)
"""What forms name: not all of it is there by importing jax alone."""

CACHES_BYTES = 1 << 30
"""Resident memory above which what was compiled is forgotten."""

COMPILED_KEPT = 512
"""Compiled functions kept for calls to come: samples of one op share shapes, and follow each other."""

VIEWS = frozenset(
    name
    for function in (
        "as_strided", "broadcast_to", "chunk", "detach", "diagonal", "dsplit", "flatten", "hsplit", "imag", "movedim",
        "moveaxis", "narrow", "permute", "ravel", "real", "reshape", "resolve_conj", "resolve_neg", "select", "split",
        "split_with_sizes", "squeeze", "swapaxes", "swapdims", "t", "tensor_split", "transpose", "unbind", "unflatten",
        "unsqueeze", "view_as_complex", "view_as_real", "vsplit", "atleast_1d", "atleast_2d", "atleast_3d", "adjoint",
        "expand", "expand_as", "contiguous", "view", "view_as", "reshape_as", "unfold", "to", "__getitem__",
        "T.__get__", "H.__get__", "mT.__get__", "mH.__get__", "T", "H", "mT", "mH", "linalg.diagonal", "positive",
        "broadcast_tensors", "meshgrid", "conj",
    )
    for name in (function, "Tensor." + function)
)  # fmt: skip
"""Ops whose results PyTorch documents as views, or as possibly the input itself (its page on tensor views)."""


class JaxFramework(MappedFramework):
    """One JAX on one device. Arrays never change, so inputs are variables of a tape, which in-place ops re-point."""

    name = "jax"
    version = str(jax.__version__)
    options_known = frozenset(("threads", "compile", "optimize"))

    def __init__(self, hello: Dict[str, Any]) -> None:
        self.platform = _platform(str(hello.get("device", "cpu")))
        options: Dict[str, Any] = hello.get("options", {})
        threads = int(options.get("threads") or hello.get("threads", 1))
        _configure(self.platform, threads, str(options.get("optimize", "1")) != "0")
        for name in SUBMODULES:
            importlib.import_module(name)
        self._jax_device = _device(str(hello.get("device", "cpu")), self.platform)
        self._seed = 0
        self._keys = 0
        self._key: Any = None
        self._compiled: "OrderedDict[Hashable, _Compiled]" = OrderedDict()
        self.tape = VjpTape(self._run, self._vjp, lambda a, b: a + b, _is_array, _is_inexact)
        namespace = {
            "jax": jax,
            "ops": importlib.import_module("jax_ops"),
            "windows": importlib.import_module("jax_windows"),
            "random_key": self.random_key,
            "functional": self.functional,
        }
        super().__init__(hello, dtypes(), namespace)
        self.compiles = "compile" in self.options
        self._within = False
        for name in VIEWS & set(self.table):
            self.table[name] = _sharing(self.table[name])

    def facts(self) -> Dict[str, Any]:
        """Version, device and thread count, for the report."""
        facts = super().facts()
        if self.platform != "cpu":
            facts["device_name"] = str(self._jax_device.device_kind)
            facts["cuda"] = str(getattr(self._jax_device.client, "platform_version", ""))
        return facts

    # Randomness.

    def seed(self, seed: int) -> None:
        """Begin JAX's keys anew from a seed."""
        self._seed = seed
        self._keys = 0
        self._key = None
        if resident_bytes() > CACHES_BYTES:
            # Some 3 MB for each compiled function, which JAX and malloc would keep.
            self._compiled.clear()
            jax.clear_caches()
            give_back_memory()

    def random_key(self) -> Any:
        """The next key of the program's seed: what JAX's random functions ask for."""
        # A key, also while a function is traced.
        with jax.ensure_compile_time_eval():
            if self._key is None:
                self._key = jax.random.key(self._seed & 0xFFFFFFFF)
            self._keys += 1
            return jax.random.fold_in(self._key, self._keys)

    # Tensors in and out.

    def from_numpy(self, array: Any, dtype: str) -> Any:
        """A variable of the array's elements."""
        kind = self.dtypes[dtype]
        if array.dtype != kind:
            array = array.view(kind)
        return Variable(jax.device_put(array, self._jax_device))

    def to_numpy(self, tensor: Any) -> Any:
        """The elements on the host; waits for them."""
        return numpy.asarray(tensor.array)

    def dtype_of(self, tensor: Any) -> Optional[str]:
        """The dtype's own name, where programs have that dtype."""
        name = str(tensor.array.dtype)
        return name if name in self.dtypes else None

    def is_tensor(self, value: Any) -> bool:
        """Whether it is a variable of the tape."""
        return type(value) is Variable

    def is_dtype(self, value: Any) -> bool:
        """Whether it is a NumPy dtype, which JAX's are."""
        return isinstance(value, numpy.dtype)

    def shape(self, tensor: Any) -> Tuple[int, ...]:
        """The array's shape."""
        return tuple(tensor.array.shape)

    def plain(self, value: Any) -> Any:
        """The array, whose shape and dtype conditions ask for."""
        return value.array if type(value) is Variable else mapped(self.plain, value)

    def owned(self, dtype: str, shape: Sequence[int], address: int, nbytes: int) -> Tuple[Any, Any]:
        """A new variable with a copy of the bytes; the base's snapshot, which reads it back, is not needed."""
        self._require_dtype(dtype)
        storage = self.storage(dtype, address, nbytes)
        strides = _contiguous(shape)
        return self.view(storage, dtype, shape, strides, 0, False, False), storage

    def assign(self, target: Any, result: Any) -> Any:
        """Re-point the variable. Raises UnsupportedError where PyTorch would change more than this one tensor."""
        if target.shared:
            raise UnsupportedError(
                "jax has no views, so no in-place op on a view or on what has one"
            )
        if target.array.shape != result.array.shape or target.array.dtype != result.array.dtype:
            raise UnsupportedError("an in-place result of another shape or dtype")
        target.assign(result)
        return target

    def reshaped(self, tensor: Any, shape: Sequence[int]) -> Any:
        """A variable of its own with another shape."""
        return Variable(tensor.array.reshape(shape))

    # Gradients.

    def require_grad(self, tensor: Any) -> None:
        """Make a variable a leaf of the tape."""
        self.tape.require_grad(tensor)

    def backward(self, outputs: List[Any], gradients: List[Any]) -> None:
        """Walk the tape back from all outputs at once."""
        self.tape.backward(outputs, [gradient.array for gradient in gradients])

    def gradient(self, leaf: Any) -> Optional[Any]:
        """What came back to a leaf."""
        found = self.tape.gradient(leaf)
        return None if found is None else Variable(found)

    # Calls.

    def apply(self, function: Callable[..., Any], values: List[Any]) -> Any:
        """Call a form through the tape."""
        return self.tape.call(function, values)

    def run_compiled(
        self, program: ProgramFunction, inputs: List[Any], backward: Backward
    ) -> Sequence[Any]:
        """All calls as one of the tape, under ``jax.jit``; what they assign to inputs are results of it too."""
        self._compiled.clear()

        def whole(*arrays: Any) -> Any:
            variables = list(map(Variable, arrays))
            self._within = True
            try:
                results = program.function(*variables)
            finally:
                self._within = False
            return self.plain((results, variables if program.writes_inputs else []))

        results, written = self.tape.call(whole, list(inputs))
        for variable, result in zip(inputs, written):
            variable.assign(result)
        return results

    def _run(self, primal: Primal, arrays: List[Any]) -> Sequence[Any]:
        if not self.compiles or self._within or not arrays:
            return primal(*arrays)
        drawn = self._keys
        compiled = self._compiled_call(primal, arrays, None)
        try:
            results = compiled.forward(*arrays)
        except _CONCRETE as error:
            raise UnsupportedError("jax.jit: %s" % str(error).partition("\n")[0]) from None
        if self._keys != drawn:
            # Its random key is a constant in it now.
            self._compiled.popitem()
        primal.structure = compiled.primal.structure
        return results

    def _vjp(
        self, primal: Primal, arrays: List[Any], wanted: List[bool]
    ) -> Tuple[Sequence[Any], Pullback]:
        before = self._keys
        results = self._run(primal, arrays)
        drawn = self._keys != before
        kinds = [(tuple(result.shape), result.dtype) for result in results]

        def pullback(cotangents: List[Any]) -> Sequence[Any]:
            given = [
                self._zeros(shape, dtype) if cotangent is None else cotangent
                for cotangent, (shape, dtype) in zip(cotangents, kinds)
                if numpy.issubdtype(dtype, numpy.inexact) or _is_small_float(dtype)
            ]
            if drawn:
                # The same keys once more.
                self._keys, after = before, self._keys
                parts = iter(_pulled(primal, wanted, arrays, given))
                self._keys = after
            else:
                parts = iter(self._pulled(primal, arrays, wanted, given))
            return [next(parts) if want else None for want in wanted]

        return results, pullback

    def _pulled(
        self, primal: Primal, arrays: List[Any], wanted: List[bool], given: List[Any]
    ) -> Sequence[Any]:
        try:
            return self._compiled_call(primal, arrays, tuple(wanted)).pull(arrays, given)
        except _CONCRETE:
            # It looks at its values. Op by op it can.
            return _pulled(primal, wanted, arrays, given)

    def _compiled_call(
        self, primal: Primal, arrays: List[Any], wanted: Optional[Tuple[bool, ...]]
    ) -> _Compiled:
        """The compiled forms of a call, kept by all that compiling depends on."""
        shapes = tuple([(array.shape, array.dtype) for array in arrays])
        key = (primal.function, _frozen(primal.template), shapes, wanted)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = _compile(primal, wanted)
            if len(self._compiled) > COMPILED_KEPT:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(key)
        return found

    def _zeros(self, shape: Tuple[int, ...], dtype: Any) -> Any:
        return jax.device_put(numpy.zeros(shape, dtype), self._jax_device)


class _Compiled(NamedTuple):
    """A call, compiled forward or backward. ``primal`` is the one that was traced, whose structure is this call's."""

    primal: Primal
    forward: Callable[..., Sequence[Any]]
    pull: Callable[[List[Any], List[Any]], Sequence[Any]]


def _compile(primal: Primal, wanted: Optional[Tuple[bool, ...]]) -> _Compiled:
    traced = Primal(primal.function, primal.template, _is_array)

    def pull(arrays: List[Any], given: List[Any]) -> Sequence[Any]:
        return _pulled(traced, wanted or (), arrays, given)

    return _Compiled(traced, jax.jit(traced), jax.jit(pull))


def _pulled(
    primal: Primal, wanted: Sequence[bool], arrays: List[Any], given: List[Any]
) -> Sequence[Any]:
    """Cotangents of the wanted arrays. JAX's are the conjugates of PyTorch's on both sides.

    JAX transposes the linear map of tangents without a conjugate: for f holomorphic its cotangent is c f'(z), where the
    gradient dL/dx + i dL/dy is g conj(f'(z)); with c = conj(g) one is the other's conjugate. ("The Autodiff Cookbook",
    complex numbers and differentiation, of JAX's documentation; "Autograd mechanics" of PyTorch's.)
    """
    leaves = [array for array, want in zip(arrays, wanted) if want]

    def of_leaves(*inner: Any) -> Tuple[Any, ...]:
        parts = iter(inner)
        return primal(*[next(parts) if want else a for a, want in zip(arrays, wanted)])

    results, pull = jax.vjp(of_leaves, *leaves)
    parts = iter(given)
    cotangents = [
        _conjugate(next(parts).astype(result.dtype))
        if _is_inexact(result)
        else numpy.zeros(result.shape, jax.dtypes.float0)
        for result in results
    ]
    return [_conjugate(cotangent) for cotangent in pull(tuple(cotangents))]


def _conjugate(array: Any) -> Any:
    return array.conj() if numpy.issubdtype(array.dtype, numpy.complexfloating) else array


_CONCRETE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""What JAX raises where a function asks for values that there are none of while it is compiled."""


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array)


def _is_small_float(dtype: Any) -> bool:
    return dtype.kind == "V" and str(dtype).startswith(("bfloat", "float"))


def _is_inexact(array: Any) -> bool:
    return array.dtype.kind in "fc" or _is_small_float(array.dtype)


def _frozen(value: Any) -> Hashable:
    """A hashable value that is equal only for templates that mean the same: ``True`` is not 1, -0.0 is not 0.0."""
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_frozen, value))
    if isinstance(value, dict):
        return (dict, *((_frozen(key), _frozen(item)) for key, item in value.items()))
    if isinstance(value, slice):
        return (slice, _frozen(value.start), _frozen(value.stop), _frozen(value.step))
    return type(value), repr(value)


def _sharing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A view op: its arguments and results would see each other's assignments."""

    def sharing(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        for variable in (*_variables(args), *_variables(kwargs), *_variables(result)):
            variable.shared = True
        return result

    return sharing


def _variables(value: Any) -> List[Variable]:
    if type(value) is Variable:
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [variable for item in value for variable in _variables(item)]
    return []


def _contiguous(shape: Sequence[int]) -> List[int]:
    strides: List[int] = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return strides[::-1]


def dtypes() -> Dict[str, Any]:
    """Canonical names -> dtypes: NumPy's, and those that ml_dtypes brings to it."""
    found: Dict[str, Any] = {}
    for name in ITEM_BYTES:
        own = getattr(ml_dtypes, name, None)
        if own is not None:
            found[name] = numpy.dtype(own)
        elif str(numpy_dtype(name)) == name:
            found[name] = numpy_dtype(name)
    return found


def _platform(device: str) -> str:
    """JAX's name of a target's device. Raises StartError."""
    kind = device.partition(".")[0].partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise StartError("jax runs on the cpu or cuda here, not on %r" % device)
    return kind


def _configure(platform: str, threads: int, optimize: bool) -> None:
    """Fix what has to be so before JAX starts its backend."""
    flags = [os.environ.get("XLA_FLAGS", "")]
    if threads == 1:
        flags.append("--xla_cpu_multi_thread_eigen=false")
    if not optimize:
        flags.append("--xla_backend_optimization_level=0")
        if _release() >= (0, 7):
            # Kernels by LLVM's loops in place of MLIR's fusions; earlier releases may not know the flag, and abort.
            flags.append("--xla_cpu_use_fusion_emitters=false")
    if platform == "cuda":
        flags.append("--xla_gpu_deterministic_ops=true")
        # TF32 off.
        jax.config.update("jax_default_matmul_precision", "highest")
    os.environ["XLA_FLAGS"] = " ".join(flags).strip()
    # XLA's CPU client takes its number of threads from this variable.
    os.environ["NPROC"] = str(threads)
    jax.config.update("jax_platforms", platform)
    jax.config.update("jax_enable_x64", True)


def _release() -> Tuple[int, ...]:
    return tuple(int(part) for part in jax.__version__.split(".")[:2])


def _device(device: str, platform: str) -> Any:
    number = device.replace(":", ".").partition(".")[2] or "0"
    try:
        devices = jax.devices(platform)
    except (RuntimeError, AssertionError) as error:
        # An AssertionError without a word: this jaxlib has no such platform.
        reason = str(error).partition("\n")[0] or "not in this jaxlib"
        raise StartError("jax on %s: %s" % (platform, reason)) from None
    if int(number) >= len(devices):
        raise StartError("jax has %d %s devices, no %s" % (len(devices), platform, device))
    jax.config.update("jax_default_device", devices[int(number)])
    return devices[int(number)]


def make(hello: Dict[str, Any]) -> JaxFramework:
    """A JAX ready to run programs. Raises StartError for an unknown option or device."""
    return JaxFramework(hello)
