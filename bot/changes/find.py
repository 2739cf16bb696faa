"""From a ChangeSet to Changes: which definitions changed, and which ops they reach."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bot.changes.change import ChangedLines, ChangedOp, Changes, Unmapped
from bot.changes.changeset import ChangedFile, ChangesError, ChangeSet
from bot.changes.definition import Definition
from bot.changes.file_text import printable_path
from bot.changes.frameworks import FRAMEWORKS
from bot.changes.graph import Reached, walk
from bot.changes.index.tree import Tree
from bot.changes.op_names import OpGroup, canonical_op
from bot.changes.rules import FrameworkRules, Reader
from bot.changes.sources.python_source import MODULE
from bot.programs.op_groups import group_of

QUIET_ROLES = {"documentation": "documentation", "ci": "CI", "test": "tests", "autotest": "tests"}
MAX_LINES_PER_OP = 100


def find_changes(
    changeset: ChangeSet,
    framework: str | None = None,
    *,
    group: OpGroup = group_of,
    frameworks: Sequence[FrameworkRules] = FRAMEWORKS,
) -> Changes:
    """The ops that a diff changes, each with the path that proves it.

    ``framework`` (``torch``, ``oneflow``) is found from the tree when it is None. Raises ChangesError when the
    tree is of no framework that is known here.
    """
    head = Tree(changeset.head_paths(), changeset.head_text)
    rules = _rules(head, framework, frameworks)
    return _Search(changeset, head, rules, group).run()


def framework_of(changeset: ChangeSet, *, frameworks: Sequence[FrameworkRules] = FRAMEWORKS) -> str:
    """The framework that a tree's layout is of. Raises ChangesError when it is none that is known here."""
    return _rules(Tree(changeset.head_paths(), changeset.head_text), None, frameworks).name


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
        f"the tree has the layout of no known framework ({known}); say which with --framework"
    )


@dataclass
class _FileChange:
    """One changed source file: what differs, and what became of it."""

    file: ChangedFile
    removed: list[Definition] = field(default_factory=list[Definition])
    added: list[Definition] = field(default_factory=list[Definition])
    reached: int = 0
    reasons: list[str] = field(default_factory=list[str])


class _Search:
    def __init__(
        self, changeset: ChangeSet, head: Tree, rules: FrameworkRules, group: OpGroup
    ) -> None:
        self.changeset = changeset
        self.head = head
        self.rules = rules
        self.group = group
        self.notes: list[str] = list(getattr(changeset, "notes", ()))
        self.unmapped: list[Unmapped] = []
        self.tests: list[str] = []
        self.found: defaultdict[str, list[tuple[Reached, Definition, ChangedFile]]] = defaultdict(
            list
        )

    def run(self) -> Changes:
        changes = [change for file in self.changeset.files if (change := self._read(file))]
        _cancel_moves(changes)
        _cancel_renames(changes)
        self._follow(changes)
        for change in changes:
            self._account(change)
        ops = tuple(self._op(op, found) for op, found in sorted(self.found.items()))
        return Changes(
            self.rules.name, ops, tuple(self.tests), tuple(self.unmapped),
            tuple(dict.fromkeys(self.notes)),
        )  # fmt: skip

    def _read(self, file: ChangedFile) -> _FileChange | None:
        """The differing definitions of a source file; None for a file that is accounted for already."""
        shown = printable_path(file.path)
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
        if file.binary or before is None or after is None:
            self._lose(file, "a binary file, link, submodule or a file that is not in this clone")
            return None
        return self._compare(file, before, after)

    def _compare(self, file: ChangedFile, before: str, after: str) -> _FileChange | None:
        sides: list[tuple[Definition, ...]] = []
        for path, text in ((file.old, before), (file.new, after)):
            definitions = self.rules.definitions(path, text) if path else ()
            if definitions is None:
                self._lose(
                    file, f"cannot be parsed ({'base' if path == file.old else 'head'} side)"
                )
                return None
            sides.append(definitions)
        removed, added = _difference(*sides)
        if not removed and not added:
            self.notes.append(f"{printable_path(file.path)}: no change in what the code does")
            return None
        return _FileChange(file, removed, added)

    def _lose(self, file: ChangedFile, why: str) -> None:
        self.unmapped.append(Unmapped(printable_path(file.path), why))

    def _follow(self, changes: list[_FileChange]) -> None:
        head = self.rules.reader(self.head, self.notes.append)
        base: Reader | None = None
        for change in changes:
            names_removed = {d.name for d in change.removed}
            names_added = {d.name for d in change.added}
            for definition in _with_before(change):
                self._walk(change, definition, head, definition.name not in names_removed)
            gone = [d for d in change.removed if d.name not in names_added or _is_nameless(d)]
            if gone and base is None:
                base = self.rules.reader(self._base_tree(), self.notes.append)
            for definition in gone:
                assert base is not None
                self._walk(change, definition, base, True)

    def _base_tree(self) -> Tree:
        """The tree before the diff: the head's files but for those that the diff touches."""
        new = {file.new for file in self.changeset.files}
        old = {file.old: file.old for file in self.changeset.files if file.old}
        paths = [path for path in self.head.paths if path not in new] + list(old)

        def read(path: str) -> str | None:
            return self.changeset.base_text(path) if path in old else self.head.text(path)

        return Tree(paths, read)

    def _walk(
        self, change: _FileChange, definition: Definition, reader: Reader, one_sided: bool
    ) -> None:
        start = reader.start(definition, one_sided)
        if isinstance(start, str):
            if start:
                change.reasons.append(f"{definition.place}: {start}")
            else:
                change.reached += 1
            return
        step = f"{definition.file}:{definition.first} changes {definition.kind} {definition.name}"
        done = walk(start, step, reader.successors)
        self.notes.extend(done.notes)
        for reached in done.reached:
            op = canonical_op(reached.op or reached.name, self.rules.name, self.group)
            self.found[op].append((reached, definition, change.file))
        if done.reached:
            change.reached += 1
        else:
            change.reasons.append(
                f"{definition.place}: no public op uses it, as far as can be read"
            )

    def _account(self, change: _FileChange) -> None:
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

    def _op(self, op: str, found: list[tuple[Reached, Definition, ChangedFile]]) -> ChangedOp:
        found = sorted(found, key=lambda entry: (entry[0].indirect, len(entry[0].path)))
        best = found[0][0]
        aliases = dict.fromkeys(reached.name for reached, _, _ in found)
        lines = dict.fromkeys(
            line
            for reached, definition, file in found
            if reached.indirect == best.indirect
            for line in _lines(definition, file)
        )
        in_python = all(definition.file.endswith(".py") for _, definition, _ in found)
        return ChangedOp(
            op=op,
            how="indirect" if best.indirect else "direct",
            aliases=tuple(aliases),
            path=tuple(printable_path(step) for step in best.path),
            lines=tuple(lines)[:MAX_LINES_PER_OP],
            in_python=in_python,
        )


