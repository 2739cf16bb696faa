"""The calls of a program that a framework's mapping has call forms for, as statements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from bot.programs.op_groups import SameCall
from bot.programs.program import Call, Program, Value
from bot.programs.validation import ITEM_BYTES
from bot.report.adapted_call import NotAdaptedError
from bot.report.dialect import Dialect
from bot.report.form_code import FormWriter
from bot.report.helper_code import Helpers
from bot.report.identifiers import Identifiers, Known, steps
from bot.report.plain_evaluation import KnownDtype, KnownTensor, Opaque
from bot.report.value_code import ValueCode
from bot.targets.op_mapping import OpMapping

_NOTHING = {
    "device": ("target", "cpu"),
    "layout": ("strided",),
    "memory_format": ("contiguous_format", "preserve_format"),
}
"""Arguments that are None to a framework without such things (``MappedFramework.argument``)."""


class FormCalls:
    """Writes calls by form; the results' dtypes and shapes are those ``known`` and what calls in place keep."""

    def __init__(
        self,
        program: Program,
        dialect: Dialect,
        mapping: OpMapping | None,
        known: Known,
        identifiers: Identifiers,
        values: ValueCode,
    ) -> None:
        self._dialect = dialect
        self._rows = mapping.ops if mapping is not None else {}
        self._same = mapping.same_calls() if mapping is not None else {}
        self._identifiers = identifiers
        self._values = values
        self._known = {(t.name, ()): (t.dtype, tuple(t.shape)) for t in program.tensors} | dict(
            known
        )
        self.helpers = Helpers(dialect.helpers)
        self._writer = FormWriter(
            (dialect.module, *dialect.imports),
            {dialect.dtype_source(name): name for name in ITEM_BYTES},
            dialect.dtype_source,
            identifiers.taken,
            identifiers.reserve,
            self.helpers,
            dialect.narrowed,
            bool(dialect.lacks),
        )

    @property
    def paths(self) -> set[str]:
        """The framework's names in the calls that were written."""
        return self._writer.paths

    def statements(self, call: Call, result: str) -> list[str] | None:
        """One call's statements; None for a call that the mapping has no form for.

        Raises NotAdaptedError for one that its forms don't take, ReproError for one outside the grammar.
        """
        op, how = self._form_of(call.fn)
        if op is None:
            return None
        args = [self._value(value) for value in call.args]
        kwargs = {key: self._value(value) for key, value in call.kwargs.items()}
        if how == "reversed":
            args = args[1::-1]
        if how == "in place" and args and isinstance(args[0], KnownTensor):
            args[0] = replace(args[0], source=self._dialect.kept.format(x=args[0].source))
        written = self._writer.expression(op, self._rows[op].call, args, kwargs)
        if how != "in place":
            return [f"{result} = {written}"]
        return self._in_place(call, written, result)

    def _form_of(self, name: str) -> tuple[str | None, SameCall]:
        row = self._rows.get(name)
        if row is not None:
            return (name if row.call else None), "plain"
        op, how = self._same.get(name, (None, "plain"))
        # What speaks PyTorch's names has its own calls in place.
        return (None if how == "in place" and self._dialect.names else op), how

    def _in_place(self, call: Call, written: str, result: str) -> list[str]:
        first = call.args[0] if call.args else None
        if not self._dialect.assign or not isinstance(first, dict):
            raise NotAdaptedError(f"{self._dialect.module} has no call in place for {call.fn}")
        target = cast("dict[str, Any]", first)
        source = self._values.value(first)
        path = tuple(cast("list[int]", target.get("path", [])))
        before = self._known.get((str(target.get("ref")), path))
        if before is not None:
            self._known[call.result, ()] = before
        return [self._dialect.assign.format(target=source, result=written), f"{result} = {source}"]

    # Arguments, as far as they are known.

    def _value(self, value: Value) -> Any:
        if isinstance(value, list):
            return [self._value(item) for item in cast("list[Value]", value)]
        if not isinstance(value, dict):
            self._values.value(value)  # is in the grammar
            return value
        entry = cast("dict[str, Any]", value)
        source = self._values.value(value)
        if "ref" in entry:
            return self._tensor(str(entry["ref"]), tuple(map(int, entry.get("path", []))))
        key, inner = next(iter(entry.items()))
        if key in ("tuple", "size"):
            return tuple(self._value(item) for item in inner)
        if key == "float":
            return float(inner)
        if key == "complex":
            return complex(*map(float, inner))
        if key == "slice":
            return slice(*map(self._value, inner))
        if key == "dtype":
            return KnownDtype(inner)
        if key in _NOTHING and not self._dialect.names:
            if inner not in _NOTHING[key]:
                raise NotAdaptedError(f"{self._dialect.module} has no {key} {inner}"[:200])
            return None
        if key == "generator":
            raise NotAdaptedError(f"{self._dialect.module} has no generators as arguments")
        return Ellipsis if key == "ellipsis" else Opaque(source)

    def _tensor(self, name: str, path: tuple[int, ...]) -> Any:
        source = self._identifiers.of(name) + steps(path)
        if (name, path) in self._known:
            return KnownTensor(source, *self._known[name, path])
        members: list[Any] = []
        while any(
            n == name and p[: len(path) + 1] == (*path, len(members)) for n, p in self._known
        ):
            members.append(self._tensor(name, (*path, len(members))))
        if members:
            return tuple(members)
        return KnownTensor(source)
