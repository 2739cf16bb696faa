"""Calls by form: binds PyTorch's arguments to a form of ``ops/<framework>.yml`` and calls the framework with them.

``form_text.py`` says how a form is written. The forms come with ``hello`` and are the bot's own data, never a
program's: only arguments are data from outside.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from form_binding import Kind, MismatchError, bind
from form_text import Form, parse
from framework import UnsupportedError

BUILTINS: Dict[str, Any] = {
    function.__name__: function
    for function in (
        abs, all, any, bool, complex, dict, enumerate, float, int, isinstance, len, list, max, min, range, reversed,
        round, set, slice, sorted, str, sum, tuple, zip,
    )
}  # fmt: skip
"""What a form's expression may call beside the framework."""

_SCOPE_BUILTINS: Dict[str, Any] = {**BUILTINS, "__import__": __import__}
"""A framework's C code that imports looks for ``__import__`` where it was called from; a form that names it is absent."""


class Absent(NamedTuple):
    """Why a form is not there: the framework's release lacks what its expression names."""

    reason: str


class BoundForm:
    """One form, compiled against one framework."""

    def __init__(
        self, form: Form, namespace: Dict[str, Any], kind: Kind, is_dtype: Callable[[Any], bool]
    ) -> None:
        self._form = form
        self._kind = kind
        self._is_dtype = is_dtype
        names = ", ".join(parameter.name for parameter in form.parameters)
        scope = {**namespace, "__builtins__": _SCOPE_BUILTINS}
        self.function: Callable[..., Any] = _compiled(names, form.expression, scope)
        self._condition = _compiled(names, form.condition, scope) if form.condition else None

    def bind(self, args: Sequence[Any], kwargs: Dict[str, Any]) -> List[Any]:
        """The values of :attr:`function`'s parameters. Raises MismatchError."""
        return bind(self._form, args, kwargs, self._kind, self._is_dtype)

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether the form's condition is true of plain values."""
        if self._condition is None:
            return True
        try:
            return bool(self._condition(*values))
        except (TypeError, AttributeError, IndexError):
            return False


class FormCall:
    """A canonical op: its forms in order; the first one that takes the arguments is called.

    Where that one says by an UnsupportedError that the framework lacks something, such as a kernel for the device or
    for the dtype, the next one that takes the arguments has its turn.
    """

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
            if not form.holds([self._plain(value) for value in values]):
                reasons.append("its condition does not hold")
                continue
            try:
                return self._apply(form.function, values)
            except UnsupportedError as error:
                reasons.append(str(error))
        raise UnsupportedError("%s: not with %s" % (self._name, "; ".join(dict.fromkeys(reasons))))


class InPlaceCall:
    """An in-place form of an op that is called out of place: its result is then put into the first argument.

    It is computed from what ``kept`` makes of that: where a framework keeps an op's input for backward and does not notice
    that it is written to, the gradient would be wrong by our doing, for its users have no such op in place.
    """

    def __init__(
        self, call: FormCall, assign: Callable[[Any, Any], Any], kept: Callable[[Any], Any]
    ) -> None:
        self._call = call
        self._assign = assign
        self._kept = kept

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """The target itself, with the result in it."""
        return self._assign(target, self._call(self._kept(target), *args, **kwargs))


def form_calls(
    rows: Dict[str, Any],
    namespace: Dict[str, Any],
    kind: Kind,
    is_dtype: Callable[[Any], bool],
    apply: Callable[..., Any],
    plain: Callable[[Any], Any],
) -> Dict[str, FormCall]:
    """The ops of a mapping that this release has: those with a form all of whose functions are there."""
    calls: Dict[str, FormCall] = {}
    for name, row in rows.items():
        forms, _ = bound_forms(row.get("call", ()), namespace, kind, is_dtype)
        if forms:
            calls[name] = FormCall(name, forms, apply, plain)
    return calls


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
