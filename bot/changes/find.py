"""From a ChangeSet to Changes: which definitions changed, and which ops they reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import ValidationError

from bot.changes.change import Changes, Unmapped
from bot.changes.changes_json import CHANGES, printable
from bot.changes.changeset import ChangedFile, ChangesError, ChangeSet, NamedDiff
from bot.changes.definition import Definition
from bot.changes.difference import (
    FileChange,
    cancel_moves,
    cancel_renames,
    difference,
    is_nameless,
    with_before,
)
from bot.changes.file_text import NOT_READ, printable_path
from bot.changes.found_ops import MAX_INDIRECT_OPS, Found, FoundOps, nearest
from bot.changes.frameworks import FRAMEWORKS
from bot.changes.graph import MAX_NODES_IN_ALL, Walker
from bot.changes.index.reader_version import version_of
from bot.changes.index.store import IndexStore, Section
from bot.changes.index.tree import Tree
from bot.changes.notes import merged
from bot.changes.op_names import OpGroup, canonical_op
from bot.changes.rules import FrameworkRules, Reader
from bot.changes.sides import Sides
from bot.changes.sources.python_source import why_unreadable
from bot.programs.op_groups import group_of

QUIET_ROLES = {
    "documentation": "documentation", "ci": "CI", "test": "tests", "autotest": "tests",
    "stub": "signatures for type checkers",
}  # fmt: skip
MAX_OF_ONE_NAME: Final = 256  # changed functions of one name in one file that are followed


def find_changes(
    changeset: ChangeSet,
    framework: str | None = None,
    *,
    group: OpGroup = group_of,
    frameworks: Sequence[FrameworkRules] = FRAMEWORKS,
    store: IndexStore | None = None,
) -> Changes:
    """The ops that a diff changes, each with the path that proves it.

    ``framework`` (``torch``, ``oneflow``) is found from the tree when it is None. What is read is kept in ``store``,
    the whole answer too where the diff has a name and the rules are OpDiff's own. Raises ChangesError when the tree is
    of no framework that is known here.
    """
    if store is None or group is not group_of or frameworks is not FRAMEWORKS:
        return _find(changeset, framework, group, frameworks, store)
    key = _key(changeset, framework)
    known = _known(store.get(key)) if key else None
    if known is not None:
        return known
    found = _find(changeset, framework, group, frameworks, store)
    if key and not store.problem:
        store.put(key, CHANGES.dump_json(found))
        store.flush()
    return found


def _key(changeset: ChangeSet, framework: str | None) -> bytes | None:
    """The key of an answer; None for a diff without a name, as that of a folder which may change."""
    if not isinstance(changeset, NamedDiff):
        return None
    section = Section("changes", version_of("bot.changes", "bot.programs"))
    return section.key(changeset.identity, framework or "", *changeset.notes)


def _known(data: bytes | None) -> Changes | None:
    try:
        return None if data is None else CHANGES.validate_json(data)
    except ValidationError:
        return None


def _find(
    changeset: ChangeSet,
    framework: str | None,
    group: OpGroup,
    frameworks: Sequence[FrameworkRules],
    store: IndexStore | None,
) -> Changes:
    sides = Sides(changeset, store)
    rules = _rules(sides.head, framework, frameworks)
    found = _Search(changeset, sides, rules, group).run()
    if store is not None:
        store.flush()
        if store.problem:
            return replace(found, notes=(*found.notes, store.problem))
    return found


def framework_of(changeset: ChangeSet, *, frameworks: Sequence[FrameworkRules] = FRAMEWORKS) -> str:
    """The framework that a tree's layout is of. Raises ChangesError when it is none that is known here."""
    return _rules(Sides(changeset).head, None, frameworks).name


def _rules(
    head: Tree, framework: str | None, frameworks: Sequence[FrameworkRules]
) -> FrameworkRules:
    known = ", ".join(rules.name for rules in frameworks)
    for rules in frameworks:
        if rules.name == framework or (framework is None and rules.matches(head)):
            return rules
    if framework is not None:
        raise ChangesError(f"framework {framework!r} is not known here; --framework takes {known}")
    raise ChangesError(
        f"the tree has the layout of no known framework ({known}); say whose ops it changes with --framework, "
        "or `framework:` and `ops:` in .github/opdiff.yml"
    )


@dataclass(frozen=True)
class _Side:
    """One tree as a framework's rules see it, and the walks through it."""

    reader: Reader
    walker: Walker


