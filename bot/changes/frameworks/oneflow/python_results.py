"""Which calls make what a Python function gives back: near its result, or in passing."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Iterator


def share_of_results(source: str, names: Collection[str]) -> float:
    """The share of what a function returns that a call of one of some names makes.

    What is returned are the expressions of its ``return`` statements and, for a variable returned, those assigned to it, without
    those that work on it further on a condition.
    """
    statements = list(_made(source))
    returned = {
        value.id for name, value, _ in statements if not name and isinstance(value, ast.Name)
    }
    hits = others = 0
    for name, value, always in statements:
        if (name and name not in returned) or isinstance(value, ast.Name | ast.Constant):
            continue
        further = name in {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        if further and not always:
            continue
        if _is_call(value, names):
            hits += 1
        elif not further:
            others += any(isinstance(node, ast.Call) for node in ast.walk(value))
    return hits / (hits + others) if hits else 0.0


def calls_of(source: str) -> frozenset[str]:
    """What a function calls, as it is written (``flow._C.relu``)."""
    tree = _parsed(source)
    nodes = ast.walk(tree) if tree else ()
    return frozenset(ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call))


def _parsed(source: str) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _made(source: str) -> Iterator[tuple[str, ast.expr, bool]]:
    """What is returned (""), and what variables take; whether it is so on every way through the function."""
    tree = _parsed(source)
    body = (
        {id(node) for top in ast.iter_child_nodes(tree) for node in ast.iter_child_nodes(top)}
        if tree
        else set[int]()
    )
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Return) and node.value is not None:
            yield "", node.value, id(node) in body
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value, id(node) in body


def _is_call(value: ast.expr, names: Collection[str]) -> bool:
    """Whether a value is a call of one of some names, on one side of a condition at least."""
    if isinstance(value, ast.IfExp):
        return _is_call(value.body, names) or _is_call(value.orelse, names)
    return isinstance(value, ast.Call) and _last(value.func) in names


def _last(function: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
