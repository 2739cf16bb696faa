"""Edits of small trees, for the tests of PyTorch's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bot.changes.change import Changes

Tree = Mapping[str, str | bytes | None]
Run = Callable[[Tree, Tree], Changes]


def edit(tree: Tree, file: str, old: str, new: str) -> dict[str, str | bytes | None]:
    """One file of the tree with the first occurrence of a text replaced."""
    text = tree[file]
    assert isinstance(text, str)
    assert old in text, (file, old)
    return {file: text.replace(old, new, 1)}


def aliases(changes: Changes, how: str | None = None) -> set[str]:
    """Every public name of the changed ops, of one way to be reached or of both."""
    return {
        a.removeprefix("torch.") for op in changes.ops if how in (None, op.how) for a in op.aliases
    }
