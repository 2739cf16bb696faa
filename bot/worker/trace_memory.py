"""Makes what a suite allocates without writing it deterministic, so that it can be an input of a program."""

from typing import Any, Sequence

import torch
from torch.overrides import TorchFunctionMode

_ALLOCATORS = frozenset(
    (
        torch.empty,
        torch.empty_like,
        torch.empty_strided,
        torch.empty_permuted,
        torch.Tensor.new_empty,
        torch.Tensor.new_empty_strided,
        torch.Tensor.new,
        torch.Tensor.resize_,
    )
)


class ZeroedMemory(TorchFunctionMode):  # pyright: ignore[reportUntypedBaseClass]
    """While active, memory that PyTorch would hand out unwritten is zero."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run one call; zero what it allocated."""
        before = _storage_bytes(args[0]) if func is torch.Tensor.resize_ else 0
        result = func(*args, **(kwargs or {}))
        if func in _ALLOCATORS and isinstance(result, torch.Tensor):
            _zero(result, before)
        return result


def _storage_bytes(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().nbytes())


def _zero(tensor: torch.Tensor, start: int) -> None:
    if tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return
    storage = tensor.untyped_storage()
    if storage.nbytes() > start:
        torch.empty(0, dtype=torch.uint8).set_(storage)[start:] = 0
