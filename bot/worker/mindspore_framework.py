"""MindSpore 2.7 to 2.10 on the CPU, in PyNative mode: ``mint`` first, then ``ops`` and Tensor's methods.

Gradients come from the engine behind ``mindspore.grad``. Since 2.10 it takes tensors that want a gradient, one by one,
and runs backward from any outputs, as this worker's programs need it; earlier releases differentiate whole functions only.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy

# Read by MindSpore when it is imported: errors alone. Each empty result, and each name that moved, is warned of.
os.environ.setdefault("GLOG_v", "3")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import mindspore
    from mindspore import _c_expression, mint, ops

    try:
        from mindspore.graph import jit_trace
        from mindspore.graph.api import _pynative_executor
    except ImportError:  # before 2.9
        from mindspore.common import jit_trace
        from mindspore.common.api import _pynative_executor

from framework import ITEM_BYTES, Backward, StartError, UnsupportedError
from mapped_framework import MappedFramework
from process_memory import resident_bytes
from program_function import ProgramFunction

DTYPES: Dict[str, Any] = {
    name: getattr(mindspore, "bool_" if name == "bool" else name)
    for name in ITEM_BYTES
    if name == "bool" or hasattr(mindspore, name)
}
NAMES: Dict[str, str] = {str(dtype): name for name, dtype in DTYPES.items()}
"""A dtype's own name -> its name in programs."""

SUBPACKAGES = ("numpy", "scipy")
"""Those that forms name and that importing mindspore alone does not import."""

WORN_BYTES = 3 << 30
"""Resident memory above which a process with all that it has compiled is replaced."""

_RUN_BACKWARD: Any = getattr(_c_expression, "run_backward", None)

_LACKS = re.compile(
    # No kernel for this device, or none for this dtype.
    r"The kernel \S+ unregistered|Create kernelmod for op \S+ failed|[Uu]nsupported op|[Ss]elect(ed)? ?kernel|"
    r"is not supported on this device|not support(ed)? (on|in) (the )?CPU|There is no branch to go|"
    r"Not implement exception|should not come here|[Nn]ot (yet )?(been )?implement|Not found op|bprop not defined|"
    r"doesn't requires? grad and not have a grad_fn|"
    # An op that calls a compiled function records it inside of mindspore.grad alone.
    r"The pointer\[top_cell_\] is null|"
    # A graph's gradient of a list of tensors that each want one: mindspore.grad has it, backward from outputs has not.
    r"Bprop \"\w+\" encounter a problem: \[The pointer|"
    # Dtypes, where it lists what it has, or says that it lacks one.
    r"must be a type of|supports? types?:|type(s)? (is|are) unsupported|type should be|[Uu]nsupported (data ?)?type|"
    r"dtype'? of '?\w+'? must not be|'dtype' must be an? |"
    r"(input|data|dtype|argument|parameter)[^.\n]{0,60} (must|should) be (in |one of )?\W*(mindspore\.)?(dtype|(Int|UInt|Float|Complex|Bool)(\d+|\b))|"
    r"only supports? |(does not|doesn't|do not|don't|not|no) (yet )?support|is not supported|"
    # Its parsers of arguments, and Python's for what it wraps: the op has no such signature.
    r"Failed calling \S+ with|unexpected keyword argument|positional arguments? but|missing \d+ required|"
    r"multiple values for argument|the type of '?\S+'? (must|should) be"
)
_FRAMEWORK_STACK = re.compile(
    r"\n*-{20,}\n- (C\+\+ Call Stack|Framework Unexpected Exception|The Traceback of Net).*", re.S
)
"""Call stacks of C++ and Python, for developers of the framework, are at the end; before them stands the cause."""
_NODE = re.compile(r"\nnode: @[^\n]*")
_RULE = re.compile(r"-{20,}\n")
_SOURCE = re.compile(r"(?:[\w.+-]+/)*[\w.+-]+\.(?:cc|h|cpp|py):\d+ ?(?:\w+\])?")
_FOLDER = re.compile(r"/[^\s:\"']*/(?=[^/\s]+)")


