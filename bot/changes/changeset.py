"""ChangeSet: the files of a diff with both sides' text, from a git repository or from a patch and a folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class ChangedFile:
    """One file of a diff. ``old`` is None for an added file, ``new`` for a deleted one; they differ for a rename.

    ``old_lines`` and ``new_lines`` are the changed lines (1-based) on each side.
    """

    old: str | None
    new: str | None
    old_lines: tuple[int, ...] = ()
    new_lines: tuple[int, ...] = ()
    binary: bool = False
    submodule: bool = False

    @property
    def path(self) -> str:
        """The head's path, or the base's for a deleted file."""
        return self.new or self.old or ""


class ChangeSet(Protocol):
    """A diff base..head with access to both trees. Nothing of the repository is ever executed or imported."""

    @property
    def files(self) -> tuple[ChangedFile, ...]:
        """Every changed file."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the changes should know of how the diff was read, in one line each."""
        ...

    def base_text(self, path: str) -> str | None:
        """The text of a file at the base, or None when it is not there or not text."""
        ...

    def head_text(self, path: str) -> str | None:
        """The text of a file at the head, or None when it is not there or not text."""
        ...

    def head_paths(self) -> tuple[str, ...]:
        """Every file of the tree at the head (for a patch: of the folder with the patch applied)."""
        ...


@runtime_checkable
class NamedContents(Protocol):
    """A ChangeSet that has a name for every content, as git has: what was read of one is kept for the next run."""

    def head_blob(self, path: str) -> str | None:
        """The name of a file's content at the head, or None when it is not to be read."""
        ...

    def base_blob(self, path: str) -> str | None:
        """The name of a file's content at the base, or None when it is not to be read."""
        ...

    def head_texts(self, paths: Sequence[str]) -> Iterable[tuple[str, str | None]]:
        """Each path with its text at the head, in any order."""
        ...


@runtime_checkable
class NamedDiff(Protocol):
    """A ChangeSet whose name says all of it: results of the same code for the same name are the same."""

    @property
    def identity(self) -> str:
        """The name of the diff."""
        ...


class ChangesError(ValueError):
    """A diff cannot be read (no repository, no such revision, a patch that does not apply); one line."""
