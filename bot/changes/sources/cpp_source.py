"""C++, CUDA, HIP and SYCL source as definitions, compared token by token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from bot.changes.definition import Definition, DefinitionKind
from bot.changes.sources.cpp_names import MAX_NAME, Declared, declared, registers
from bot.changes.sources.cpp_pieces import Piece, cut
from bot.changes.sources.cpp_quiet import without_logs
from bot.changes.sources.cpp_tokens import (
    TokenList,
    Tokens,
    includes,
    token_list,
    tokenize,
    words_of,
)

__all__ = ["Tokens", "includes", "macro_rows", "read_cpp", "tokenize"]

_LEADING_CALL: Final = re.compile(r"# define (\w+)(?: \([^()]*\))? (\w+) \(")
_KINDS: Final[dict[str, DefinitionKind]] = {
    "function": "function", "class": "class", "alias": "alias", "variable": "assignment",
    "declaration": "declaration", "call": "statement",
}  # fmt: skip
MIN_ROWS: Final = 2


def read_cpp(file: str, text: str) -> tuple[Definition, ...]:
    """The top-level definitions of a source, macros, registrations and table rows included.

    Never fails, and takes time in proportion to the text. Prototypes without default arguments and forward
    declarations are left out: what they declare is compared where it is defined.
    """
    return tuple(_Source(file, token_list(text)).definitions())


@dataclass(frozen=True)
class _Source:
    file: str
    tokens: TokenList

    def definitions(self) -> Iterator[Definition]:
        for piece in cut(self.tokens):
            for found in self._of(piece):
                if found.code.strip(";, {}()"):
                    condition = piece.condition
                    yield replace(found, code=condition + found.code) if condition else found

    def _define(self, name: str, kind: DefinitionKind, first: int, end: int) -> Definition:
        tokens = self.tokens.tokens(first, end)
        lines = self.tokens.line(first), self.tokens.last_line(end - 1)
        code = tokens.code
        if "LOG" in code or "_log" in code:
            code = " ".join(without_logs(self.tokens.values[first:end]))
        if kind == "macro" and self._is_constant(first, end):
            code += " "  # ``#define F (x)`` has the tokens of ``#define F(x)``
        return Definition(self.file, name, kind, *lines, code, words_of(tokens))

    def _is_constant(self, first: int, end: int) -> bool:
        """Whether a macro without parameters stands for something in parentheses."""
        name = first + 2
        if name + 1 >= end or self.tokens.values[name + 1] != "(":
            return False
        return self.tokens.starts[name + 1] > self.tokens.starts[name] + len(
            self.tokens.values[name]
        )

    def _of(self, piece: Piece) -> Iterator[Definition]:
        if piece.is_macro:
            yield self._define(self.tokens.values[piece.first + 2], "macro", piece.first, piece.end)
            return
        found = declared(self.tokens, piece)
        if found.kind == "nothing":
            return
        rows = list(self._rows(piece, found))
        if not rows:
            kind = self._kind_of(piece, found)
            name = found.name
            if kind == "function" and found.kind == "call":
                name = "".join(self.tokens.values[piece.first : piece.body])[:MAX_NAME]
            yield self._define(name, kind, piece.first, piece.end)
            return
        name = frozenset(re.findall(r"\w+", found.name))
        header = self._define(found.name, _KINDS[found.kind], piece.first, piece.body + 1)
        yield replace(header, kind="statement")
        for first, end in rows:
            row = self._define("", "entry", first, end)
            yield replace(row, name=self._row_name(first, end), uses=row.uses | name)

    def _kind_of(self, piece: Piece, found: Declared) -> DefinitionKind:
        if found.kind == "call" and piece.body < piece.end and not registers(found.name):
            return "function"
        if found.kind == "variable" and self._registers(piece):
            return "statement"
        return _KINDS[found.kind]

    def _registers(self, piece: Piece) -> bool:
        return any(
            registers(value)
            for value, kind in zip(
                self.tokens.values[piece.first : piece.end],
                self.tokens.kinds[piece.first : piece.end],
                strict=True,
            )
            if kind == "name"
        )

    # Tables, one row at a time

    def _rows(self, piece: Piece, found: Declared) -> Iterator[tuple[int, int]]:
        """The rows of an array of braces or calls, or of a body that only registers (``LIBRARY(m) { m.add(..); }``)."""
        if piece.body >= piece.end:
            return
        if found.kind == "variable":
            rows = list(self._split(piece, ","))
            if len(rows) >= MIN_ROWS and all(end - first > 2 for first, end in rows):
                yield from rows
        elif found.kind == "call" and self._is_library(piece):
            yield from self._split(piece, ";")

    def _is_library(self, piece: Piece) -> bool:
        """Whether a body speaks to what its macro's last argument names."""
        values = self.tokens.values
        if piece.body - piece.first < 4 or values[piece.body - 1] != ")":
            return False
        last = values[piece.body - 2]
        body = values[piece.body + 1 : piece.end]
        return any(a == last and b in (".", "->") for a, b in pairwise(body))

    def _split(self, piece: Piece, separator: str) -> Iterator[tuple[int, int]]:
        """The parts of a body between separators that are in no further bracket."""
        values = self.tokens.values
        depth = 0
        first = piece.body + 1
        for token in range(piece.body + 1, piece.end):
            value = values[token]
            if value in ("(", "[", "{"):
                depth += 1
            elif value in (")", "]", "}"):
                depth -= 1
                if depth < 0:
                    break
            if depth == 0 and value == separator:
                if token > first:
                    yield first, token + (separator == ";")
                first = token + 1
        else:
            token = piece.end
        if token > first:
            yield first, token

    def _row_name(self, first: int, end: int) -> str:
        row = self.tokens.tokens(first, end)
        return row.texts[0] if row.texts else row.code[:80]


def macro_rows(macro: Definition) -> tuple[Definition, ...]:
    """The rows of a macro that is a list (``#define EACH(_) _(abs, 1) _(acos, 2)``), each as a definition.

    Empty for a macro that is something else. A row is named ``EACH[_ ( abs , 1 )]``.
    """
    match = _LEADING_CALL.match(macro.code)
    if macro.kind != "macro" or match is None:
        return ()
    values = macro.code[match.end() - len(match[2]) - 2 :].split(" ")
    rows: list[Definition] = []
    start = depth = 0
    for place, value in enumerate(values):
        depth += (value in ("(", "[", "{")) - (value in (")", "]", "}"))
        if depth == 0 and value == ")":
            code = " ".join(values[start : place + 1])
            if values[start] != match[2]:
                return ()
            tokens = tokenize(code)
            name = f"{macro.name}[{code}]"
            rows.append(replace(macro, name=name, kind="entry", code=code, uses=words_of(tokens)))
            start = place + 1
    return tuple(rows) if len(rows) >= MIN_ROWS and start >= len(values) else ()
