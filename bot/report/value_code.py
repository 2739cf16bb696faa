"""Arguments of a program as Python source for one framework.

Nothing of a program reaches the source as it is: strings go through ``repr``, op names must be on the workers' own
list, dtypes and the like on closed ones, else :class:`ReproError`. The list is what counts: from a framework's module
an attribute's name leads to ``builtins.exec``.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from bot.programs.program import Value
from bot.programs.validation import ITEM_BYTES, MAX_DEPTH
from bot.report.dialect import Dialect
from bot.report.program_reader import is_public_op

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_LAYOUTS = frozenset("strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc".split())
_MEMORY_FORMATS = frozenset(
    "contiguous_format channels_last channels_last_3d preserve_format".split()
)
_CONSTANTS: Mapping[str, Collection[str]] = {
    "dtype": ITEM_BYTES, "layout": _LAYOUTS, "memory_format": _MEMORY_FORMATS,
}  # fmt: skip
"""Kind of argument -> the attributes of a framework that may be one; a worker takes no others."""
_FLOATS = {"nan": "nan", "inf": "inf", "-inf": "-inf", "-0.0": "-0.0"}


class ReproError(ValueError):
    """No script can be written for this program; the message is one line."""


def dotted(text: Any, what: str) -> str:
    """The text when it is a dotted name of plain identifiers. Raises ReproError."""
    if (
        not isinstance(text, str)
        or not _DOTTED.fullmatch(text)
        or any(keyword.iskeyword(part) for part in text.split("."))
    ):
        raise ReproError(f"{str(text)[:80]!r} is not the name of {what}")
    return text


class ValueCode:
    """Writes arguments; ``identifier`` gives the variable that stands for a program's name."""

    def __init__(self, dialect: Dialect, device: str, identifier: Callable[[str], str]) -> None:
        self._dialect = dialect
        self._module = dialect.module
        self._device = device
        self._identifier = identifier

    def value(self, value: Value, depth: int = 0) -> str:
        """An argument as source. Raises ReproError for what is not in the grammar."""
        if depth > MAX_DEPTH:
            raise ReproError("values are nested too deep")
        if value is None or isinstance(value, bool | int | float):
            return repr(value)
        if isinstance(value, str):
            return ascii(value)
        if isinstance(value, list):
            items = cast("list[Value]", value)
            return f"[{', '.join(self.value(item, depth + 1) for item in items)}]"
        if isinstance(value, dict):
            return self._entry(cast("dict[str, Any]", value), depth)
        raise ReproError(f"an argument of type {type(value).__name__} is not in the grammar")

    def _entry(self, entry: dict[str, Any], depth: int) -> str:
        if "ref" not in entry and len(entry) != 1:
            raise ReproError("an argument is not in the grammar")
        key = "ref" if "ref" in entry else next(iter(entry))
        try:
            if key == "ref":
                return self._reference(entry)
            return self._keyed(key, entry[key], depth)
        except (TypeError, ValueError, IndexError) as problem:
            if isinstance(problem, ReproError):
                raise
            raise ReproError(f"the argument {key[:40]!r} is not in the grammar") from None

    def _reference(self, entry: dict[str, Any]) -> str:
        path = [int(index) for index in entry.get("path", [])]
        return self._identifier(str(entry["ref"])) + "".join(f"[{index}]" for index in path)

    def _keyed(self, key: str, inner: Any, depth: int) -> str:
        if key == "tuple":
            items = [self.value(item, depth + 1) for item in inner]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if key == "dict":
            pairs = [f"{self.value(k, depth + 1)}: {self.value(v, depth + 1)}" for k, v in inner]
            return f"{{{', '.join(pairs)}}}"
        if key == "size":
            return f"{self._module}.Size({self.value(list(inner), depth + 1)})"
        if key == "float":
            return "-0.0" if _special(inner) == "-0.0" else f'float("{inner}")'
        if key == "complex":
            parts = [_special(p) if isinstance(p, str) else repr(float(p)) for p in inner]
            return f"complex({parts[0]}, {parts[1]})"
        if key in _CONSTANTS:
            if inner not in _CONSTANTS[key]:
                raise ReproError(f"{str(inner)[:80]!r} is not the name of a {key}")
            return (
                self._dialect.dtype_source(inner) if key == "dtype" else f"{self._module}.{inner}"
            )
        if key == "device":
            return repr(self._device if inner == "target" else dotted(inner, "a device"))
        if key == "generator":
            return f"{self._module}.Generator().manual_seed({int(inner)})"
        if key == "slice":
            start, stop, step = (self.value(part, depth + 1) for part in inner)
            return f"slice({start}, {stop}, {step})"
        if key == "ellipsis":
            return "Ellipsis"
        if key == "fn":
            return self.function(inner)
        raise ReproError(f"the argument {key[:40]!r} is not in the grammar")

    def function(self, fn: str) -> str:
        """A function by its canonical name. Raises ReproError."""
        self.require_op(fn)
        return f"{self._module}.{fn.removeprefix(f'{self._module}.')}"

    def require_op(self, fn: Any) -> None:
        """Raise ReproError for a name that is not on the workers' list of callables."""
        name = dotted(fn, "an op")
        if not is_public_op(name, {self._module}):
            raise ReproError(f"{name!r} is not a tensor op")

    def keywords(self, kwargs: Mapping[str, Value]) -> list[str]:
        """Keyword arguments. Raises ReproError."""
        plain = {k: v for k, v in kwargs.items() if k.isidentifier() and not keyword.iskeyword(k)}
        words = [f"{key}={self.value(value)}" for key, value in plain.items() if key.isascii()]
        odd = [key for key in kwargs if key not in plain or not key.isascii()]
        if odd:
            pairs = ", ".join(f"{key!a}: {self.value(kwargs[key])}" for key in odd)
            words.append(f"**{{{pairs}}}")
        return words


def _special(text: Any) -> str:
    if not isinstance(text, str) or text not in _FLOATS:
        raise ReproError(f"{str(text)[:40]!r} is not a number")
    return _FLOATS[text]
