"""Modules for frameworks that have none: PyTorch's state by PyTorch's names, and the function that it is given to.

``nn.Linear(3, 4)`` is then ``nn.functional.linear`` with ``weight`` and ``bias``, by the framework's own form of it, so that
gradients of parameters come from the framework's own differentiation. It has no state but what the program gives it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple

from framework import RefusedError, UnsupportedError

STATISTICS = ("running_mean", "running_var")
UNCOUNTED = "num_batches_tracked"
"""A buffer of PyTorch's that no function reads."""


class FunctionalModule:
    """A function with state. ``names``: its parameters and buffers, which are the function's argument names too."""

    def __init__(
        self, function: Callable[..., Any], names: Tuple[str, ...], options: Mapping[str, Any]
    ) -> None:
        self.training = True
        self._function = function
        self._names = names
        self._options = dict(options)
        self._state: Dict[str, Any] = {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take tensors of its own. Raises RefusedError for unknown names."""
        for name, tensor in state.items():
            if name not in (*self._names, UNCOUNTED):
                raise RefusedError("the module has no parameter or buffer %r" % name)
            if name in self._names:
                self._state[name] = tensor

    def entries(self) -> List[Tuple[str, str, Any]]:
        """``("parameter" | "buffer", name, tensor)`` of all that was loaded, parameters first."""
        found = [
            ("buffer" if name in STATISTICS else "parameter", name, self._state[name])
            for name in self._names
            if name in self._state
        ]
        return sorted(found, key=lambda entry: entry[0] == "buffer")

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """The function's result. Raises UnsupportedError where the program gave it no state."""
        if len(self._state) < len(self._names):
            raise UnsupportedError("a module that begins with numbers of its own")
        options = dict(self._options)
        if STATISTICS[0] in self._names:
            options["training"] = self.training
        return self._function(*inputs, **named, **self._state, **options)


def call(module: Any, *inputs: Any, **named: Any) -> Any:
    """``nn.Module.__call__``."""
    return module(*inputs, **named)


def train(module: Any, mode: bool = True) -> Any:
    """``nn.Module.train``."""
    module.training = mode
    return module


def evaluate(module: Any) -> Any:
    """``nn.Module.eval``."""
    return train(module, False)


METHODS = {"nn.Module.__call__": call, "nn.Module.train": train, "nn.Module.eval": evaluate}
