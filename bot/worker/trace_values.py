"""Python values in the program's value grammar; what the grammar cannot say is told by reason."""

import math
from typing import Any, Callable, Dict, Optional, Sequence, Union

import numpy as np
import torch
import trace_names

MAX_DEPTH = 12


class InexpressibleError(Exception):
    """A case cannot be written as a program; the message is the reason that it is counted under."""


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).split(".")[-1]


def float_value(value: float) -> Union[float, str]:
    """A finite float itself; NaN, infinities and negative zero by their names."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0 and math.copysign(1.0, value) < 0:
        return "-0.0"
    return value


def _device(device: torch.device) -> Dict[str, Any]:
    if device.type == "cpu":
        return {"device": "target"}
    if device.type == "meta":
        return {"device": "meta"}
    raise InexpressibleError("device %s as an argument" % device.type)


def _generator(generator: Any) -> Dict[str, Any]:
    return {"generator": int(generator.initial_seed())}


def _number(value: Any) -> Any:
    if isinstance(value, float):
        plain = float_value(value)
        return {"float": plain} if isinstance(plain, str) else plain
    return {"complex": [float_value(value.real), float_value(value.imag)]}


class ValueEncoder:
    """Encodes arguments. ``reference`` gives the value of a tensor, or of a result that is no tensor (else None)."""

    def __init__(
        self,
        reference: Callable[[Any, str], Optional[Dict[str, Any]]],
    ) -> None:
        self._reference = reference

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """``value`` in the grammar; ``where`` names a tensor met for the first time. Raises InexpressibleError."""
        if depth > MAX_DEPTH:
            raise InexpressibleError("arguments nested too deep")
        if value is None or isinstance(value, (bool, str)):
            return value
        reference = self._reference(value, where)
        if reference is not None:
            return reference
        if isinstance(value, np.generic):
            return self.encode(value.item(), where, depth + 1)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, (float, complex)):
            return _number(value)
        if isinstance(value, torch.Size):
            return {"size": [int(length) for length in value]}
        if isinstance(value, list):
            return self._items(value, where, depth)
        if isinstance(value, tuple):
            return {"tuple": self._items(value, where, depth)}
        if isinstance(value, dict):
            return {
                "dict": [
                    [
                        self.encode(key, where, depth + 1),
                        self.encode(entry, "%s_%s" % (where, key), depth + 1),
                    ]
                    for key, entry in value.items()
                ]
            }
        return self._framework_value(value, where, depth)

    def _items(self, values: Sequence[Any], where: str, depth: int) -> Any:
        return [
            self.encode(item, "%s_%d" % (where, index), depth + 1)
            for index, item in enumerate(values)
        ]

    def _framework_value(self, value: Any, where: str, depth: int) -> Any:
        if isinstance(value, torch.dtype):
            return {"dtype": dtype_name(value)}
        if isinstance(value, torch.device):
            return _device(value)
        if isinstance(value, torch.layout):
            return {"layout": str(value).split(".")[-1]}
        if isinstance(value, torch.memory_format):
            return {"memory_format": str(value).split(".")[-1]}
        if isinstance(value, torch.Generator):
            return _generator(value)
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return {"slice": [self.encode(part, where, depth + 1) for part in parts]}
        if value is Ellipsis:
            return {"ellipsis": True}
        if callable(value) and not isinstance(value, type):
            name = trace_names.function_name(value)
            if name is not None:
                return {"fn": name}
            raise InexpressibleError("a function without a public name as an argument")
        raise InexpressibleError("an argument of type %s" % type(value).__name__)


def keyword_value(name: str, value: Any) -> Any:
    """``device="cpu"`` means the device that the program runs on."""
    return torch.device(value) if name == "device" and isinstance(value, str) else value
