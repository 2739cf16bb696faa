"""Tokens of C, C++ and CUDA source (and of TableGen, whose tokens are a subset): comments and blanks left out."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\\[ \t\f\v]*\r?\n
        |//(?:[^\\\n\r?]+|\?(?!\?/[ \t]*\r?\n)|\\[ \t\f\v]*(?:\r\n?|\n)?)*
        |/\*.*?(?:\*(?:\\[ \t\f\v]*\r?\n)*/|\Z))
      |(?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?(?:\)(?P=tag)"|\Z))
      |(?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)
      |(?P<name>[A-Za-z_]\w*)
      |(?P<number>\.?\d(?:[eEpP][+-]|[\w.]|'(?=\w))*)
      |(?P<mark>::|\#\#|->|\+\+|--|.)""",
    re.VERBOSE | re.DOTALL,
)
"""A backslash joins lines also with blanks behind it (GCC, Clang). A ``//`` comment ends at a carriage return (Clang),
and before a trigraph that may join lines: what some compiler takes for code is compared.
"""
_INCLUDE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]+)[">]', re.MULTILINE)
_LOGICAL_LINE: Final = re.compile(r"(?:[^\\\n]+|\\(?:[ \t\f\v]*\r?\n)?)*")
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True)
class Tokens:
    """The tokens of a piece of source, comments and white space left out."""

    code: str
    names: frozenset[str]
    texts: tuple[str, ...]  # string literals without quotes, neighbours joined


@dataclass(frozen=True)
class TokenList:
    """A file's tokens in order: ``values``, what each is (``name``, ``text``, ``raw``, ``number``, ``mark``) and
    where it begins (characters).
    """

    text: str
    values: list[str]
    kinds: list[str]
    starts: array[int]

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def line(self, token: int) -> int:
        """The line (1-based) on which a token begins."""
        return bisect_right(self._line_starts, self.starts[token])

    def last_line(self, token: int) -> int:
        """The line (1-based) on which a token ends."""
        return bisect_right(self._line_starts, self.starts[token] + len(self.values[token]) - 1)

    def column(self, token: int) -> int:
        """How many characters precede a token on its line."""
        return self.starts[token] - self._line_starts[self.line(token) - 1]

    def begins_line(self, token: int) -> bool:
        """Whether a token is the first on its line."""
        if token == 0:
            return True
        before = self.starts[token - 1] + len(self.values[token - 1])
        return self.text.find("\n", before, self.starts[token]) >= 0

    def line_end(self, token: int) -> int:
        """The first token beyond the logical line (continued by backslashes) on which a token stands."""
        match = _LOGICAL_LINE.match(self.text, self.starts[token])
        end = match.end() if match else self.starts[token]
        following = token + 1
        while following < len(self.starts) and self.starts[following] < end:
            following += 1
        return following

    def tokens(self, first: int, end: int) -> Tokens:
        """The tokens from ``first`` up to, not including, ``end``."""
        values, kinds = self.values[first:end], self.kinds[first:end]
        names = frozenset(v for v, k in zip(values, kinds, strict=True) if k == "name")
        return Tokens(" ".join(values), names, _texts(values, kinds))


def _texts(values: list[str], kinds: list[str]) -> tuple[str, ...]:
    texts: list[str] = []
    joined = False
    for value, kind in zip(values, kinds, strict=True):
        literal = kind == "text" and value.startswith('"')
        if literal:
            text = value[1:].removesuffix('"')
            if joined:
                texts[-1] += text
            else:
                texts.append(text)
        joined = literal
    return tuple(texts)


def token_list(text: str) -> TokenList:
    """Split source into tokens; every text has some, and no text fails."""
    values: list[str] = []
    kinds: list[str] = []
    starts = array("I")  # a file of 16 MiB may have as many tokens
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "space":
            continue
        values.append(match[0])
        kinds.append(kind)
        starts.append(match.start())
    return TokenList(text, values, kinds, starts)


@lru_cache(maxsize=1024)  # pieces of source; a diff of a real framework asks for about a hundred
def tokenize(source: str) -> Tokens:
    """The tokens of one piece of source."""
    found = token_list(source)
    return found.tokens(0, len(found.values))


def words_of(tokens: Tokens) -> frozenset[str]:
    """Every name in code, and every word in a string."""
    return tokens.names.union(*(_WORD.findall(text) for text in tokens.texts))


def includes(text: str) -> tuple[str, ...]:
    """The files that a source names in ``#include``."""
    return tuple(_INCLUDE.findall(text)) if "include" in text else ()
