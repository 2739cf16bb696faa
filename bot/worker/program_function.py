"""A program's calls as one Python function of its tensors: what a compiler is given.

A compiler must see all calls at once, so that what it does across calls (fusion, common subexpressions, views) is
tested, and it must see plain code: some read bytecode, some the source. So the function is written out, one line a call::

    def forward(x0, x1):
        r0 = f0(x0, x1, dim=1)
        r1 = f1(r0[0], c0)
        return (r0, r1)

Nothing that a program says gets into the text but numbers, quoted texts and argument names that are identifiers: ops
are looked up in the framework's table and stand in the function's globals (``f0``), as do dtypes and the like (``c0``).
"""

from __future__ import annotations

import itertools
import keyword
import linecache
import re
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import values
from framework import Adapter, Backward, Framework, RefusedError, UnsupportedError

FIRST_LINE = 2
"""The line of the first call: ``def`` stands on the first line."""

MODULE_CALL = "nn.Module.__call__"
_MODULE_STATES = ("nn.Module.train", "nn.Module.eval")
_IN_PLACE_OPERATOR = re.compile(
    r"__(setitem|i(add|and|div|floordiv|lshift|matmul|mod|mul|or|pow|rshift|sub|truediv|xor))__$"
)
_STATISTICS = ("running_mean", "running_var")
_UPDATES_STATISTICS: Dict[str, Tuple[str, bool]] = {
    "nn.functional.batch_norm": ("training", False),
    "nn.functional.instance_norm": ("use_input_stats", True),
}
"""Functions that write to their second and third argument, the running statistics, where a named one is true."""
_numbers = itertools.count()


class ProgramFunction(NamedTuple):
    """The function and what its parts stand for. ``ops`` and ``results`` are one for each member of what it returns."""

    function: Callable[..., Tuple[Any, ...]]
    source: str
    filename: str
    inputs: Tuple[str, ...]
    """The program's names of the function's parameters."""
    ops: Tuple[str, ...]
    results: Tuple[str, ...]
    modules: Tuple[Tuple[str, Any], ...]
    """The modules that it calls, by their names in its globals."""
    writes_inputs: bool
    """Whether one of its calls is known to write to an input."""

    def line_of(self, error: BaseException) -> Optional[int]:
        """The index of the call whose line an exception came from; None where it does not say."""
        if len(self.ops) == 1:
            return 0
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == self.filename
        ]
        if not lines:
            # Compilers say the place in words: their own frames end inside themselves.
            said = re.findall(r'File "%s", line (\d+)' % re.escape(self.filename), str(error))
            lines = [int(line) for line in said]
        index = (lines[-1] or 0) - FIRST_LINE if lines else -1
        return index if 0 <= index < len(self.ops) else None


def first_compiled(calls: Sequence[Dict[str, Any]], framework: Framework) -> int:
    """Where the part of a program begins that is compiled: after its modules are made and set up.

    A module is made once and called often, so no compiler is asked to compile its constructor.
    """
    begin = 0
    for index, call in enumerate(calls):
        name = call["fn"]
        if name in _MODULE_STATES or isinstance(framework.table.get(name), type):
            begin = index + 1
    return begin


def program_function(
    calls: Sequence[Dict[str, Any]],
    environment: Dict[str, Any],
    framework: Framework,
    as_methods: bool = False,
) -> ProgramFunction:
    """The function of some calls. ``as_methods``: ``x0.add(x1)`` in place of ``Tensor.add(x0, x1)``.

    Raises UnsupportedError and RefusedError, as looking up ops and decoding arguments does.
    """
    writer = _Writer(environment, framework, as_methods)
    lines = [writer.call(index, call) for index, call in enumerate(calls)]
    returned = "".join("r%d, " % index for index in range(len(calls)))
    source = "def forward(%s):\n%s    return (%s)\n" % (
        ", ".join("x%d" % index for index in range(len(writer.inputs))),
        "".join("    %s\n" % line for line in lines),
        returned,
    )
    filename = "<program %d>" % next(_numbers)
    exec(compile(source, filename, "exec"), writer.scope)
    # Compilers that read the source find it as they find any function's.
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    return ProgramFunction(
        writer.scope["forward"],
        source,
        filename,
        tuple(writer.inputs),
        tuple(call["fn"] for call in calls),
        tuple(call["result"] for call in calls),
        tuple((name, writer.scope[name]) for name in writer.modules.values()),
        writer.writes_inputs,
    )


def forget(program: ProgramFunction) -> None:
    """Let go of the source that :func:`program_function` left for compilers to find."""
    linecache.cache.pop(program.filename, None)


def backward_of(
    program: ProgramFunction, entries: Sequence[Dict[str, Any]], environment: Dict[str, Any]
) -> Backward:
    """A program's backward entries by the index of the result that each begins at; no gradient where it is generated.

    Raises RefusedError.
    """
    indices = {name: index for index, name in enumerate(program.results)}
    found: List[Tuple[int, Tuple[int, ...], Any]] = []
    for entry in entries:
        output = entry["output"]
        if output.get("ref") in indices:
            name = entry.get("gradient")
            gradient = None if name is None else environment[name]
            found.append((indices[output["ref"]], tuple(output.get("path") or ()), gradient))
    return found


def last_writing(calls: Sequence[Dict[str, Any]]) -> int:
    """The index of the last call that may write to what it is given, by PyTorch's names for such ops; -1 for none."""
    for index in reversed(range(len(calls))):
        if may_write(calls[index]):
            return index
    return -1


