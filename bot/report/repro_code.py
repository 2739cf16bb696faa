"""A Program as Python source for one framework: tensors with exact bytes and layouts, calls as people write them.

Nothing of a program reaches the source as it is: names become identifiers, and what ``value_code.py`` says of arguments.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from bot.programs.program import Call, Program, TensorSpec, Value
from bot.report.adapted_call import NotAdaptedError, adapted
from bot.report.dialect import Dialect
from bot.report.form_call import FormCalls
from bot.report.gradient_code import GradientCode
from bot.report.identifiers import RESERVED, Identifiers, Known, steps
from bot.report.tensor_code import TensorCode
from bot.report.value_code import ReproError, ValueCode
from bot.targets.op_mapping import OpMapping, OpRow

__all__ = ["ProgramCode", "ReproError", "Watched"]

Watched = tuple[str, tuple[int, ...]]
"""A result's name and the path of one member of it."""


class ProgramCode:
    """The source of one program for one dialect; ``device`` is where its tensors live.

    ``mapping`` says how the framework is called where that is not as PyTorch is; ``known`` are the dtypes and shapes of
    results, by which call forms are picked.
    """

    def __init__(
        self,
        program: Program,
        data: memoryview,
        dialect: Dialect,
        device: str = "cpu",
        mapping: OpMapping | None = None,
        known: Known | None = None,
    ) -> None:
        self._program = program
        self._dialect = dialect
        self._device = device
        self._rows: Mapping[str, OpRow] = mapping.ops if mapping is not None else {}
        self._names = Identifiers()
        self._copies: dict[Watched, str] = {}
        self._specs = {spec.name: spec for spec in program.tensors}
        self._values = ValueCode(dialect, device, self.identifier)
        self._tensors = TensorCode(program, data, dialect, device, self._names)
        self._gradients = GradientCode(program, dialect, self._names)
        self._forms = FormCalls(program, dialect, mapping, known or {}, self._names, self._values)

    def identifier(self, name: str) -> str:
        """The variable that stands for a program's name."""
        return self._names.of(name)

    # Statements, in the order of a script.

    def setup(self) -> list[str]:
        """Statements before all others: what the framework wants set, and the device. Raises ReproError."""
        lines = list(self._dialect.setup)
        kind, _, index = self._device.partition(".")
        if self._dialect.devices is not None and kind != "cpu":
            if kind not in self._dialect.devices:
                raise ReproError(f"no script for {self._dialect.module} on {kind[:40]!r}")
            lines.append(self._dialect.devices[kind].format(index=int(index or 0)))
        return lines

    def imports(self) -> list[str]:
        """Statements that import what the calls name beside the framework's module; after :meth:`calls`."""
        used = {
            root
            for path in self._forms.paths
            for root in self._dialect.imports
            if f"{path}.".startswith(f"{root}.")
        }
        return sorted(self._dialect.imports[root] for root in used)

    def definitions(self) -> list[str]:
        """Imports and definitions of the worker's own that the calls name; after :meth:`calls`.

        Raises ReproError where one of them has a name that the script needs itself.
        """
        helpers = self._forms.helpers
        clash = sorted(helpers.defined & RESERVED)
        if clash:
            raise ReproError(f"{', '.join(clash)}: a name that the script needs")
        return [*sorted(helpers.imports), *helpers.sources]

    def inputs(self) -> list[str]:
        """Statements that make the inputs."""
        return [line for spec in self._program.inputs() for line in self._tensor(spec)]

    def calls(self, watched: Collection[Watched] = ()) -> list[str]:
        """Statements that make the calls, modules' state loaded right after a module is made.

        ``watched`` results are copied as soon as they are there, before a later call can change them in place: into
        the variables that :meth:`observed` then names.
        """
        lines: list[str] = []
        results: list[str] = []
        for call in self._program.calls:
            lines.extend(self._call(call))
            lines.extend(self._load_state(call))
            results.append(self.identifier(call.result))
            for name, path in watched:
                if name == call.result:
                    copy = self.identifier(f"{name}{steps(path)} then")
                    self._copies[name, path] = copy
                    made = self._dialect.copy_.format(x=f"{self.identifier(name)}{steps(path)}")
                    lines.append(f"{copy} = {made}")
                    results.append(copy)
        outputs = [self.value(entry.output) for entry in self._program.backward]
        return self._gradients.recorded(lines, list(dict.fromkeys(results)), outputs)

    def backward(self) -> list[str]:
        """Statements that run backward from all outputs at once; none when the program has no backward."""
        entries = self._program.backward
        names = [entry.gradient for entry in entries if entry.gradient is not None]
        if len(names) < len(entries):
            raise ReproError("the program leaves its output gradients to the worker")
        lines: list[str] = []
        for name in dict.fromkeys(names):
            lines.extend(self._tensor(self._specs[name]))
        if entries:
            outputs = [self.value(entry.output) for entry in entries]
            gradients = [self.identifier(name) for name in names]
            lines.append(self._gradients.backward(outputs, gradients))
        return lines

    def observed(self, role: str, name: str, path: tuple[int, ...]) -> str:
        """An expression for what a mismatch's role, name and path point to, valid after all statements.

        Raises ReproError when the program has no such thing.
        """
        if role == "intermediate" and (name, path) in self._copies:
            return self._copies[name, path]
        if role in ("output", "intermediate"):
            index = next((i for i, c in enumerate(self._program.calls) if c.result == name), None)
            if index is None and name not in self._specs:
                return self._numbered_output(name) + steps(path)
            return self.identifier(name) + steps(path)
        if role == "side-effect":
            return self.identifier(self._spec(name).name)
        owner = self._state_owner(name)
        if role == "gradient" and owner is None:
            return self._gradients.gradient(self._spec(name).name)
        if owner is None:
            raise ReproError(f"the program has no module with {name[:80]!r}")
        module, key = owner
        if role == "gradient":
            return f"dict({module}.named_parameters())[{key!r}].grad"
        return f"{module}.state_dict()[{key!r}]"

    def value(self, value: Value) -> str:
        """An argument as source. Raises ReproError for what is not in the grammar."""
        return self._values.value(value)

    # Calls.

    def _call(self, call: Call) -> Iterator[str]:
        """One call's statements. Raises ReproError."""
        self._values.require_op(call.fn)
        result = self.identifier(call.result)
        try:
            formed = self._forms.statements(call, result)
            call = call if formed is not None else adapted(call, self._rows)
        except NotAdaptedError as problem:
            raise ReproError(str(problem)) from None
        if formed is not None:
            yield from formed
        elif self._dialect.names:
            yield f"{result} = {self._named(call)}"
        else:
            raise ReproError(f"{self._dialect.module} has no {call.fn}")

    def _named(self, call: Call) -> str:
        """A call by PyTorch's own name for it."""
        self._values.require_op(call.fn)
        args = [self.value(value) for value in call.args]
        keywords = self._values.keywords(call.kwargs)
        if call.fn == "nn.Module.__call__" and args:
            return f"{args[0]}({', '.join(args[1:] + keywords)})"
        owner, _, method = call.fn.rpartition(".")
        if owner in ("Tensor", "nn.Module") and args:
            return _method(method, args, keywords)
        if owner.startswith("Tensor.") and method == "__get__":
            if len(args) != 1:
                raise ReproError(f"{call.fn} takes one tensor")
            return f"{_operand(args[0])}.{owner.removeprefix('Tensor.')}"
        return f"{self._values.function(call.fn)}({', '.join(args + keywords)})"

    def _load_state(self, call: Call) -> list[str]:
        """Statements that give a module its state: ``load_state_dict`` where that keeps dtypes and layouts."""
        names = self._program.state.get(call.result)
        if not names:
            return []
        if not self._dialect.names:
            raise ReproError(f"{self._dialect.module}'s modules have no state here")
        lines = [line for tensor in names.values() for line in self._tensor(self._specs[tensor])]
        module = self.identifier(call.result)
        specs = [self._specs[tensor] for tensor in names.values()]
        kept = "dtype" in call.kwargs or all(s.dtype in ("float32", "int64") for s in specs)
        if kept and all(self._tensors.is_plain(spec) for spec in specs):
            pairs = ", ".join(f"{key!a}: {self.identifier(t)}" for key, t in names.items())
            return [*lines, f"{module}.load_state_dict({{{pairs}}})"]
        slots = self._names.fresh("slots")
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

    def _tensor(self, spec: TensorSpec) -> list[str]:
        leaf = self._gradients.leaf(spec.name) if spec.requires_grad else []
        return [*self._tensors.statements(spec), *leaf]


def _operand(code: str) -> str:
    """An expression that an attribute can be taken of."""
    return code if re.fullmatch(r"[A-Za-z_]\w*(\[\d+\])*", code) else f"({code})"


def _method(method: str, args: list[str], keywords: list[str]) -> str:
    receiver, rest = _operand(args[0]), args[1:]
    if method == "__getitem__" and len(rest) == 1 and not keywords:
        return f"{receiver}[{rest[0]}]"
    return f"{receiver}.{method}({', '.join(rest + keywords)})"