class MindSporeFramework(MappedFramework):
    """One MindSpore on the CPU; every op has run before its call returns."""

    name = "mindspore"
    version = str(mindspore.__version__)
    options_known = frozenset(("threads", "jit"))

    def __init__(self, hello: Dict[str, Any]) -> None:
        if hello.get("device", "cpu") != "cpu":
            raise StartError("mindspore runs on the cpu only here, not on %r" % hello["device"])
        super().__init__(hello, DTYPES, {"mindspore": mindspore, "mint": mint, "ops": ops})
        _settle(self.threads)
        self._wants_gradients = False
        self.compiles = "jit" in self.options
        if self.compiles and "capture_mode" not in inspect.signature(mindspore.jit).parameters:
            raise StartError("mindspore %s has no jit that traces; 2.6 has" % self.version)
        # It notes the lines that call each op, and fails where a frame has no source, as a form's has none.
        jit_trace._get_caller_lines = lambda: (["program"], [1])
        self._tries = _Tries()

    def facts(self) -> Dict[str, Any]:
        """Version and thread count, for the report; a graph draws other random numbers than single ops."""
        return {**super().facts(), "same_random": not self.compiles}

    def seed(self, seed: int) -> None:
        """Reseed the generators of ``ops`` and of ``mint``; turn recording off until an input wants a gradient."""
        mindspore.set_seed(seed % (1 << 32))
        mindspore.manual_seed(seed)
        if self._wants_gradients:
            self._wants_gradients = False
            _pynative_executor.set_grad_flag(False)

    # Tensors.

    def from_numpy(self, array: Any, dtype: str) -> Any:
        """A new tensor of the array's elements; bfloat16 from float32 values that it holds exactly."""
        if dtype == "bfloat16":
            # MindSpore gives NumPy a dtype of this name, by which the array may come.
            bits = array.view(numpy.uint16).astype(numpy.uint32)
            bits = numpy.left_shift(bits, numpy.uint32(16))
            wide = numpy.asarray(bits, numpy.uint32).view(numpy.float32)
            return mindspore.Tensor(wide).astype(mindspore.bfloat16)
        return mindspore.Tensor(array, DTYPES[dtype])

    def to_numpy(self, tensor: Any) -> Any:
        """A copy in host memory; bfloat16 as its bits."""
        if tensor.dtype == mindspore.bfloat16:
            wide = tensor.astype(mindspore.float32).asnumpy()
            bits = numpy.right_shift(wide.view(numpy.uint32), numpy.uint32(16))
            return numpy.asarray(bits, numpy.uint16)
        return tensor.asnumpy()

    def dtype_of(self, tensor: Any) -> Optional[str]:
        """The dtype's name in programs."""
        return NAMES.get(str(tensor.dtype))

    def is_tensor(self, value: Any) -> bool:
        """Whether it is a mindspore.Tensor."""
        return isinstance(value, mindspore.Tensor)

    def is_dtype(self, value: Any) -> bool:
        """Whether it is a dtype of MindSpore's."""
        return isinstance(value, mindspore.Type)

    def kept(self, target: Any) -> Any:
        """A copy: MindSpore's autograd does not notice that a tensor which it keeps is written to."""
        if not self._wants_gradients:
            return target
        return target.copy()

    def assign(self, target: Any, result: Any) -> Any:
        """Put a result into the target by ``target[...] = result``, which MindSpore's autograd sees."""
        if target.shape != result.shape or target.dtype != result.dtype:
            raise UnsupportedError("an in-place result of another shape or dtype")
        target[...] = result
        return target

    # Compiled.

    def run_compiled(
        self, program: ProgramFunction, inputs: List[Any], backward: Backward
    ) -> Sequence[Any]:
        """As one graph of ``mindspore.jit``, which traces the forms; its autograd is that of one op.

        While it is traced an op that has no kernel stands in the graph all the same. So the calls run op by op before,
        which shows the form that each is to be called by.
        """
        if program.writes_inputs:
            raise UnsupportedError("what mindspore compiles does not write to its inputs")
        self._tries.record()
        try:
            program.function(*inputs)
        except Exception as error:
            if self.classify(error, "", "forward") == "unsupported":
                self._tries.forget()
                raise
            # An op's own error: the graph must have it too.
        self._tries.repeat()
        try:
            results = mindspore.jit(program.function, capture_mode="trace")(*inputs)
            self.worn = resident_bytes() > WORN_BYTES
            return results
        except Exception:
            # A trace that stopped half-way is left in the process.
            self.worn = True
            raise
        finally:
            self._tries.forget()

    # Gradients.

    def require_grad(self, tensor: Any) -> None:
        """Make it a leaf that wants a gradient. Nothing in releases that cannot: their forward results count."""
        if _RUN_BACKWARD is None:
            return
        if not self._wants_gradients:
            self._wants_gradients = True
            _pynative_executor.set_grad_flag(True)
        tensor.requires_grad_()

    def backward(self, outputs: List[Any], gradients: List[Any]) -> None:
        """Run backward from all outputs at once. Raises UnsupportedError in a release that cannot."""
        if _RUN_BACKWARD is None:
            raise UnsupportedError("mindspore %s gives no gradients of calls" % self.version)
        _RUN_BACKWARD(
            tuple(outputs), tuple(gradients), False, False, (), True, accumulate_grad=True
        )

    def gradient(self, leaf: Any) -> Optional[Any]:
        """What backward left on the leaf."""
        return leaf._grad

    # Errors.

    def apply(self, function: Any, values: List[Any]) -> Any:
        """Call a form's function. Raises UnsupportedError for what MindSpore lacks, so that the op's next form is tried."""
        self._tries.next()
        try:
            result = function(*values)
            self._tries.had()
            return result
        except UnsupportedError:
            raise
        except Exception as error:
            if self._wants_gradients:  # which some kernels' errors leave turned off
                _pynative_executor.set_grad_flag(True)
            if self.classify(error, "", "forward") == "unsupported":
                raise UnsupportedError("%s: %s" % self.describe(error)) from None
            self._tries.had()
            raise

    def classify(self, error: Exception, name: str, phase: str) -> str:
        """Unsupported: MindSpore says that it has no such kernel, dtype or signature."""
        if isinstance(error, (UnsupportedError, NotImplementedError)):
            return "unsupported"
        return "unsupported" if _LACKS.search(str(error)) else "exception"

    def describe(self, error: Exception) -> Tuple[str, str]:
        """Without stacks, and without folders and source lines of the machine that MindSpore was built on."""
        text = _RULE.sub("", _NODE.sub("", _FRAMEWORK_STACK.sub("", str(error))))
        return type(error).__name__, _FOLDER.sub("", _SOURCE.sub("", text)).strip()


