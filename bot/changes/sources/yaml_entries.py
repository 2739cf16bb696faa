"""YAML files that are lists of entries, read entry by entry with their lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import yaml

from bot.changes.definition import Definition

MAX_NODES = 1_000_000
"""Nodes with every alias written out: a few lines of aliases of aliases stand for more than any memory holds."""

MAX_MARKS = 250_000
"""Lines, colons, commas and brackets; PyTorch 2.13's native_functions.yaml, the longest list known, has 40,586."""

NODE_CHARACTERS = 64
"""A long text counts as one more node for each so many characters."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Entry:
    """One mapping of the list, its values as text, lists and mappings, and its lines (1-based, inclusive)."""

    values: dict[str, Any]
    first: int
    last: int


def read_entries(text: str) -> tuple[Entry, ...] | None:
    """The mappings of a YAML list; None when the text is not one, or stands for too much.

    Of several documents each must be a list. A key that is written twice keeps both values, the second as ``key#2``.
    What ``<<`` merges is there under its own keys.
    """
    if sum(map(text.count, "\n\r:,[{")) > MAX_MARKS:
        return None
    try:
        roots = cast("list[Any]", list(yaml.compose_all(text, _LOADER)))
        if not all(isinstance(root, yaml.SequenceNode) for root in roots):
            return None
        left = iter(range(MAX_NODES))
        lines = text.count("\n") + 1
        return tuple(
            Entry(cast("dict[str, Any]", value), *_lines(node, lines))
            for root in roots
            for node in root.value
            if isinstance(value := plain_value(node, left), dict)
        )
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def plain_value(node: yaml.Node, left: Iterator[int]) -> Any:
    """A node as text, list and dict: no types are guessed and no tags are followed.

    Takes one of ``left`` for each node (more for long texts), and raises ValueError when there are none.
    """
    if next(left, None) is None:
        raise ValueError("more nodes than are read")
    if isinstance(node, yaml.MappingNode):
        return _plain_mapping(node, left)
    if isinstance(node, yaml.SequenceNode):
        return [plain_value(value, left) for value in cast("list[yaml.Node]", node.value)]
    text = str(node.value)
    for _ in range(len(text) // NODE_CHARACTERS):
        if next(left, None) is None:
            raise ValueError("more text than is read")
    return text


def _plain_mapping(node: yaml.MappingNode, left: Iterator[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    merged: list[Any] = []
    written: dict[str, set[str]] = {}  # values of keys that are written more than once
    numbers: dict[str, int] = {}
    for key_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
        key, value = str(plain_value(key_node, left)), plain_value(value_node, left)
        if key == "<<":
            merged += cast("list[Any]", value) if isinstance(value, list) else [value]
            continue
        if key not in found:
            found[key] = value
            continue
        known = written.setdefault(key, {_text(found[key])})
        if (text := _text(value)) in known:
            continue  # the same value twice says it once
        known.add(text)
        number = numbers.get(key, 1) + 1
        while f"{key}#{number}" in found:
            number += 1
        numbers[key] = number
        found[f"{key}#{number}"] = value
    if not merged:
        return found
    together: dict[str, Any] = {}
    for other in reversed(merged):  # the first of them counts, and what is written here before all
        if isinstance(other, dict):
            together.update(cast("dict[str, Any]", other))
    return together | found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _lines(node: yaml.Node, lines: int) -> tuple[int, int]:
    """First and last line; YAML also counts lone carriage returns, so that its numbers may lie beyond the text's."""
    first = min(cast("yaml.Mark", node.start_mark).line + 1, lines)
    return first, max(first, min(_last_line(node) + 1, lines))


def _last_line(node: yaml.Node) -> int:
    """The line of the last scalar: a block's own end mark lies after the blanks that follow it."""
    last = node
    while children := _children(last):
        last = children[-1]
    start, end = cast("yaml.Mark", last.start_mark), cast("yaml.Mark", last.end_mark)
    return end.line - 1 if end.column == 0 and end.line > start.line else end.line


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [value for _, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value)]
    return cast("list[yaml.Node]", node.value) if isinstance(node, yaml.SequenceNode) else []


def entry_definitions(file: str, text: str, name_key: str) -> tuple[Definition, ...] | None:
    """Each entry as a definition named by the value of ``name_key``; None when the text is not a YAML list."""
    entries = read_entries(text)
    if entries is None:
        return None
    return tuple(
        Definition(
            file, str(entry.values.get(name_key, "")), "entry", entry.first, entry.last,
            json.dumps(entry.values, sort_keys=True),
        )
        for entry in entries
    )  # fmt: skip
