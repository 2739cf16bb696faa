"""OpIndex: which entries exercise an op, by any of the names that people give it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from bot.programs.op_groups import group_of, op_groups
from bot.programs.source import SourceEntry

NEAR_NAMES = 3


class UnknownOpError(ValueError):
    """No entry goes by that name; the message is one line and offers near names."""


class OpIndex:
    """Entries by op group, and names to op groups."""

    def __init__(self, entries: Iterable[SourceEntry]) -> None:
        self._entries: dict[str, list[SourceEntry]] = {}
        self._reached: dict[str, list[SourceEntry]] = {}
        self._names: dict[str, str] = {}
        self._short: dict[str, set[str]] = {}
        for entry in entries:
            groups = {entry.group, *(group_of(name) for name in entry.names)}
            for group in groups:
                self._entries.setdefault(group, []).append(entry)
                self._names[group] = group
            for name in entry.calls:
                self._reached.setdefault(group_of(name), []).append(entry)
            for name in (*entry.names, *entry.calls):
                self._names.setdefault(name, group_of(name))
            short = self._short.setdefault(short_name(entry.name), set())
            short.add(entry.group)
        for name, group in op_groups().irregular.items():
            if group in self._entries:
                self._names.setdefault(name, group)
        for name, group in self._names.items():
            self._short.setdefault(short_name(name), set()).add(group)

    @property
    def groups(self) -> tuple[str, ...]:
        """Every op group that an entry is there for, sorted."""
        return tuple(sorted(self._entries))

    @property
    def names(self) -> tuple[str, ...]:
        """Every canonical name that some entry exercises, sorted."""
        return tuple(sorted(self._names))

    def resolve(self, name: str) -> str:
        """The op group that a user means by ``torch.nn.functional.softplus``, ``softplus``, ``Tensor.add_`` ...

        Raises UnknownOpError for a name that no entry has, or a short name that several op groups have.
        """
        plain = name.strip().removeprefix("torch.")
        if plain in self._names:
            return self._names[plain]
        group = group_of(plain)
        if group in self._entries or group in self._reached:
            return group
        found = self._short.get(short_name(plain), set()) if "." not in plain else set[str]()
        if len(found) == 1:
            return next(iter(found))
        if found:
            raise UnknownOpError(
                f"op {name!r} is ambiguous: say which of {', '.join(sorted(found))}"
            )
        raise UnknownOpError(f"no op {name!r} is known{self._hint(plain)}")

    def entries_of(self, group: str) -> tuple[SourceEntry, ...]:
        """The entries for an op group: its own, else those whose calls reach it. Empty when there are none."""
        return tuple(self._entries.get(group) or self._reached.get(group, ()))

    def _hint(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._names, NEAR_NAMES, 0.7)
        short = difflib.get_close_matches(short_name(name), self._short, NEAR_NAMES, 0.7)
        offered = dict.fromkeys(
            [*near, *(group for s in short for group in sorted(self._short[s]))]
        )
        if not offered:
            return ": see `opdiff ops`"
        return f"; near names: {', '.join(list(offered)[:NEAR_NAMES])}"


def short_name(name: str) -> str:
    """The last part of a name, lower case, without in-place underscore: ``Tensor.add_`` -> ``add``."""
    last = name.removesuffix(".__get__").rsplit(".", 1)[-1]
    return (last if last.startswith("__") else last.rstrip("_")).lower()
