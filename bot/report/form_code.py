"""A framework's own expression for a call: the call form that a worker picks, with the arguments' source in it.

The row of ``bot/worker/ops/<framework>.yml`` says ``(input, other) -> numpy.add(input, other)``; for a program's call
``add(x0, 2)`` this gives ``numpy.add(x0, 2)``. What the arguments decide (``axis=dim if dim is not None else ...``)
is worked out, so that a maintainer reads a plain call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from bot.report.adapted_call import NotAdaptedError
from bot.report.helper_code import Helpers
from bot.report.plain_evaluation import (
    KnownDtype,
    KnownTensor,
    Opaque,
    UnknownError,
    evaluate,
    is_literal,
)
from bot.worker.form_binding import MismatchError, bind, dtype_kind
from bot.worker.form_text import Form, parse

EITHER = "either"
"""A script's function that calls the first of several forms that the framework has a kernel for."""

_ERRORS = (TypeError, AttributeError, IndexError)
"""What makes a condition not hold: the worker's own rule."""


@dataclass(frozen=True)
class FormWriter:
    """Writes calls by form for one framework.

    ``roots``: what a script may name. ``dtypes``: dotted names -> canonical dtypes. ``dtype_source``: a canonical
    dtype's source. ``taken``: whether a name is a script's own already; ``reserve`` makes it so.
    ``narrowed``: dtypes of inputs -> the attribute that is the input in a dtype that the framework has.
    ``tries``: whether the framework decides between forms by raising.
    """

    roots: Collection[str]
    dtypes: Mapping[str, str]
    dtype_source: Callable[[str], str]
    taken: Callable[[str], bool]
    reserve: Callable[[str], None]
    helpers: Helpers
    narrowed: Mapping[str, str]
    tries: bool
    paths: set[str] = field(default_factory=set[str])  # what the expressions written so far name

    def expression(
        self, op: str, forms: Sequence[str], args: list[Any], kwargs: dict[str, Any]
    ) -> str:
        """The source of the call. Raises NotAdaptedError where no form takes the arguments, or none can be told to.

        Where the framework itself says which form it has a kernel for, all that take the arguments are written.
        """
        reasons: list[str] = []
        fitting: list[str] = []
        for text in forms:
            form = _parsed(text)
            try:
                values = bind(cast("Any", form), args, kwargs, _kind, _is_dtype)
            except MismatchError as problem:
                reasons.append(str(problem))
                continue
            names = dict(zip((p.name for p in form.parameters), values, strict=True))
            if self._holds(form, names):
                fitting.append(self._written(form, names))
                if not self.tries:
                    break
            else:
                reasons.append("its condition does not hold")
        if not fitting:
            raise NotAdaptedError(f"{op}: not with {'; '.join(dict.fromkeys(reasons))}"[:300])
        if len(fitting) == 1:
            return fitting[0]
        return f"{EITHER}({', '.join(f'lambda: {source}' for source in fitting)})"

    def _holds(self, form: Form, names: Mapping[str, Any]) -> bool:
        if not form.condition:
            return True
        try:
            held = evaluate(ast.parse(form.condition, mode="eval"), names, self.dtypes)
        except _ERRORS:
            return False
        except (UnknownError, ArithmeticError, ValueError) as problem:
            raise NotAdaptedError(f"{form.condition}: {problem}"[:300]) from None
        if isinstance(held, KnownTensor | KnownDtype | Opaque):
            raise NotAdaptedError(f"{form.condition}: is no condition"[:300])
        return bool(held)

    def _written(self, form: Form, names: Mapping[str, Any]) -> str:
        known = (*self.roots, *_BUILTINS, *self.helpers.modules)
        foreign = {path for path in form.paths if path.split(".")[0] not in known}
        if foreign:
            raise NotAdaptedError(f"{', '.join(sorted(foreign))}: the worker's own"[:300])
        self.paths.update(form.paths)
        tree = ast.parse(form.expression, mode="eval")
        bound = _bound(tree)
        if bound & set(names):
            raise NotAdaptedError(f"{form.text}: a name with two meanings"[:300])
        renamed = {name: self._free(name) for name in bound}
        written = _Substitution(self, names, renamed).visit(tree)
        return ast.unparse(ast.fix_missing_locations(written))

    def _free(self, name: str) -> str:
        while self.taken(name):
            name += "_"
        return name

    def helper(self, path: str) -> ast.Name:
        """The name that a definition of the worker's own has in the script. Raises NotAdaptedError."""
        before = self.helpers.defined
        name = self.helpers.name(path)
        if name not in before and self.taken(name):
            raise NotAdaptedError(f"{path}: a name that the script needs")
        self.reserve(name)
        return ast.Name(name, ast.Load())

    def node(self, value: Any) -> ast.expr:
        """An argument's source as a syntax tree."""
        if isinstance(value, KnownTensor | Opaque):
            return ast.parse(value.source, mode="eval").body
        if isinstance(value, KnownDtype):
            return ast.parse(self.dtype_source(value.name), mode="eval").body
        if isinstance(value, tuple):
            return ast.Tuple(
                [self.node(item) for item in cast("tuple[Any, ...]", value)], ast.Load()
            )
        if isinstance(value, list):
            return ast.List([self.node(item) for item in cast("list[Any]", value)], ast.Load())
        if isinstance(value, slice):
            ends = [
                self.node(getattr(cast("Any", value), name)) for name in ("start", "stop", "step")
            ]
            return ast.Call(ast.Name("slice", ast.Load()), ends, [])
        return ast.parse(_number(value), mode="eval").body


