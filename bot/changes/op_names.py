"""Public names of frameworks to canonical ops, in the words of the reports.

The names that differ from PyTorch's are rows of ``framework_names.yml``, by framework: a framework's own file adds its rows
there and needs no code here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from pydantic import BaseModel, ConfigDict, Field, RootModel

from bot.changes.table_file import read_table
from bot.programs.op_groups import group_of

OpGroup = Callable[[str], str]


class TorchNames(BaseModel):
    """The file ``torch_names.yml``: public callables of PyTorch, without ``torch.``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    names: frozenset[str]


class FrameworkNames(BaseModel):
    """One framework's rows of ``framework_names.yml``; names are without the framework in front.

    ``prefixes``: the framework's module -> PyTorch's, each ending in a dot or empty, tried in order. ``ops``: canonical op ->
    names that no prefix leads to; a canonical op that PyTorch lacks is written with the framework in front.
    ``own``: names that mean something else in PyTorch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str = Field(min_length=3)
    prefixes: dict[str, str] = {}
    ops: dict[str, list[str]] = {}
    own: frozenset[str] = frozenset()

    def row_of(self, name: str) -> str:
        """The canonical op that a row gives a name; "" when none does."""
        return next((op for op, names in self.ops.items() if name in names), "")


class _File(RootModel[dict[str, FrameworkNames]]):
    """The file ``framework_names.yml``."""


@cache
def torch_names() -> frozenset[str]:
    """The public callables of PyTorch, without ``torch.``."""
    return read_table("bot.changes", "torch_names.yml", TorchNames).names


@cache
def framework_names(framework: str) -> FrameworkNames:
    """A framework's rows; none for one that calls everything as PyTorch does."""
    file = read_table("bot.changes", "framework_names.yml", _File)
    return file.root.get(framework, FrameworkNames(source="no rows"))


def canonical_op(alias: str, framework: str, group: OpGroup = group_of) -> str:
    """The op group of a framework's public name; what PyTorch lacks keeps the framework in front.

    A Tensor method or in-place form counts as PyTorch's when PyTorch has the op at all (``Tensor.softmax_`` is ``softmax``).
    """
    name = alias.removeprefix(framework + ".")
    if framework == "torch":
        return group(name)
    rows = framework_names(framework)
    if name in rows.own:
        return alias
    row = rows.row_of(name)
    if row:
        return group(row)
    for known in _spellings(name, rows):
        if known in torch_names():
            return group(known)
        if group(known) in torch_names():
            return group(known)
    return alias


def _spellings(name: str, rows: FrameworkNames) -> Iterator[str]:
    """What PyTorch might call it: as it is, or with a module of the framework's taken for one of PyTorch's."""
    names = [name, name.removeprefix("Tensor.")]
    names += [
        ours + name.removeprefix(p) for p, ours in rows.prefixes.items() if name.startswith(p)
    ]
    for spelled in names:
        yield spelled
        yield f"nn.functional.{spelled}"
