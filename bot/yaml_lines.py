"""YAML from outside as plain values with the line of each, bounded: no aliases, no tags, no duplicate keys.

Scalars stay the text that stands there (YAML 1.1 would make ``no`` a boolean and a fingerprint of digits a number);
whoever validates the values knows what each should be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import yaml
from yaml.events import AliasEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_DEPTH: Final = 10
MAX_NODES: Final = 100_000

PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge", "map", "seq")
)

Path = tuple[str | int, ...]


class YamlError(ValueError):
    """The text is not the YAML that is read here; ``line`` is 1-based."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


@dataclass(frozen=True)
class LinedYaml:
    """Dicts, lists and texts, and where each stands: path from the root -> line (1-based)."""

    value: Any
    lines: Mapping[Path, int]

    def line_of(self, path: Path) -> int:
        """The line of what a path names, or of the innermost that is there of it."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)


class _Loader(yaml.SafeLoader):
    """Composes nodes, and refuses aliases: a few lines of them make gigabytes."""

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        if self.check_event(AliasEvent):
            event = cast("Any", self.peek_event())  # pyright: ignore[reportUnknownMemberType]
            raise YamlError(event.start_mark.line + 1, "aliases (*name) are not taken")
        return super().compose_node(parent, index)


def parse_yaml(text: str) -> LinedYaml:
    """One YAML document. Raises YamlError."""
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(mark.line + 1 if mark else 1, error.problem or "not YAML") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(line, f"not YAML: {error.reason}") from None
    except RecursionError:
        raise YamlError(1, "nested too deep") from None
    reading = _Reading()
    value: Any = {} if root is None else reading.value(root, ())
    return LinedYaml(value, reading.lines)


class _Reading:
    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}

    def value(self, node: Node, path: Path) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if len(path) > MAX_DEPTH:
            raise YamlError(line, f"nested deeper than {MAX_DEPTH}")
        if len(self.lines) > MAX_NODES:
            raise YamlError(line, f"more than {MAX_NODES} values")
        if node.tag not in PLAIN_TAGS:
            raise YamlError(line, "tags (!name) are not taken")
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, number)) for number, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return node.value

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode) or key.tag not in PLAIN_TAGS:
                raise YamlError(line, "a key must be a word")
            name = str(key.value)
            if name in values:
                raise YamlError(line, f"{name!r} stands there twice")
            self.lines[(*path, name)] = line
            values[name] = self.value(item, (*path, name))
        return values
