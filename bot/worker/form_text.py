"""The text of a call form: how a framework is called for one canonical op, in one line of Python's own syntax.

::

    (input, dim:int|ints, *, keepdim=False, dtype=None) when input.ndim > 0 -> numpy.sum(input, axis=dim)

Before the arrow is PyTorch's signature: its argument names, in its order, with its defaults, and after a colon what an
argument may be (:data:`TYPES`, a literal, or several of them with ``|``). ``*shape`` takes the remaining positional
arguments, or one sequence that holds them. A colon takes no blank after it, which YAML would read as a key. ``when`` and an expression narrow further. After the arrow is the
framework's own expression, of arguments and of the framework's public functions.

An argument that neither expression names must have its default: what is not passed on is refused, never ignored.
This module knows syntax alone and needs no framework, so that the bot can check the mappings too.
"""

from __future__ import annotations

import ast
import re
from typing import Any, FrozenSet, Iterator, List, NamedTuple, Tuple

TENSOR_TYPES = frozenset(("Tensor", "Float", "Complex", "Inexact", "Int", "Bool", "Real", "Number"))
"""Tensors by kind of dtype. Inexact: Float or Complex; Int: integer, no bool; Real: Int or Float; Number: no bool."""

TYPES = TENSOR_TYPES | {
    "int", "float", "number", "bool", "str", "ints", "floats", "bools", "tensors", "dtype", "slice", "any",
}  # fmt: skip
"""``float`` takes an int too, ``number`` also a complex; ``ints`` and the like are a list or tuple of them."""

REQUIRED = object()
"""The default of a parameter that has none."""

_PARTS = re.compile(
    r"(?P<signature>\(.*?\))(?: when (?P<condition>.+?))? -> (?P<expression>.+)", re.S
)


class FormError(ValueError):
    """A call form that cannot be read; the message is one line."""


class Parameter(NamedTuple):
    """One of PyTorch's arguments. ``types`` is empty where anything goes; literals stand as ``("=", value)``."""

    name: str
    kind: str  # "positional", "variadic" or "keyword"
    types: Tuple[Any, ...]
    default: Any

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is REQUIRED


class Form(NamedTuple):
    """A call form, read. ``paths`` are the dotted names of the framework that it needs."""

    text: str
    parameters: Tuple[Parameter, ...]
    condition: str
    expression: str
    used: FrozenSet[str]
    paths: FrozenSet[str]


def parse(text: str) -> Form:
    """Read a form. Raises FormError."""
    match = _PARTS.fullmatch(text.strip())
    if match is None:
        raise FormError("%r is not (arguments) -> expression" % text)
    parameters = tuple(_parameters(match.group("signature"), text))
    names = {parameter.name for parameter in parameters}
    expression = match.group("expression").strip()
    condition = (match.group("condition") or "").strip()
    tree = _expression(expression, text)
    trees = [tree] + ([_expression(condition, text)] if condition else [])
    used = {n.id for t in trees for n in ast.walk(t) if isinstance(n, ast.Name)} & names
    for parameter in parameters:
        if parameter.name not in used and parameter.default is REQUIRED:
            raise FormError("%r does not say what becomes of %s" % (text, parameter.name))
    paths = {path for t in trees for path in _paths(t, names | _bound(t))}
    return Form(text, parameters, condition, expression, frozenset(used), frozenset(paths))


def _parameters(signature: str, text: str) -> Iterator[Parameter]:
    try:
        function = ast.parse("def form%s: pass" % signature).body[0]
    except SyntaxError:
        raise FormError("%r: the arguments are no Python signature" % text) from None
    if not isinstance(function, ast.FunctionDef):
        raise FormError("%r: the arguments are no Python signature" % text)
    arguments = function.args
    if arguments.kwarg is not None:
        raise FormError("%r: ** would take what the form does not know" % text)
    positional = [*getattr(arguments, "posonlyargs", []), *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    defaults: List[Any] = [None] * missing + list(arguments.defaults)
    for argument, default in zip(positional, defaults):
        yield _parameter(argument, "positional", default, text)
    if arguments.vararg is not None:
        yield _parameter(arguments.vararg, "variadic", None, text)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        yield _parameter(argument, "keyword", default, text)


def _parameter(argument: Any, kind: str, default: Any, text: str) -> Parameter:
    types = tuple(_types(argument.annotation, text)) if argument.annotation is not None else ()
    return Parameter(argument.arg, kind, types, _literal(default, text))


def _literal(node: Any, text: str) -> Any:
    if node is None:
        return REQUIRED
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise FormError("%r: a default that is no literal" % text) from None


def _types(node: Any, text: str) -> Iterator[Any]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _types(node.left, text)
        yield from _types(node.right, text)
    elif isinstance(node, ast.Name) and node.id in TYPES:
        yield node.id
    elif isinstance(node, (ast.Constant, ast.UnaryOp, ast.Tuple, ast.List)):
        yield ("=", _literal(node, text))
    else:
        raise FormError("%r: an argument can be %s or a literal" % (text, ", ".join(sorted(TYPES))))


def _expression(expression: str, text: str) -> ast.AST:
    try:
        return ast.parse(expression, mode="eval")
    except SyntaxError:
        raise FormError("%r: %r is no Python expression" % (text, expression)) from None


def _bound(tree: ast.AST) -> FrozenSet[str]:
    """Names that the expression itself binds: of comprehensions, lambdas and ``:=``."""
    bound = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bound.update(node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))
    return frozenset(bound)


def _paths(node: ast.AST, names: "FrozenSet[str] | set[str]") -> Iterator[str]:
    """Dotted names that start at none of ``names``, each as long as it goes."""
    parts: List[str] = []
    inner: Any = node
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        if inner.id not in names:
            yield ".".join([inner.id, *reversed(parts)])
        return
    for child in ast.iter_child_nodes(inner if parts else node):
        yield from _paths(child, names)
