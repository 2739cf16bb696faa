"""Names that Python code makes by calls: ``setattr``, ``globals()``, and loops over written-out lists that do so."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bot.changes.sources.python_names import dotted

MAX_MADE: Final = 2000
"""Names made by one loop: beyond this the loop is read as one statement."""
_NAMESPACES: Final = frozenset({"globals", "locals", "vars"})
Bound = Mapping[str, ast.expr]


@dataclass(frozen=True)
class Made:
    """One name, dotted (``Tensor.abs``), what it stands for, and the row of the list that it comes from."""

    name: str
    value: ast.expr | None
    parts: tuple[ast.AST, ...]


def made_names(statement: ast.stmt, bound: Bound) -> tuple[Made, ...]:
    """The names that a statement makes, when all of what it does is to make names that are written out; else ().

    ``bound`` are the lists and dictionaries that the module has written out so far, by name.
    """
    found = _of(statement, bound)
    return () if found is None or len(found) > MAX_MADE else tuple(found)


def _of(statement: ast.stmt, bound: Bound) -> list[Made] | None:
    if isinstance(statement, ast.For) and not statement.orelse:
        return _of_loop(statement, bound)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _of_call(statement.value, bound)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Subscript) and _is_namespace(target.value):
            name = written(target.slice, bound)
            return [Made(name, _bound(statement.value, bound), (statement,))] if name else None
    return None


def _of_loop(loop: ast.For, bound: Bound) -> list[Made] | None:
    rows = _rows(loop.iter, bound)
    if rows is None or len(rows) > MAX_MADE:
        return None
    found: list[Made] = []
    for row in rows:
        inner = dict(bound)
        if not _bind(loop.target, row, inner):
            return None
        made: list[Made] = []
        for statement in loop.body:
            some = _of(statement, inner)
            if some is None and isinstance(statement, ast.Assign | ast.FunctionDef):
                continue  # a local step, which is part of every row
            if some is None:
                return None
            made += some
        found += [Made(each.name, each.value, (row, loop.target, *loop.body)) for each in made]
        if len(found) > MAX_MADE:
            return None
    return found or None


def _of_call(call: ast.Call, bound: Bound) -> list[Made] | None:
    name = dotted(call.func)
    if name == "setattr" and len(call.args) == 3:
        owner, attribute = dotted(call.args[0]), written(call.args[1], bound)
        if owner is None or not attribute:
            return None
        return [Made(f"{owner}.{attribute}", _bound(call.args[2], bound), (call,))]
    if (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "update"
        and _is_namespace(call.func.value)
    ):
        return _of_update(call, bound)
    return None


def _of_update(call: ast.Call, bound: Bound) -> list[Made] | None:
    pairs: list[tuple[str, ast.expr]] = [(k.arg, k.value) for k in call.keywords if k.arg]
    for argument in call.args:
        table = _bound(argument, bound)
        if not isinstance(table, ast.Dict):
            return None
        for key, value in zip(table.keys, table.values, strict=True):
            name = written(key, bound) if key is not None else ""
            if not name:
                return None
            pairs.append((name, value))
    return [Made(name, _bound(value, bound), (value,)) for name, value in pairs] or None


def _is_namespace(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) in _NAMESPACES and not node.args


def _bound(node: ast.expr, bound: Bound) -> ast.expr:
    return bound.get(node.id, node) if isinstance(node, ast.Name) else node


def _rows(node: ast.expr, bound: Bound) -> Sequence[ast.expr] | None:
    """The elements of a list that is written out, itself or by name, or of a dictionary's keys or items."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        table = _bound(node.func.value, bound)
        if not isinstance(table, ast.Dict) or None in table.keys:
            return None
        keys = [key for key in table.keys if key is not None]
        if node.func.attr == "items":
            return [
                ast.Tuple([key, value], ast.Load())
                for key, value in zip(keys, table.values, strict=True)
            ]
        return {"keys": keys, "values": table.values}.get(node.func.attr)
    node = _bound(node, bound)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return None if any(isinstance(e, ast.Starred) for e in node.elts) else node.elts
    if isinstance(node, ast.Dict):
        return None if None in node.keys else [key for key in node.keys if key is not None]
    return None


def _bind(target: ast.expr, row: ast.expr, bound: dict[str, ast.expr]) -> bool:
    if isinstance(target, ast.Name):
        bound[target.id] = row
        return True
    if isinstance(target, ast.Tuple | ast.List) and isinstance(row, ast.Tuple | ast.List):
        return len(target.elts) == len(row.elts) and all(
            _bind(inner, value, bound) for inner, value in zip(target.elts, row.elts, strict=True)
        )
    return False


def written(node: ast.expr, bound: Bound) -> str:
    """The text that an expression stands for, when it is put together from what is written out; else ""."""
    node = _bound(node, bound)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = written(node.left, bound), written(node.right, bound)
        return left + right if left and right else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        pattern, value = written(node.left, bound), written(node.right, bound)
        return pattern.replace("%s", value) if pattern.count("%") == 1 and value else ""
    if isinstance(node, ast.JoinedStr):
        parts = [written(part, bound) for part in node.values]
        return "".join(parts) if all(parts) else ""
    if isinstance(node, ast.FormattedValue) and node.format_spec is None:
        return written(node.value, bound)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "format"
    ):
        pattern = written(node.func.value, bound)
        values = [written(argument, bound) for argument in node.args]
        if all(values) and pattern.count("{}") == len(values) and not node.keywords:
            return "".join(_interleaved(pattern.split("{}"), values))
    return ""


def _interleaved(parts: Sequence[str], values: Sequence[str]) -> Iterator[str]:
    for place, part in enumerate(parts):
        yield part
        if place < len(values):
            yield values[place]
