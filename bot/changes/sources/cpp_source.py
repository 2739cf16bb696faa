"""C++ and CUDA source: top-level definitions found by tree-sitter, compared token by token."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

from bot.changes.definition import Definition, DefinitionKind

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\\\r?\n|//[^\n]*|/\*.*?(?:\*/|\Z))
      |(?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")
      |(?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)
      |(?P<name>[A-Za-z_]\w*)
      |(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)
      |(?P<mark>::|\#\#|->|.)""",
    re.VERBOSE | re.DOTALL,
)
_OPENED: Final = frozenset(
    {
        "namespace_definition", "linkage_specification", "declaration_list", "preproc_if", "preproc_ifdef",
        "preproc_else", "preproc_elif", "translation_unit", "ERROR",
    }
)  # fmt: skip
_SKIPPED: Final = frozenset(
    {
        "comment", "preproc_include", "namespace", "namespace_identifier", "nested_namespace_specifier", "{", "}",
        ";", "#if", "#ifdef", "#ifndef", "#else", "#elif", "#endif", "\n", "preproc_defined", "using_declaration",
        "namespace_alias_definition", "string_literal", "preproc_call", "identifier", "type_identifier",
    }
)  # fmt: skip
_NOT_A_NAME: Final = frozenset(
    {
        "__attribute__", "__launch_bounds__", "decltype", "alignas", "noexcept", "template", "sizeof", "requires",
        "if", "for", "while", "switch", "return", "typename", "static_assert", "defined", "OF_CUDA_LAUNCH_BOUNDS",
        "C10_LAUNCH_BOUNDS_1", "C10_LAUNCH_BOUNDS_2", "operator", "__declspec",
    }
)  # fmt: skip
_CLASS: Final = re.compile(
    r"\b(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+(?:[A-Z][A-Z0-9_]{3,}\s+(?=\w))?"
    r"(?:alignas\s*\([^)]*\)\s*)?([A-Za-z_]\w*)\s*(?:final\b\s*)?(<[^{;]*?>)?\s*(?=final|:(?!:)|\{)"
)
_CALL: Final = re.compile(
    r"((?:[A-Za-z_]\w*\s*(?:<[^<>;{}]*>)?\s*::\s*)*~?[A-Za-z_]\w*)\s*(?:<[^<>;{}]*>)?\s*\("
)
_ENUMERATOR: Final = re.compile(r"(?:\w+::)*\w*(?:Op|Mode)::(k[A-Z]\w*)")
_MACRO: Final = re.compile(r"#\s*define\s+(\w+)")
_BARE_MACRO_CALL: Final = re.compile(r"^[ \t]*[A-Z][A-Z0-9_]{2,}\(", re.MULTILINE)
_INCLUDE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]+)[">]', re.MULTILINE)
_DEFINE_LINE: Final = re.compile(r"[ \t]*#")


@dataclass(frozen=True)
class Tokens:
    """The tokens of a piece of source, comments and white space left out."""

    code: str
    names: frozenset[str]
    texts: tuple[str, ...]  # string literals without quotes, neighbours joined


@lru_cache(maxsize=65536)
def tokenize(source: str) -> Tokens:
    """Split source into tokens; every byte sequence has some tokens."""
    parts: list[str] = []
    names: set[str] = set()
    texts: list[str] = []
    joined = False
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup
        if kind == "space":
            continue
        value = match[0]
        parts.append(value)
        if kind == "name":
            names.add(value)
        if kind == "text" and value.startswith('"'):
            text = value[1:].removesuffix('"')
            if joined:
                texts[-1] += text
            else:
                texts.append(text)
        joined = kind == "text" and value.startswith('"')
    return Tokens(" ".join(parts), frozenset(names), tuple(texts))


def includes(text: str) -> tuple[str, ...]:
    """The files that a source names in ``#include``."""
    return tuple(_INCLUDE.findall(text)) if "include" in text else ()


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cpp.language()))


def read_cpp(file: str, text: str) -> tuple[Definition, ...]:
    """The top-level definitions of a C++ or CUDA source, macros, registrations and table rows included.

    Never fails: what tree-sitter cannot parse is cut at the borders that it does find.
    """
    source = _with_semicolons(text)
    data = source.encode("utf-8", errors="replace")
    root = _parser().parse(data).root_node
    lines = text.encode("utf-8", errors="replace")
    return tuple(_Segments(file, data, lines).definitions(root))


def _with_semicolons(text: str) -> str:
    """Macro calls that stand alone on their lines get the semicolon that a parser needs (in place of the line end)."""
    pieces: list[str] = []
    position = 0
    for match in _BARE_MACRO_CALL.finditer(text):
        if match.start() < position or _continues_define(text, match.start()):
            continue
        end = _closing(text, match.end() - 1)
        if end is None:
            continue
        rest = text[end : end + 400]
        following = rest.lstrip()
        if rest[:1] == "\n" and following[:1] not in tuple("{;.,:=-+<>&|?)\\") and following:
            pieces += [text[position:end], ";"]
            position = end + 1
    return "".join([*pieces, text[position:]])


def _continues_define(text: str, start: int) -> bool:
    return start >= 2 and text[start - 2 : start - 1] == "\\"


