"""Answers ``signatures``: what the installed PyTorch says of the parameters of every function that a program may name.

For its own operators the operator schemas, for Python functions and module classes their signatures. Types are written
as PyTorch's schema language writes them: ``Tensor``, ``int[2]``, ``Scalar?``, ``ScalarType``; "" where none is told.
"""

import inspect
from typing import Any, BinaryIO, Dict, List, Optional

import torch
from protocol import encode_header, write_frame

PREFIXES = {
    "nn.functional.": "",
    "linalg.": "linalg_",
    "fft.": "fft_",
    "special.": "special_",
    "Tensor.": "",
}
"""Prefix of a canonical name -> that of the operator."""

Row = Dict[str, Any]


def handle(table: Dict[str, Any], stream: BinaryIO) -> None:
    """Answer with the parameters of each function in the table, overload by overload."""
    found = {name: overloads(name, function) for name, function in table.items()}
    named = {name: rows for name, rows in found.items() if rows}
    write_frame(stream, encode_header({"type": "signatures", "signatures": named}))


def overloads(name: str, function: Any) -> List[List[Row]]:
    """The overloads of a function; none when PyTorch does not tell."""
    if not inspect.isbuiltin(function) and not inspect.ismethoddescriptor(function):
        rows = _from_python(function)
        if rows is not None:
            return [rows]
    return _from_schemas(name)


def _from_python(function: Any) -> Optional[List[Row]]:
    try:
        signature = inspect.signature(function.__init__ if isinstance(function, type) else function)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())
    if isinstance(function, type):
        parameters = parameters[1:]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    return [_python_row(parameter) for parameter in parameters]


def _python_row(parameter: inspect.Parameter) -> Row:
    given = parameter.default is not parameter.empty
    row: Row = {"name": parameter.name, "type": _type_of(parameter)}
    if given:
        row["required"] = False
        row["default"] = _plain(parameter.default)
    if parameter.kind == parameter.KEYWORD_ONLY:
        row["keyword"] = True
    return row


def _type_of(parameter: inspect.Parameter) -> str:
    """A type word by annotation, else by the default value."""
    text = str(parameter.annotation)
    optional = "?" if "None" in text or "Optional" in text else ""
    if parameter.name == "dtype":
        return "ScalarType" + optional
    for word, kind in (
        ("Tensor", "Tensor"),
        ("bool", "bool"),
        ("float", "float"),
        ("int", "int"),
        ("str", "str"),
    ):
        if parameter.annotation is not parameter.empty and word in text:
            return kind + ("[]" if "ist[" in text and kind != "Tensor" else "") + optional
    default = parameter.default
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "str")):
        if isinstance(default, kind):
            return name
    return ""


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, str)) else None


def _from_schemas(name: str) -> List[List[Row]]:
    schemas: List[Any] = torch._C._jit_get_schemas_for_operator("aten::" + operator_name(name))
    read = [
        [_schema_row(a) for a in schema.arguments] for schema in schemas if not _writes_out(schema)
    ]
    first = [rows for rows in read if any(row["type"] in ("Tensor", "Tensor?") for row in rows)]
    return first or [rows for rows in read if any("Tensor" in row["type"] for row in rows)] or read


def operator_name(name: str) -> str:
    """``linalg.norm`` -> ``linalg_norm``."""
    for prefix, operator in PREFIXES.items():
        if name.startswith(prefix):
            return operator + name[len(prefix) :]
    return name


def _writes_out(schema: Any) -> bool:
    return any(getattr(argument, "is_out", False) for argument in schema.arguments)


def _schema_row(argument: Any) -> Row:
    row: Row = {"name": argument.name, "type": schema_type(argument)}
    if argument.has_default_value():
        row["required"] = False
        row["default"] = _plain(argument.default_value)
    if argument.kwarg_only:
        row["keyword"] = True
    return row


def schema_type(argument: Any) -> str:
    """``Optional[List[int]]`` of at least 1 -> ``int[1]?``."""
    text = str(getattr(argument, "real_type", argument.type))
    optional = text.startswith("Optional[")
    if optional:
        text = text[len("Optional[") : -1]
    if text.startswith("List["):
        text = "%s[%s]" % (text[len("List[") : -1], argument.N or "")
    return text.replace("number", "Scalar") + ("?" if optional else "")
