"""Changes as the JSON object that ``opdiff changes --json`` prints."""

from __future__ import annotations

from typing import Any, Final, cast

from pydantic import TypeAdapter

from bot.changes.change import ChangedOp, Changes
from bot.changes.file_text import printable_path

CHANGES: Final = TypeAdapter(Changes)
"""Changes as they are kept: JSON without loss."""


def to_json(changes: Changes) -> dict[str, Any]:
    """``{"framework", "ops", "tests", "unmapped", "notes", "left_out"}``; plain JSON values throughout."""
    return {
        "framework": changes.framework,
        "ops": [_op(op) for op in changes.ops],
        "tests": list(changes.tests),
        "unmapped": [{"file": entry.file, "why": entry.why} for entry in changes.unmapped],
        "notes": list(changes.notes),
        "left_out": list(changes.left_out),
    }


def _op(op: ChangedOp) -> dict[str, Any]:
    return {
        "op": op.op,
        "how": op.how,
        "aliases": list(op.aliases),
        "path": list(op.path),
        "lines": [{"file": run.file, "first": run.first, "last": run.last} for run in op.lines],
        "in_python": op.in_python,
    }


def printable(changes: Changes) -> Changes:
    """The changes with all that is no UTF-8 (paths in steps and notes, names that a source makes) shown as ``\\xNN``."""
    return CHANGES.validate_python(_printable(CHANGES.dump_python(changes)))


def _printable(value: object) -> object:
    if isinstance(value, str):
        return value if value.isascii() else printable_path(value)
    if isinstance(value, dict):
        return {key: _printable(each) for key, each in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return tuple(map(_printable, cast("list[object]", value)))
    return value
