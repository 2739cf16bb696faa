"""Macro calls of PaddlePaddle's sources written out, as far as it takes to see what they register and define."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.paddle.tables import Names, paddle_tables
from bot.changes.index.tree import Note

MAX_DEPTH: Final = 8
MAX_TOKENS: Final = 20_000
"""Beyond this a macro is a generator, not a registration."""

MAX_WRITTEN: Final = 200_000
"""Tokens of arguments and bodies that are written for one call, those that come to nothing included."""

MAX_WRITTEN_IN_ALL: Final = 20_000_000
"""The same for all calls of a tree together."""

MAX_KEPT: Final = 4096
"""Calls whose written-out form is remembered."""

_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|\S+')
_MACRO_NAME: Final = re.compile(r"\b_*[A-Z][A-Z0-9_]+")
_DEFINE: Final = re.compile(r"# define (\w+)")
_CALL: Final = re.compile(r"(?:template < > )?\b_*[A-Z][A-Z0-9_]+ \(")
_FUNCTION: Final = re.compile(r"\b(?:void|bool|int|Tensor|SpmdInfo|KernelSignature) (\w+) \(")
_CLASS: Final = re.compile(r"\b(?:class|struct) (\w+) (?:final )?[:{]")
_LIST: Final = re.compile(r"# define (\w+) \( (\w+) \) ((?:\2 \( [^()]* \) ;? ?)+)")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")

FindMacro = Callable[[str, str], Definition | None]
"""A macro's definition by its name and the file that uses it."""


@dataclass(frozen=True)
class Registered:
    """One registration. ``subjects`` are the names in its arguments, but for the dtypes that it lists."""

    names: Names
    name: str
    subjects: frozenset[str]


@dataclass(frozen=True)
class WrittenOut:
    """What a macro call comes to: what it registers, and the functions and classes that it defines."""

    registered: tuple[Registered, ...]
    defined: tuple[str, ...]


def without_condition(code: str) -> str:
    """A definition's code without the ``#if`` lines that it stands under."""
    return code.rpartition("\n")[2]


def is_macro_call(definition: Definition) -> bool:
    """Whether a definition is a call of a macro at the top level of its file."""
    return (
        definition.kind != "macro" and _CALL.match(without_condition(definition.code)) is not None
    )


def list_rows(macro: Definition) -> tuple[str, ...]:
    """The rows of ``#define LIST(row) row(relu, Relu) row(abs, Abs)``, each as what follows its first name."""
    match = _LIST.fullmatch(without_condition(macro.code)) if macro.kind == "macro" else None
    if match is None:
        return ()
    rows = re.findall(rf"\b{match[2]} (\( [^()]* \))", match[3])
    return tuple(rows) if len(rows) > 1 else ()


