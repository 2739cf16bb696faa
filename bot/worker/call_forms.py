"""Calls by form: binds PyTorch's arguments to a form of ``ops/<framework>.yml`` and calls the framework with them.

``form_text.py`` says how a form is written. The forms come with ``hello`` and are the bot's own data, never a
program's: only arguments are data from outside.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from form_text import REQUIRED, TENSOR_TYPES, Form, Parameter, parse
from framework import UnsupportedError

Kind = Callable[[Any], str]
"""``bool``, ``int``, ``float`` or ``complex`` for a tensor of such a dtype; an empty text for anything else."""

BUILTINS: Dict[str, Any] = {
    function.__name__: function
    for function in (
        abs, all, any, bool, complex, dict, enumerate, float, int, isinstance, len, list, max, min, range, reversed,
        round, set, slice, sorted, str, sum, tuple, zip,
    )
}  # fmt: skip
"""What a form's expression may call beside the framework."""

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


class MismatchError(Exception):
    """Arguments that a form does not take; the message says which."""


class Absent(NamedTuple):
    """Why a form is not there: the framework's release lacks what its expression names."""

    reason: str


class BoundForm:
    """One form, compiled against one framework."""

    def __init__(
        self, form: Form, namespace: Dict[str, Any], kind: Kind, is_dtype: Callable[[Any], bool]
    ) -> None:
        self._parameters = form.parameters
        self._by_name = {parameter.name: parameter for parameter in form.parameters}
        self._used = form.used
        self._kind = kind
        self._is_dtype = is_dtype
        names = ", ".join(parameter.name for parameter in form.parameters)
        scope = {**namespace, "__builtins__": BUILTINS}
        self.function: Callable[..., Any] = _compiled(names, form.expression, scope)
        self._condition = _compiled(names, form.condition, scope) if form.condition else None

    def bind(self, args: Sequence[Any], kwargs: Dict[str, Any]) -> List[Any]:
        """The values of :attr:`function`'s parameters. Raises MismatchError."""
        values: List[Any] = []
        taken = 0
        used = 0
        for parameter in self._parameters:
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
            elif parameter.default is REQUIRED:
                raise MismatchError("%s is missing" % name)
            else:
                values.append(parameter.default)
                continue
            self._check(parameter, value)
            values.append(value)
        if taken < len(args):
            raise MismatchError("%d positional arguments" % len(args))
        if used < len(kwargs):
            raise MismatchError(
                ", ".join(sorted(set(kwargs) - set(self._by_name))) or "arguments twice"
            )
        return values

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether the form's condition is true of plain values."""
        if self._condition is None:
            return True
        try:
            return bool(self._condition(*values))
        except (TypeError, AttributeError, IndexError):
            return False

    def _check(self, parameter: Parameter, value: Any) -> None:
        if parameter.default is not REQUIRED and same(value, parameter.default):
            return
        fits = not parameter.types or any(self._is(value, kind) for kind in parameter.types)
        if parameter.name not in self._used or not fits:
            raise MismatchError("%s=%s" % (parameter.name, shown(value)))

    def _is(self, value: Any, kind: Any) -> bool:
        if isinstance(kind, tuple):
            return same(value, kind[1])
        if kind in TENSOR_TYPES:
            return self._kind(value) in _KINDS[kind]
        if kind == "tensors":
            return isinstance(value, (list, tuple)) and all(self._kind(item) for item in value)
        if kind == "dtype":
            return self._is_dtype(value)
        return kind == "any" or _is_plain(value, kind)


class FormCall:
    """A canonical op: its forms in order; the first one that takes the arguments is called."""

    def __init__(
        self,
        name: str,
        forms: Sequence[BoundForm],
        apply: Callable[..., Any],
        plain: Callable[[Any], Any],
    ) -> None:
        self._name = name
        self._forms = forms
        self._apply = apply
        self._plain = plain

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the first form gives that takes these arguments. Raises UnsupportedError when none does."""
        reasons: List[str] = []
        for form in self._forms:
            try:
                values = form.bind(args, kwargs)
            except MismatchError as error:
                reasons.append(str(error))
                continue
            if form.holds([self._plain(value) for value in values]):
                return self._apply(form.function, values)
            reasons.append("its condition does not hold")
        raise UnsupportedError("%s: not with %s" % (self._name, "; ".join(dict.fromkeys(reasons))))


class InPlaceCall:
    """An in-place form of an op that is called out of place: its result is then put into the first argument."""

    def __init__(self, call: FormCall, assign: Callable[[Any, Any], Any]) -> None:
        self._call = call
        self._assign = assign

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """The target itself, with the result in it."""
        return self._assign(target, self._call(target, *args, **kwargs))


def bound_forms(
    texts: Sequence[str], namespace: Dict[str, Any], kind: Kind, is_dtype: Callable[[Any], bool]
) -> Tuple[List[BoundForm], Optional[Absent]]:
    """The forms whose functions this release has, and why the last other one is absent."""
    found: List[BoundForm] = []
    absent: Optional[Absent] = None
    for text in texts:
        form = parse(text)
        lacking = [path for path in sorted(form.paths) if not _resolves(path, namespace)]
        if lacking:
            absent = Absent("no " + ", ".join(lacking))
        else:
            found.append(BoundForm(form, namespace, kind, is_dtype))
    return found, absent


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


def _compiled(names: str, expression: str, scope: Dict[str, Any]) -> Callable[..., Any]:
    return eval("lambda %s: (%s)" % (names, expression), scope)


def _resolves(path: str, namespace: Dict[str, Any]) -> bool:
    root, *rest = path.split(".")
    if root not in namespace:
        return root in BUILTINS or root in ("True", "False", "None")
    found = namespace[root]
    for part in rest:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True
