"""A ChangeSet whose two trees are dictionaries."""

from __future__ import annotations

from dataclasses import dataclass, field

from bot.changes.changeset import ChangedFile


@dataclass
class MemoryChangeSet:
    """Base and head: path -> text. ``renames`` maps old paths to new ones."""

    base: dict[str, str]
    head: dict[str, str]
    renames: dict[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[ChangedFile, ...]:
        renamed = {*self.renames, *self.renames.values()}
        found = [ChangedFile(old, new) for old, new in self.renames.items()]
        for path in sorted({*self.base, *self.head} - renamed):
            if self.base.get(path) != self.head.get(path):
                old = path if path in self.base else None
                found.append(ChangedFile(old, path if path in self.head else None))
        return tuple(found)

    def base_text(self, path: str) -> str | None:
        return self.base.get(path)

    def head_text(self, path: str) -> str | None:
        return self.head.get(path)

    def head_paths(self) -> tuple[str, ...]:
        return tuple(self.head)
