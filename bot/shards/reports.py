"""The shards' report folders, each read as data from an untrusted run, and which of them belong to one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from bot.errors import OpDiffError
from bot.report.escape import log_line
from bot.report.files import FileError
from bot.report.folder_files import read_folder
from bot.report.read_back import RESULTS, ReportError, RunReport, read_run
from bot.report.results import FailOn, FindingRow, Results
from bot.report.rows import clip

MAX_FOLDERS: Final = 1_000


@dataclass(frozen=True)
class ShardReport:
    """One folder: its name as people know it, and its report, or in ``broken`` one line on why it is refused."""

    name: str
    report: RunReport | None = None
    broken: str = ""

    @property
    def results(self) -> Results:
        """The results of a report that was read."""
        assert self.report is not None
        return self.report.results

    @property
    def findings(self) -> tuple[FindingRow, ...]:
        """The findings of a report that was read; none of a broken one."""
        return () if self.report is None else self.report.results.findings


class _Identity(NamedTuple):
    """What all shards of one run have in common."""

    opdiff: str
    seed: int
    command: str  # a diff's check, or a check of all ops
    framework: str
    base: str
    head: str
    pull_request: int | None
    ops: tuple[str, ...]
    shards: str  # N of K/N
    fail_on: FailOn


def report_folders(folders: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """The folders that hold a report, or stand where one should be: those given, or the folders in them."""
    found: list[tuple[str, Path]] = []
    for folder in folders:
        if not folder.is_dir():
            raise OpDiffError(f"{folder} is not a folder: give the shards' report folders")
        inner = sorted(path for path in folder.iterdir() if path.is_dir() or path.is_symlink())
        if (folder / RESULTS).is_symlink() or (folder / RESULTS).exists():
            inner = [folder]
        found += [(log_line(path.name)[:100], path) for path in inner]
    if len(found) > MAX_FOLDERS:
        raise OpDiffError(f"{len(found)} reports are more than the {MAX_FOLDERS} that are merged")
    return iter(found)


def read_shard(name: str, folder: Path) -> ShardReport:
    """One folder's report as hostile data; what is wrong with it is said in ``broken``."""
    try:
        return ShardReport(name, read_run(read_folder(folder)))
    except (ReportError, FileError, OSError) as error:
        return ShardReport(name, broken=clip(log_line(str(error)), 500))


def one_run(reports: Sequence[ShardReport]) -> tuple[ShardReport, ...]:
    """The reports in an order of their own; those that are of another run than most, or come twice, are broken.

    Where no run has more shards than every other, nobody can say which is meant, and all are broken.
    """
    ordered = sorted(reports, key=_order)
    whole = [one for one in ordered if one.report is not None]
    counted = Counter(_identity(one.results) for one in whole).most_common(2)
    tie = len(counted) == 2 and counted[0][1] == counted[1][1]
    chosen = None if not counted or tie else counted[0][0]
    seen: set[tuple[str, str]] = set()
    checked: list[ShardReport] = []
    for one in ordered:
        why = ""
        if one.report is not None:
            key = (one.results.run.shard, one.results.run.device)
            why = _why_not(one.results, chosen)
            if not why and key in seen:
                why = f"a second report of shard {key[0] or '1/1'} on {key[1]}"
            if not why:
                seen.add(key)
        checked.append(ShardReport(one.name, broken=why) if why else one)
    return tuple(checked)


def _order(one: ShardReport) -> tuple[object, ...]:
    if one.report is None:
        return (1, one.name, one.broken)
    results = one.results
    number, _, of = results.run.shard.partition("/")
    return (0, results.run.device, len(of), of, len(number), number, results.run.started, one.name)


def _identity(results: Results) -> _Identity:
    changes = results.changes
    return _Identity(
        opdiff=results.run.opdiff,
        seed=results.run.seed,
        command="all ops" if changes is None else "a diff",
        framework="" if changes is None else changes.framework,
        base="" if changes is None else changes.base,
        head="" if changes is None else changes.head,
        pull_request=None if changes is None else changes.pull_request,
        ops=() if changes is None else tuple(op.op for op in changes.ops),
        shards=results.run.shard.partition("/")[2],
        fail_on=results.configured_fail_on,
    )


def _why_not(results: Results, chosen: _Identity | None) -> str:
    if chosen is None:
        return "the reports are of different runs, and none has more of them than the others"
    identity = _identity(results)
    for field, mine, theirs in zip(_Identity._fields, identity, chosen, strict=True):
        if mine != theirs:
            return clip(
                log_line(f"of another run: its {field} is {mine!s}, the others' {theirs!s}"), 500
            )
    return ""
