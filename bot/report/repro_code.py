"""A Program as Python source for one framework: tensors with exact bytes and layouts, calls as people write them.

Nothing of a program reaches the source as it is: names become identifiers, strings go through ``repr``, op names must
be on the workers' own list, dtypes and the like on closed ones, else :class:`ReproError`. The list is what counts: from
a framework's module an attribute's name leads to ``builtins.exec``.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Mapping
from typing import Any, cast

import numpy as np

from bot.oracle.initial import InitialTensors
from bot.programs.builder import contiguous_strides
from bot.programs.program import Call, Program, TensorSpec, Value
from bot.programs.validation import ITEM_BYTES, MAX_DEPTH
from bot.report.adapted_call import NotAdaptedError, adapted
from bot.report.dialect import Dialect
from bot.report.literals import array_code, carried, carrier, literal
from bot.report.program_reader import is_public_op
from bot.targets.op_mapping import OpRow
from bot.targets.outcome import DTYPES

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_LAYOUTS = frozenset("strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc".split())
_MEMORY_FORMATS = frozenset(
    "contiguous_format channels_last channels_last_3d preserve_format".split()
)
_CONSTANTS: Mapping[str, Collection[str]] = {
    "dtype": ITEM_BYTES, "layout": _LAYOUTS, "memory_format": _MEMORY_FORMATS,
}  # fmt: skip
"""Kind of argument -> the attributes of a framework that may be one; a worker takes no others."""
_FLOATS = {"nan": "nan", "inf": "inf", "-inf": "-inf", "-0.0": "-0.0"}
RESERVED: frozenset[str] = frozenset(
    "np sys base64 zlib subprocess run main stored check to_numpy nan inf EXPECTED DEVICE seed time os math torch "
    "oneflow dict float complex slice Ellipsis".split()
)


Watched = tuple[str, tuple[int, ...]]
"""A result's name and the path of one member of it."""


class ReproError(ValueError):
    """No script can be written for this program; the message is one line."""


def dotted(text: Any, what: str) -> str:
    """The text when it is a dotted name of plain identifiers. Raises ReproError."""
    if (
        not isinstance(text, str)
        or not _DOTTED.fullmatch(text)
        or any(keyword.iskeyword(part) for part in text.split("."))
    ):
        raise ReproError(f"{str(text)[:80]!r} is not the name of {what}")
    return text