def _key(definition: Definition) -> tuple[str, str, str]:
    return definition.kind, definition.name, definition.code


def _difference(
    old: Iterable[Definition], new: Iterable[Definition]
) -> tuple[list[Definition], list[Definition]]:
    """The definitions that only one side has, wherever they stand in the file."""
    old, new = list(old), list(new)
    return _without(old, Counter(map(_key, new))), _without(new, Counter(map(_key, old)))


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


def _cancel_renames(changes: list[_FileChange]) -> None:
    """Take away what changed only because a definition got another name and its users follow it."""
    bodies: dict[tuple[str, str], str] = {}
    for change in changes:
        for definition in change.removed:
            bodies.setdefault((definition.kind, _nameless(definition)), definition.name)
    renamed: dict[str, str] = {}
    for change in changes:
        for definition in change.added:
            old = bodies.get((definition.kind, _nameless(definition)))
            public = definition.kind not in (
                "class",
                "function",
                "macro",
            ) or definition.file.endswith(".py")
            if old and old != definition.name and definition.name.isidentifier() and not public:
                renamed[definition.name] = old
    if renamed:
        pattern = re.compile(rf"(?<!:: )\b(?:{'|'.join(map(re.escape, renamed))})\b")
        for change in changes:
            old_codes = Counter(
                pattern.sub(lambda m: renamed[m[0]], d.code) for d in change.removed
            )
            new_codes = Counter(pattern.sub(lambda m: renamed[m[0]], d.code) for d in change.added)
            kept = old_codes & new_codes
            change.removed = [d for d in change.removed if d.code not in kept]
            change.added = [
                d for d in change.added if pattern.sub(lambda m: renamed[m[0]], d.code) not in kept
            ]


def _is_nameless(definition: Definition) -> bool:
    """Whether the name is a macro's, which many registrations share, and tells none of them from the others."""
    return definition.kind == "statement" and definition.name != MODULE


def _nameless(definition: Definition) -> str:
    """The code with the name left out."""
    if not definition.name.isidentifier():
        return definition.code
    return re.sub(rf"(?<!:: )\b{definition.name}\b", "?", definition.code)


def _cancel_moves(changes: list[_FileChange]) -> None:
    """Take away what one file lost and another gained unchanged."""
    removed = Counter(_key(d) for change in changes for d in change.removed)
    added = Counter(_key(d) for change in changes for d in change.added)
    for change in changes:
        change.removed = _without(change.removed, added, _movable)
        change.added = _without(change.added, removed, _movable)


def _with_before(change: _FileChange) -> Iterator[Definition]:
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


def _lines(definition: Definition, file: ChangedFile) -> list[ChangedLines]:
    """The changed lines of a definition on the head side, as runs."""
    if definition.file != file.new:
        return []
    runs: list[ChangedLines] = []
    for line in file.new_lines:
        if not definition.first <= line <= definition.last:
            continue
        if runs and runs[-1].last == line - 1:
            runs[-1] = ChangedLines(runs[-1].file, runs[-1].first, line)
        else:
            runs.append(ChangedLines(printable_path(definition.file), line, line))
    return runs