class _Tries:
    """Which of a program's forms MindSpore had, in the order of their calls, so that a second run calls those alone."""

    def __init__(self) -> None:
        self.forget()

    def record(self) -> None:
        """Begin to write down."""
        self._seen: List[bool] = []
        self._told: Optional[List[bool]] = None
        self._recording = True

    def repeat(self) -> None:
        """Begin anew with what was written down."""
        self._told = self._seen[::-1]
        self._recording = False

    def forget(self) -> None:
        """Neither."""
        self._seen = []
        self._told = None
        self._recording = False

    def next(self) -> None:
        """A form is about to be called. Raises UnsupportedError where MindSpore did not have it in the run before."""
        if self._recording:
            self._seen.append(False)
        elif self._told and not self._told.pop():
            raise UnsupportedError("a form that mindspore lacks")

    def had(self) -> None:
        """MindSpore had the form that was called last, whatever it gave or raised."""
        if self._recording:
            self._seen[-1] = True


def make(hello: Dict[str, Any]) -> MindSporeFramework:
    """A MindSpore ready to run programs. Raises StartError for an unknown option or device."""
    warnings.simplefilter("ignore")
    for name in SUBPACKAGES:
        importlib.import_module("mindspore." + name)
    return MindSporeFramework(hello)


def _settle(threads: int) -> None:
    """PyNative mode, one op after the other, with this many threads."""
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE, device_target="CPU")
    mindspore.runtime.dispatch_threads_num(threads)
    mindspore.runtime.launch_blocking()
