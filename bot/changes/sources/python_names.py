"""Names in Python syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

Function = ast.FunctionDef | ast.AsyncFunctionDef
_UNREAD: Final = frozenset({"annotation", "returns", "ctx", "type_comment", "kind", "type_ignores"})
"""Fields whose names are no use: what is only annotated with a class does not change with it."""


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` of a name or attribute chain, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def names_read(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Every dotted name within the nodes, longest chains only; annotations are left out."""
    found: set[str] = set()
    stack: list[object] = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            name = dotted(node)
            if name is not None:
                found.add(name)
            else:
                stack.append(node.value)
        elif isinstance(node, list):
            stack.extend(node)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(node, ast.AST):
            stack.extend(getattr(node, field) for field in node._fields if field not in _UNREAD)
    return frozenset(found)


def names_assigned(node: ast.expr) -> Iterator[str]:
    """The dotted names that an assignment's target binds."""
    if isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from names_assigned(element)
    else:
        name = dotted(node)
        if name is not None:
            yield name
