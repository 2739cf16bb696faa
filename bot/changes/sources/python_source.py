"""Python source read with ``ast``: definitions without docstrings, comments and formatting, and imports."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from bot.changes.definition import Definition, DefinitionKind
from bot.changes.sources.python_made import made_names
from bot.changes.sources.python_names import Function, dotted, names_assigned, names_read
from bot.changes.sources.python_quiet import is_overload, never_runs, without_quiet

MODULE = "<module>"
_OPERATOR = re.compile(r"__(?!slots|doc|module|all|metaclass|constants|annotations)[a-z]+__")
_MAX_CONDITION = 4000
"""Characters of a dumped condition; beyond, a digest stands for it in every definition."""
_CODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # https://peps.python.org/pep-0263/
_PLAIN_CODING = re.compile(r"utf-?8(-sig|-unix|-dos|-mac)?|(us-?)?ascii", re.IGNORECASE)
_Under = tuple[ast.AST, ...]
"""What a statement stands under: conditions, exceptions that were caught, context managers."""


@dataclass(frozen=True)
class PythonFile:
    """What one module defines and imports.

    ``imports`` maps a local name to ``module`` or ``module.name``; ``stars`` are modules imported with ``*``;
    ``exported`` is ``__all__`` when all of it is written out; ``bases`` maps a class to its bases as written.
    """

    definitions: tuple[Definition, ...] = ()
    imports: tuple[tuple[str, str], ...] = ()
    stars: tuple[str, ...] = ()
    exported: tuple[str, ...] | None = None
    bases: tuple[tuple[str, tuple[str, ...]], ...] = ()
    decorators: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """(definition, decorator, its string arguments)."""
    attributes: tuple[tuple[str, str, str, int], ...] = ()
    """(object, attribute, name assigned, line) of every ``object.attribute = name`` or ``property(name)``."""


def read_python(
    file: str, text: str, module: str, compared: bool = True, tables: Collection[str] = ()
) -> PythonFile | None:
    """Read a module; None when it is not Python that this interpreter's ``ast`` can read.

    ``module`` is its dotted name (``pkg.__init__`` for a package), which relative imports need. Definitions that
    will not be ``compared`` have no ``code``, which takes most of the time. The functions named in ``tables`` are
    read statement by statement, as if those stood at module level.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        if _strange_coding(text):
            return None
        return _Reader(file, module, compared, frozenset(tables)).read(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _operator_of(statement: ast.stmt) -> str:
    """The operator that a class gets by assignment (``__radd__ = _binary(ADD)``); "" for every other statement.

    Data that Python itself reads from a class (``__slots__``, ``__hash__ = None``) is no operator.
    """
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target = statement.targets[0]
    called = isinstance(statement.value, ast.Call | ast.Lambda | ast.Name)
    if called and isinstance(target, ast.Name) and _OPERATOR.fullmatch(target.id):
        return target.id
    return ""


def why_unreadable(text: str) -> str:
    """One line on why a module's text cannot be read: what this interpreter says, and where; "" when it can be."""
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return f"not {version}, line {error.lineno}: {error.msg} (Python 2, a later version, or broken)"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"not {version}: {str(error) or 'nested too deep'}"
    coding = _strange_coding(text)
    return f"written in {coding}: only UTF-8 is read" if coding else ""


def _strange_coding(text: str) -> str:
    """The encoding that a module declares, when it is not UTF-8: in ``unicode_escape`` a comment may hold code."""
    lines = re.split(r"\r\n|\r|\n", text[:1000], maxsplit=2)[:2]
    found = [match[1] for line in lines if (match := _CODING.match(line))]
    return found[0] if found and not _PLAIN_CODING.fullmatch(found[0].replace("_", "-")) else ""


def python_definitions(
    path: str, text: str, roots: Iterable[str] = (), tables: Collection[str] = ()
) -> tuple[Definition, ...] | None:
    """The definitions of a module, to be compared; None when it cannot be read. ``roots`` are folders before the package."""
    inner = next((path.removeprefix(root) for root in roots if path.startswith(root)), path)
    module = inner.rsplit(".", 1)[0].replace("/", ".")
    file = read_python(path, text, module, tables=tables)
    return None if file is None else file.definitions


class _Reader:
    def __init__(self, file: str, module: str, compared: bool, tables: frozenset[str]) -> None:
        self.file = file
        self.tables = tables
        self.compared = compared
        self.package = module.rpartition(".")[0]
        self.definitions: list[Definition] = []
        self.imports: list[tuple[str, str]] = []
        self.stars: list[str] = []
        self.exported: tuple[str, ...] | None = None
        self.open = False  # whether ``__all__`` has names that are not written out
        self.bases: list[tuple[str, tuple[str, ...]]] = []
        self.decorators: list[tuple[str, str, tuple[str, ...]]] = []
        self.attributes: list[tuple[str, str, str, int]] = []
        self.last: tuple[list[ast.AST], str, frozenset[str]] = ([], "", frozenset())
        self.conditions: dict[int, tuple[ast.AST, str, frozenset[str]]] = {}
        """What stands over definitions, by identity; the node is kept, so that no other gets its identity."""
        self.written: dict[str, ast.expr] = {}
        """Lists and dictionaries that the module writes out, by name."""

    def read(self, tree: ast.Module) -> PythonFile:
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                self._attribute(node)
        clean = without_quiet(tree) if self.compared else tree
        for statement, under in _flattened(clean.body):
            self._statement(statement, under)
        return PythonFile(
            tuple(self.definitions), tuple(self.imports), tuple(self.stars),
            None if self.open else self.exported,
            tuple(self.bases), tuple(self.decorators), tuple(self.attributes),
        )  # fmt: skip

    def _attribute(self, node: ast.Assign) -> None:
        value = node.value
        if isinstance(value, ast.Call) and dotted(value.func) == "property" and value.args:
            value = value.args[0]
        name = dotted(value)
        for target in node.targets:
            if name and isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                self.attributes.append((target.value.id, target.attr, name, node.lineno))

    def _add(
        self, name: str, kind: DefinitionKind, node: ast.stmt, parts: list[ast.AST], own: int = 1
    ) -> None:
        """``parts`` are what the definition consists of: the first ``own`` itself, then what it stands under."""
        first = node.lineno
        if isinstance(node, Function | ast.ClassDef) and node.decorator_list:
            first = min(first, node.decorator_list[0].lineno)
        code, uses = self._read(parts, own)
        last = node.end_lineno or first
        self.definitions.append(Definition(self.file, name, kind, first, last, code, uses))

    def _read(self, parts: list[ast.AST], own: int) -> tuple[str, frozenset[str]]:
        """Code and names of a definition, read once where one statement is many: ``a = b = c = value``."""
        last, code, uses = self.last
        if len(last) == len(parts) and all(a is b for a, b in zip(last, parts, strict=True)):
            return code, uses
        shared = [self._condition(part) for part in parts[own:]]
        dumped = [ast.dump(part) for part in parts[:own]] if self.compared else []
        code = "\n".join([*dumped, *(code for code, _ in shared)]) if self.compared else ""
        uses = names_read(parts[:own]).union(*(uses for _, uses in shared))
        self.last = (parts, code, uses)
        return code, uses

    def _code(self, parts: Iterable[ast.AST]) -> str:
        return "\n".join(self._condition(part)[0] for part in parts) if self.compared else ""

    def _condition(self, part: ast.AST) -> tuple[str, frozenset[str]]:
        """Code and names of what many definitions stand under; of what is very long a digest, and no names."""
        if id(part) not in self.conditions:
            dump, uses = ast.dump(part), names_read([part])
            if len(dump) > _MAX_CONDITION:
                dump = hashlib.sha256(dump.encode(errors="surrogatepass")).hexdigest()
                uses = frozenset[str]()
            self.conditions[id(part)] = part, dump, uses
        _, dump, uses = self.conditions[id(part)]
        return dump, uses

    def _statement(self, node: ast.stmt, under: _Under) -> None:
        if isinstance(node, Function) and node.name in self.tables:
            for statement, inner in _flattened(node.body, under):
                self._statement(statement, inner)
        elif isinstance(node, Function):
            if not is_overload(node):
                self._function(node, node.name, "function", under)
        elif isinstance(node, ast.ClassDef):
            self._class(node, under)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node, under)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._assignment(node, under)
        elif _extends_exports(node):
            self._extend(node)
        elif not isinstance(node, ast.Pass) and not self._make(node, under):
            self._add(MODULE, "statement", node, [node, *under])

    def _make(self, node: ast.stmt, under: _Under) -> bool:
        """Definitions of the names that a call or a loop makes; False when it does something else."""
        made = made_names(node, self.written)
        for each in made:
            self._add(each.name, "assignment", node, [*each.parts, *under])
            owner, _, attribute = each.name.rpartition(".")
            value = dotted(each.value) if each.value is not None else None
            if owner and value:
                self.attributes.append((owner, attribute, value, node.lineno))
        return bool(made)

    def _function(self, node: Function, name: str, kind: DefinitionKind, under: _Under) -> None:
        self._add(name, kind, node, [node, *under])
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            texts = tuple(
                argument.value
                for argument in (call.args if call else [])
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            )
            others = tuple(
                written
                for argument in (call.args if call else [])
                for written in names_assigned(argument)
            )
            decorated = dotted(call.func if call else decorator) or ""
            self.decorators.append((name, decorated, texts + others))

    def _class(self, node: ast.ClassDef, under: _Under) -> None:
        rest: list[ast.AST] = [*node.bases, *node.keywords, *node.decorator_list, *under]
        above: _Under = ()
        for statement, inner in _flattened(node.body):
            if isinstance(statement, Function):
                name = f"{node.name}.{statement.name}"
                self._function(statement, name, "method", (*under, *inner))
            elif operator := _operator_of(statement):
                self._add(
                    f"{node.name}.{operator}", "method", statement, [statement, *under, *inner]
                )
            else:
                if inner != above:  # said once for all that stand under it
                    rest += [ast.Constant(len(inner)), *inner]
                    above = inner
                rest.append(statement)
        self.bases.append((node.name, tuple(filter(None, map(dotted, node.bases)))))
        self._add(node.name, "class", node, rest, len(rest))

    def _import(self, node: ast.Import | ast.ImportFrom, under: _Under) -> None:
        source = self._source(node) if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(source)
                local, target = "*", source
            elif isinstance(node, ast.ImportFrom):
                local, target = alias.asname or alias.name, f"{source}.{alias.name}"
                self.imports.append((local, target))
            else:
                local = alias.asname or alias.name.split(".")[0]
                target = alias.name if alias.asname else local
                self.imports.append((local, target))
            first, last = node.lineno, node.end_lineno or node.lineno
            code = f"{local} = {target} of {alias.name}\n{self._code(under)}"
            self.definitions.append(
                Definition(self.file, local, "import", first, last, code, frozenset({target}))
            )

    def _source(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        kept = parts[: len(parts) - node.level + 1]
        return ".".join([*kept, *([node.module] if node.module else [])])

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, under: _Under) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name for target in targets for name in names_assigned(target)]
        if "__all__" in names:
            self._export(node)
            return
        if not names and self._make(node, under):
            return
        if isinstance(node.value, ast.List | ast.Tuple | ast.Set | ast.Dict):
            self.written |= dict.fromkeys(names, node.value)
        for name in names or [MODULE]:
            self._add(name, "assignment", node, [node, *under])

    def _export(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        self._offer(node.value)

    def _extend(self, node: ast.stmt) -> None:
        """``__all__.extend(names)``: an argument that is not written out may add any name."""
        assert isinstance(node, ast.Expr)
        assert isinstance(node.value, ast.Call)
        self._offer(node.value.args[0] if node.value.args else None)

    def _offer(self, value: ast.expr | None) -> None:
        if not isinstance(value, ast.List | ast.Tuple):
            self.open = self.open or value is not None
            return
        texts = tuple(
            e.value for e in value.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)
        )
        self.exported = (self.exported or ()) + texts
        if self.compared:
            self.definitions += [
                Definition(
                    self.file,
                    name,
                    "export",
                    value.lineno,
                    value.end_lineno or value.lineno,
                    "",
                    frozenset({name}),
                )
                for name in dict.fromkeys(texts)  # a name that is listed twice is offered once
            ]


def _extends_exports(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and dotted(node.value.func) == "__all__.extend"
    )


def _flattened(body: list[ast.stmt], under: _Under = ()) -> Iterator[tuple[ast.stmt, _Under]]:
    """Statements, those inside ``if``, ``try`` and ``with`` as if they stood alone, with what they stand under."""
    for statement in body:
        if isinstance(statement, ast.If):
            otherwise = ast.UnaryOp(ast.Not(), statement.test)
            if not never_runs(statement.test):
                yield from _flattened(statement.body, (*under, statement.test))
            yield from _flattened(statement.orelse, (*under, otherwise))
        elif isinstance(statement, ast.Try | ast.TryStar):
            yield from _flattened(statement.body, under)
            for handler in statement.handlers:
                caught = ast.ExceptHandler(handler.type, None, [])
                yield from _flattened(handler.body, (*under, caught))
            yield from _flattened(statement.orelse, (*under, ast.Constant("else")))
            yield from _flattened(statement.finalbody, under)
        elif isinstance(statement, ast.With):
            yield from _flattened(statement.body, (*under, *statement.items))
        else:
            yield statement, under
