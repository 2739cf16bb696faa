"""What of a Python module changes nothing that it computes: docstrings, annotations, log messages, dead branches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Final, cast

from bot.changes.sources.python_names import Function, dotted

_LOGGER: Final = re.compile(r"(?:^|\.)_*(?:log|logger|logging)$", re.IGNORECASE)
_TYPE_CHECKING: Final = frozenset(
    {"TYPE_CHECKING", "typing.TYPE_CHECKING", "t.TYPE_CHECKING", "typing_extensions.TYPE_CHECKING"}
)
_SHOWS: Final = frozenset(
    {
        "str", "repr", "len", "type", "id", "int", "float", "bool", "list", "tuple", "dict", "set", "sorted", "sum",
        "min", "max", "abs", "round", "isinstance", "hasattr", "format", "join", "strip", "lstrip", "rstrip",
        "replace", "lower", "upper", "split", "dedent", "cleandoc", "indent", "keys", "values", "items", "get",
        "size", "dim", "numel", "nelement", "tolist", "item", "time", "perf_counter", "basename", "dirname",
        "format_exc", "pformat", "get_rank", "get_world_size", "vars", "dir", "startswith", "endswith", "count",
    }
)  # fmt: skip
"""Functions and methods that show or count what they are given: a log message or a docstring may call them."""
_LEVELS: Final = frozenset(
    {"debug", "info", "warning", "warn", "error", "critical", "exception", "log"}
)
_READ_ANNOTATIONS: Final = frozenset(
    {
        "dataclass", "dataclasses", "attrs", "define", "script", "script_method", "jit", "custom_op", "triton_op",
        "register", "singledispatch", "interface", "register_fake",
    }
)  # fmt: skip
"""Decorators that read annotations: dataclasses, TorchScript, Triton, ``torch.library`` and ``singledispatch``."""
_BASES_READ: Final = frozenset(
    {"NamedTuple", "TypedDict", "BaseModel", "Protocol", "Structure", "Enum"}
)


def without_quiet(tree: ast.Module) -> ast.Module:
    """The tree, changed in place, without what changes nothing that the module computes.

    Goes: docstrings and ``__doc__``, texts of ``add_docstr``-like calls, calls of loggers, annotations that nothing
    reads at run time. A dataclass's fields stay.
    """
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, kept = stack.pop()
        if isinstance(node, Function | ast.ClassDef):
            kept = kept or _reads_annotations(node)
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body:
                _clean_body(node, field, cast("list[ast.AST]", body), kept)
        _drop_annotations(node, kept)
        if isinstance(node, ast.Call) and "docstr" in (dotted(node.func) or ""):
            node.args = [
                a for a in node.args if not (_is_documentation(a) and _computes_nothing(a))
            ]
        stack.extend((child, kept) for child in ast.iter_child_nodes(node))
    return tree


def never_runs(test: ast.expr) -> bool:
    """Whether a condition holds only for type checkers, or only when a module is run as a script."""
    name = dotted(test)
    if name is not None:
        return name in _TYPE_CHECKING
    if not isinstance(test, ast.Compare) or dotted(test.left) != "__name__":
        return False
    script = [
        isinstance(other, ast.Constant) and other.value == "__main__" for other in test.comparators
    ]
    return script == [True] and isinstance(test.ops[0], ast.Eq)


def _computes_nothing(node: ast.AST) -> bool:
    """Whether an expression can be left out: it binds no name, and calls nothing but what shows and counts."""
    for part in ast.walk(node):
        if isinstance(part, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await):
            return False
        if isinstance(part, ast.Call):
            function = part.func
            name = function.attr if isinstance(function, ast.Attribute) else dotted(function)
            if name not in _SHOWS:
                return False
    return True


def is_overload(node: ast.stmt) -> bool:
    """Whether a function is a signature for type checkers (``typing.overload``)."""
    return isinstance(node, Function) and any(
        (dotted(decorator) or "").rpartition(".")[2] == "overload"
        for decorator in node.decorator_list
    )


def _clean_body(node: ast.AST, field: str, body: list[ast.AST], kept: bool) -> None:
    in_class = isinstance(node, ast.ClassDef)
    left = [
        _plain(statement, kept, in_class) for statement in body if isinstance(statement, ast.stmt)
    ]
    if len(left) != len(body):
        return  # the body of a lambda, or cases
    clean: list[ast.stmt] = [statement for statement in left if statement is not None]
    if not clean and field == "body":
        clean = [ast.Pass()]
    setattr(node, field, clean)


def _plain(statement: ast.stmt, kept: bool, in_class: bool) -> ast.stmt | None:
    """A statement without its annotation; None for one that computes nothing."""
    if isinstance(statement, ast.Expr) and (_is_text(statement.value) or _is_log(statement.value)):
        return None
    if isinstance(statement, ast.Assign) and all(map(_is_doc, statement.targets)):
        return None if _computes_nothing(statement.value) else statement
    if is_overload(statement):
        return None
    runs = isinstance(statement, ast.AnnAssign) and not _computes_nothing(statement.annotation)
    if isinstance(statement, ast.AnnAssign) and not (kept and in_class) and not runs:
        if statement.value is None:
            return None
        return ast.copy_location(ast.Assign([statement.target], statement.value), statement)
    return statement


def _drop_annotations(node: ast.AST, kept: bool) -> None:
    if kept:
        return
    if isinstance(node, ast.arg):
        if node.annotation is not None and _computes_nothing(node.annotation):
            node.annotation = None
        node.type_comment = None
    elif isinstance(node, Function) and node.returns is not None:
        node.returns = None if _computes_nothing(node.returns) else node.returns


def _reads_annotations(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    names: Iterable[ast.expr] = node.decorator_list
    called = [d.func if isinstance(d, ast.Call) else d for d in names]
    parts = {part for name in called for part in (dotted(name) or "").split(".")}
    if isinstance(node, ast.ClassDef):
        bases = {(dotted(base) or "").rpartition(".")[2] for base in node.bases}
        return not (_READ_ANNOTATIONS.isdisjoint(parts) and _BASES_READ.isdisjoint(bases))
    return not _READ_ANNOTATIONS.isdisjoint(parts)


def _is_doc(target: ast.expr) -> bool:
    return (dotted(target) or "").rpartition(".")[2] == "__doc__"


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and (isinstance(value.value, str) or value.value is ...)


def _is_log(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    logs = value.func.attr in _LEVELS and _LOGGER.search(dotted(value.func.value) or "") is not None
    return logs and all(map(_computes_nothing, [*value.args, *value.keywords]))


def _is_documentation(argument: ast.expr) -> bool:
    """A string, or a string that is formatted or joined to others."""
    if isinstance(argument, ast.Constant):
        return isinstance(argument.value, str)
    if isinstance(argument, ast.BinOp):
        return _is_documentation(argument.left) or _is_documentation(argument.right)
    if isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute):
        return argument.func.attr in ("format", "replace") and _is_documentation(
            argument.func.value
        )
    return isinstance(argument, ast.JoinedStr)
