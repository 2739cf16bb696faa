"""A module's parameters and buffers under PyTorch's names and in its layout, where a framework keeps them otherwise.

The ``state`` of a module class's row says how (``bot/targets/op_mapping.py`` documents it). A
:class:`StateView` stands for a tensor of the framework's as PyTorch would hold it; it is what a mapped framework gives
the executor, and takes back for reading it and its gradient.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy


class Place(NamedTuple):
    """Where a framework keeps what PyTorch calls by another name, or in another layout."""

    name: str
    transpose: bool = False
    reshape: bool = False


Places = Dict[str, Optional[Place]]
"""PyTorch's name -> the framework's place; None where the framework holds no such thing."""


class StateView(NamedTuple):
    """A framework's tensor in PyTorch's layout: its last two axes swapped, then of PyTorch's shape."""

    tensor: Any
    transpose: bool
    shape: Optional[Tuple[int, ...]]

    def seen(self, array: Any) -> Any:
        """A host array of the tensor's elements, in PyTorch's layout."""
        if self.transpose:
            array = numpy.swapaxes(array, -1, -2)
        return array if self.shape is None else array.reshape(self.shape)


class MadeModule:
    """A module that a program has made, and where its class keeps its state."""

    def __init__(self, module: Any, places: Places) -> None:
        self.module = module
        self._places = {name: place for name, place in places.items() if place is not None}
        self._absent = frozenset(name for name, place in places.items() if place is None)
        self._shapes: Dict[str, Tuple[int, ...]] = {}

    def lacks(self, name: str) -> bool:
        """Whether the framework is known to hold nothing of this name of PyTorch's."""
        return name in self._absent

    def place(self, name: str) -> Place:
        """Where something of PyTorch's name is; its own name where no row says otherwise."""
        return self._places.get(name) or Place(name)

    def loaded(self, name: str, shape: Tuple[int, ...]) -> None:
        """Remember the shape that PyTorch has it in."""
        if self.place(name).reshape:
            self._shapes[name] = shape

    def views(self, own: List[Tuple[str, str, Any]]) -> List[Tuple[str, str, Any]]:
        """The framework's ``(role, name, tensor)`` by PyTorch's names and in its layout."""
        names = {place.name: name for name, place in self._places.items()}
        views: List[Tuple[str, str, Any]] = []
        for role, own_name, tensor in own:
            name = names.get(own_name, own_name)
            place = self.place(name)
            shape = self._shapes.get(name)
            if place.transpose or shape is not None:
                tensor = StateView(tensor, place.transpose, shape)
            views.append((role, name, tensor))
        return views


class ModuleCall:
    """A module class: its form is called, and what it makes is remembered with its places."""

    def __init__(
        self, call: Callable[..., Any], state: Dict[str, Any], made: Callable[[MadeModule], None]
    ) -> None:
        self._call = call
        self._places: Places = {
            name: None if row is None else Place(**row) for name, row in state.items()
        }
        self._made = made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The new module."""
        module = self._call(*args, **kwargs)
        self._made(MadeModule(module, self._places))
        return module
