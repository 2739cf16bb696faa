"""OneFlow's ``nn.Graph`` around a program's calls: forward as one graph, then forward and backward as another.

A static graph makes its backward itself, from a loss, when it is compiled with an optimizer. So the loss is the sum of
each output times the gradient that it is to be given, whose derivatives are exactly the asked ones, and the optimizer
has a parameter of its own and a learning rate of 0. There modules' parameters and buffers enter as inputs, so that
gradients can be had like any input's.

The forward graph comes first and alone, with modules registered as users do: what has no gradient has its results all
the same, and buffers are written to once.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import oneflow
from framework import Backward, UnsupportedError
from program_function import ProgramFunction

_Module: Any = oneflow.nn.Module
_Graph: Any = oneflow.nn.Graph


class _Anchor(_Module):
    """The parameter that the optimizer is there for."""

    def __init__(self) -> None:
        super().__init__()
        self.value = oneflow.nn.Parameter(oneflow.zeros(1))

    def forward(self) -> Any:
        return self.value


class _State:
    """A module's parameter or buffer, and where it is kept."""

    def __init__(self, slots: Dict[str, Any], name: str) -> None:
        self._slots = slots
        self._name = name
        self.tensor = self._slots[name]

    def put(self, tensor: Any) -> None:
        self._slots[self._name] = tensor


class GraphRun:
    """One program's graphs. ``broken``: OneFlow cannot compile another graph in this process."""

    def __init__(self, program: ProgramFunction, inputs: Sequence[Any], backward: Backward) -> None:
        self._program = program
        self._inputs = list(inputs)
        self._backward = backward
        self._state = [
            _State(slots, name)
            for _, module in program.modules
            for owner in module.modules()
            for slots in (owner._parameters, owner._buffers)
            for name, tensor in slots.items()
            if tensor is not None
        ]
        self.broken = False

    def forward(self) -> List[Any]:
        """The results of the program's calls. Raises what building, compiling or running the graph raises."""
        shape: List[Any] = []
        scope = self._program.function.__globals__

        def register(graph: Any) -> None:
            for name, module in self._program.modules:
                setattr(graph, name, module)
                scope[name] = getattr(graph, name)

        def build(*given: Any) -> List[Any]:
            tensors: List[Any] = []
            results = self._program.function(*given)
            shape.append([_taken_apart(result, tensors) for result in results])
            return tensors

        try:
            tensors = self._run(build, [tensor.detach() for tensor in self._inputs], register)
        finally:
            scope.update(self._program.modules)
        return [_put_together(result, tensors) for result in shape[-1]]

    def gradients(self) -> List[Tuple[Any, Optional[Any]]]:
        """``(leaf, its gradient or None)`` for every input and parameter that wants one."""
        leaves = [*self._inputs, *(state.tensor for state in self._state)]
        wanted = [index for index, leaf in enumerate(leaves) if leaf.requires_grad]
        count = len(leaves)
        anchor = _Anchor()
        present: List[List[bool]] = []

        def build(*given: Any) -> List[Any]:
            for index in wanted:
                given[index].requires_grad_()
            results = self._call(given[:count])
            loss = graph_anchor().sum()
            for (place, path, _), gradient in zip(self._backward, given[count:]):
                output = results[place]
                for step in path:
                    output = output[step]
                if not output.requires_grad:
                    raise UnsupportedError("oneflow has no gradient for what made this output")
                product = output * gradient
                # The sum of a tensor of rank 0 has a gradient of which graphs die.
                total = product.sum() if product.ndim else product
                loss = loss + total.to(oneflow.float32)
            loss.backward()
            found = [given[index].grad for index in wanted]
            present.append([gradient is not None for gradient in found])
            return [gradient for gradient in found if gradient is not None]

        graph_anchor: Any = anchor
        given = [leaf.detach() for leaf in leaves]
        given += [gradient.detach() for _, _, gradient in self._backward]

        def register(graph: Any) -> None:
            nonlocal graph_anchor
            graph.anchor = anchor
            graph_anchor = graph.anchor
            graph.add_optimizer(oneflow.optim.SGD(anchor.parameters(), lr=0.0))

        found = iter(self._run(build, given, register))
        return [
            (leaves[index], next(found) if there else None)
            for index, there in zip(wanted, present[-1])
        ]

    def _call(self, given: Sequence[Any]) -> Sequence[Any]:
        """The program's function on a graph's tensors, modules' parameters and buffers among them."""
        count = len(self._inputs)
        try:
            for state, tensor in zip(self._state, given[count:]):
                state.put(tensor)
            return self._program.function(*given[:count])
        finally:
            for state in self._state:
                state.put(state.tensor)

    def _run(
        self,
        build: Callable[..., List[Any]],
        given: Sequence[Any],
        register: Callable[[Any], None],
    ) -> List[Any]:
        """Build a graph, run it once, and return its outputs, which are at least one."""
        built: List[int] = []
        stopped: List[Exception] = []

        class ProgramGraph(_Graph):
            def __init__(self) -> None:
                super().__init__()
                register(self)

            def build(self, *tensors: Any) -> Any:
                try:
                    outputs = build(*tensors)
                except Exception as error:
                    stopped.append(error)
                    raise
                built.append(len(outputs))
                return tuple(outputs)

        try:
            outputs = ProgramGraph()(*given)
        except Exception:
            self.broken = bool(built)
            if stopped:
                raise stopped[-1] from None
            raise
        if built[-1] == 1 and not isinstance(outputs, (tuple, list)):
            return [outputs]
        return list(outputs or ())


class _Place(int):
    """Where in a graph's outputs a tensor is."""


def _taken_apart(result: Any, tensors: List[Any]) -> Any:
    """A result with places for its tensors, which are appended to the list."""
    if isinstance(result, oneflow.Tensor):
        tensors.append(result)
        return _Place(len(tensors) - 1)
    if isinstance(result, (list, tuple)) and not isinstance(result, oneflow.Size):
        return type(result)([_taken_apart(item, tensors) for item in result])
    return result


def _put_together(result: Any, tensors: Sequence[Any]) -> Any:
    if isinstance(result, _Place):
        return tensors[result]
    if isinstance(result, (list, tuple)) and not isinstance(result, oneflow.Size):
        return type(result)([_put_together(item, tensors) for item in result])
    return result
