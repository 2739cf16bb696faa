"""A tape for functional frameworks: gradients of several calls where the framework differentiates one function at a time.

Such a framework has arrays that never change, and a function such as ``jax.vjp`` that gives a call's result together
with its *pullback*: cotangents of the results to cotangents of the arguments. The tape wraps each array in a
:class:`Variable`, which can be a leaf that wants a gradient and can be assigned to; records each call whose arguments
depend on such a leaf; and walks the record backward. It knows nothing of a framework but four functions.

Cotangents are in PyTorch's convention, the conjugate Wirtinger derivative: for a real L(z), the gradient of z = x + iy
is dL/dx + i dL/dy, so that the one of \\|z\\|**2 is 2 z. A framework's ``vjp`` has to keep that.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

Pullback = Callable[[List[Any]], Sequence[Any]]
"""Cotangents, one for each result, None where nothing came back to it -> cotangents of the primals."""


class Slot(NamedTuple):
    """Where one of several arrays goes."""

    place: int


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """``function`` of each member of a list, tuple, dict or slice, in the same nesting; anything else as it is."""
    if isinstance(value, list):
        return [function(item) for item in value]
    if isinstance(value, tuple) and not isinstance(value, Slot):
        items = [function(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: function(item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*[function(part) for part in (value.start, value.stop, value.step)])
    return value


def _filled(template: Any, members: Sequence[Any]) -> Any:
    """A template with members in its slots."""
    if isinstance(template, Slot):
        return members[template.place]
    return mapped(lambda item: _filled(item, members), template)


class Primal:
    """One call as a function of its arrays alone; what else it was given stands in the template.

    ``structure`` is the nesting of the result that the last run gave, with a slot for each array.
    """

    def __init__(
        self, function: Callable[..., Any], template: Any, is_array: Callable[[Any], bool]
    ) -> None:
        self.function = function
        self.template = template
        self.structure: Any = None
        self._is_array = is_array

    def __call__(self, *arrays: Any) -> Tuple[Any, ...]:
        """All arrays of the call's result, in order."""
        found: List[Any] = []
        self.structure = self._taken(self.function(*_filled(self.template, arrays)), found)
        return tuple(found)

    def _taken(self, value: Any, found: List[Any]) -> Any:
        if self._is_array(value):
            found.append(value)
            return Slot(len(found) - 1)
        return mapped(lambda item: self._taken(item, found), value)


Run = Callable[[Primal, List[Any]], Sequence[Any]]
"""A call and its arrays -> the results."""

Vjp = Callable[[Primal, List[Any], List[bool]], Tuple[Sequence[Any], Pullback]]
"""A call, its arrays and which of them want a gradient -> the results and the pullback, which gives None for the rest."""


class Variable:
    """An array that can be assigned to. ``source`` is what it depends on: a leaf, a call's result, or nothing.

    ``shared``: another variable would see an assignment, were these arrays in memory; a framework can refuse it then.
    """

    __slots__ = ("array", "leaf", "shared", "source")

    def __init__(self, array: Any, source: Source = None) -> None:
        self.array = array
        self.source = source
        self.leaf: Optional[Leaf] = None
        self.shared = False

    def assign(self, result: Variable) -> None:
        """Become another variable's value, and depend on what that depends on; a leaf stays the leaf of its old value."""
        self.array = result.array
        self.source = result.source


class Leaf:
    """Where a gradient is gathered. It outlives an assignment to its variable."""

    __slots__ = ("gradient",)

    def __init__(self) -> None:
        self.gradient: Any = None


class Call(NamedTuple):
    """One recorded call: its place in the record, its results, and what each of its primals depends on."""

    number: int
    results: int
    pullback: Pullback
    sources: Tuple[Source, ...]


Source = Union[Leaf, Tuple[Call, int], None]
"""What a variable depends on: a leaf, or a call and which of its results."""


class VjpTape:
    """Records calls and runs backward.

    ``run`` and ``vjp``: see :data:`Run` and :data:`Vjp`. ``add`` sums two cotangents. ``is_array`` tells an array of
    the framework; ``is_inexact`` whether an array is of a float or complex dtype, which alone have gradients.
    """

    def __init__(
        self,
        run: Run,
        vjp: Vjp,
        add: Callable[[Any, Any], Any],
        is_array: Callable[[Any], bool],
        is_inexact: Callable[[Any], bool],
    ) -> None:
        self._run = run
        self._vjp = vjp
        self._add = add
        self._is_array = is_array
        self._is_inexact = is_inexact
        self._count = 0

    def require_grad(self, variable: Variable) -> None:
        """Make a variable a leaf. Raises TypeError for a dtype that has no gradients."""
        if not self._is_inexact(variable.array):
            raise TypeError("only variables of a float or complex dtype can require a gradient")
        variable.leaf = Leaf()
        variable.source = variable.leaf

    def gradient(self, variable: Variable) -> Any:
        """What :meth:`backward` gathered for a leaf, as an array; None where nothing reached it."""
        return None if variable.leaf is None else variable.leaf.gradient

    def call(self, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """``function(*values)`` with arrays for the variables in any nesting; arrays in the result become variables."""
        variables: List[Variable] = []
        template = [self._template(value, variables) for value in values]
        primal = Primal(function, template, self._is_array)
        arrays = [variable.array for variable in variables]
        wanted = [v.source is not None and self._is_inexact(v.array) for v in variables]
        if not any(wanted):
            results = self._run(primal, arrays)
            return _filled(primal.structure, [Variable(array) for array in results])
        results, pullback = self._vjp(primal, arrays, wanted)
        self._count += 1
        sources = tuple([v.source if want else None for v, want in zip(variables, wanted)])
        call = Call(self._count, len(results), pullback, sources)
        made = [
            Variable(array, (call, place) if self._is_inexact(array) else None)
            for place, array in enumerate(results)
        ]
        return _filled(primal.structure, made)

    def backward(self, outputs: Sequence[Variable], gradients: Sequence[Any]) -> None:
        """Add to every leaf's gradient what comes back from the outputs, each with its cotangent, all at once.

        Raises ValueError when no output depends on a leaf.
        """
        waiting: Dict[int, Tuple[Call, Dict[int, Any]]] = {}
        reached = False
        for output, gradient in zip(outputs, gradients):
            reached = reached or output.source is not None
            self._give(waiting, output.source, gradient)
        if not reached:
            raise ValueError("no output depends on a variable that requires a gradient")
        while waiting:
            # Calls are numbered as they were made: the last one has all its cotangents.
            call, given = waiting.pop(max(waiting))
            cotangents = call.pullback([given.get(index) for index in range(call.results)])
            for source, cotangent in zip(call.sources, cotangents):
                self._give(waiting, source, cotangent)

    def _give(
        self, waiting: Dict[int, Tuple[Call, Dict[int, Any]]], source: Source, cotangent: Any
    ) -> None:
        if source is None or cotangent is None:
            return
        if isinstance(source, Leaf):
            before = source.gradient
            source.gradient = cotangent if before is None else self._add(before, cotangent)
            return
        call, index = source
        given = waiting.setdefault(call.number, (call, {}))[1]
        given[index] = self._add(given[index], cotangent) if index in given else cotangent

    def _template(self, value: Any, variables: List[Variable]) -> Any:
        """``value`` with a slot for each variable."""
        if type(value) is not Variable:
            return mapped(lambda item: self._template(item, variables), value)
        for place, variable in enumerate(variables):
            if variable is value:
                return Slot(place)
        variables.append(value)
        return Slot(len(variables) - 1)
