"""Op groups: an op's function, method, in-place, operator and module forms are one op, under one name.

The rule covers the regular forms (``Tensor.add_`` -> ``add``); ``op_groups.yml`` holds the others, with their sources.
"""

from __future__ import annotations

import importlib.resources
from functools import cache
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

_METHOD = "Tensor."
_GETTER = ".__get__"

SameCall = Literal["plain", "in place", "reversed"]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    groups: dict[str, list[str]]


class _Names(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    names: str

    def split(self) -> list[str]:
        return self.names.split()


class _File(BaseModel):
    """``op_groups.yml``: group -> the irregular names of its other forms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    aliases: _Table
    functional: _Names
    variants: _Table
    reordered: _Names
    operators: _Table
    methods: _Names
    modules: _Table


class OpGroups:
    """Canonical op names to op groups."""

    def __init__(
        self,
        groups: dict[str, str],
        methods: frozenset[str],
        same: dict[str, str] | None = None,
        reordered: frozenset[str] = frozenset(),
    ) -> None:
        self._groups = groups
        self._methods = methods
        self._same = same or {}
        self._reordered = reordered

    @property
    def irregular(self) -> dict[str, str]:
        """The names that no rule covers, and their groups."""
        return dict(self._groups)

    def of(self, name: str) -> str:
        """The op group of a canonical name; a name that nothing is known of is its own group."""
        name = name.removesuffix(_GETTER)
        if name in self._groups:
            return self._groups[name]
        for form in _regular_forms(name):
            if form in self._methods:
                return form
            if form.startswith(_METHOD):
                continue
            return self._groups.get(form, form)
        return name

    def same_call(self, name: str) -> tuple[str, SameCall] | None:
        """The function that a form of it takes the same arguments as, and how the form calls it.

        ``Tensor.add`` and ``Tensor.__add__`` -> ``("add", "plain")``, ``Tensor.add_`` -> ``("add", "in place")``,
        ``Tensor.__radd__`` -> ``("add", "reversed")``; None for a name that is no such form, or whose
        arguments come in another order.
        """
        plain = name.removeprefix(_METHOD)
        if plain != name and plain.removesuffix("_") in self._reordered:
            return None
        if plain in self._same:
            return self._same[plain], "plain"
        if plain.startswith("__"):
            return self._operator(plain)
        if plain.endswith("_") and plain != "_":
            function = plain.removesuffix("_")
            return self._same.get(function, function), "in place"
        return (plain, "plain") if plain != name else None

    def _operator(self, operator: str) -> tuple[str, SameCall] | None:
        function = self._groups.get(operator)
        if function is None:
            return None
        # __radd__ and __iadd__ stand beside __add__; beside __rshift__ and __invert__ there is no such other.
        if self._groups.get("__" + operator[3:]) != function:
            return function, "plain"
        return function, "in place" if operator.startswith("__i") else "reversed"


def _regular_forms(name: str) -> list[str]:
    """The name and what remains without in-place underscore and ``Tensor.``, the most specific first."""
    last = name.rsplit(".", 1)[-1]
    dunder = last.startswith("__")
    plain = name if dunder or last == "_" else name.removesuffix("_")
    forms = [name, plain] if name.startswith(_METHOD) else [plain]
    if name.startswith(_METHOD):
        forms.append(plain.removeprefix(_METHOD))
    return forms


@cache
def op_groups() -> OpGroups:
    """The groups of ``op_groups.yml``. Raises ValueError for a file that contradicts itself."""
    text = importlib.resources.files("bot.programs").joinpath("op_groups.yml").read_text("utf-8")
    return load_op_groups(text)


def load_op_groups(text: str) -> OpGroups:
    """Groups from the YAML text. Raises ValueError (pydantic's too) for a bad or contradictory file."""
    file = _File.model_validate(yaml.safe_load(text))
    groups: dict[str, str] = {}
    for table in (file.aliases, file.variants, file.operators, file.modules):
        for group, names in table.groups.items():
            for name in names:
                _add(groups, name, group)
    for name in file.functional.split():
        _add(groups, name, f"nn.functional.{name}")
    for group in set(groups.values()):
        if group in groups:
            raise ValueError(f"op group {group!r} is itself listed as a form of {groups[group]!r}")
    same = {name: group for group, names in file.aliases.groups.items() for name in names}
    reordered = frozenset(file.reordered.split())
    return OpGroups(groups, frozenset(file.methods.split()), same, reordered)


def _add(groups: dict[str, str], name: str, group: str) -> None:
    if name in groups:
        raise ValueError(f"{name!r} is listed under two op groups, {groups[name]!r} and {group!r}")
    groups[name] = group


def group_of(name: str) -> str:
    """The op group of a canonical op name: ``Tensor.add_`` -> ``add``, ``nn.Conv2d`` -> ``nn.functional.conv2d``."""
    return op_groups().of(name)
