"""MindSpore's yaml files: a mapping of names to what is declared of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import yaml

from bot.changes.definition import Definition
from bot.changes.sources.yaml_entries import plain_value

MAX_NODES: Final = 100_000
"""Nodes with every alias written out: beyond this a file is not read."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class NamedEntry:
    """One name of the mapping, its value as text, lists and mappings, and its lines (1-based, inclusive)."""

    name: str
    value: Any
    first: int
    last: int

    @property
    def fields(self) -> dict[str, Any]:
        """The value when it is a mapping, else an empty one."""
        return cast("dict[str, Any]", self.value) if _kind(self.value) is dict else {}

    @property
    def branches(self) -> tuple[dict[str, Any], ...]:
        """The value as a list of mappings, of which a single mapping is one."""
        is_list = _kind(self.value) is list
        values = cast("list[Any]", self.value) if is_list else [self.value]
        return tuple(cast("dict[str, Any]", value) for value in values if _kind(value) is dict)


def _kind(value: object) -> type:
    return type(value)


def read_mapping(text: str) -> tuple[NamedEntry, ...] | None:
    """The entries of a YAML mapping; None when the text is not one, or stands for too much."""
    try:
        root = yaml.compose(text, _LOADER)
        if root is None:
            return ()
        if not isinstance(root, yaml.MappingNode):
            return None
        left = iter(range(MAX_NODES))
        return tuple(_entry(key, value, left) for key, value in root.value)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _entry(key: yaml.Node, value: yaml.Node, left: Iterator[int]) -> NamedEntry:
    first = cast("yaml.Mark", key.start_mark).line + 1
    end = cast("yaml.Mark", value.end_mark)
    last = end.line if end.column == 0 else end.line + 1
    return NamedEntry(str(key.value), plain_value(value, left), first, max(first, last))


def mapping_definitions(file: str, text: str) -> tuple[Definition, ...] | None:
    """Each entry of a mapping as a definition; None when the text is not a YAML mapping."""
    entries = read_mapping(text)
    if entries is None:
        return None
    return tuple(
        Definition(file, entry.name, "entry", entry.first, entry.last, json.dumps(entry.value, sort_keys=True))
        for entry in entries
    )  # fmt: skip
