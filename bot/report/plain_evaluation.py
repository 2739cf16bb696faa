"""Evaluates the parts of a call form that need no framework: its condition, and what arguments decide.

Programs are data from outside, so nothing is run: an expression is walked node by node, over plain values and what is
known of tensors, and what would grow or is not known stays :class:`UnknownError`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

MAX_ITEMS: Final = 1_000
MAX_NUMBER: Final = 1 << 80
MAX_STEPS: Final = 20_000


class UnknownError(Exception):
    """What an expression is cannot be told without the framework."""


@dataclass(frozen=True)
class KnownTensor:
    """A tensor's source and what is known of it: its canonical dtype and its shape, None where nothing is."""

    source: str
    dtype: str | None = None
    shape: tuple[int, ...] | None = None


class KnownShape(tuple[int, ...]):
    """A tensor's shape. A framework's own can have attributes that a tuple lacks."""


@dataclass(frozen=True)
class KnownDtype:
    """A dtype by its canonical name."""

    name: str


@dataclass(frozen=True)
class Opaque:
    """An argument of which only its source is known."""

    source: str


_BINARY: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: operator.mod,
    ast.Div: lambda left, right: left / right,
}
_UNARY: Final[Mapping[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_COMPARE: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    function.__name__: function
    for function in cast(
        "list[Callable[..., Any]]",
        [abs, all, any, bool, enumerate, float, int, len, list, max, min, reversed, round, set, sorted, sum, tuple, zip],
    )
}  # fmt: skip
_CLASSES: Final[Mapping[str, type]] = {
    name.__name__: name for name in (bool, int, float, complex, str, list, tuple, slice)
}

Names = Mapping[str, Any]
"""What an expression's names stand for: plain values, :class:`KnownTensor`, :class:`KnownDtype` or :class:`Opaque`."""


def evaluate(node: ast.AST, names: Names, dtypes: Mapping[str, str]) -> Any:
    """The value of an expression. ``dtypes``: a framework's dotted names of dtypes -> canonical names.

    Raises UnknownError, and what Python itself raises for plain values: TypeError, IndexError, ZeroDivisionError ...
    """
    return _Evaluation(dtypes).value(node, names)


def is_literal(value: Any, depth: int = 0) -> bool:
    """Whether Python's source can say the value: numbers, texts, None, and lists and tuples of them."""
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return depth < 8 and all(is_literal(item, depth + 1) for item in items)
    return value is None or isinstance(value, bool | int | float | str)


class _Evaluation:
    def __init__(self, dtypes: Mapping[str, str]) -> None:
        self._dtypes = dtypes
        self._steps = 0

    def value(self, node: ast.AST, names: Names) -> Any:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise UnknownError("many steps")
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise UnknownError(type(node).__name__)
        return _bounded(method(node, names))

    def _expression(self, node: ast.Expression, names: Names) -> Any:
        return self.value(node.body, names)

    def _constant(self, node: ast.Constant, names: Names) -> Any:
        return node.value

    def _name(self, node: ast.Name, names: Names) -> Any:
        if node.id not in names:
            raise UnknownError(node.id)
        return names[node.id]

    def _attribute(self, node: ast.Attribute, names: Names) -> Any:
        path = ast.unparse(node)
        if path in self._dtypes:
            return KnownDtype(self._dtypes[path])
        owner = self.value(node.value, names)
        if isinstance(owner, KnownTensor):
            if node.attr == "dtype" and owner.dtype is not None:
                return KnownDtype(owner.dtype)
            if node.attr == "ndim" and owner.shape is not None:
                return len(owner.shape)
            if node.attr == "shape" and owner.shape is not None:
                return KnownShape(owner.shape)
        if isinstance(owner, KnownShape):
            raise UnknownError(path)
        if isinstance(owner, slice) and node.attr in ("start", "stop", "step"):
            return getattr(cast("Any", owner), node.attr)
        if isinstance(owner, list | tuple | str | int | float) or owner is None:
            raise AttributeError(node.attr)
        raise UnknownError(path)

    def _tuple(self, node: ast.Tuple, names: Names) -> Any:
        return tuple(self._items(node.elts, names))

    def _list(self, node: ast.List, names: Names) -> Any:
        return list(self._items(node.elts, names))

    def _set(self, node: ast.Set, names: Names) -> Any:
        return set(self._items(node.elts, names))

    def _items(self, nodes: Sequence[ast.expr], names: Names) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.value(node.value, names)
            else:
                yield self.value(node, names)

    def _unaryop(self, node: ast.UnaryOp, names: Names) -> Any:
        if type(node.op) not in _UNARY:
            raise UnknownError("an operator")
        return _UNARY[type(node.op)](_plain(self.value(node.operand, names)))

    def _binop(self, node: ast.BinOp, names: Names) -> Any:
        if type(node.op) not in _BINARY:
            raise UnknownError("an operator")
        left, right = (_plain(self.value(side, names)) for side in (node.left, node.right))
        if isinstance(node.op, ast.Mod) and not _numbers(left, right):
            raise UnknownError("%")
        if isinstance(node.op, ast.Mult) and not _numbers(left, right):
            times, items = (left, right) if isinstance(left, int) else (right, left)
            if not isinstance(times, int) or times * len(items) > MAX_ITEMS:
                raise UnknownError("*")
        return _BINARY[type(node.op)](left, right)

    def _boolop(self, node: ast.BoolOp, names: Names) -> Any:
        found: Any = None
        for side in node.values:
            found = self.value(side, names)
            if bool(_plain(found)) is isinstance(node.op, ast.Or):
                break
        return found

    def _compare(self, node: ast.Compare, names: Names) -> bool:
        left = self.value(node.left, names)
        for test, side in zip(node.ops, node.comparators, strict=True):
            right = self.value(side, names)
            identity = isinstance(test, ast.Is | ast.IsNot)
            if not identity and isinstance(left, KnownTensor | Opaque):
                raise UnknownError("a tensor's elements")
            if not identity and isinstance(right, KnownTensor | Opaque):
                raise UnknownError("a tensor's elements")
            if isinstance(left, Opaque) or isinstance(right, Opaque):
                raise UnknownError("an argument")
            if not _COMPARE[type(test)](left, right):
                return False
            left = right
        return True

    def _ifexp(self, node: ast.IfExp, names: Names) -> Any:
        chosen = node.body if _plain(self.value(node.test, names)) else node.orelse
        return self.value(chosen, names)

    def _subscript(self, node: ast.Subscript, names: Names) -> Any:
        items = _plain(self.value(node.value, names))
        return items[self.value(node.slice, names)]

    def _slice(self, node: ast.Slice, names: Names) -> slice:
        ends = (node.lower, node.upper, node.step)
        return slice(*(None if end is None else self.value(end, names) for end in ends))

    def _call(self, node: ast.Call, names: Names) -> Any:
        if not isinstance(node.func, ast.Name) or node.func.id in names or node.keywords:
            raise UnknownError(ast.unparse(node.func))
        name = node.func.id
        if name == "isinstance" and len(node.args) == 2:
            return self._is_instance(node, names)
        args = list(self._items(node.args, names))
        if name == "range":
            numbers = range(*args)
            if len(numbers) > MAX_ITEMS:
                raise UnknownError("a long range")
            return list(numbers)
        if name not in _FUNCTIONS:
            raise UnknownError(name)
        if any(isinstance(arg, KnownTensor | Opaque) for arg in args):
            raise UnknownError("a tensor's elements")
        found = _FUNCTIONS[name](*args)
        return list(found) if name in ("enumerate", "reversed", "zip") else found

    def _is_instance(self, node: ast.Call, names: Names) -> bool:
        value = self.value(node.args[0], names)
        if isinstance(value, Opaque):
            raise UnknownError("an argument")
        wanted = node.args[1]
        kinds = wanted.elts if isinstance(wanted, ast.Tuple) else [wanted]
        found = [_CLASSES.get(kind.id) if isinstance(kind, ast.Name) else None for kind in kinds]
        classes = [kind for kind in found if kind is not None]
        if isinstance(value, tuple(classes)):
            return True
        if len(classes) < len(found):
            raise UnknownError("a class")
        return False

    def _listcomp(self, node: ast.ListComp, names: Names) -> Any:
        return list(self._each(node.elt, node.generators, names))

    def _generatorexp(self, node: ast.GeneratorExp, names: Names) -> Any:
        return list(self._each(node.elt, node.generators, names))

    def _setcomp(self, node: ast.SetComp, names: Names) -> Any:
        return set(self._each(node.elt, node.generators, names))

    def _each(
        self, element: ast.expr, generators: Sequence[ast.comprehension], names: Names
    ) -> Iterator[Any]:
        if not generators:
            yield self.value(element, names)
            return
        first, *rest = generators
        for item in _plain(self.value(first.iter, names)):
            inner = {**names, **dict(_bindings(first.target, item))}
            if all(_plain(self.value(test, inner)) for test in first.ifs):
                yield from self._each(element, rest, inner)


def _bindings(target: ast.expr, item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(target, ast.Name):
        yield target.id, item
    elif isinstance(target, ast.Tuple):
        for inner, part in zip(target.elts, item, strict=True):
            yield from _bindings(inner, part)
    else:
        raise UnknownError("a target")


def _plain(value: Any) -> Any:
    if isinstance(value, KnownTensor | KnownDtype | Opaque):
        raise UnknownError("what a tensor holds")
    return value


def _numbers(left: Any, right: Any) -> bool:
    return isinstance(left, int | float | complex) and isinstance(right, int | float | complex)


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        raise UnknownError("a number of many digits")
    many = isinstance(value, list | tuple | set | str) and len(cast("list[Any]", value)) > MAX_ITEMS
    if many:
        raise UnknownError("many items")
    return cast("Any", value)
