"""Which of PyTorch's arguments a call form takes: pure syntax and types, for workers and for what writes scripts.

It imports nothing of this folder, because the bot knows :class:`form_text.Form` by another path than a worker does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence

if TYPE_CHECKING:
    from form_text import Form, Parameter

Kind = Callable[[Any], str]
"""``bool``, ``int``, ``float`` or ``complex`` for a tensor of such a dtype; an empty text for anything else."""

_KINDS: Dict[str, frozenset[str]] = {
    "Tensor": frozenset(("bool", "int", "float", "complex")),
    "Float": frozenset(("float",)),
    "Complex": frozenset(("complex",)),
    "Inexact": frozenset(("float", "complex")),
    "Int": frozenset(("int",)),
    "Bool": frozenset(("bool",)),
    "Real": frozenset(("int", "float")),
    "Number": frozenset(("int", "float", "complex")),
}


def dtype_kind(name: str) -> str:
    """``bool``, ``int``, ``float`` or ``complex`` by a dtype's canonical name; an empty text for no name."""
    kind = name.rstrip("0123456789")
    known = {"bool": "bool", "int": "int", "uint": "int", "complex": "complex"}
    return known.get(kind, "float" if name else "")


class MismatchError(Exception):
    """Arguments that a form does not take; the message says which."""


def bind(
    form: Form,
    args: Sequence[Any],
    kwargs: Dict[str, Any],
    kind: Kind,
    is_dtype: Callable[[Any], bool],
) -> List[Any]:
    """The values of the form's parameters, in their order. Raises MismatchError."""
    values: List[Any] = []
    taken = 0
    used = 0
    for parameter in form.parameters:
        name = parameter.name
        if parameter.kind == "variadic":
            rest = args[taken:]
            taken = len(args)
            one = len(rest) == 1 and isinstance(rest[0], (list, tuple))
            value: Any = tuple(rest[0]) if one else tuple(rest)
            if name in kwargs:
                value = kwargs[name]
                used += 1
        elif parameter.kind == "positional" and taken < len(args):
            if name in kwargs:
                raise MismatchError("%s twice" % name)
            value = args[taken]
            taken += 1
        elif name in kwargs:
            value = kwargs[name]
            used += 1
        elif parameter.required:
            raise MismatchError("%s is missing" % name)
        else:
            values.append(parameter.default)
            continue
        _check(form, parameter, value, kind, is_dtype)
        values.append(value)
    if taken < len(args):
        raise MismatchError("%d positional arguments" % len(args))
    if used < len(kwargs):
        raise MismatchError(
            ", ".join(sorted(set(kwargs) - {parameter.name for parameter in form.parameters}))
            or "arguments twice"
        )
    return values


def _check(
    form: Form, parameter: Parameter, value: Any, kind: Kind, is_dtype: Callable[[Any], bool]
) -> None:
    if not parameter.required and same(value, parameter.default):
        return
    # A variadic parameter's annotation, as in Python, is what each of its values is.
    items = value if parameter.kind == "variadic" else (value,)
    fits = not parameter.types or all(
        any(_is(item, wanted, kind, is_dtype) for wanted in parameter.types) for item in items
    )
    if parameter.name not in form.used or not fits:
        raise MismatchError("%s=%s" % (parameter.name, shown(value)))


def _is(value: Any, wanted: Any, kind: Kind, is_dtype: Callable[[Any], bool]) -> bool:
    if isinstance(wanted, tuple):
        return same(value, wanted[1])
    if wanted in _KINDS:
        return kind(value) in _KINDS[wanted]
    if wanted == "tensors":
        return isinstance(value, (list, tuple)) and all(kind(item) for item in value)
    if wanted == "dtype":
        return is_dtype(value)
    return wanted == "any" or _is_plain(value, wanted)


def same(value: Any, other: Any) -> bool:
    """Equality of plain values; ``True`` is not ``1``, a list is a tuple, and a tensor equals nothing."""
    if isinstance(value, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(value) == len(other) and all(map(same, value, other))
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, (int, float, complex)) and isinstance(other, (int, float, complex)):
        return value == other
    return type(value) is type(other) and isinstance(value, (str, type(None))) and value == other


def shown(value: Any) -> str:
    """A value in a reason: short, and without a tensor's elements."""
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return repr(value)[:40]
    if isinstance(value, (list, tuple)) and len(value) <= 8:
        return "[%s]" % ", ".join(map(shown, value))
    return type(value).__name__


def _is_plain(value: Any, kind: str) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "str":
        return isinstance(value, str)
    if kind == "slice":
        return isinstance(value, slice)
    if kind in ("ints", "floats", "bools"):
        return isinstance(value, (list, tuple)) and all(
            _is_plain(item, kind[:-1]) for item in value
        )
    if isinstance(value, bool):
        return False
    allowed = {"int": (int,), "float": (int, float), "number": (int, float, complex)}[kind]
    return isinstance(value, allowed)
