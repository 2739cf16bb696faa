"""ProgramRecorder: writes the calls of one case down as a program while they run."""

import dataclasses
import hashlib
import json
import struct
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
import trace_names
from torch.overrides import TorchFunctionMode
from trace_tensors import ALIGNMENT, TensorTable
from trace_values import InexpressibleError, ValueEncoder, keyword_value

FORMAT_VERSION = 1
UNINITIALISED = frozenset(
    "empty empty_like empty_permuted empty_strided Tensor.new_empty Tensor.new_empty_strided "
    "Tensor.resize Tensor.resize_ Tensor.resize_as Tensor.resize_as_ resize_as_".split()
)
"""Calls whose result holds memory that was never written."""

EFFECTS = frozenset(("Tensor.__setitem__",))
"""Calls that matter although they give nothing."""

Path = Tuple[int, ...]
_LENGTH = struct.Struct("<I")


def json_bytes(value: Any) -> bytes:
    """Canonical JSON: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def tensors_within(value: Any, path: Path = ()) -> Iterator[Tuple[torch.Tensor, Path]]:
    """Every tensor in a result of nested lists and tuples, with the indices that lead to it."""
    if isinstance(value, torch.Tensor):
        yield value, path
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            for found in tensors_within(item, (*path, index)):
                yield found


def _has_generator(values: Sequence[Any]) -> bool:
    return any(isinstance(value, torch.Generator) for value in values)


def register_tensors(
    table: TensorTable, args: Sequence[Any], kwargs: Dict[str, Any], first: str = "arg0"
) -> None:
    """Add every tensor within a call's arguments, as it is now, named after its place. Raises InexpressibleError."""

    def reference(value: Any, where: str) -> Optional[Dict[str, Any]]:
        if isinstance(value, torch.Tensor):
            return {"ref": table.add(value, where)}
        return {} if _constructor(value) else None

    encoder = ValueEncoder(reference)
    for index, value in enumerate(args):
        encoder.encode(value, "arg%d" % index if index else first)
    for name, value in kwargs.items():
        encoder.encode(keyword_value(name, value), name)


def _constructor(value: Any) -> Optional[str]:
    """The canonical name of the class of an options object (a dataclass), or None."""
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return None
    return trace_names.function_name(type(value))


