"""Runs one program and says what came of it: the header and payload of an ``outcome`` frame.

``bot/targets/outcome.py`` documents the outcome; ``bot/programs/program.py`` the program.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import output_gradients
import values
from compile_limit import within
from framework import Framework, RefusedError, UnsupportedError
from outcome_record import OutcomeRecord
from program_blob import Path, Place, is_whole, output_references, split
from program_function import backward_of, first_compiled, forget, last_writing, program_function

MAX_MESSAGE = 2000
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_OBJECT_ID = re.compile(r"\bid=\d{6,}")

Header = bytes
Outcome = Tuple[Header, List[bytes]]
States = Dict[str, Dict[str, str]]


_parse = json.JSONDecoder().decode


def run_program(
    framework: Framework, program_id: int, payload: bytes, begin: int, size: int, address: int
) -> Outcome:
    """Run the program whose blob lies at ``begin`` in a payload, and at ``address`` in memory. Never raises an Exception."""
    run = _Run(framework)
    try:
        text, data = split(payload, begin, size)
        program = _parse(text.decode())
        framework.reset(program.get("seed", 0))
        run.program(program, address + data, max(size - data, 0))
    except RefusedError as error:
        run.stop("refused", error)
    except UnsupportedError as error:
        run.stop("unsupported", error)
    except Exception as error:  # what does not add up: missing keys, impossible seeds, wrong types
        run.stop("refused", error)
    return run.header(program_id), run.payload


def describe(error: Exception, framework: Optional[Framework] = None) -> Tuple[str, str]:
    """An exception's class name and message, without addresses, ids and what is over 2,000 characters."""
    name = type(error).__name__
    try:
        message = str(error)
        if framework is not None:
            name, message = framework.describe(error)
    except Exception:
        message = "(its message cannot be read)"
    message = _OBJECT_ID.sub("id=0", _ADDRESS.sub("0x0", message))
    return name[:200], message[:MAX_MESSAGE].encode("utf-8", "replace").decode()


class _StopError(Exception):
    """The program stopped early; the run already holds its status."""


