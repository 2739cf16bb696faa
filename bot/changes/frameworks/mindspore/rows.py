"""Tables of primitives in C++: which row is changed, and what a piece of one names."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from bot.changes.definition import Definition
from bot.changes.sources.cpp_source import tokenize

MIN_ROWS: Final = 3  # fewer are no table
_KEY: Final = re.compile(r'\{ (?:(?:\w+ :: )*kPrim\w+|"[A-Z]\w*"|k[A-Z]\w*)(?: -> name \( \))? ,')
"""A row's key: a primitive, its name, or a constant that holds it (core/abstract/*_infer_map.cc)."""
_METHOD_PAIR: Final = re.compile(
    r'\{ "(\w+)" , (?:std :: string \( "\w+" \)|(?:\w+ :: )*kPrim\w+) \}'
)
_BRACE: Final = re.compile(r'"(?:\\.|[^"\\])*+"?|[{}]')
METHOD_ROW: Final = re.compile(r"method (\w+)")
"""The name of a row of the method table (ccsrc/pipeline/jit/resource.cc)."""


def rows_of(code: str) -> tuple[tuple[int, int], ...]:
    """Where the outermost rows ``{ kPrimX , ... }`` of a code lie; none when they are no table."""
    found: list[tuple[int, int]] = []
    position = 0
    while match := _KEY.search(code, position):
        end = _closing(code, match.start())
        found.append((match.start(), end))
        position = end
    return tuple(found) if len(found) >= MIN_ROWS else ()


def _closing(code: str, start: int) -> int:
    depth = 0
    for match in _BRACE.finditer(code, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.end()
    return len(code)


def table_rows(definition: Definition, lines: Sequence[str]) -> Iterator[Definition]:
    """A function or variable that holds a table as one definition per row, and one of what is left."""
    spans = (
        rows_of(definition.code)
        if definition.kind in ("function", "statement", "assignment")
        else ()
    )
    if not spans:
        yield definition
        return
    words = _lines_of_words(definition, lines)
    at = definition.first
    rest: list[str] = []
    end = 0
    for start, stop in spans:
        row = definition.code[start:stop]
        rest.append(definition.code[end:start])
        end = stop
        tokens = tokenize(row)
        at = _line_of(words, at, row)
        last = min(definition.last, at + row.count(";"))
        uses = tokens.names | set(tokens.texts)
        yield replace(
            definition, name=row[:80], kind="entry", first=at, last=last, code=row, uses=uses
        )
    rest.append(definition.code[end:])
    code = re.sub(r"(?<!, )(?:, )+\}", "}", "".join(rest).replace(" , ,", " ,"))
    code = re.sub(r"\{\s*(?:,\s*)*\}", "{ }", code)
    yield replace(definition, code=code, uses=tokenize(code).names)


def _lines_of_words(definition: Definition, lines: Sequence[str]) -> Mapping[str, list[int]]:
    """Word -> the lines of a definition that it stands on."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines[definition.first - 1 : definition.last], definition.first):
        for word in re.findall(r"\w{3,}", line):
            found[word].append(number)
    return found


def _line_of(words: Mapping[str, list[int]], first: int, row: str) -> int:
    """The line on which a row's key stands, from ``first`` on."""
    key = re.search(r"\w{3,}", row.replace("prim ::", ""))
    numbers = words.get(key[0], []) if key else []
    place = bisect_left(numbers, first)
    return numbers[place] if place < len(numbers) else first


def method_rows(definition: Definition, lines: Sequence[str]) -> Iterator[Definition]:
    """The method table as one definition per row (each stands for the methods of that name), and what is left."""
    words = _lines_of_words(definition, lines)
    pairs = list(_METHOD_PAIR.finditer(definition.code))
    for match in pairs:
        line = _line_of(words, definition.first, match[1])
        name = f"method {match[1]}"
        yield replace(definition, name=name, kind="entry", first=line, last=line, code=match[0])
    rest = _METHOD_PAIR.sub("", definition.code) if pairs else definition.code
    if not pairs or re.search(r"[^{}\s,;]", re.sub(r"k\w+", "", rest)):
        yield replace(definition, code=re.sub(r"[\s,]+", " ", rest))


def around(code: str, name: str) -> str:
    """The rows of a table that name a symbol; the whole code when it is no table or names it elsewhere too."""
    spans = rows_of(code)
    if not spans:
        return code
    pattern = re.compile(rf"\b{re.escape(name)}\b")
    inside = [code[start:stop] for start, stop in spans if pattern.search(code[start:stop])]
    return " ".join(inside) if inside else code
