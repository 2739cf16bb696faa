"""A framework of NumPy alone: what the worker's own code can be tested with, in a real process."""

from __future__ import annotations

import ctypes
import os
import random
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

WORKER = Path(__file__).parents[3] / "bot" / "worker"
sys.path.insert(0, str(WORKER))  # this file runs in a worker's process, never in a test's

from framework import Framework, UnsupportedError  # noqa: E402


class Tensor:
    """A NumPy array with a gradient."""

    def __init__(self, array: np.ndarray, parents: tuple[tuple[Tensor, Any], ...] = ()) -> None:
        self.array = array
        self.parents = parents
        self.requires_grad = any(parent.requires_grad for parent, _ in parents)
        self.grad: Tensor | None = None


def add(a: Tensor, b: Tensor) -> Tensor:
    return Tensor(a.array + b.array, ((a, lambda g: g), (b, lambda g: g)))


def mul(a: Tensor, b: Tensor) -> Tensor:
    return Tensor(a.array * b.array, ((a, lambda g: g * b.array), (b, lambda g: g * a.array)))


def add_(a: Tensor, b: float) -> Tensor:
    a.array += b
    return a


def minmax(a: Tensor) -> tuple[Tensor, Tensor]:
    return Tensor(a.array.min()), Tensor(a.array.max())


def fail(message: str) -> None:
    raise ValueError(f"{message} at 0x7f00deadbeef, id=140001234567")


def scale(a: Tensor, *, factor: float = 2.0, mode: str = "plain") -> Tensor:
    return Tensor(a.array * np.array(factor, a.array.dtype))


def draw() -> Tensor:
    return Tensor(np.array([random.random(), np.random.rand()]))


def leave_mess(a: Tensor) -> Tensor:
    random.seed(1)
    np.random.seed(1)
    return a


def shout() -> str:
    print("printed to stdout")
    os.write(2, b"written to stderr\n")
    return "quiet"


class Doubler:
    """A module: one parameter, one buffer that counts."""

    def __init__(self, size: int) -> None:
        self.weight = Tensor(np.full(size, 2.0, np.float32))
        self.weight.requires_grad = True
        self.count = Tensor(np.array(0, np.int64))

    def __call__(self, x: Tensor) -> Tensor:
        self.count.array += 1
        return mul(x, self.weight)


class FakeFramework(Framework):
    name = "fake"

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__()
        self.compiles = "compile" in options
        self.how = options.get("compile", "")
        self.ran = False
        self.table = {
            "add": add,
            "mul": mul,
            "Tensor.add_": add_,
            "minmax": minmax,
            "fail": fail,
            "scale": scale,
            "draw": draw,
            "leave_mess": leave_mess,
            "shout": shout,
            "die": os.abort,
            "identity": lambda value: value,
            "apply": lambda function, *args: function(*args),
            "nn.Doubler": Doubler,
            "nn.Module.__call__": lambda module, *args: module(*args),
        }
        self.known = frozenset(self.table) | {"only_elsewhere"}

    def facts(self) -> dict[str, Any]:
        return {"version": "0", "device": "cpu"}

    def reset(self, seed: int) -> None:
        if self.how == "spoiled" and self.ran:
            self.spoiled = True
            raise RuntimeError("an earlier program has stopped the machine")
        random.seed(seed)
        np.random.seed(seed)

    def owned(self, dtype: str, shape: Any, address: int, nbytes: int) -> tuple[Any, Any]:
        memory = self.storage(dtype, address, nbytes)
        return Tensor(memory.reshape(shape)), memory

    def storage(self, dtype: str, address: int, nbytes: int) -> Any:
        if dtype == "bfloat16":
            raise UnsupportedError("fake has no bfloat16")
        return np.frombuffer(ctypes.string_at(address, nbytes), dtype).copy()

    def view(self, storage: Any, dtype: str, shape: Any, strides: Any, offset: int, *bits: bool):
        steps = [step * storage.itemsize for step in strides]
        return Tensor(np.lib.stride_tricks.as_strided(storage[offset:], shape, steps))

    def require_grad(self, tensor: Tensor) -> None:
        tensor.requires_grad = True

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Tensor)

    def read(self, tensor: Tensor) -> tuple[str, list[int], bytes]:
        return tensor.array.dtype.name, list(tensor.array.shape), tensor.array.tobytes()

    def changed(self, storage: Any, address: int, nbytes: int) -> bool:
        return storage.tobytes() != ctypes.string_at(address, storage.nbytes)

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        return tensor.array.shape

    def backward(self, outputs: list[Tensor], gradients: list[Tensor]) -> None:
        for output, gradient in zip(outputs, gradients, strict=True):
            self._propagate(output, gradient.array)

    def _propagate(self, tensor: Tensor, gradient: np.ndarray) -> None:
        if not tensor.parents and tensor.requires_grad:
            total = gradient if tensor.grad is None else tensor.grad.array + gradient
            tensor.grad = Tensor(total)
        for parent, rule in tensor.parents:
            self._propagate(parent, rule(gradient))

    def run_compiled(self, program: Any, inputs: list[Tensor], backward: Any) -> Any:
        """One function of its inputs; ``how`` says what goes wrong."""
        if self.how == "slow" and "f1" in program.source:
            try:
                time.sleep(30)
            except Exception:
                raise RuntimeError("a compiler goes on in some other way") from None
        self.worn = self.how == "worn"
        self.ran = True
        results = program.function(*inputs)
        if self.how == "wrong":
            first = results[0]
            results = (Tensor(first.array + 1, ((first, lambda g: g),)), *results[1:])
        return results

    def gradient(self, leaf: Tensor) -> Tensor | None:
        return leaf.grad

    def is_module(self, value: Any) -> bool:
        return isinstance(value, Doubler)

    def module_state(self, module: Doubler) -> list[tuple[str, str, Any]]:
        return [("parameter", "weight", module.weight), ("buffer", "count", module.count)]

    def load_state(self, module: Doubler, state: dict[str, Tensor]) -> None:
        for key, tensor in state.items():
            getattr(module, key).array = tensor.array

    def is_fatal(self, error: Exception) -> bool:
        return "device lost" in str(error)

    def argument(self, key: str, value: Any) -> Any:
        if value == "impossible":
            raise RuntimeError("no such generator")
        return (key, value)


def main() -> int:
    """The worker's own main, with this framework in place of a real one."""
    worker = runpy.run_path(str(WORKER / "__main__.py"))
    return worker["main"](
        sys.argv[1:], make_framework=lambda hello: FakeFramework(hello["options"])
    )


if __name__ == "__main__":
    sys.exit(main())
