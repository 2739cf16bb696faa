"""Changes as the JSON object that ``opdiff changes --json`` prints."""

from __future__ import annotations

from typing import Any

from bot.changes.change import ChangedOp, Changes


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