class ProgramCode:
    """The source of one program for one dialect; ``device`` is where its tensors live.

    ``rows`` say where the framework's calls differ from PyTorch's.
    """

    def __init__(
        self,
        program: Program,
        data: memoryview,
        dialect: Dialect,
        device: str = "cpu",
        rows: Mapping[str, OpRow] | None = None,
    ) -> None:
        self._program = program
        self._data = data
        self._initial = InitialTensors(program, data)
        self._dialect = dialect
        self._module = dialect.module
        self._device = device
        self._rows = rows or {}
        self._identifiers: dict[str, str] = {}
        self._taken: set[str] = set(RESERVED)
        self._copies: dict[Watched, str] = {}
        self._specs = {spec.name: spec for spec in program.tensors}

    def identifier(self, name: str) -> str:
        """The variable that stands for a program's name."""
        if name not in self._identifiers:
            wanted = re.sub(r"[^A-Za-z0-9_]", "_", name)[:40]
            if not wanted.isidentifier() or keyword.iskeyword(wanted):
                wanted = f"t_{wanted}"
            self._identifiers[name] = self._unique(wanted)
        return self._identifiers[name]

    def _unique(self, wanted: str) -> str:
        unique, number = wanted, 2
        while unique in self._taken:
            unique, number = f"{wanted}_{number}", number + 1
        self._taken.add(unique)
        return unique

    # Statements, in the order of a script.

    def inputs(self) -> list[str]:
        """Statements that make the inputs."""
        return [line for spec in self._program.inputs() for line in self._tensor(spec)]

    def calls(self, watched: Collection[Watched] = ()) -> list[str]:
        """Statements that make the calls, modules' state loaded right after a module is made.

        ``watched`` results are copied as soon as they are there, before a later call can change them in place: into
        the variables that :meth:`observed` then names.
        """
        lines: list[str] = []
        for call in self._program.calls:
            lines.append(f"{self.identifier(call.result)} = {self._call(call)}")
            lines.extend(self._load_state(call))
            for name, path in watched:
                if name == call.result:
                    steps = "".join(f"[{int(index)}]" for index in path)
                    copy = self.identifier(f"{name}{steps} then")
                    self._copies[name, path] = copy
                    lines.append(f"{copy} = {self.identifier(name)}{steps}.clone()")
        return lines

    def backward(self) -> list[str]:
        """Statements that run backward from all outputs at once; none when the program has no backward."""
        entries = self._program.backward
        lines: list[str] = []
        for name in dict.fromkeys(entry.gradient for entry in entries):
            lines.extend(self._tensor(self._specs[name]))
        if entries:
            outputs = ", ".join(self.value(entry.output) for entry in entries)
            gradients = ", ".join(self.identifier(entry.gradient) for entry in entries)
            lines.append(f"{self._module}.autograd.backward([{outputs}], [{gradients}])")
        return lines

    def observed(self, role: str, name: str, path: tuple[int, ...]) -> str:
        """An expression for what a mismatch's role, name and path point to, valid after all statements.

        Raises ReproError when the program has no such thing.
        """
        steps = "".join(f"[{int(index)}]" for index in path)
        if role == "intermediate" and (name, path) in self._copies:
            return self._copies[name, path]
        if role in ("output", "intermediate"):
            index = next((i for i, c in enumerate(self._program.calls) if c.result == name), None)
            if index is None and name not in self._specs:
                return self._numbered_output(name) + steps
            return self.identifier(name) + steps
        if role == "side-effect":
            return self.identifier(self._spec(name).name)
        owner = self._state_owner(name)
        if role == "gradient" and owner is None:
            return f"{self.identifier(self._spec(name).name)}.grad"
        if owner is None:
            raise ReproError(f"the program has no module with {name[:80]!r}")
        module, key = owner
        if role == "gradient":
            return f"dict({module}.named_parameters())[{key!r}].grad"
        return f"{module}.state_dict()[{key!r}]"

    def value(self, value: Value, depth: int = 0) -> str:
        """An argument as source. Raises ReproError for what is not in the grammar."""
        if depth > MAX_DEPTH:
            raise ReproError("values are nested too deep")
        if value is None or isinstance(value, bool | int | float):
            return repr(value)
        if isinstance(value, str):
            return ascii(value)
        if isinstance(value, list):
            items = cast("list[Value]", value)
            return f"[{', '.join(self.value(item, depth + 1) for item in items)}]"
        if isinstance(value, dict):
            return self._entry(cast("dict[str, Any]", value), depth)
        raise ReproError(f"an argument of type {type(value).__name__} is not in the grammar")

    # Values.

    def _entry(self, entry: dict[str, Any], depth: int) -> str:
        if "ref" not in entry and len(entry) != 1:
            raise ReproError("an argument is not in the grammar")
        key = "ref" if "ref" in entry else next(iter(entry))
        try:
            if key == "ref":
                return self._reference(entry)
            return self._keyed(key, entry[key], depth)
        except (TypeError, ValueError, IndexError) as problem:
            if isinstance(problem, ReproError):
                raise
            raise ReproError(f"the argument {key[:40]!r} is not in the grammar") from None

    def _reference(self, entry: dict[str, Any]) -> str:
        path = [int(index) for index in entry.get("path", [])]
        return self.identifier(str(entry["ref"])) + "".join(f"[{index}]" for index in path)

    def _keyed(self, key: str, inner: Any, depth: int) -> str:
        if key == "tuple":
            items = [self.value(item, depth + 1) for item in inner]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if key == "dict":
            pairs = [f"{self.value(k, depth + 1)}: {self.value(v, depth + 1)}" for k, v in inner]
            return f"{{{', '.join(pairs)}}}"
        if key == "size":
            return f"{self._module}.Size({self.value(list(inner), depth + 1)})"
        if key == "float":
            return "-0.0" if _special(inner) == "-0.0" else f'float("{inner}")'
        if key == "complex":
            parts = [_special(p) if isinstance(p, str) else repr(float(p)) for p in inner]
            return f"complex({parts[0]}, {parts[1]})"
        if key in _CONSTANTS:
            if inner not in _CONSTANTS[key]:
                raise ReproError(f"{str(inner)[:80]!r} is not the name of a {key}")
            return f"{self._module}.{inner}"
        if key == "device":
            return repr(self._device if inner == "target" else dotted(inner, "a device"))
        if key == "generator":
            return f"{self._module}.Generator().manual_seed({int(inner)})"
        if key == "slice":
            start, stop, step = (self.value(part, depth + 1) for part in inner)
            return f"slice({start}, {stop}, {step})"
        if key == "ellipsis":
            return "Ellipsis"
        if key == "fn":
            return self._function(inner)
        raise ReproError(f"the argument {key[:40]!r} is not in the grammar")

    # Calls.

    def _function(self, fn: str) -> str:
        self._require_op(fn)
        return f"{self._module}.{fn.removeprefix(f'{self._module}.')}"

    def _require_op(self, fn: Any) -> None:
        """Raise ReproError for a name that is not on the workers' list of callables."""
        name = dotted(fn, "an op")
        if not is_public_op(name, {self._module}):
            raise ReproError(f"{name!r} is not a tensor op")

    def _call(self, call: Call) -> str:
        try:
            call = adapted(call, self._rows)
        except NotAdaptedError as problem:
            raise ReproError(str(problem)) from None
        self._require_op(call.fn)
        args = [self.value(value) for value in call.args]
        keywords = self._keywords(call.kwargs)
        if call.fn == "nn.Module.__call__" and args:
            return f"{args[0]}({', '.join(args[1:] + keywords)})"
        owner, _, method = call.fn.rpartition(".")
        if owner in ("Tensor", "nn.Module") and args:
            return _method(method, args, keywords)
        if owner.startswith("Tensor.") and method == "__get__":
            if len(args) != 1:
                raise ReproError(f"{call.fn} takes one tensor")
            return f"{_operand(args[0])}.{owner.removeprefix('Tensor.')}"
        return f"{self._function(call.fn)}({', '.join(args + keywords)})"

    def _keywords(self, kwargs: Mapping[str, Value]) -> list[str]:
        plain = {k: v for k, v in kwargs.items() if k.isidentifier() and not keyword.iskeyword(k)}
        words = [f"{key}={self.value(value)}" for key, value in plain.items() if key.isascii()]
        odd = [key for key in kwargs if key not in plain or not key.isascii()]
        if odd:
            pairs = ", ".join(f"{key!a}: {self.value(kwargs[key])}" for key in odd)
            words.append(f"**{{{pairs}}}")
        return words

    def _load_state(self, call: Call) -> list[str]:
        """Statements that give a module its state: ``load_state_dict`` where that keeps dtypes and layouts."""
        names = self._program.state.get(call.result)
        if not names:
            return []
        lines = [line for tensor in names.values() for line in self._tensor(self._specs[tensor])]
        module = self.identifier(call.result)
        specs = [self._specs[tensor] for tensor in names.values()]
        kept = "dtype" in call.kwargs or all(s.dtype in ("float32", "int64") for s in specs)
        if kept and all(self._is_plain(spec) for spec in specs):
            pairs = ", ".join(f"{key!a}: {self.identifier(t)}" for key, t in names.items())
            return [*lines, f"{module}.load_state_dict({{{pairs}}})"]
        slots = self._unique("slots")
        lines.append(f"{slots} = dict([*{module}.named_parameters(), *{module}.named_buffers()])")
        return [*lines, *(f"{slots}[{k!a}].data = {self.identifier(t)}" for k, t in names.items())]

    def _state_owner(self, name: str) -> tuple[str, str] | None:
        """The module's variable and its own name for a parameter, by tensor name, ``module.key`` or bare key."""
        for module, names in self._program.state.items():
            for key, tensor in names.items():
                if name in (tensor, f"{module}.{key}", key):
                    return self.identifier(module), key
        for call in self._program.calls:
            if name.startswith(f"{call.result}."):
                return self.identifier(call.result), name.removeprefix(f"{call.result}.")
        return None

    def _numbered_output(self, name: str) -> str:
        number = re.fullmatch(r"(?:output|out)?(\d{1,4})", name)
        if number is None or int(number[1]) >= len(self._program.outputs):
            raise ReproError(f"the program has no result named {name[:80]!r}")
        return self.value(self._program.outputs[int(number[1])])

    def _spec(self, name: str) -> TensorSpec:
        if name not in self._specs:
            raise ReproError(f"the program has no tensor named {name[:80]!r}")
        return self._specs[name]

    # Tensors.

    def _tensor(self, spec: TensorSpec) -> list[str]:
        variable = self.identifier(spec.name)
        lines: list[str] = []
        if self._is_plain(spec):
            array = self._initial.array(spec.name)
            if array is None:
                raise ReproError(f"the program has no tensor named {spec.name[:80]!r}")
            lines.append(f"{variable} = {self._fresh(array, spec.dtype, spec.shape)}")
        else:
            storage, made = self._storage(spec)
            lines.extend(made)
            layout = self._dialect.view.format(
                base=storage,
                shape=tuple(spec.shape),
                strides=tuple(spec.strides),
                offset=spec.offset,
            )
            lines.append(f"{variable} = {layout}")
            if spec.conj:
                lines.append(f"{variable} = {variable}.conj()")
            if spec.neg:
                lines.append(f"{variable} = {self._module}._neg_view({variable})")
        if spec.requires_grad:
            lines.append(f"{variable}.requires_grad_()")
        return lines

    def _is_plain(self, spec: TensorSpec) -> bool:
        """Alone on its storage, in C order, filling it: a constructor says it all."""
        shared = sum(other.storage == spec.storage for other in self._program.tensors) > 1
        size = int(np.prod(spec.shape, dtype=np.int64)) * ITEM_BYTES[spec.dtype]
        return (
            not (shared or spec.conj or spec.neg or spec.offset)
            and spec.strides == contiguous_strides(spec.shape)
            and size == self._program.storages[spec.storage].nbytes
        )

    def _storage(self, spec: TensorSpec) -> tuple[str, list[str]]:
        """The variable of a tensor's storage as a flat tensor of its dtype, and statements that make it, once."""
        key = f"\0storage {spec.storage}"
        first = next(t for t in self._program.tensors if t.storage == spec.storage)
        made: list[str] = []
        if key not in self._identifiers:
            self._identifiers[key] = self._unique(f"storage{spec.storage}")
            region = self._program.storages[spec.storage]
            raw = self._data[region.offset : region.offset + region.nbytes]
            dtype = DTYPES[first.dtype]
            flat = np.frombuffer(raw, dtype, region.nbytes // dtype.itemsize)
            made = [f"{self._identifiers[key]} = {self._fresh(flat, first.dtype, [flat.size])}"]
        variable = self._identifiers[key]
        if spec.dtype != first.dtype:
            variable = f"{variable}.view({self._module}.{spec.dtype})"
        return variable, made

    def _fresh(self, array: Any, dtype: str, shape: list[int]) -> str:
        """A contiguous tensor that owns exactly these values."""
        module, device = self._module, self._device
        where = "" if device == "cpu" else f", device={device!r}"
        name = f"{module}.{dotted(dtype, 'a dtype')}"
        if 0 in shape:
            return f"{module}.empty({tuple(shape)!r}, dtype={name}{where})"
        values = carried(array, dtype)
        text = literal(values)
        if text is not None and dtype in self._dialect.dtypes:
            return f"{module}.tensor({text}, dtype={name}{where})"
        made = self._dialect.from_numpy.format(array=array_code(values))
        if carrier(dtype) != DTYPES[dtype]:
            made += f".to({name})"
        return made if device == "cpu" else f"{made}.to({device!r})"


def _special(text: Any) -> str:
    if not isinstance(text, str) or text not in _FLOATS:
        raise ReproError(f"{str(text)[:40]!r} is not a number")
    return _FLOATS[text]


def _operand(code: str) -> str:
    """An expression that an attribute can be taken of."""
    return code if re.fullmatch(r"[A-Za-z_]\w*(\[\d+\])*", code) else f"({code})"


def _method(method: str, args: list[str], keywords: list[str]) -> str:
    receiver, rest = _operand(args[0]), args[1:]
    if method == "__getitem__" and len(rest) == 1 and not keywords:
        return f"{receiver}[{rest[0]}]"
    return f"{receiver}.{method}({', '.join(rest + keywords)})"