class _Run(OutcomeRecord):
    """One program's run: what its names stand for, and what was observed so far."""

    def __init__(self, framework: Framework) -> None:
        super().__init__(framework)
        self.environment: Dict[str, Any] = {}
        self.bases: List[Any] = []
        self.outputs_begun = False
        self.seen: Set[int] = set()
        self.loaded: Set[str] = set()
        self.modules: List[Tuple[str, Any, List[Tuple[str, str, Any, bytes]]]] = []
        self.generated: List[Any] = []  # what output gradients that are in use lie in

    # The program from top to bottom.

    def program(self, program: Dict[str, Any], address: int, size: int) -> None:
        tensors = program.get("tensors", [])
        storages = program.get("storages", [])
        outputs = list(output_references(program.get("outputs", [])))
        self.build_guarded(tensors, storages, address, size)
        self.phase = "forward"
        try:
            self.forward(
                program["calls"],
                program.get("backward") or [],
                outputs,
                program.get("state", {}),
            )
            self.observe_outputs(outputs)
            self.call = None
            self.phase = "backward"
            self.backward(program.get("backward"), tensors)
            self.observe_after(tensors, storages, address)
        except _StopError:
            self.observe_remains(outputs, tensors, storages, address)

    def build_guarded(
        self, tensors: List[Any], storages: List[Any], address: int, size: int
    ) -> None:
        """Build the inputs; what the framework refuses there is an input that it does not support."""
        try:
            self.build(tensors, storages, address, size)
        except (RefusedError, UnsupportedError):
            raise
        except Exception as error:
            raise UnsupportedError("an input cannot be made: %s: %s" % describe(error)) from None

    def build(self, tensors: List[Any], storages: List[Any], address: int, size: int) -> None:
        framework = self.framework
        environment = self.environment
        users = [0] * len(storages)
        for spec in tensors:
            users[spec["storage"]] += 1
        bases: List[Any] = [None] * len(storages)
        self.bases = bases
        for spec in tensors:
            index = spec["storage"]
            storage = storages[index]
            start = storage["offset"]
            nbytes = storage["nbytes"]
            if start < 0 or nbytes < 0 or start + nbytes > size:
                raise RefusedError("tensor %r lies outside the program's data" % spec["name"])
            dtype = spec["dtype"]
            if users[index] == 1 and is_whole(spec, nbytes):
                tensor, bases[index] = framework.owned(
                    dtype, spec["shape"], address + start, nbytes
                )
            else:
                if bases[index] is None:
                    bases[index] = framework.storage(dtype, address + start, nbytes)
                tensor = framework.view(
                    bases[index],
                    dtype,
                    spec["shape"],
                    spec["strides"],
                    spec.get("offset", 0),
                    spec.get("conj", False),
                    spec.get("neg", False),
                )
            if spec.get("requires_grad"):
                framework.require_grad(tensor)
            environment[spec["name"]] = tensor
            self.seen.add(id(tensor))

    def forward(
        self, calls: List[Any], backward: List[Any], outputs: List[Place], states: States
    ) -> None:
        taken: Dict[str, List[Path]] = {}
        for name, path in outputs:
            taken.setdefault(name, []).append(path)
        framework = self.framework
        begin = first_compiled(calls, framework) if framework.compiles else len(calls)
        for index in range(begin):
            self.call = index
            call = calls[index]
            function, args, kwargs = self.arguments(call["fn"], call)
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                self.fail(error, call["fn"])
                raise _StopError from None
            self.take(call, result, taken, states)
        if begin < len(calls):
            self.forward_compiled(calls, begin, backward, taken, states)

    def forward_compiled(
        self,
        calls: List[Any],
        begin: int,
        backward: List[Any],
        taken: Dict[str, List[Path]],
        states: States,
    ) -> None:
        """Run the calls from ``begin`` on as one function that the framework compiles."""
        framework = self.framework
        environment = self.environment
        self.call = None
        try:
            program = program_function(
                calls[begin:], environment, framework, framework.compiles_methods
            )
        except UnsupportedError as error:
            self.stop("unsupported", error)
            raise _StopError from None
        inputs = [environment[name] for name in program.inputs]
        asked = backward_of(program, backward, environment)
        try:
            results = within(
                framework.compile_seconds, lambda: framework.run_compiled(program, inputs, asked)
            )
        except RefusedError:
            raise
        except Exception as error:
            line = program.line_of(error)
            self.call = None if line is None else begin + line
            self.fail(error, program.ops[line or 0])
            raise _StopError from None
        finally:
            forget(program)
        written = begin + last_writing(calls[begin:])
        for index, result in enumerate(results, begin):
            self.call = index
            if index < written:
                # What it was before a later call wrote to it, nobody can see any more.
                environment[calls[index]["result"]] = result
            else:
                self.take(calls[index], result, taken, states)

    def take(
        self, call: Dict[str, Any], result: Any, taken: Dict[str, List[Path]], states: States
    ) -> None:
        """Name a call's result, and observe it where it is no output."""
        target = call["result"]
        self.environment[target] = result
        paths = taken.get(target)
        if self.framework.is_module(result):
            if not any(result is module for _, module, _ in self.modules):
                self.guarded(
                    lambda: self.module(target, result, states.get(target, {})), call["fn"]
                )
        elif paths is None or () not in paths:
            self.guarded(lambda: self.observe_intermediate(target, result, paths), call["fn"])

    def arguments(
        self, name: str, call: Dict[str, Any]
    ) -> Tuple[Callable[..., Any], List[Any], Dict[str, Any]]:
        """The callable and its decoded arguments, adapted to the framework."""
        framework = self.framework
        environment = self.environment
        try:
            function = framework.lookup(name)
            args = [values.decode(a, environment, framework) for a in call.get("args", ())]
            raw = call.get("kwargs")
            kwargs = (
                {k: values.decode(v, environment, framework) for k, v in raw.items()} if raw else {}
            )
            adapter = framework.adapters.get(name)
            if adapter is not None:
                args, kwargs = adapter(args, kwargs)
        except UnsupportedError as error:
            self.stop("unsupported", error)
            raise _StopError from None
        return function, args, kwargs

    def module(self, name: str, module: Any, state: Dict[str, str]) -> None:
        """Load a new module's state and remember its bytes."""
        framework = self.framework
        if state:
            environment = self.environment
            framework.load_state(module, {key: environment[t] for key, t in state.items()})
            self.loaded.update(state.values())
        before = [
            (role, key, tensor, framework.read(tensor)[2])
            for role, key, tensor in framework.module_state(module)
        ]
        self.modules.append((name, module, before))

    def backward(self, entries: Optional[List[Any]], tensors: List[Any]) -> None:
        if not entries:
            return
        environment = self.environment
        framework = self.framework
        outputs = [values.decode(entry["output"], environment, framework) for entry in entries]
        gradients: List[Any] = []
        for output, entry in zip(outputs, entries):
            gradient = self.output_gradient(output, entry.get("gradient"))
            if gradient is None:
                # Backward cannot begin. The shape itself is what the oracle reports.
                self.phase = "forward"
                return
            gradients.append(gradient)

        def run() -> None:
            # A compiler may do half of its work only now.
            seconds = framework.compile_seconds if framework.compiles else 0
            within(seconds, lambda: framework.backward(outputs, gradients))
            self.observe_gradients(tensors)

        self.guarded(run, "backward")

    def output_gradient(self, output: Any, name: Optional[str]) -> Optional[Any]:
        """The gradient to begin at an output with: the named one, or a generated one; None where it does not fit."""
        framework = self.framework
        if not framework.is_tensor(output):
            return None
        if name is not None:
            gradient = self.environment[name]
            return gradient if framework.shape(output) == framework.shape(gradient) else None
        dtype, shape, _ = framework.read(output)
        if dtype not in output_gradients.DTYPES:
            return None
        data = ctypes.create_string_buffer(output_gradients.generated(dtype, shape))
        size = len(data) - 1  # the buffer ends with a zero byte of its own
        gradient, base = framework.owned(dtype, shape, ctypes.addressof(data), size)
        self.generated.append((data, base))
        return gradient

    # What stops a program.

    def fail(self, error: Exception, name: str) -> None:
        """Take an exception of the framework as this program's end; the worker's too where nothing can run any more."""
        if self.framework.is_fatal(error):
            os.write(2, ("%s: %s\n" % describe(error, self.framework)).encode())
            os.abort()
        self.status = self.framework.classify(error, name, self.phase)
        self.error = describe(error, self.framework)

    def stop(self, status: str, error: Exception) -> None:
        """End for a reason that is not the framework's doing."""
        self.status = status
        self.error = describe(error)

    # What is observed.

    def guarded(self, action: Callable[[], None], name: str) -> None:
        """Do what may run deferred work of the framework; it may fail like the call itself."""
        try:
            action()
        except (RefusedError, _StopError):
            raise
        except Exception as error:
            self.fail(error, name)
            raise _StopError from None

    def observe_intermediate(self, name: str, result: Any, taken: Optional[List[Path]]) -> None:
        """A call's result that is no output, save what is an input or an earlier result itself."""
        framework = self.framework
        for path, leaf in values.leaves(result, (), framework):
            if taken and any(path[: len(prefix)] == prefix for prefix in taken):
                continue
            if framework.is_tensor(leaf):
                if id(leaf) in self.seen:
                    continue
                self.seen.add(id(leaf))
            self.observe_leaf("intermediate", name, path, leaf)

    def observe_outputs(self, outputs: List[Place]) -> None:
        self.outputs_begun = True
        self.guarded(lambda: self.observe_places(outputs), "outputs")

    def observe_places(self, outputs: List[Place]) -> None:
        framework = self.framework
        for name, prefix in outputs:
            result = values.follow(self.environment[name], prefix)
            if framework.is_tensor(result):
                self.observe("output", name, prefix, result)
            else:
                for path, leaf in values.leaves(result, prefix, framework):
                    self.observe_leaf("output", name, path, leaf)

    def observe_after(self, tensors: List[Any], storages: List[Any], address: int) -> None:
        def observe() -> None:
            self.observe_side_effects(tensors, storages, address)
            self.observe_modules()

        self.guarded(observe, "side effects")

    def observe_remains(
        self, outputs: List[Place], tensors: List[Any], storages: List[Any], address: int
    ) -> None:
        """What there is to see after a stop; the stop's own reason stands."""
        status, error = self.status, self.error
        try:
            if self.phase == "forward" and not self.outputs_begun:
                self.observe_outputs([place for place in outputs if place[0] in self.environment])
            self.observe_after(tensors, storages, address)
        except _StopError:
            self.status, self.error = status, error

    def observe_side_effects(self, tensors: List[Any], storages: List[Any], address: int) -> None:
        """Inputs whose bytes or shape are no longer what the program gave."""
        framework = self.framework
        framework.synchronize()
        changed = [
            base is not None
            and framework.changed(base, address + storage["offset"], storage["nbytes"])
            for base, storage in zip(self.bases, storages)
        ]
        environment = self.environment
        for spec in tensors:
            name = spec["name"]
            tensor = environment[name]
            if name in self.loaded:
                continue
            if changed[spec["storage"]] or framework.shape(tensor) != tuple(spec["shape"]):
                self.observe("side-effect", name, (), tensor)

    def observe_gradients(self, tensors: List[Any]) -> None:
        framework = self.framework
        for spec in tensors:
            if spec.get("requires_grad"):
                name = spec["name"]
                self.observe_gradient(name, framework.gradient(self.environment[name]))
        for module, _, entries in self.modules:
            for role, key, tensor, _ in entries:
                if role == "parameter":
                    gradient = framework.parameter_gradient(tensor)
                    self.observe_gradient("%s.%s" % (module, key), gradient)

    def observe_gradient(self, name: str, gradient: Optional[Any]) -> None:
        if gradient is None:
            self.absent.append(name)
        else:
            self.observe("gradient", name, (), gradient)

    def observe_modules(self) -> None:
        """Parameters and buffers whose bytes are no longer what they were when the module was made."""
        for name, module, before in self.modules:
            known = {key: data for _, key, _, data in before}
            for role, key, tensor in self.framework.module_state(module):
                if self.framework.read(tensor)[2] != known.get(key):
                    self.observe(role, "%s.%s" % (name, key), (), tensor)
