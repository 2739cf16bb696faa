"""TableGen (``.td``) files: records, classes and multiclasses, compared token by token.

The language: https://llvm.org/docs/TableGen/ProgRef.html.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from bot.changes.definition import Definition, DefinitionKind
from bot.changes.sources.cpp_tokens import TokenList, token_list, tokenize

_RECORDS: Final[dict[str, DefinitionKind]] = {
    "def": "entry", "defm": "entry", "class": "class", "multiclass": "class", "defvar": "class", "defset": "class",
}  # fmt: skip
_SCOPES: Final = frozenset({"let", "foreach", "if"})
_CODE_BLOCK: Final = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*+"?|\[\{(?P<block>.*?)(?:\}\]|\Z)', re.DOTALL
)
_DOCUMENTATION: Final = re.compile(
    r'let (?:summary|description) = (?:"(?:\\.|[^"\\])*" ?|\[ \] ?)+; ?'
)
MNEMONIC: Final = re.compile(r'< "([^"]+)"')
"""The first string argument of a record's base in tokens: an op's type name."""
MAX_NAME: Final = 80
_MAX_SCOPES: Final = 4000
"""Characters of nested scopes; beyond, a digest stands for them in each record."""


def read_tablegen(file: str, text: str) -> tuple[Definition, ...]:
    """Every record, class and multiclass of a file; ``let`` and ``foreach`` around one are part of its code.

    Never fails. Comments, and what ``summary`` and ``description`` say, are left out.
    """
    blank, blocks = _without_blocks(text)
    return tuple(_Records(file, token_list(blank), blocks).read())


def _without_blocks(text: str) -> tuple[str, list[tuple[int, str]]]:
    """The text with the insides of ``[{ code }]`` blanked, and those insides with where they begin."""
    blocks: list[tuple[int, str]] = []

    def blank(match: re.Match[str]) -> str:
        block = match["block"]
        if block is None:
            return match[0]
        blocks.append((match.start(), tokenize(block).code))
        inside = re.sub(r"[^\n]", " ", match[0][2:-2] if match[0].endswith("}]") else match[0][2:])
        return "[ " + inside + " ]" if match[0].endswith("}]") else "[ " + inside

    return _CODE_BLOCK.sub(blank, text), blocks


def _capped(scopes: str) -> str:
    if len(scopes) <= _MAX_SCOPES:
        return scopes
    return hashlib.sha256(scopes.encode(errors="replace")).hexdigest()


class _Records:
    def __init__(self, file: str, tokens: TokenList, blocks: list[tuple[int, str]]) -> None:
        self.file = file
        self.tokens = tokens
        self.values = tokens.values
        self.blocks = [(place, code) for place, code in blocks if not self._documents(place)]
        self.places = [place for place, _ in self.blocks]

    def _documents(self, place: int) -> bool:
        """Whether the code block that begins at a place is what ``summary`` or ``description`` says."""
        token = bisect_left(self.tokens.starts, place)
        return self.values[max(0, token - 2) : token] in (["description", "="], ["summary", "="])

    def read(self) -> Iterator[Definition]:
        scopes: list[str] = []  # of each open brace, "let x = 1 in" of it and those around it
        once: list[str] = []  # scopes without braces, of the next record alone
        token = 0
        while token < len(self.values):
            value = self.values[token]
            if value in _RECORDS:
                end = self._end(token)
                yield self._record(token, end, [*scopes[-1:], *once])
                once.clear()
                token = end
            elif value in _SCOPES:
                body = self._scope(token)
                once.append(" ".join(self.values[token:body]))
                token = body
            elif value == "{":
                scopes.append(_capped("\n".join(filter(None, [*scopes[-1:], " ".join(once)]))))
                once.clear()
                token += 1
            elif value == "}":
                del scopes[-1:]
                token += 1
            elif value == "#" and self.tokens.begins_line(token):
                token = self.tokens.line_end(token)
            else:
                token += 1

    def _scope(self, token: int) -> int:
        """The token after the ``in`` (or, of ``if``, the ``then``) of a scope that begins at a token."""
        for following in range(token + 1, len(self.values)):
            if self.values[following] in ("in", "then"):
                return following + 1
            if self.values[following] == ";":
                return following + 1
        return len(self.values)

    def _end(self, token: int) -> int:
        """The end of a record: its closing brace, or its semicolon when it has no body."""
        depth = 0
        for following in range(token + 1, len(self.values)):
            value = self.values[following]
            if value == "{":
                depth += 1
            elif value == "}":
                depth -= 1
                if depth <= 0:
                    return following + 1
            elif value == ";" and depth == 0:
                return following + 1
        return len(self.values)

    def _record(self, first: int, end: int, scopes: list[str]) -> Definition:
        tokens = self.tokens.tokens(first, end)
        start, stop = self.tokens.starts[first], self.tokens.starts[end - 1]
        within = slice(bisect_left(self.places, start), bisect_right(self.places, stop))
        blocks = [code for _, code in self.blocks[within]]
        code = _DOCUMENTATION.sub("", tokens.code)
        code = "\n".join([code, *blocks, *filter(None, scopes)])
        uses = tokens.names.union(*(tokenize(block).names for block in blocks))
        lines = self.tokens.line(first), self.tokens.last_line(end - 1)
        return Definition(
            self.file, self._name(first, end), _RECORDS[self.values[first]], *lines, code, uses
        )

    def _name(self, first: int, end: int) -> str:
        """``OneFlow_AddOp``; of a record without a name, what it is built on."""
        name = first + 1
        while name < end and self.values[name] not in (":", "<", "{", ";", "="):
            name += 1
        if name > first + 1:
            return "".join(self.values[first + 1 : name])
        return " ".join(self.values[first:end])[:MAX_NAME]