class _Search:
    def __init__(
        self, changeset: ChangeSet, sides: Sides, rules: FrameworkRules, group: OpGroup
    ) -> None:
        self.changeset = changeset
        self.sides = sides
        self.rules = rules
        self.group = group
        self.notes: list[str] = list(changeset.notes)
        self.unmapped: list[Unmapped] = []
        self.tests: list[str] = []
        self.found = FoundOps()
        self.places = 0

    def run(self) -> Changes:
        changes = [change for file in self.changeset.files if (change := self._read(file))]
        cancel_moves(changes)
        cancel_renames(changes)
        self._follow(changes)
        for change in changes:
            self._account(change)
        self._say_unread()
        ops, left_out = nearest(self.found.ops())
        if left_out:
            indirect = MAX_INDIRECT_OPS + len(left_out)
            self.notes.append(
                f"{indirect} ops are reached through shared code: the nearest {MAX_INDIRECT_OPS} of them are kept"
            )
        return printable(
            Changes(
                self.rules.name, ops, tuple(self.tests), tuple(self.unmapped), merged(self.notes), left_out,
            )
        )  # fmt: skip

    def _say_unread(self) -> None:
        changed = {file.new for file in self.changeset.files}
        for path in sorted(self.sides.unread - changed):
            self.notes.append(f"{printable_path(path)}: not read ({NOT_READ})")

    def _read(self, file: ChangedFile) -> FileChange | None:
        """The differing definitions of a source file; None for a file that is accounted for already."""
        shown = printable_path(file.path)
        if file.submodule:
            self._lose(file, "a submodule: what it points to is not read")
            return None
        before = self.changeset.base_text(file.old) if file.old else ""
        after = self.changeset.head_text(file.new) if file.new else ""
        role = self.rules.role(file.path, after or before)
        if role == "autotest" and file.new:
            self.tests.append(shown)
        if role in QUIET_ROLES:
            self.notes.append(f"{shown}: {QUIET_ROLES[role]}, changes no op")
            return None
        if role == "build":
            self._lose(file, "build configuration: no op can be named")
            return None
        if role == "other":
            self._lose(file, "not a kind of file that ops are read from")
            return None
        # A pull request's .gitattributes may call a source binary: what can be read and differs is read.
        if before is None or after is None or (file.binary and before == after):
            self._lose(file, NOT_READ)
            return None
        return self._compare(file, before, after)

    def _compare(self, file: ChangedFile, before: str, after: str) -> FileChange | None:
        sides: list[tuple[Definition, ...]] = []
        for side, path, text in (("base", file.old, before), ("head", file.new, after)):
            definitions = self.rules.definitions(path, text) if path else ()
            if path and definitions is None:
                why = why_unreadable(text) if path.endswith(".py") else ""
                self._lose(file, f"cannot be parsed ({side} side{why and ': '}{why})")
                return None
            assert definitions is not None
            sides.append(definitions)
        removed, added = difference(*sides)
        if not removed and not added:
            self.notes.append(f"{printable_path(file.path)}: no change in what the code does")
            return None
        return FileChange(file, removed, added)

    def _lose(self, file: ChangedFile, why: str) -> None:
        self.unmapped.append(Unmapped(printable_path(file.path), why))

    def _follow(self, changes: list[FileChange]) -> None:
        head = self._side(self.sides.head)
        base: _Side | None = None
        for change in changes:
            self._leave_out_repeated(change)
            names_removed = {d.name for d in change.removed}
            names_added = {d.name for d in change.added}
            for definition in with_before(change):
                self._walk(change, definition, head, definition.name not in names_removed)
            gone = [d for d in change.removed if d.name not in names_added or is_nameless(d)]
            if gone and base is None:
                base = self._side(self.sides.base)
            for definition in gone:
                assert base is not None
                self._walk(change, definition, base, True)

    def _leave_out_repeated(self, change: FileChange) -> None:
        """Of changed functions of one name in one file the first ones are followed: they have the same users."""
        for side in (change.removed, change.added):
            seen: Counter[str] = Counter()
            kept: list[Definition] = []
            for definition in side:
                seen[definition.name] += definition.kind in ("function", "method")
                if seen[definition.name] <= MAX_OF_ONE_NAME or definition.kind == "statement":
                    kept.append(definition)
            for name, count in seen.items():
                if count > MAX_OF_ONE_NAME:
                    change.reasons.append(
                        f"{name}: {count} changed definitions of this name; the first {MAX_OF_ONE_NAME} were followed"
                    )
            side[:] = kept

    def _side(self, tree: Tree) -> _Side:
        reader = self.rules.reader(tree, self.notes.append)
        return _Side(reader, Walker(reader.successors))

    def _walk(
        self, change: FileChange, definition: Definition, side: _Side, one_sided: bool
    ) -> None:
        start = side.reader.start(definition, one_sided)
        if isinstance(start, str):
            if start:
                change.reasons.append(f"{definition.place}: {start}")
            else:
                change.reached += 1
            return
        if self.places > MAX_NODES_IN_ALL:
            change.reasons.append(
                f"{definition.place}: not followed, for this diff reaches more than {MAX_NODES_IN_ALL} places"
            )
            return
        step = f"{definition.file}:{definition.first} changes {definition.kind} {definition.name}"
        done = side.walker.walk(start, step)
        self.places += done.visited
        self.notes.extend(done.notes)
        for reached in done.reached:
            op = canonical_op(reached.op or reached.name, self.rules.name, self.group)
            self.found.add(op, Found(reached, definition, change.file))
        may_be_unused = definition.kind in ("alias", "declaration")
        if done.reached or (may_be_unused and not any(True for _ in side.reader.successors(start))):
            change.reached += 1
        else:
            change.reasons.append(
                f"{definition.place}: no public op uses it, as far as can be read"
            )

    def _account(self, change: FileChange) -> None:
        """Every file is said to be read, lost, or to change nothing: none goes in silence."""
        if change.reached:
            shown = printable_path(change.file.path)
            self.notes.append(f"{shown}: {change.reached} changed definitions accounted for")
        if not change.removed and not change.added:
            shown = printable_path(change.file.path)
            self.notes.append(f"{shown}: moved or renamed only, no change in what the code does")
        if change.reasons:
            shown = "; ".join(change.reasons[:3])
            more = len(change.reasons) - 3
            self._lose(change.file, shown + (f"; and {more} more" if more > 0 else ""))
