"""What a piece of C++ declares: its kind and its name, read from the tokens before its body."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from bot.changes.sources.cpp_pieces import AFTER_PARAMETERS, CLASS_KEYS, Piece
from bot.changes.sources.cpp_tokens import TokenList

CppKind = Literal["function", "class", "alias", "variable", "declaration", "nothing", "call"]

_NOT_A_NAME: Final = frozenset(
    {
        "__attribute__", "__launch_bounds__", "decltype", "alignas", "noexcept", "template", "sizeof", "requires",
        "if", "for", "while", "switch", "return", "typename", "static_assert", "defined", "__declspec", "asm",
        "__asm__", "throw", "explicit", "constexpr", "const", "static", "inline",
    }
)  # fmt: skip
_LAUNCH_BOUNDS: Final = re.compile(r"LAUNCH_BOUNDS|ATTRIBUTE|^__")
_FOLLOWS_PARAMETERS: Final = AFTER_PARAMETERS | {"{", ":", "->", "=", ";", "&", "(", ""}
_CAPITALS: Final = re.compile(r"[A-Z][A-Z0-9_]+")
_REGISTERS: Final = re.compile(r"REG(?:_|IST)|[Rr]egist|INIT_FUNC")
_BUILTIN: Final = frozenset(
    {
        "const", "int", "float", "double", "bool", "char", "void", "long", "short", "unsigned", "signed", "auto",
        "struct", "enum", "class", "typename", "size_t", "std", "&", "*", ".",
    }
)  # fmt: skip
MAX_NAME: Final = 100


@dataclass(frozen=True)
class Declared:
    """A piece's kind and name; ``parameters`` are the tokens between the parentheses of a function's parameters."""

    kind: CppKind
    name: str
    parameters: tuple[int, int] | None = None


def declared(tokens: TokenList, piece: Piece) -> Declared:
    """What a piece that is no ``#define`` declares."""
    return _Header(tokens, piece).read()