class MacroCalls:
    """Calls written out; the registering macros of Paddle itself are left as they are."""

    def __init__(self, find: FindMacro, note: Note) -> None:
        self._find = find
        self._note = note
        self._left_in_all = MAX_WRITTEN_IN_ALL
        self._left = 0
        self._cut = False
        self._registrars = paddle_tables().names_of
        self.written_out = lru_cache(maxsize=MAX_KEPT)(self._written_out)

    def _written_out(self, code: str, path: str) -> WrittenOut:
        tokens: list[str] = _TOKEN.findall(without_condition(code))
        self._left = allowed = min(MAX_WRITTEN, self._left_in_all)
        self._cut = False
        text = " ".join(self._expand(tokens, path, 0))
        self._left_in_all -= allowed - max(self._left, 0)
        if self._cut:
            name = next((token for token in tokens if _MACRO_NAME.fullmatch(token)), "a macro")
            self._note(f"{path}: {name} is too long or nested too deep to be written out whole")
        registered = dict.fromkeys(self._registered(_TOKEN.findall(text)))
        defined = dict.fromkeys((*_FUNCTION.findall(text), *_CLASS.findall(text)))
        return WrittenOut(tuple(registered), tuple(defined))

    def _registered(self, tokens: list[str]) -> Iterator[Registered]:
        for position, token in enumerate(tokens[:-2]):
            names = self._registrars.get(token)
            if names is None or tokens[position + 1] != "(":
                continue
            arguments, _ = _arguments(tokens, position + 1)
            written = "".join(arguments[0]).strip('"')
            # PD_REGISTER_KERNEL(name, backend, layout, function, dtypes...)
            spoken = arguments[1:4] if names == "kernel" else arguments[1:]
            if _NAME.fullmatch(written):
                subjects = frozenset(
                    word for argument in spoken for word in argument if _NAME.fullmatch(word)
                )
                yield Registered(names, written, subjects)

    def _expand(self, tokens: list[str], path: str, depth: int) -> list[str]:
        """Tokens with their macros replaced, as long as there are any left to write: macros that write nothing end too."""
        found: list[str] = []
        position = 0
        while position < len(tokens):
            token = tokens[position]
            position += 1
            macro = self._macro(token, path)
            if macro is None or depth >= MAX_DEPTH:
                self._cut = self._cut or macro is not None
                found.append(token)
                continue
            parameters, body = macro
            arguments: list[list[str]] = []
            if parameters is not None:
                if position >= len(tokens) or tokens[position] != "(":
                    found.append(token)
                    continue
                arguments, position = _arguments(tokens, position)
            if self._left <= 0 or len(found) > MAX_TOKENS:
                self._cut = True
                break
            replaced = _substituted(parameters or [], arguments, body)
            self._left -= 1 + len(replaced) + sum(map(len, arguments))
            self._cut = self._cut or len(replaced) > MAX_TOKENS
            found += self._expand(replaced, path, depth + 1)
        return found

    def _macro(self, name: str, path: str) -> tuple[list[str] | None, list[str]] | None:
        """A macro's parameters (None when it takes none) and body."""
        if name in self._registrars or not _MACRO_NAME.fullmatch(name):
            return None
        definition = self._find(name, path)
        if definition is None:
            return None
        return _parts(without_condition(definition.code))


def _parts(code: str) -> tuple[list[str] | None, list[str]]:
    tokens: list[str] = _TOKEN.findall(code)
    body = tokens[3:]  # "#", "define", the name
    if not body or body[0] != "(" or ")" not in body:
        return None, body
    end = body.index(")")
    inner = body[1:end]
    if any(not _NAME.fullmatch(token) and token not in (",", ".", "...") for token in inner):
        return None, body
    names = [token for token in inner if _NAME.fullmatch(token)]
    if "." in inner or "..." in inner:
        names.append("__VA_ARGS__")
    return names, body[end + 1 :]


def _arguments(tokens: list[str], start: int) -> tuple[list[list[str]], int]:
    """The arguments of a call whose parenthesis opens at ``start``, and the position after it."""
    arguments: list[list[str]] = [[]]
    depth = 0
    for position in range(start, len(tokens)):
        token = tokens[position]
        if token in ("(", "[", "{"):
            depth += 1
        elif token in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return arguments, position + 1
        if token == "," and depth == 1:
            arguments.append([])
        elif position > start:
            arguments[-1].append(token)
    return arguments, len(tokens)


def _substituted(parameters: list[str], arguments: list[list[str]], body: list[str]) -> list[str]:
    values = dict(zip(parameters, arguments, strict=False))
    if parameters and parameters[-1] == "__VA_ARGS__":
        rest = arguments[len(parameters) - 1 :]
        values["__VA_ARGS__"] = [t for i, a in enumerate(rest) for t in ([","] if i else []) + a]
    found: list[str] = []
    position = 0
    while position < len(body) and len(found) <= MAX_TOKENS:
        token = body[position]
        following = body[position + 1] if position + 1 < len(body) else ""
        if token == "#" and following in values:
            found.append('"' + "".join(values[following]) + '"')
            position += 2
        elif token == "##" and found:
            pasted = values.get(following, [following])
            found[-1] += pasted[0] if pasted else ""
            found += pasted[1:]
            position += 2
        else:
            found += values.get(token, [token])
            position += 1
    return found
