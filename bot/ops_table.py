"""``opdiff ops``: the ops that programs exist for, and which of them each framework offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bot.defaults import defaults_of
from bot.errors import OpDiffError
from bot.programs.op_groups import group_of
from bot.targets.launcher import open_worker
from bot.targets.resolve import resolve
from bot.targets.target import parse_target
from bot.workshop import Workshop


@dataclass(frozen=True)
class OpLine:
    """One op group: the canonical names of its forms, its entries, and the forms that the framework has."""

    op: str
    forms: tuple[str, ...]
    entries: int
    offered: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpsTable:
    """All ops; ``framework`` is the environment whose names were asked for, or None."""

    lines: tuple[OpLine, ...]
    framework: str | None

    def to_json(self) -> dict[str, Any]:
        """``{"framework", "ops": [{"op", "forms", "entries", "offered"}], "offered", "total"}``."""
        return {
            "framework": self.framework,
            "total": len(self.lines),
            "offered": sum(bool(line.offered) for line in self.lines) if self.framework else None,
            "ops": [
                {
                    "op": line.op,
                    "forms": list(line.forms),
                    "entries": line.entries,
                    **({"offered": list(line.offered)} if self.framework else {}),
                }
                for line in self.lines
            ],
        }

    def print(self, console: Console) -> None:
        """A table, and a last line that counts."""
        table = Table("op", "forms", "entries", *([self.framework] if self.framework else []))
        for line in self.lines:
            cells = [line.op, str(len(line.forms)), str(line.entries)]
            if self.framework:
                cells.append(f"{len(line.offered)} of {len(line.forms)}" if line.offered else "-")
            table.add_row(*cells)
        console.print(table)
        if self.framework:
            offered = sum(bool(line.offered) for line in self.lines)
            console.print(
                f"{offered} of {len(self.lines)} ops are there by name in {self.framework}"
            )
        else:
            console.print(f"{len(self.lines)} ops")


def list_ops(workshop: Workshop, framework: str | None) -> OpsTable:
    """The table. ``framework`` is a name (its default release) or an environment's spec. Raises TargetError."""
    spec = None
    offered: set[str] = set()
    if framework is not None:
        spec = release_of(framework, workshop)
        offered = _names(spec, workshop)
    with workshop.source() as source:
        index = source.index()
        lines = tuple(
            OpLine(
                op,
                forms := tuple(
                    sorted(
                        {
                            name
                            for entry in index.entries_of(op)
                            for name in (*entry.names, *entry.calls)
                            if group_of(name) == op
                        }
                    )
                ),
                len(index.entries_of(op)),
                tuple(name for name in forms if name in offered),
            )
            for op in index.groups
        )
    return OpsTable(lines, spec)


def release_of(framework: str, workshop: Workshop) -> str:
    """A requirement as it is, a framework as its default release. Raises OpDiffError for one that has none."""
    if "=" in framework:
        return framework
    recipes = workshop.store.recipes
    if framework not in recipes.frameworks():
        raise OpDiffError(
            f"--framework {framework}: no such framework: {recipes.near_names(framework)}"
        )
    try:
        return defaults_of(framework).baseline
    except OpDiffError:
        raise OpDiffError(
            f"--framework {framework}: it has no default release: name one, as in {framework}==1.2.3"
        ) from None


def _names(spec: str, workshop: Workshop) -> set[str]:
    target = resolve(parse_target(f"{spec}:cpu"), workshop.store)
    with open_worker(target, workshop.limits, hello_options=workshop.hello_options) as worker:
        for header, _ in worker.ask({"type": "names"}, until="names", seconds=60):
            return {str(name) for name in header.get("names", [])}
    return set()
