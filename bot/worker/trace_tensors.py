"""Tensors as programs hold them: exact strides, offsets, aliasing and bytes."""

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch
from trace_values import InexpressibleError, dtype_name

ALIGNMENT = 64

Spec = Dict[str, Any]


def require_plain(tensor: torch.Tensor) -> None:
    """Raise InexpressibleError for what a program has no tensor for: other layouts, other devices, quantized."""
    if tensor.layout is not torch.strided:
        raise InexpressibleError("%s tensor" % str(tensor.layout).split(".")[-1])
    if tensor.is_nested:
        raise InexpressibleError("nested tensor")
    if tensor.is_quantized:
        raise InexpressibleError("quantized tensor")
    if tensor.device.type != "cpu":
        raise InexpressibleError("tensor on device %s" % tensor.device.type)
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise InexpressibleError("tensor subclass %s" % type(tensor).__name__)


def storage_bytes(storage: torch.UntypedStorage) -> bytes:
    """A storage's bytes as they are now."""
    if storage.nbytes() == 0:
        return b""
    flat = torch.empty(0, dtype=torch.uint8).set_(storage)
    return flat.numpy().tobytes()


def _last_byte(spec: Spec, item: int) -> int:
    """How many bytes of its storage a tensor needs."""
    if 0 in spec["shape"]:
        return 0
    steps = ((length - 1) * stride for length, stride in zip(spec["shape"], spec["strides"]))
    return int((spec.get("offset", 0) + sum(steps) + 1) * item)


def _covers_all(spec: Spec, item: int, nbytes: int) -> bool:
    """Whether a tensor reaches every byte of its storage (it is dense, in whatever order of dimensions)."""
    count = 1
    for length in spec["shape"]:
        count *= length
    if count * item != nbytes:
        return False
    step = 1
    for stride, length in sorted(zip(spec["strides"], spec["shape"])):
        if length != 1 and stride != step:
            return False
        step *= length
    return True


def _blank_unreachable(data: bytes, views: List[Tuple[Spec, int]]) -> bytes:
    """The storage with zeros where no tensor reaches: those bytes may never have been written.

    Left as they are, they would differ from process to process, and the program with them.
    """
    if not data or any(_covers_all(spec, item, len(data)) for spec, item in views):
        return data
    reached = np.zeros(len(data), np.bool_)
    for spec, item in views:
        if 0 in spec["shape"]:
            continue
        rows = reached[: len(data) // item * item].reshape(-1, item)
        window = np.lib.stride_tricks.as_strided(
            rows[spec.get("offset", 0) :],
            [*spec["shape"], item],
            [*(stride * item for stride in spec["strides"]), 1],
        )
        window[...] = True
    return np.where(reached, np.frombuffer(data, np.uint8), np.uint8(0)).tobytes()


def _restore(tensor: torch.Tensor, spec: Spec, data: bytes) -> None:
    storage = tensor.untyped_storage()
    if storage.nbytes() != len(data):
        storage.resize_(len(data))
    with torch.no_grad():
        if data:
            flat = torch.empty(0, dtype=torch.uint8).set_(storage)
            flat.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        if list(tensor.shape) != spec["shape"]:
            tensor.set_(storage, spec.get("offset", 0), spec["shape"], spec["strides"])


class TensorTable:
    """The tensors of one program, each with a name, over storages that are copied when first met."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._total = 0
        self._storages: Dict[int, int] = {}
        self._data: List[bytes] = []
        self._alive: List[Any] = []  # keeps ids and storage addresses from being used again
        self._tensors: List[Tuple[torch.Tensor, int]] = []  # with the version that was written down
        self._specs: List[Spec] = []
        self._items: List[int] = []
        self._names: Dict[int, str] = {}
        self._used: Dict[str, int] = {}

    def copy(self) -> "TensorTable":
        """An independent table with the same tensors, for another form of the same case."""
        other = TensorTable(self._max_bytes)
        other._total = self._total
        other._storages = dict(self._storages)
        other._data = list(self._data)
        other._alive = list(self._alive)
        other._tensors = list(self._tensors)
        other._specs = list(self._specs)
        other._items = list(self._items)
        other._names = dict(self._names)
        other._used = dict(self._used)
        return other

    def name_of(self, tensor: torch.Tensor) -> Optional[str]:
        """The name under which this very tensor was added, or None."""
        return self._names.get(id(tensor))

    def fresh_name(self, wish: str) -> str:
        """``wish``, or ``wish_2`` and so on where it is taken."""
        count = self._used.get(wish, 0) + 1
        self._used[wish] = count
        return wish if count == 1 else self.fresh_name("%s_%d" % (wish, count))

    def add(self, tensor: torch.Tensor, wish: str) -> str:
        """Add a tensor as it is now; returns its name. Raises InexpressibleError."""
        known = self.name_of(tensor)
        if known is not None:
            return known
        require_plain(tensor)
        spec: Spec = {
            "name": wish,
            "dtype": dtype_name(tensor.dtype),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
            "storage": self._storage(tensor),
        }
        if tensor.storage_offset():
            spec["offset"] = tensor.storage_offset()
        for key, value in (
            ("requires_grad", tensor.requires_grad),
            ("conj", tensor.is_conj()),
            ("neg", tensor.is_neg()),
        ):
            if value:
                spec[key] = True
        if _last_byte(spec, tensor.element_size()) > len(self._data[spec["storage"]]):
            # An op that raised half-way may have resized the tensor and not its storage.
            raise InexpressibleError("a tensor that reaches outside its storage")
        self._specs.append(spec)
        name = spec["name"] = self.fresh_name(wish)
        self._items.append(tensor.element_size())
        self._names[id(tensor)] = name
        self._alive.append(tensor)
        self._tensors.append((tensor, tensor._version))
        return name

    def restore(self) -> None:
        """Undo what an op did to the tensors: the suite may use the same ones in its next case."""
        for (tensor, version), spec in zip(self._tensors, self._specs):
            if tensor._version != version or list(tensor.shape) != spec["shape"]:
                _restore(tensor, spec, self._data[spec["storage"]])

    def _storage(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            self._total += storage.nbytes()
            if self._total > self._max_bytes:
                raise InexpressibleError("more than %d MiB of data" % (self._max_bytes >> 20))
            self._storages[key] = len(self._data)
            self._data.append(storage_bytes(storage))
            self._alive.append(storage)
        return self._storages[key]

    def without_gradients(self) -> None:
        """No tensor of this table requires a gradient."""
        self._specs = [
            {key: value for key, value in spec.items() if key != "requires_grad"}
            for spec in self._specs
        ]

    def finish(self) -> Tuple[List[Dict[str, int]], List[Spec], bytes]:
        """Storages, tensor specs and the data section."""
        views: Dict[int, List[Tuple[Spec, int]]] = {}
        for spec, item in zip(self._specs, self._items):
            views.setdefault(spec["storage"], []).append((spec, item))
        storages: List[Dict[str, int]] = []
        parts: List[bytes] = []
        at = 0
        for index, data in enumerate(self._data):
            data = _blank_unreachable(data, views.get(index, []))
            storages.append({"offset": at, "nbytes": len(data)})
            padding = -len(data) % ALIGNMENT if index + 1 < len(self._data) else 0
            parts.append(data + b"\0" * padding)
            at += len(data) + padding
        return storages, self._specs, b"".join(parts)
