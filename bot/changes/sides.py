"""The two trees of a diff, which read what they have in common once."""

from __future__ import annotations

from functools import cached_property

from bot.changes.changeset import ChangeSet, NamedContents
from bot.changes.index.store import IndexStore
from bot.changes.index.tree import Shared, Tree


class Sides:
    """``head`` is the tree after the diff, ``base`` the one before it."""

    def __init__(self, changeset: ChangeSet, store: IndexStore | None = None) -> None:
        self._changeset = changeset
        self._names = changeset if isinstance(changeset, NamedContents) else None
        self._shared = Shared(store)

    @property
    def unread(self) -> frozenset[str]:
        """Sources of an indexed kind that were looked for words and have no text."""
        return frozenset(self._shared.facts.unread)

    @cached_property
    def head(self) -> Tree:
        """The tree at the head."""
        names = self._names
        return Tree(
            self._changeset.head_paths(),
            self._changeset.head_text,
            blob_of=names.head_blob if names else None,
            read_many=names.head_texts if names else None,
            shared=self._shared,
        )

    @cached_property
    def base(self) -> Tree:
        """The tree before the diff: the head's files but for those that the diff touches."""
        new = {file.new for file in self._changeset.files}
        old = {file.old: None for file in self._changeset.files if file.old}
        paths = [path for path in self.head.paths if path not in new] + list(old)
        names = self._names

        def read(path: str) -> str | None:
            return self._changeset.base_text(path) if path in old else self.head.text(path)

        def blob_of(path: str) -> str | None:
            if names is None:
                return None
            return names.base_blob(path) if path in old else names.head_blob(path)

        return Tree(paths, read, blob_of=blob_of, shared=self._shared)
