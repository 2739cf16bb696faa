"""What differs between the two sides of a diff, definition by definition, wherever the definitions stand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from bot.changes.changeset import ChangedFile
from bot.changes.definition import Definition
from bot.changes.sources.python_source import MODULE


@dataclass
class FileChange:
    """One changed source file: what differs, and what became of it."""

    file: ChangedFile
    removed: list[Definition] = field(default_factory=list[Definition])
    added: list[Definition] = field(default_factory=list[Definition])
    reached: int = 0
    reasons: list[str] = field(default_factory=list[str])


def _key(definition: Definition) -> tuple[str, str, str]:
    return definition.kind, definition.name, definition.code


def difference(
    old: Iterable[Definition], new: Iterable[Definition]
) -> tuple[list[Definition], list[Definition]]:
    """The definitions that only one side has, wherever they stand in the file."""
    old, new = list(old), list(new)
    removed = _without(old, Counter(map(_key, new)))
    added = _without(new, Counter(map(_key, old)))
    changed = {d.name for d in removed} | {d.name for d in added}
    last_old, last_new = _last(old), _last(new)
    for name in last_old.keys() & last_new.keys() - changed:
        if _key(last_old[name]) != _key(last_new[name]):
            removed.append(last_old[name])
            added.append(last_new[name])
    return removed, added


def _last(definitions: list[Definition]) -> dict[str, Definition]:
    """The last definition of each name, of those names that a file defines in order: the last one holds."""
    return {
        d.name: d
        for d in definitions
        if d.kind == "macro"
        or (
            d.file.endswith(".py")
            and d.kind not in ("statement", "entry", "export")
            and d.name != "*"
        )
    }


def _without(
    definitions: list[Definition],
    others: Counter[tuple[str, str, str]],
    movable: Callable[[Definition], bool] = lambda definition: True,
) -> list[Definition]:
    kept: list[Definition] = []
    for definition in definitions:
        if movable(definition) and others[_key(definition)] > 0:
            others[_key(definition)] -= 1
        else:
            kept.append(definition)
    return kept


def _movable(definition: Definition) -> bool:
    """Imports and loose statements mean what their file makes of them; definitions mean the same anywhere."""
    return definition.kind not in ("import", "statement")


def cancel_renames(changes: list[FileChange]) -> None:
    """Take away what changed only because a definition got another name and its users follow it.

    A Python function or method that is not private is not taken away itself: users call it by its name.
    """
    renamed = _renamed(changes)
    if not renamed:
        return
    pattern = re.compile(rf"(?<!:: )\b(?:{'|'.join(map(re.escape, renamed))})\b")

    def before(definition: Definition) -> str:
        return pattern.sub(lambda match: renamed[match[0]], definition.code)

    named = {*renamed, *renamed.values()}
    for change in changes:
        kept = Counter(map(before, change.removed)) & Counter(map(before, change.added))
        change.removed = [
            d for d in change.removed if before(d) not in kept or _is_offered(d, named)
        ]
        change.added = [d for d in change.added if before(d) not in kept or _is_offered(d, named)]


def _renamed(changes: list[FileChange]) -> dict[str, str]:
    """New plain name -> old one, of definitions whose code is otherwise the same."""
    bodies: dict[tuple[str, str, str], str] = {}
    for change in changes:
        for definition in change.removed:
            owner, name = _plain_name(definition)
            bodies.setdefault((definition.kind, owner, _nameless(definition)), name)
    renamed: dict[str, str] = {}
    for change in changes:
        for definition in change.added:
            owner, name = _plain_name(definition)
            old = bodies.get((definition.kind, owner, _nameless(definition)), "")
            if definition.file.endswith(".py"):
                fit = definition.kind in ("function", "method") and not name.startswith("__")
            else:
                fit = definition.kind in ("class", "function", "macro", "alias", "assignment")
            if fit and old and old != name and name.isidentifier():
                renamed[name] = old
    return renamed


def _plain_name(definition: Definition) -> tuple[str, str]:
    """A Python method's class and its own name; for all others the name as it is."""
    if definition.kind == "method" and definition.file.endswith(".py"):
        owner, _, name = definition.name.rpartition(".")
        return owner, name
    return "", definition.name


def _is_offered(definition: Definition, named: set[str]) -> bool:
    """Whether a definition is Python's, is or exports one of the names, and can be called by it from outside."""
    if not definition.file.endswith(".py"):
        return False
    owner, name = _plain_name(definition)
    private = owner.startswith("_") or (not owner and name.startswith("_"))
    return definition.kind in ("function", "method", "export") and name in named and not private


def is_nameless(definition: Definition) -> bool:
    """Whether the name is a macro's, which many registrations share, and tells none of them from the others."""
    return definition.kind == "statement" and definition.name != MODULE


def _nameless(definition: Definition) -> str:
    """The code with the name left out."""
    _, name = _plain_name(definition)
    if not name.isidentifier():
        return definition.code
    return re.sub(rf"(?<!:: )\b{name}\b", "?", definition.code)


def cancel_moves(changes: list[FileChange]) -> None:
    """Take away what one file lost and another gained unchanged."""
    removed = Counter(_key(d) for change in changes for d in change.removed)
    added = Counter(_key(d) for change in changes for d in change.added)
    for change in changes:
        change.removed = _without(change.removed, added, _movable)
        change.added = _without(change.added, removed, _movable)


def with_before(change: FileChange) -> Iterator[Definition]:
    """The added definitions, each with the code of the one that it takes the place of, where that is certain."""

    def kind_and_name(definition: Definition) -> tuple[str, str]:
        return definition.kind, definition.name

    added = Counter(map(kind_and_name, change.added))
    removed = Counter(map(kind_and_name, change.removed))
    codes = {kind_and_name(d): d.code for d in change.removed}
    for definition in change.added:
        key = kind_and_name(definition)
        certain = added[key] == removed[key] == 1
        yield replace(definition, before=codes[key]) if certain else definition
