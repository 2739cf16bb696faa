"""Ops beside those that the diff's reader proves: what the configuration states of files, and what a person names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bot.changes.change import MAX_RUNS_PER_OP, ChangedLines, ChangedOp, Changes, runs_of
from bot.changes.changeset import ChangedFile
from bot.changes.file_text import printable_path
from bot.config import CONFIG_PATH, OpRule
from bot.errors import OpDiffError
from bot.known_names import check_op_name
from bot.path_globs import glob_matches
from bot.programs.op_index import UnknownOpError
from bot.shards.costs import known_op

STATED: Final = f"stated in {CONFIG_PATH}"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,199}", re.ASCII)


@dataclass
class _Stated:
    """One op that rules name, with the files that they name it for."""

    name: str
    files: list[ChangedFile] = field(default_factory=list[ChangedFile])


def with_rules(changes: Changes, files: Sequence[ChangedFile], rules: Sequence[OpRule]) -> Changes:
    """The changes with what rules state of the changed files.

    Ops are added, never taken away: what is proven stays. A file that a rule matches is not unmapped any more, and a
    note says what was stated of it.
    """
    stated: dict[str, _Stated] = {}
    notes: dict[str, None] = {}
    matched: set[str] = set()
    for file in files:
        for rule in rules:
            if not _matches(rule, file):
                continue
            shown = printable_path(file.path)
            matched.add(shown)
            ops = dict.fromkeys(known_op(name) for name in rule.ops)
            notes[f"{shown}: changes {', '.join(ops) or 'no op'}, as {STATED}"] = None
            for name, op in zip(rule.ops, map(known_op, rule.ops), strict=True):
                one = stated.setdefault(op, _Stated(name))
                if file not in one.files:
                    one.files.append(file)
    proven = {op.op for op in changes.ops}
    added = [_stated_op(op, one) for op, one in stated.items() if op not in proven]
    return replace(
        changes,
        ops=_sorted([*changes.ops, *added]),
        unmapped=tuple(entry for entry in changes.unmapped if entry.file not in matched),
        notes=(*changes.notes, *notes),
    )


def with_asked(changes: Changes, asked: Sequence[str]) -> Changes:
    """The changes with ops that a person named (``--op``, ``/opdiff run``). Raises OpDiffError for what is no name."""
    present = {op.op for op in changes.ops}
    added: dict[str, ChangedOp] = {}
    for name, op in zip(asked, asked_ops(asked), strict=True):
        if op not in present:
            path = (f"{name} was asked for by name",)
            added.setdefault(op, ChangedOp(op, "direct", (name,), path))
    return replace(changes, ops=_sorted([*changes.ops, *added.values()]))


def asked_ops(asked: Sequence[str]) -> tuple[str, ...]:
    """The op groups of names, one for each. Raises OpDiffError for what is no name."""
    for name in asked:
        if not _NAME.fullmatch(name):
            raise OpDiffError(f"--op {name[:80]!a} is no op's name: see `opdiff ops`")
    return tuple(known_op(name) for name in asked)


def check_asked(asked: Sequence[str]) -> None:
    """Refuse ops of the command line that nobody knows. Raises OpDiffError."""
    asked_ops(asked)
    try:
        for name in asked:
            check_op_name(name)
    except UnknownOpError as error:
        raise OpDiffError(f"--op: {error}") from None


def known_of(requested: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ops that comments asked for and somebody knows, and a note on each of the others."""
    known: list[str] = []
    notes: list[str] = []
    for name in requested:
        try:
            check_op_name(name)
            known.append(name)
        except UnknownOpError as error:
            notes.append(f"asked for in a comment and not run: {error}")
    return tuple(known), tuple(notes)


def _matches(rule: OpRule, file: ChangedFile) -> bool:
    paths = [path for path in (file.old, file.new) if path]
    return any(glob_matches(glob, path) for glob in rule.paths for path in paths)


def _stated_op(op: str, stated: _Stated) -> ChangedOp:
    lines = [line for file in stated.files for line in _lines(file)]
    return ChangedOp(
        op=op,
        how="direct",
        aliases=(stated.name,),
        path=tuple(f"{printable_path(f.path)} changes {op}, as {STATED}" for f in stated.files),
        lines=tuple(lines)[:MAX_RUNS_PER_OP],
        in_python=all(file.path.endswith(".py") for file in stated.files),
    )


def _lines(file: ChangedFile) -> list[ChangedLines]:
    """The changed lines of a file on the head side, as runs."""
    if file.new is None:
        return []
    return runs_of(printable_path(file.new), file.new_lines)


def _sorted(ops: Sequence[ChangedOp]) -> tuple[ChangedOp, ...]:
    return tuple(sorted(ops, key=lambda op: op.op))
