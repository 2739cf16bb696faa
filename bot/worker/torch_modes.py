"""Modes of PyTorch: what runs a program's calls as one compiled function.

``compile=inductor|aot_eager|eager`` is ``torch.compile`` of that backend, without graph breaks (``fullgraph=True``): what
breaks the graph is what the compiler does not take, so it is coverage. ``script`` is ``torch.jit.script``, which compiles
the source and checks every call against an op's schema; ``script=trace`` is ``torch.jit.trace``, which takes more ops and
is the older way to the same executor.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import tempfile
from typing import Any, Callable, Dict, Generator, List, Optional, Sequence, Tuple

import torch
from framework import StartError, UnsupportedError
from program_function import ProgramFunction

BACKENDS = ("inductor", "aot_eager", "eager")
SCRIPTS = ("script", "trace")
WORN_BYTES = 3 << 30
"""Resident memory above which the process is replaced: what was compiled is loaded code, which is never unloaded."""

_LOST_KEPT = ("precompiled_headers",)
_OBSERVED = re.compile(r"raised exception (\w+)\((.*)\)", re.DOTALL)
_SCRIPT_ERROR = re.compile(r"^(?:\w+\.)*(\w+): ", re.MULTILINE)


class Mode:
    """How the calls of a program are run as one function."""

    same_random = True
    """Whether it draws the random numbers that running the calls one by one draws."""

    methods = False
    """Whether it wants methods called as methods."""

    def reset(self) -> None:
        """Forget what was compiled."""

    def run(self, program: ProgramFunction, inputs: List[Any], reseed: Callable[[], None]) -> Any:
        """Compile and run. ``reseed`` brings generators back to the program's seed after a run in vain."""
        raise NotImplementedError

    def original(self, error: Exception) -> Exception:
        """The op's own exception behind one of the compiler's."""
        return error

    def lacks(self, error: Exception) -> str:
        """What the compiler does not take, where that is why it raised; else an empty text."""
        return ""


def mode_of(options: Dict[str, str]) -> Optional[Mode]:
    """The mode that a target's options ask for. Raises StartError when it cannot be had."""
    chosen = [key for key in ("compile", "script") if key in options]
    if len(chosen) > 1:
        raise StartError("torch takes one of compile and script, not both")
    if not chosen:
        return None
    if chosen == ["compile"]:
        return Dynamo(_one_of("compile", options["compile"] or BACKENDS[0], BACKENDS))
    return TorchScript(_one_of("script", options["script"] or SCRIPTS[0], SCRIPTS))


def _one_of(key: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise StartError("torch has no %s=%s; known are %s" % (key, value, ", ".join(known)))
    return value


class Dynamo(Mode):
    """``torch.compile``. Each program is compiled anew: nothing that one leaves behind may change another's outcome."""

    def __init__(self, backend: str) -> None:
        if not hasattr(torch, "compile"):
            raise StartError(
                "torch %s has no torch.compile; it came with 2.0" % (torch.__version__,)
            )
        self._backend = backend
        self._folder = tempfile.mkdtemp(prefix="inductor-")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = self._folder
        from torch import _dynamo

        self._exceptions = _dynamo.exc
        # Each failing fake tensor is logged with its stack, which nobody reads.
        logging.disable(logging.CRITICAL)
        with _lenient():
            torch._functorch.config.enable_autograd_cache = False
        if backend == "inductor":
            self._settle_inductor()

    def _settle_inductor(self) -> None:
        from torch._inductor import config, cpp_builder

        try:
            cpp_builder.get_cpp_compiler()
        except Exception as error:
            raise StartError(
                "torch.compile's inductor needs a C++ compiler (g++ or clang++) and finds none: %s"
                % " ".join(str(error).split())[:200]
            ) from None
        # In this very process, one after another, so that a death is this program's.
        config.compile_threads = 1
        # Random ops as they are without a compiler, or nothing could be compared by value.
        config.fallback_random = True
        for name in ("fx_graph_cache", "fx_graph_remote_cache", "autotune_local_cache"):
            with _lenient():
                setattr(config, name, False)
        with _lenient():
            # Else it proves the processor's instructions in processes that import all of PyTorch.
            config.cpp.vec_isa_ok = True
        self._prove()

    def _prove(self) -> None:
        """Compile a first function: it takes many times as long as any later one, and shows what is missing here."""
        try:
            torch.compile(torch.exp, backend=self._backend)(torch.zeros(4))
        except Exception as error:
            name, message = shortened(error)
            raise StartError(
                "torch.compile's inductor does not work here: %s: %s"
                % (name, " ".join(message.split())[-300:])
            ) from None

    def reset(self) -> None:
        """Forget all compiled code, in memory and on disk; what headers were compiled stays, for it is the same."""
        torch._dynamo.reset()
        if self._backend != "inductor":
            return
        with _lenient():
            torch._inductor.utils.clear_caches()
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder):
                if entry.is_dir(follow_symlinks=False) and entry.name not in _LOST_KEPT:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def run(self, program: ProgramFunction, inputs: List[Any], reseed: Callable[[], None]) -> Any:
        """The first call compiles."""
        function = torch.compile(program.function, backend=self._backend, fullgraph=True)
        return function(*inputs)

    def original(self, error: Exception) -> Exception:
        """What the op itself raised on the tensors without data that Dynamo traces with."""
        exceptions = self._exceptions
        if isinstance(error, exceptions.TorchRuntimeError):
            for place in (error.__context__, error):
                cause = getattr(place, "__cause__", None)
                if isinstance(cause, Exception) and not self._is_own(cause):
                    return cause
        if isinstance(error, exceptions.Unsupported):
            cause = error.__cause__
            if isinstance(cause, TypeError) and _about(error) == (
                "TypeError when making fake tensor call"
            ):
                return cause
            if _about(error) == "Observed exception":
                return _observed(error)
        return error

    def _is_own(self, error: BaseException) -> bool:
        return isinstance(error, self._exceptions.TorchDynamoException)

    def lacks(self, error: Exception) -> str:
        """A graph break, or an op whose result's shape depends on values."""
        exceptions = self._exceptions
        inner: Optional[BaseException] = error
        for _ in range(8):
            if inner is None:
                break
            if isinstance(inner, (exceptions.Unsupported, exceptions.UserError)):
                return "torch.compile breaks the graph: %s" % _summary(inner)
            if type(inner).__name__ in _DATA_DEPENDENT:
                return "torch.compile: %s: %s" % (type(inner).__name__, _summary(inner))
            inner = getattr(inner, "inner_exception", None) or inner.__cause__
        return ""