class ProgramRecorder:
    """Runs calls and records them. One recorder makes one program; it does not survive an InexpressibleError."""

    def __init__(self, table: TensorTable, seed: int) -> None:
        self._table = table
        self._seed = seed
        self._encoder = ValueEncoder(self._reference)
        self._calls: List[Dict[str, Any]] = []
        self._state: Dict[str, Dict[str, str]] = {}
        self._results: Dict[int, Tuple[str, Path]] = {}
        self._plain: List[Tuple[Dict[str, Any], Any]] = []
        self._alive: List[Any] = []
        self.random = False
        self.reason: Optional[str] = None
        """Why the case can't be expressed, kept for when the op itself swallows the exception."""

    def _reference(self, value: Any, where: str) -> Optional[Dict[str, Any]]:
        found = self._results.get(id(value))
        if found is not None:
            name, path = found
            return {"ref": name, "path": list(path)} if path else {"ref": name}
        if isinstance(value, torch.Tensor):
            return {"ref": self._table.add(value, where)}
        constructor = _constructor(value)
        return self._construct(constructor, value) if constructor else None

    def _construct(self, fn: str, value: Any) -> Dict[str, Any]:
        """Record the call that makes an options object from those of its fields that are off their defaults."""
        fields = {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if field.init and getattr(value, field.name) != field.default
        }
        _, keywords = self.encode_arguments((), fields)
        call: Dict[str, Any] = {
            "fn": fn,
            "result": self._table.fresh_name("r%d" % len(self._calls)),
        }
        if keywords:
            call["kwargs"] = keywords
        self._calls.append(call)
        self._results[id(value)] = (call["result"], ())
        self._alive.append(value)
        return {"ref": call["result"]}

    def encode_arguments(
        self, args: Sequence[Any], kwargs: Dict[str, Any]
    ) -> Tuple[List[Any], Dict[str, Any]]:
        """Arguments in the value grammar; a new tensor is named after its position or keyword.

        Raises InexpressibleError.
        """
        encoded = [
            self._encoder.encode(value, "constant%d" % index) for index, value in enumerate(args)
        ]
        keywords = {
            name: self._encoder.encode(keyword_value(name, value), name)
            for name, value in kwargs.items()
        }
        return encoded, keywords

    def invoke(
        self,
        fn: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Dict[str, Any],
        draws: bool = True,
    ) -> Any:
        """Record a call and run it. Unless ``draws``, its random numbers do not show in the outcome.

        Raises InexpressibleError, and whatever the call raises; it is then the last call."""
        encoded, keywords = self.encode_arguments(args, kwargs)
        call: Dict[str, Any] = {
            "fn": fn,
            "result": self._table.fresh_name("r%d" % len(self._calls)),
        }
        if encoded:
            call["args"] = encoded
        if keywords:
            call["kwargs"] = keywords
        self._calls.append(call)
        before = torch.get_rng_state()
        result = function(*args, **kwargs)
        drew = draws and not torch.equal(before, torch.get_rng_state())
        self.random = self.random or drew or _has_generator([*args, *kwargs.values()])
        found = list(tensors_within(result))
        if not found and fn not in EFFECTS and not isinstance(result, torch.nn.Module):
            self._plain.append((call, result))
        self._name_result(result, found, call["result"])
        return result

    def _name_result(self, result: Any, found: List[Tuple[torch.Tensor, Path]], name: str) -> None:
        self._alive.append(result)
        for tensor, path in found:
            self._results[id(tensor)] = (name, path)
        # Small ints, strings and None are shared objects: their ids would claim unrelated arguments.
        if found or isinstance(result, torch.nn.Module):
            self._results[id(result)] = (name, ())

    @property
    def calls(self) -> List[Dict[str, Any]]:
        """The calls recorded so far."""
        return self._calls

    def set_state(self, module: torch.nn.Module, result: str) -> None:
        """Write a module's parameters and buffers down, by name, with their exact bytes."""
        names: Dict[str, str] = {}
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            # Parameters are leaves by being parameters; the tensors that fill them are plain data.
            names[name] = self._table.add(tensor.detach(), "%s.%s" % (result, name))
        if names:
            self._state[result] = names

    def outputs_of(self, value: Any) -> List[Any]:
        """References to what the op gave: a call's whole result, or the members that calls gave."""
        if id(value) in self._results or isinstance(value, torch.Tensor):
            return [self._reference(value, "constant")]
        for call, result in reversed(self._plain):
            if result is value:
                self._plain = [entry for entry in self._plain if entry[0] is not call]
                return [{"ref": call["result"]}]
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            outputs: List[Any] = []
            for item in value:
                outputs.extend(self.outputs_of(item))
            return outputs
        return []

    def last_output(self) -> List[Any]:
        """A reference to the last call's result: what is compared where it raised or gave no tensor."""
        call = self._calls[-1]
        self._plain = [entry for entry in self._plain if entry[0] is not call]
        return [{"ref": call["result"]}]

    def _drop_plain_calls(self) -> None:
        """Leave out calls whose plain values (a size, a number) are folded into the others as constants."""
        dropped = {id(call) for call, _ in self._plain}
        self._calls = [call for call in self._calls if id(call) not in dropped]

    def finish(
        self, outputs: List[Any], differentiable: List[torch.Tensor], origin: Dict[str, Any]
    ) -> Tuple[bytes, str]:
        """The program's blob and a digest of it without its origin.

        ``differentiable`` are the output tensors to run backward from; each gets a random gradient that is drawn
        from the program's own content, so that equal cases give equal programs.
        """
        self._drop_plain_calls()
        if not self._calls:
            raise InexpressibleError("no public call was seen")
        if any(call["fn"] in UNINITIALISED for call in self._calls):
            origin = dict(origin, uninitialised=True)
        if self.random:
            origin = dict(origin, random=True)
        storages, specs, data = self._table.finish()
        fields: Dict[str, Any] = {"op": "", "calls": self._calls, "outputs": outputs}
        for key, value in (("storages", storages), ("tensors", specs), ("state", self._state)):
            if value:
                fields[key] = value
        if self._seed:
            fields["seed"] = self._seed
        if differentiable:
            backward = self._add_gradients(_content_seed(fields, data), differentiable)
            storages, specs, data = self._table.finish()
            fields.update(backward=backward, storages=storages, tensors=specs)
        text = json_bytes(fields)
        digest = hashlib.blake2b(text, digest_size=16)
        digest.update(data)
        fields["origin"] = origin
        return _blob(json_bytes(fields), data), digest.hexdigest()

    def _add_gradients(self, seed: int, outputs: List[torch.Tensor]) -> List[Dict[str, Any]]:
        generator = np.random.default_rng(seed)
        backward: List[Dict[str, Any]] = []
        for index, output in enumerate(outputs):
            gradient = torch.from_numpy(_standard_normal(generator, tuple(output.shape), output))
            name = self._table.add(gradient.to(output.dtype), "g%d" % index)
            backward.append({"output": self._reference(output, "output"), "gradient": name})
        return backward


def _standard_normal(
    generator: np.random.Generator, shape: Tuple[int, ...], output: torch.Tensor
) -> Any:
    values = np.asarray(generator.standard_normal(shape))
    if output.dtype.is_complex:
        values = np.asarray(values + 1j * generator.standard_normal(shape))
    return values


def _content_seed(fields: Dict[str, Any], data: bytes) -> int:
    state = hashlib.blake2b(json_bytes(fields), digest_size=8)
    state.update(data)
    return int.from_bytes(state.digest(), "little")


def _blob(text: bytes, data: bytes) -> bytes:
    head = _LENGTH.pack(len(text)) + text
    return head + b"\0" * (-len(head) % ALIGNMENT) + data


class CallTracer(TorchFunctionMode):  # pyright: ignore[reportUntypedBaseClass]
    """Records the outermost public calls made while it is active."""

    def __init__(self, recorder: ProgramRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Record and run one call."""
        try:
            return self._record(func, args, kwargs or {})
        except InexpressibleError as problem:
            self._recorder.reason = self._recorder.reason or str(problem)
            raise

    def _record(self, func: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        if trace_names.is_setter(func):
            raise InexpressibleError("assigns to an attribute of a tensor")
        fn = trace_names.function_name(func)
        if fn is not None:
            return self._recorder.invoke(fn, func, args, kwargs)
        result = func(*args, **kwargs)
        if any(True for _ in tensors_within(result)):
            raise InexpressibleError("private function %s" % trace_names.private_name(func))
        return result