def may_write(call: Dict[str, Any]) -> bool:
    """Whether a call may write to its arguments: an in-place op, one with ``out``, or a module, which may do so."""
    fn = call["fn"]
    if fn in _UPDATES_STATISTICS:
        return _updates_statistics(call, *_UPDATES_STATISTICS[fn])
    name = fn.rpartition(".")[2]
    in_place = name.endswith("_") and not name.endswith("__")
    named = call.get("kwargs") or {}
    return (
        in_place
        or _IN_PLACE_OPERATOR.match(name) is not None
        or fn == MODULE_CALL
        or named.get("out") is not None
        or named.get("inplace") is True
    )


def _updates_statistics(call: Dict[str, Any], flag: str, default: bool) -> bool:
    """Whether a normalisation gets statistics and is told to update them; PyTorch takes the flag as sixth argument."""
    args, named = call.get("args", ()), call.get("kwargs") or {}
    given = [*args[1:3], *(named.get(key) for key in _STATISTICS)]
    told = args[5] if len(args) > 5 else named.get(flag, default)
    return told is True and any(value is not None for value in given)


class _Writer:
    """Writes calls as lines, and gathers what they name."""

    def __init__(self, environment: Dict[str, Any], framework: Framework, as_methods: bool) -> None:
        self.scope: Dict[str, Any] = {"__name__": "program"}
        self.inputs: List[str] = []
        self.modules: Dict[str, str] = {}
        self.writes_inputs = False
        self._environment = environment
        self._framework = framework
        self._as_methods = as_methods
        self._locals: Dict[str, str] = {}

    def call(self, index: int, call: Dict[str, Any]) -> str:
        """One call as a line."""
        name = call["fn"]
        arguments = [self.value(value) for value in call.get("args", ())]
        if name.startswith("Tensor.") and arguments and not _has_reference(call["args"][0]):
            # Without a compiler that is a TypeError of the descriptor; a compiler may read it as the operator.
            raise UnsupportedError("a tensor's method of something else, in a compiled function")
        named: List[str] = []
        for key, value in (call.get("kwargs") or {}).items():
            if not key.isidentifier() or keyword.iskeyword(key):
                raise RefusedError("%r is no argument's name" % key)
            named.append("%s=%s" % (key, self.value(value)))
        if may_write(call) and name != MODULE_CALL:
            first, last = (1, 3) if name in _UPDATES_STATISTICS else (0, 1)
            written = arguments[first:last]
            written += [text for text in named if text.startswith(("out=", "running_"))]
            self.writes_inputs |= any(re.search(r"\bx\d+$", text) for text in written)
        called = self._called(index, name, arguments)
        self._locals[call["result"]] = "r%d" % index
        return "r%d = %s(%s)" % (index, called, ", ".join(arguments + named))

    def _called(self, index: int, name: str, arguments: List[str]) -> str:
        """What is called, as text; takes the arguments that it holds itself out of the list."""
        function = self._framework.lookup(name)
        if name == MODULE_CALL and arguments and arguments[0] in self.modules.values():
            return arguments.pop(0)
        if self._as_methods and name.startswith("Tensor.") and arguments:
            method = name[len("Tensor.") :]
            if method.isidentifier() and not method.startswith("_"):
                return "%s.%s" % (arguments.pop(0), method)
        adapter = self._framework.adapters.get(name)
        self.scope["f%d" % index] = function if adapter is None else _adapted(function, adapter)
        return "f%d" % index

    def value(self, value: Any) -> str:
        """An argument as an expression."""
        if isinstance(value, list):
            return "[%s]" % ", ".join(map(self.value, value))
        if not isinstance(value, dict):
            return repr(value)
        if "ref" in value:
            return self._reference(value)
        ((key, inner),) = value.items()
        if key == "tuple":
            return "(%s)" % "".join(self.value(item) + ", " for item in inner)
        if key == "slice":
            return "slice(%s)" % ", ".join(map(self.value, inner))
        if key == "dict":
            return "{%s}" % ", ".join("%s: %s" % (self.value(k), self.value(v)) for k, v in inner)
        if key == "ellipsis":
            return "..."
        if key == "size" and _has_reference(inner):
            raise UnsupportedError("a size that holds a result, in a compiled function")
        return self._constant(values.decode(value, {}, self._framework))

    def _reference(self, entry: Dict[str, Any]) -> str:
        name = entry["ref"]
        path = entry.get("path") or ()
        local = self._locals.get(name)
        if local is not None:
            return local + "".join("[%d]" % index for index in path)
        found = values.reference(entry, self._environment)
        if path:
            return self._constant(found)
        if self._framework.is_tensor(found):
            if name not in self.inputs:
                self.inputs.append(name)
            return "x%d" % self.inputs.index(name)
        if self._framework.is_module(found):
            if name not in self.modules:
                self.modules[name] = "m%d" % len(self.modules)
                self.scope[self.modules[name]] = found
            return self.modules[name]
        return self._constant(found)

    def _constant(self, value: Any) -> str:
        name = "c%d" % len(self.scope)
        self.scope[name] = value
        return name


def _adapted(function: Callable[..., Any], adapter: Adapter) -> Callable[..., Any]:
    def adapted(*args: Any, **kwargs: Any) -> Any:
        positional, named = adapter(list(args), kwargs)
        return function(*positional, **named)

    return adapted


def _has_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return "ref" in value or any(map(_has_reference, value.values()))
    return isinstance(value, list) and any(map(_has_reference, value))
