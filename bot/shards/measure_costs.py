"""Writes ``costs.yml`` anew for another pinned release: ``python -m bot.shards.measure_costs``, about an hour on one core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console

from bot.atomic_file import write_atomically
from bot.plan import CHECK_DTYPES
from bot.programs.opinfo_source import PINNED_RELEASE, OpInfoSource
from bot.programs.source import SourceCounts, SourceEntry, SourceRequest
from bot.progress import Progress
from bot.shards.costs import FILE, Row
from bot.targets.environment_store import EnvironmentStore
from bot.workshop import Workshop


def measured_costs(source: OpInfoSource) -> dict[str, Row]:
    """The rows of ``costs.yml``, by tracing everything that the source has."""
    index = source.index()
    entries = {entry: _entry_cost(entry, source) for entry in source.entries()}
    return {group: _sum(entries[e] for e in index.entries_of(group)) for group in index.groups}


def _entry_cost(entry: SourceEntry, source: OpInfoSource) -> Row:
    others = tuple(d for d in CHECK_DTYPES if d != "float32" and d in entry.dtypes)
    narrow = tuple(d for d in ("float32",) if d in entry.dtypes)
    # Error inputs have dtypes of their own.
    few = _traced(SourceRequest(entry, narrow), source)
    return few + _traced(SourceRequest(entry, others, ("sample", "reference")), source), few


def _traced(request: SourceRequest, source: OpInfoSource) -> int:
    return sum(1 for _ in source.programs([request], SourceCounts()))


def _sum(rows: Iterable[Row]) -> Row:
    programs, few = zip(*rows, strict=True)
    return sum(programs), sum(few)


def op_costs_text(rows: dict[str, Row]) -> str:
    """The text of ``costs.yml``."""
    return "".join(_lines(rows))


def _lines(rows: dict[str, Row]) -> Iterator[str]:
    yield "# What each op group costs. Written by `python -m bot.shards.measure_costs`; see bot/shards/costs.py.\n"
    yield "# group: [programs in all dtypes of a check, programs in float32]\n"
    yield f"source: OpInfos and ModuleInfos of {PINNED_RELEASE}, traced\n"
    yield f"release: {PINNED_RELEASE}\n"
    yield "groups:\n"
    for group, (programs, few) in sorted(rows.items()):
        yield f"  {group}: [{programs}, {few}]\n"


def main() -> None:
    """Write ``costs.yml`` anew."""
    progress = Progress(Console(stderr=True), quiet=False)
    with (
        EnvironmentStore(progress=progress.note) as store,
        Workshop(store, progress).source() as source,
    ):
        text = op_costs_text(measured_costs(source))
    write_atomically(FILE, text.encode())


if __name__ == "__main__":
    main()
