"""PyTorch's native functions as a released PyTorch has them, for trees of out-of-tree backends, which lack them."""

from __future__ import annotations

from collections import defaultdict
from functools import cache, cached_property

from pydantic import BaseModel, ConfigDict, field_validator

from bot.changes.table_file import read_table


class Native(BaseModel):
    """One native function: the C++ functions that serve it, and the public names that it is reached by."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kernels: tuple[str, ...] = ()
    public: tuple[str, ...] = ()  # without "torch."
    through: tuple[str, ...] = ()  # public names that reach it through another op

    @field_validator("kernels", "public", "through", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Names are written with spaces between them, which keeps the file small."""
        return tuple(value.split()) if isinstance(value, str) else value


class NativeTable(BaseModel):
    """The file ``natives.yml``, made by ``torch_natives_file.py``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    licence: str
    natives: dict[str, Native]
    stubs: dict[str, tuple[str, ...]] = {}

    @field_validator("stubs", mode="before")
    @classmethod
    def _split(cls, value: dict[str, str]) -> dict[str, tuple[str, ...]]:
        return {stub: tuple(names.split()) for stub, names in value.items()}

    @cached_property
    def by_kernel(self) -> dict[str, tuple[str, ...]]:
        """C++ function -> the native functions that it serves."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for base, native in self.natives.items():
            for kernel in native.kernels:
                found[kernel].append(base)
        return {kernel: tuple(bases) for kernel, bases in found.items()}


@cache
def native_table() -> NativeTable:
    """The native functions of the PyTorch release that the file names."""
    return read_table("bot.changes.frameworks.torch", "natives.yml", NativeTable)