class _Header:
    def __init__(self, tokens: TokenList, piece: Piece) -> None:
        self.tokens = tokens
        self.piece = piece
        self.has_body = piece.body < piece.end
        self.top: list[int] = []
        """The tokens outside all brackets, template arguments included; a ``(`` stands for its group."""
        self.closes: dict[int, int] = {}
        self._walk()

    def _walk(self) -> None:
        values = self.tokens.values
        end = self.piece.body
        angles = 0
        token = self.piece.first
        while token < end:
            value = values[token]
            if value == "#" and self.tokens.begins_line(token):
                token = self.tokens.line_end(token)
            elif value in ("(", "["):
                if angles == 0:
                    self.top.append(token)
                self.closes[token] = token = self._closing(token, end)
            elif value == "operator":
                self.top.append(token)
                token += 1
                while token < end and values[token] != "(":
                    self.top.append(token)
                    token += 1
            elif value == "<" and token > self.piece.first:
                angles += 1
                token += 1
            elif value == ">" and angles:
                angles -= 1
                token += 1
            else:
                if angles and value in (";", "{"):
                    angles = 0
                if angles == 0:
                    self.top.append(token)
                token += 1

    def _closing(self, token: int, end: int) -> int:
        """The token after the group that opens at a token."""
        depth = 0
        values = self.tokens.values
        while token < end:
            value = values[token]
            if value in ("(", "[", "{"):
                depth += 1
            elif value in (")", "]", "}"):
                depth -= 1
                if depth == 0:
                    return token + 1
            token += 1
        return end

    def _value(self, place: int) -> str:
        return self.tokens.values[self.top[place]] if 0 <= place < len(self.top) else ""

    def _is_name(self, place: int) -> bool:
        return 0 <= place < len(self.top) and self.tokens.kinds[self.top[place]] == "name"

    def read(self) -> Declared:
        values = [self.tokens.values[token] for token in self.top]
        if not values:
            return Declared("call", "")
        if values[0] in ("using", "typedef"):
            return self._alias(values)
        if values[0] == "static_assert":
            return Declared("nothing", "")
        group = self._parameters()
        equals = self._equals(values, group)
        class_name = self._class_name(values) if equals is None else None
        if class_name is not None:
            return Declared("class" if self.has_body else "nothing", class_name)
        if equals is not None:
            return self._variable(values, equals)
        if group is None:
            return self._variable(values, len(values))
        return self._callable(values, *group)

    def _alias(self, values: list[str]) -> Declared:
        if values[0] == "using":
            return Declared("alias", values[1] if len(values) > 1 else "")
        if self.has_body:
            before = self.tokens.values[self.piece.first : self.piece.end]
            names = [v for v in before[-3:] if v.isidentifier()]
            return Declared("class", names[-1] if names else "")
        names = [v for v in values if v.isidentifier()]
        pointer = re.search(
            r"\( \* (\w+) \)", " ".join(self.tokens.values[self.piece.first : self.piece.body])
        )
        return Declared("alias", pointer[1] if pointer else names[-1])

    # Classes

    def _class_name(self, values: list[str]) -> str | None:
        place = next((n for n, value in enumerate(values) if value in CLASS_KEYS), None)
        if place is None:
            return None
        instantiates = values[0] == "template" and not self._is_template_with_parameters()
        if (instantiates or values[0] == "extern") and not self.has_body:
            return None
        place += 1
        if self._value(place) in ("class", "struct"):
            place += 1
        parts: list[str] = []
        while place < len(values):
            value = values[place]
            if value in ("(", "["):  # alignas(16), [[nodiscard]], an attribute's macro
                parts.clear()
            elif value == "::":
                parts.append(value)
            elif value in (":", "final", ";", "{", "="):
                break
            elif self._is_name(place):
                if parts and parts[-1] != "::":
                    if not self._is_attribute(parts[-1]):
                        return None  # ``struct X make(...)``: a function or a variable of the type
                    parts.clear()
                parts.append(value)
            else:
                return None
            place += 1
        if not self.has_body and self._value(place) == ":" and "enum" not in values:
            return None
        name = "".join(part for part in parts if part not in _NOT_A_NAME)
        return self._enumerator() or name

    def _is_attribute(self, name: str) -> bool:
        return name in _NOT_A_NAME or name.startswith("__") or _CAPITALS.fullmatch(name) is not None

    def _enumerator(self) -> str:
        """Of a specialisation on an enumerator, the enumerator: that is what its users name."""
        header = self.tokens.values[self.piece.first : self.piece.body]
        keys = [place for place, value in enumerate(header) if value in CLASS_KEYS]
        if header[:3] != ["template", "<", ">"] and not keys:
            return ""
        named = " ".join(header[keys[-1] :]).partition(" : ")[0]
        if "<" not in named:
            return ""
        match = re.search(r"(?:Op|Mode) :: (k[A-Z]\w*)", named)
        return match[1] if match else ""

    # Functions

    def _parameters(self) -> tuple[int, str] | None:
        """The place of the parameter list's group, and the name before it."""
        first: tuple[int, str] | None = None
        for place, token in enumerate(self.top):
            before = [self._value(n) for n in range(max(0, place - 3), place)]
            if self.tokens.values[token] == "=" and "operator" not in before:
                break
            if self.tokens.values[token] != "(":
                continue
            name = self._name_before(place)
            if not name:
                continue
            if self._value(place - 1) == "operator" and self._value(place + 1) == "(":
                continue  # the parentheses are the operator's own
            first = first or (place, name)
            follows = self._value(place + 1) if place + 1 < len(self.top) else ""
            if follows in _FOLLOWS_PARAMETERS or not self._later_group(place):
                return place, name
        return first

    def _later_group(self, place: int) -> bool:
        return any(self._value(later) == "(" for later in range(place + 1, len(self.top)))

    def _name_before(self, place: int) -> str:
        operator = self._operator_before(place)
        if operator is not None:
            start, name = operator
        elif self._is_name(place - 1):
            start, name = place - 1, self._value(place - 1)
            if name in _NOT_A_NAME or _LAUNCH_BOUNDS.search(name):
                return ""
        else:
            return ""
        if self._value(start - 1) == "~":
            start, name = start - 1, "~" + name
        while self._value(start - 1) == "::" and self._is_name(start - 2):
            start, name = start - 2, f"{self._value(start - 2)}::{name}"
        return name

    def _operator_before(self, place: int) -> tuple[int, str] | None:
        """``operator()``, ``operator+``, ``operator bool``: where it begins, and its name."""
        for start in range(place - 1, max(place - 8, -1), -1):
            if self._value(start) == "operator":
                between = [self._value(n) for n in range(start + 1, place)]
                if between == ["("] or not between:
                    return start, "operator()"
                if "(" in between:
                    return None
                separator = " " if between[0].isidentifier() else ""
                return start, "operator" + separator + "".join(between)
        return None

    def _callable(self, values: list[str], place: int, name: str) -> Declared:
        opening = self.top[place]
        parameters = (opening + 1, self.closes[opening] - 1)
        alone = place == 1 and self.tokens.kinds[self.top[0]] == "name" and "::" not in name
        if alone and self._value(place + 1) == "(":
            written = "".join(self.tokens.values[opening : self.closes[opening]])[:MAX_NAME]
            following = self.top[place + 1]
            if self.has_body:
                inner = (following + 1, self.closes[following] - 1)
                return Declared("function", name + written, inner)
            return Declared("call", name)
        if alone:
            return Declared("call", name)
        if self._value(1) == "(" and "." in values:  # REGISTER("op").SetCreateFn<..>().SetOther(..)
            return Declared("call", values[0])
        if self.has_body:
            return Declared("function", name, parameters)
        if values[0] == "template" and not self._is_template_with_parameters():
            return Declared("declaration", name, parameters)
        if self._looks_like_types(*parameters):
            written = self.tokens.values[parameters[0] : parameters[1]]
            return Declared("declaration" if "=" in written else "nothing", name, parameters)
        return Declared("variable", name)

    def _is_template_with_parameters(self) -> bool:
        return self.tokens.values[self.piece.first + 1 : self.piece.first + 2] == ["<"]

    def _looks_like_types(self, first: int, end: int) -> bool:
        """Whether what stands in parentheses declares parameters, rather than giving arguments."""
        values = self.tokens.values[first:end]
        kinds = self.tokens.kinds[first:end]
        if values and "=" not in values and self._has_arguments(values, kinds):
            return False
        if not values or not _BUILTIN.isdisjoint(values):
            return True
        return any(a == b == "name" for a, b in pairwise(kinds))

    def _has_arguments(self, values: list[str], kinds: list[str]) -> bool:
        """Whether there is what no parameter list without defaults holds: a text, an address, a number, a ``sizeof``."""
        if "text" in kinds or "sizeof" in values or "new" in values:
            return True
        depth = 0
        begins = True
        for value, kind in zip(values, kinds, strict=True):
            if begins and (value in ("&", "*", "-", "!") or kind == "number"):
                return True
            depth += (value in ("(", "[", "{", "<")) - (value in (")", "]", "}", ">"))
            begins = value == "," and depth == 0
        return False

    # Variables and calls

    def _equals(self, values: list[str], group: tuple[int, str] | None) -> int | None:
        """The place of the ``=`` of a variable: before any parameter list."""
        for place, value in enumerate(values):
            if group is not None and place >= group[0]:
                return None
            if value == "=" and self._value(place - 1) != "operator":
                return place
        return None

    def _variable(self, values: list[str], end: int) -> Declared:
        if values[0] == "template" and not self._is_template_with_parameters():
            names = [v for n, v in enumerate(values) if self._is_name(n) and v not in CLASS_KEYS]
            return Declared("declaration", names[-1] if len(names) > 1 else "")
        place = end - 1
        while place >= 0 and not self._is_name(place):
            place -= 1
        if place < 1:
            return Declared("call", values[0] if self._is_name(0) else "")
        name = self._value(place)
        while self._value(place - 1) == "::" and self._is_name(place - 2):
            place, name = place - 2, f"{self._value(place - 2)}::{name}"
        if values[0] == "extern" and end == len(values) and not self.has_body:
            return Declared("nothing", name)
        return Declared("variable", name)


def registers(name: str) -> bool:
    """Whether a macro's or a class's name says that it registers what it is given."""
    return _REGISTERS.search(name) is not None