_DATA_DEPENDENT = frozenset(
    (
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "UnsupportedOperatorException",
        "GuardOnDataDependentSymNode",
    )
)


class TorchScript(Mode):
    """``torch.jit.script`` or ``torch.jit.trace``, run by the executor that optimises after one profiled run."""

    def __init__(self, how: str) -> None:
        self._trace = how == "trace"
        self.methods = not self._trace

    def run(self, program: ProgramFunction, inputs: List[Any], reseed: Callable[[], None]) -> Any:
        """Compile, run once on copies, which is profiled, then run what was optimised by it."""
        try:
            if self._trace:
                function = torch.jit.trace(
                    program.function, tuple(_copies(inputs)), check_trace=False
                )
            else:
                function = torch.jit.script(program.function)
        except Exception as error:
            if self._trace and not _refused_by_tracer(error):
                raise
            raise UnsupportedError("torch.jit: %s" % _summary(error)) from None
        reseed()
        function(*_copies(inputs))
        reseed()
        return function(*inputs)

    def original(self, error: Exception) -> Exception:
        """The interpreter puts its own traceback before an op's message; the message is the last that it says."""
        text = str(error)
        if "TorchScript interpreter" not in text:
            return error
        said = list(_SCRIPT_ERROR.finditer(text))
        return _named(said[-1].group(1), text[said[-1].end() :].strip()) if said else error


def _refused_by_tracer(error: Exception) -> bool:
    """Whether it is the tracer that does not take a function, not an op that raises while it runs."""
    return "traced functions" in str(error) or "Tracer" in str(error) or "tracing" in str(error)


def _copies(inputs: Sequence[Any]) -> List[Any]:
    return [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in inputs]


def _about(error: BaseException) -> str:
    """The kind of graph break, which releases before 2.8 only say in the message."""
    return getattr(error, "gb_type", "") or _summary(error)


def _summary(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def _observed(error: Exception) -> Exception:
    """An exception that the traced Python raised itself: Dynamo describes it, it does not hand it on."""
    said = _OBSERVED.search(str(error))
    return error if said is None else _named(said.group(1), said.group(2).strip())


def _named(kind: str, message: str) -> Exception:
    """An exception with the class name that was said; only its name and message are ever looked at."""
    base = {"TypeError": TypeError, "NotImplementedError": NotImplementedError}.get(kind, Exception)
    made: Any = type(kind, (base,), {})
    return made(message)


@contextlib.contextmanager
def _lenient() -> Generator[None, None, None]:
    """For switches that a release may not have."""
    with contextlib.suppress(AttributeError, ImportError):
        yield


def shortened(error: BaseException) -> Tuple[str, str]:
    """A compiler's own exception: its class, and the message up to where it begins to advise."""
    message = str(error)
    for mark in ("\n\nSet TORCHDYNAMO_VERBOSE", "\n\nfrom user code", "\nYou can suppress this"):
        message = message.partition(mark)[0]
    return type(error).__name__, message.strip()
