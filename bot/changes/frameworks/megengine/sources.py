"""MegEngine's own kinds of source: the table of operator parameters, and functions that are a switch over modes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from bot.changes.definition import Definition
from bot.changes.sources.cpp_source import read_cpp, tokenize
from bot.changes.sources.text_lines import TextLines

PARAMS: Final = "dnn/scripts/opr_param_defs.py"
"""``pdef("Reduce").add_enum("Mode", ...)``: parameters of the operators and of the OpDefs (dnn/scripts/gen_param_defs.py)."""

_CASE: Final = re.compile(r"^[ \t]*case (?:\w+::)*Mode::(\w+):", re.MULTILINE)
_TABLE_CASES: Final = 4
"""A switch with so many cases is a table, each case a row."""

_ENUMERATOR: Final = re.compile(r"(\w+)\s*(?:=\s*\w+)?")


def read_megengine_cpp(file: str, text: str) -> tuple[Definition, ...]:
    """The definitions of a C++ source, the cases of a switch over modes each for itself."""
    if len(_CASE.findall(text)) < _TABLE_CASES:
        return read_cpp(file, text)
    lines = text.split("\n")
    return tuple(row for found in read_cpp(file, text) for row in _cases(found, lines))


def _cases(definition: Definition, lines: list[str]) -> Iterator[Definition]:
    body = "\n".join(lines[definition.first - 1 : definition.last])
    found = list(_CASE.finditer(body))
    if definition.kind != "function" or len(found) < _TABLE_CASES:
        yield definition
        return
    yield replace(definition, code=tokenize(body[: found[0].start()]).code)
    labels: list[str] = []
    numbered = TextLines(body)
    for index, match in enumerate(found):
        end = found[index + 1].start() if index + 1 < len(found) else len(body)
        labels.append(match[1])
        tokens = tokenize(body[match.end() : end])
        if not tokens.code:
            continue  # several labels with one body
        first = definition.first + numbered.number(match.start()) - 1
        last = definition.first + numbered.number(max(match.end(), end - 1)) - 1
        for label in labels:
            yield replace(
                definition, name=f"{definition.name}[{label}]", kind="entry", first=first,
                last=last, code=f"case {label} : {tokens.code}", uses=tokens.names,
            )  # fmt: skip
        labels = []


def read_params(file: str, text: str) -> tuple[Definition, ...] | None:
    """Each parameter struct as an entry ``Reduce``, each of its modes as an entry ``Reduce.SUM``.

    None when the text is not Python.
    """
    try:
        return tuple(row for statement in ast.parse(text).body for row in _struct(file, statement))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _struct(file: str, statement: ast.stmt) -> Iterator[Definition]:
    name = ""
    modes: dict[str, int] = {}
    rest: list[str] = []
    for call in _calls(statement):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        texts = [_text(argument) for argument in call.args]
        if called == "pdef" and texts:
            name = texts[0]
        if called == "add_enum" and texts and texts[0] == "Mode":
            for argument, text in zip(call.args[1:], texts[1:], strict=True):
                match = _ENUMERATOR.match(text)
                if match:
                    modes[match[1]] = argument.lineno
        else:
            keywords = [ast.dump(keyword) for keyword in call.keywords if keyword.arg != "version"]
            rest.append(f"{called}({', '.join([*texts, *keywords])})")
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    if name:
        yield Definition(file, name, "entry", first, last, "\n".join(rest))
        for mode, line in modes.items():
            yield Definition(file, f"{name}.{mode}", "entry", line, line, mode)


def _calls(statement: ast.stmt) -> list[ast.Call]:
    """The calls of a chain ``pdef(..).add_enum(..).add_fields(..)``, the first one first."""
    found: list[ast.Call] = []
    node: ast.AST | None = statement.value if isinstance(statement, ast.Expr) else None
    while isinstance(node, ast.Call):
        found.append(node)
        node = node.func.value if isinstance(node.func, ast.Attribute) else None
    return found[::-1]


def _text(argument: ast.expr) -> str:
    """A text, or the text of ``Doc(text, documentation)``; anything else as it is written."""
    if isinstance(argument, ast.Call) and ast.unparse(argument.func) == "Doc" and argument.args:
        return _text(argument.args[0])
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value
    return ast.unparse(argument)