class _Substitution(ast.NodeTransformer):
    """Parameters become their arguments; what plain arguments decide is decided."""

    def __init__(
        self, writer: FormWriter, names: Mapping[str, Any], renamed: Mapping[str, str]
    ) -> None:
        self._writer = writer
        self._names = names
        self._renamed = renamed

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.expr) and not isinstance(
            node, ast.Constant | ast.Name | ast.Starred
        ):
            literal = self._literal(node)
            if literal is not None:
                return literal
        return super().visit(node)

    def _literal(self, node: ast.expr) -> ast.expr | None:
        """The expression as a literal, where its arguments alone decide it."""
        if isinstance(node, ast.Tuple | ast.List) and not node.elts:
            return None
        try:
            value = evaluate(node, self._names, self._writer.dtypes)
        except (UnknownError, *_ERRORS, ArithmeticError, ValueError):
            return None
        return self._writer.node(value) if is_literal(value) else None

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._names:
            return self._writer.node(self._names[node.id])
        return ast.Name(self._renamed.get(node.id, node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """A definition of the worker's own by its bare name."""
        root = node.value
        if isinstance(root, ast.Name) and root.id in self._writer.helpers.modules:
            return self._writer.helper(f"{root.id}.{node.attr}")
        given = self._names.get(root.id) if isinstance(root, ast.Name) else None
        narrowed = (
            self._writer.narrowed.get(given.dtype or "") if isinstance(given, KnownTensor) else None
        )
        if narrowed == node.attr:
            return self._writer.node(given)  # a script makes the tensor as that already
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self._renamed.get(node.arg, node.arg))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """One branch alone, where the arguments choose it."""
        try:
            chosen = evaluate(node.test, self._names, self._writer.dtypes)
        except (UnknownError, *_ERRORS, ArithmeticError, ValueError):
            return self.generic_visit(node)
        if isinstance(chosen, KnownTensor | KnownDtype | Opaque):
            return self.generic_visit(node)
        return self.visit(node.body if chosen else node.orelse)

    def visit_Call(self, node: ast.Call) -> Any:
        """``*shape`` and ``**options`` that are written out are arguments."""
        made = cast("ast.Call", self.generic_visit(node))
        args: list[ast.expr] = []
        for arg in made.args:
            inner = arg.value if isinstance(arg, ast.Starred) else None
            if isinstance(inner, ast.Tuple | ast.List):
                args.extend(inner.elts)
            else:
                args.append(arg)
        made.args = args
        made.keywords = [keyword for given in made.keywords for keyword in _spelled_out(given)]
        return made


def _spelled_out(given: ast.keyword) -> list[ast.keyword]:
    """``**{"a": b}`` as ``a=b``."""
    if given.arg is not None or not isinstance(given.value, ast.Dict):
        return [given]
    keys = [key.value if isinstance(key, ast.Constant) else None for key in given.value.keys]
    if not all(isinstance(key, str) and key.isidentifier() for key in keys):
        return [given]
    return [
        ast.keyword(str(key), value) for key, value in zip(keys, given.value.values, strict=True)
    ]


_BUILTINS = frozenset(
    "abs all any bool complex dict enumerate float int isinstance len list max min range reversed round set slice "
    "sorted str sum tuple zip True False None".split()
)
"""What forms may call beside the framework (``BUILTINS`` of ``bot/worker/call_forms.py``)."""


def _bound(tree: ast.AST) -> set[str]:
    stored = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


@cache
def _parsed(text: str) -> Form:
    return parse(text)


def _kind(value: Any) -> str:
    if not isinstance(value, KnownTensor):
        return ""
    if value.dtype is None:
        raise NotAdaptedError(f"the dtype of {value.source} is not known")
    return dtype_kind(value.dtype)


def _is_dtype(value: Any) -> bool:
    return isinstance(value, KnownDtype)


def _number(value: Any) -> str:
    """A plain value's source; infinities and NaN too."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    return ascii(value)