def _closing(text: str, start: int, limit: int = 4000) -> int | None:
    """The position after the parenthesis that closes the one at ``start``."""
    depth = 0
    for position in range(start, min(len(text), start + limit)):
        character = text[position]
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return position + 1
    return None


class _Segments:
    def __init__(self, file: str, data: bytes, lines: bytes) -> None:
        """``data`` is what was parsed, ``lines`` the file as it is: of the same length, with all its line ends."""
        self.file = file
        self.data = data
        self.starts = [0, *(m.end() for m in re.finditer(b"\n", lines))]

    def definitions(self, node: Node) -> Iterator[Definition]:
        stack = [(child, "") for child in reversed(node.children)]
        while stack:
            child, condition = stack.pop()
            kind = child.type
            if kind in _OPENED or self._is_namespace(child):
                inner = condition + self._condition(child)
                stack.extend((grandchild, inner) for grandchild in reversed(child.children))
            elif kind not in _SKIPPED and not _is_condition(child):
                for found in self._of(child):
                    if found.code.strip(";, "):
                        yield replace(found, code=condition + found.code) if condition else found

    def _condition(self, node: Node) -> str:
        """What a ``#if`` asks, so that a change of it is a change of all that it holds; not for header guards."""
        if node.type == "preproc_else":
            return "#else\n"
        name = node.child_by_field_name("name") or node.child_by_field_name("condition")
        if not node.type.startswith("preproc_") or name is None:
            return ""
        code = tokenize(self._text(name)).code
        if re.fullmatch(r"\w+_(H|CUH|HPP|H_|CUH_|HPP_|_)", code):
            return ""
        return f"{node.children[0].type} {code}\n"

    def _is_namespace(self, node: Node) -> bool:
        """A namespace behind a macro, which the parser takes for a function."""
        return node.type == "function_definition" and self._text(node)[:10] == "namespace "

    def _text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", errors="replace")

    def _line(self, byte: int) -> int:
        return bisect_right(self.starts, byte)

    def _define(self, name: str, kind: DefinitionKind, node: Node) -> Definition:
        tokens = tokenize(self._text(node))
        uses = tokens.names | {word for text in tokens.texts for word in re.findall(r"\w+", text)}
        last = self._line(max(node.start_byte, node.end_byte - 1))
        return Definition(
            self.file, name, kind, self._line(node.start_byte), last, tokens.code, frozenset(uses)
        )

    def _of(self, node: Node) -> Iterator[Definition]:
        if node.type in ("preproc_def", "preproc_function_def"):
            match = _MACRO.match(self._text(node))
            yield self._define(match[1] if match else "", "macro", node)
            return
        rows = list(self._rows(node))
        if rows:
            for row in rows:
                yield self._define(self._row_name(row), "entry", row)
            return
        text = self._text(node)
        header = text.partition("{")[0]
        found = _class_name(text)
        if found and (node.type != "function_definition" or "(" not in header):
            yield self._define(found, "class", node)
            return
        body = "{" in text and node.type in ("function_definition", "template_declaration")
        yield self._define(function_name(header), "function" if body else "statement", node)

    def _rows(self, node: Node) -> Iterator[Node]:
        """Table-like definitions, one row at a time: arrays, and bodies that only register."""
        if node.type == "function_definition" and self._registers(node):
            body = node.child_by_field_name("body")
            for statement in body.children if body else ():
                if statement.type not in ("{", "}", "comment"):
                    yield statement
        elif node.type == "declaration":
            for declarator in node.children_by_field_name("declarator"):
                value = declarator.child_by_field_name("value")
                if value is not None and value.type == "initializer_list" and value.child_count > 3:
                    for element in value.children:
                        if element.type not in ("{", "}", ",", "comment"):
                            yield element

    def _registers(self, node: Node) -> bool:
        """``SOME_LIBRARY(m) { m.add<..>("x"); ... }``: a macro with a body of nothing but calls."""
        header = self._text(node).partition("{")[0].strip()
        return re.fullmatch(r"[A-Z][A-Z0-9_]+\s*\([^()]*\)", header) is not None

    def _row_name(self, node: Node) -> str:
        tokens = tokenize(self._text(node))
        return tokens.texts[0] if tokens.texts else tokens.code[:80]


def _is_condition(node: Node) -> bool:
    parent = node.parent
    if parent is None or not parent.type.startswith("preproc_"):
        return False
    return node in (parent.child_by_field_name("condition"), parent.child_by_field_name("name"))


def _class_name(text: str) -> str | None:
    """A class's name; for a specialisation on an enumerator, the enumerator, which is what its users name."""
    header = text.partition("{")[0] + "{"
    match = _CLASS.search(header)
    if match is None or header.count("(") > header.count("alignas") + 8:
        return None
    enumerators = _ENUMERATOR.findall(match[2] or "")
    return enumerators[0] if enumerators else match[1]


def function_name(header: str) -> str:
    """The name before the parameter list: ``XOp::InferDataType``; "" when there is none."""
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.DOTALL)
    for match in _CALL.finditer(plain):
        name = re.sub(r"\s+|<[^<>]*>", "", match[1])
        if name.rpartition("::")[2] not in _NOT_A_NAME:
            return name
    return ""
