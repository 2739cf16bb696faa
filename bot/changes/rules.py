"""What a framework's file tells the engine, which knows no framework itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from bot.changes.definition import Definition
from bot.changes.graph import Edge, Node
from bot.changes.index.tree import Note, Tree

Role = Literal["source", "autotest", "test", "documentation", "stub", "ci", "build", "other"]


class Reader(Protocol):
    """One tree seen through a framework's rules."""

    def start(self, definition: Definition, added: bool) -> Node | str:
        """Where the walk from a changed definition begins, or why none is possible.

        ``added`` says that the other side has no definition of that name. An empty text means that the change
        can change no op (an import that nothing uses).
        """
        ...

    def successors(self, node: Node) -> Iterable[Edge]:
        """What a change of the node changes next."""
        ...


class FrameworkRules(Protocol):
    """A framework's rules: its layout, and how its names hang together."""

    @property
    def name(self) -> str:
        """``oneflow``, ``torch``: what public names begin with."""
        ...

    def matches(self, tree: Tree) -> bool:
        """Whether the tree is this framework's repository or an installed release of it."""
        ...

    def role(self, path: str, text: str | None) -> Role:
        """What a file is for."""
        ...

    def definitions(self, path: str, text: str) -> tuple[Definition, ...] | None:
        """The definitions of a source file; None when it cannot be read as what its name says."""
        ...

    def reader(self, tree: Tree, note: Note) -> Reader:
        """The tree, ready to be walked; ``note`` is told, in one line each, what a walk leaves out."""
        ...
