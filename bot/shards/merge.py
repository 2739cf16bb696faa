"""``opdiff merge``: the shards' reports into one. Each is read as data from an untrusted run.

folders -> reports -> those of one run -> findings, coverage and counts together -> one report

The order of the folders does not matter: equal sets of reports give equal results. One cause in several shards is one
finding; counts add up (a program that two shards ran counts in both); what is missing is said.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from bot.errors import OpDiffError
from bot.failing import result_of
from bot.report.bundle import FindingBundle
from bot.report.files import FileError
from bot.report.finding_folder import FINDINGS
from bot.report.read_back import RESULTS, ReportError
from bot.report.results import MAX_ROWS, FailOn, FindingRow, OpCoverage, Results, RunFacts, ShardRow
from bot.report.rows import clip, finding_from_row, note_rows
from bot.report.write import write_report
from bot.shards.merged_rows import (
    merged_counts,
    merged_coverage,
    merged_finding,
    merged_targets,
    preference,
)
from bot.shards.reports import MAX_FOLDERS, ShardReport, one_run, read_shard, report_folders
from bot.summary import not_tested

Copy = tuple[int, str]
"""A report's number, and the fingerprint of a finding of it."""


def merge(
    folders: Sequence[Path],
    expected: int,
    out: Path,
    fail_on: FailOn | None = None,
    accepted: Collection[str] = (),
) -> Results:
    """Read the shards' reports, write one below ``out``, and return its results. Raises OpDiffError.

    ``folders`` are reports, or folders of reports. ``expected`` is how many there should be. ``fail_on`` None is what
    the shards' configuration says. ``accepted`` are fingerprints of findings that a person called an expected change.
    """
    _refuse_inside(out, folders)
    reports = one_run([read_shard(name, folder) for name, folder in report_folders(folders)])
    results = merged_results(reports, expected, fail_on, accepted)
    _make_room(out)
    return write_report(out, results, _bundles(reports)).results


def merged_results(
    reports: Sequence[ShardReport],
    expected: int,
    fail_on: FailOn | None = None,
    accepted: Collection[str] = (),
) -> Results:
    """The results of all shards together; the findings still name the folders of their shards."""
    whole = [one.results for one in reports if one.report is not None]
    shards = (*map(_shard_row, reports), *_lost(whole, expected - len(reports)))
    missing = [_said(shard) for shard in shards if shard.state != "whole"]
    if len(reports) > expected:
        missing.append(f"there are {len(reports)} reports, and {expected} were expected")
    coverage = merged_coverage(whole)
    missing += _uncovered(whole, coverage, bool(missing))
    findings = tuple(_excused(row, accepted) for row in _findings(reports).values())
    shortfalls = list(dict.fromkeys([*missing, *_shortfalls(whole)]))
    notes = dict.fromkeys([*shortfalls, *_different(whole), *(n for r in whole for n in r.notes)])
    configured = whole[0].configured_fail_on if whole else "candidate"
    counted = fail_on or configured
    return Results(
        result=result_of(findings, counted, bool(shortfalls)),
        fail_on=counted,
        configured_fail_on=configured,
        run=_run(whole),
        targets=merged_targets(whole),
        changes=whole[0].changes if whole else None,
        coverage=coverage,
        counts=merged_counts([results.counts for results in whole]),
        findings=findings,
        notes=note_rows(tuple(notes)),
        shortfalls=note_rows(shortfalls),
        shards=shards,
    )


def _excused(row: FindingRow, accepted: Collection[str]) -> FindingRow:
    if row.fingerprint not in accepted:
        return row
    return row.model_copy(update={"ignored": "accepted: an expected change of this pull request"})


def _shard_row(one: ShardReport) -> ShardRow:
    if one.report is None:
        return ShardRow(state="broken", note=clip(f"{one.name}: {one.broken}"))
    results = one.results
    return ShardRow(
        shard=results.run.shard,
        device=results.run.device,
        state="whole",
        result=results.result,
        findings=len(results.findings),
        started=results.run.started,
        finished=results.run.finished,
    )


def _lost(whole: Sequence[Results], number: int) -> list[ShardRow]:
    """Rows of shards of which there is no report; named where the others' numbers tell which they are."""
    if number <= 0:
        return []
    there = {(results.run.shard, results.run.device) for results in whole}
    parts = {int(of) for shard, _ in there if (of := shard.partition("/")[2]).isdecimal()}
    devices = sorted({device for _, device in there if device})
    named = [
        (f"{part}/{count}", device)
        for count in parts
        for device in devices
        for part in range(1, min(count, MAX_FOLDERS) + 1)
        if not {(f"{part}/{count}", device), (f"{part}/{count}", "")} & there
    ]
    if len(named) != number:  # a whole device may be lost: nobody here knows its name
        named = [("", "")] * number
    return [
        ShardRow(shard=shard, device=device, state="lost", note="there is no report of it")
        for shard, device in named[:MAX_FOLDERS]
    ]


def _said(shard: ShardRow) -> str:
    name = " ".join(filter(None, ("shard", shard.shard, shard.device and f"on {shard.device}")))
    if shard.state == "lost":
        return f"{name if shard.shard else 'a shard'} is lost: {shard.note}; see its job's log"
    return f"a shard is broken: {shard.note}"


def _uncovered(
    whole: Sequence[Results], coverage: Sequence[OpCoverage], is_missing: bool
) -> list[str]:
    """The changed ops of which no shard says anything."""
    if not whole or whole[0].changes is None:
        return []
    spoken_of = {row.op for row in coverage}
    ops = [op.op for op in whole[0].changes.ops if op.op not in spoken_of]
    why = "its shard gave no report" if is_missing else "no shard ran it"
    return [clip(f"{op} is not tested: {why}") for op in ops]


def _run(whole: Sequence[Results]) -> RunFacts:
    """The first shard's facts, with the time from the first's start to the last's end."""
    if not whole:
        return RunFacts(opdiff=version("opdiff"))
    runs = [results.run for results in whole]
    budgets = [run.budget_seconds for run in runs if run.budget_seconds is not None]
    return runs[0].model_copy(
        update={
            "shard": "",
            "device": "",
            "started": min((run.started for run in runs), key=_moment),
            "finished": max((run.finished for run in runs), key=_moment),
            "budget_seconds": sum(budgets) if budgets else None,
        }
    )


def _moment(text: str) -> tuple[float, str]:
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp(), text
    except (ValueError, OverflowError, OSError):
        return 0.0, text


def _different(whole: Sequence[Results]) -> list[str]:
    """What the shards' machines do not have in common and a reader must know."""
    notes: list[str] = []
    machines = sorted({f"{r.run.cpu} ({r.run.instruction_set})" for r in whole if r.run.cpu})
    if len(machines) > 1:
        notes.append(clip(f"the shards ran on different CPUs: {', '.join(machines)}"))
    builds: dict[str, set[str]] = {}
    for results in whole:
        for target in results.targets:
            if target.failed is None:
                builds.setdefault(target.label, set()).add(target.digest)
    notes += [
        clip(f"{label} was not the same build in every shard: compare their findings with care")
        for label, digests in sorted(builds.items())
        if len(digests) > 1
    ]
    return notes


def _shortfalls(whole: Sequence[Results]) -> Iterator[str]:
    """The shards' own, without those of ops that another shard tested on the same device."""
    tested: dict[str, set[str]] = {}
    for results in whole:
        own = tested.setdefault(results.run.device, set())
        own.update(row.op for row in results.coverage if row.tested)
    for results in whole:
        said = {not_tested(op) for op in tested[results.run.device]}
        for shortfall in results.shortfalls:
            if not any(shortfall.startswith(words) for words in said):
                yield shortfall


def _findings(reports: Sequence[ShardReport]) -> dict[Copy, FindingRow]:
    """Every cause once, with the report whose copy is shown: in the reports' order, and in theirs."""
    copies: dict[str, list[tuple[int, FindingRow]]] = {}
    for number, one in enumerate(reports):
        for row in one.findings:
            copies.setdefault(row.fingerprint, []).append((number, row))
    merged: dict[Copy, FindingRow] = {}
    for fingerprint, found in copies.items():
        shown_by, _ = min(found, key=lambda copy: preference(copy[1]))
        merged[shown_by, fingerprint] = merged_finding([row for _, row in found])
    ordered = [
        (number, row.fingerprint) for number, one in enumerate(reports) for row in one.findings
    ]
    return {copy: merged[copy] for copy in [c for c in ordered if c in merged][:MAX_ROWS]}


def _bundles(reports: Sequence[ShardReport]) -> Iterator[FindingBundle]:
    """The shown copies' programs and outcomes, with the merged findings' counts, in the order of ``_findings``.

    A report that changes between two readings loses the folders of its findings from there on.
    """
    shown = _findings(reports)
    for number, one in enumerate(reports):
        bundles = one.report.bundles() if one.report is not None else iter(())
        for own in one.findings:
            bundle = _next(bundles)
            row = shown.get((number, own.fingerprint))
            if row is None:
                continue
            if bundle is None:
                yield FindingBundle(finding_from_row(row), b"")
            else:
                yield replace(bundle, finding=finding_from_row(row))


def _next(bundles: Iterator[FindingBundle]) -> FindingBundle | None:
    try:
        return next(bundles, None)
    except (ReportError, FileError, OSError):
        return None


def _refuse_inside(out: Path, folders: Sequence[Path]) -> None:
    """Raise OpDiffError for an ``out`` that the next merge would read as a shard, or that would change one."""
    for folder in folders:
        if out.resolve().is_relative_to(folder.resolve()):
            raise OpDiffError(f"{out} lies in {folder}, which is merged: give another --out")


def _make_room(out: Path) -> None:
    """Take an older merge's report out of the way. Raises OpDiffError for a folder that holds anything else."""
    if not out.exists():
        return
    there = {path.name for path in out.iterdir()}
    if there - {RESULTS, "report.md", FINDINGS}:
        raise OpDiffError(f"{out} holds more than a merged report: give another --out, or empty it")
    if (out / FINDINGS).is_symlink():
        raise OpDiffError(f"{out / FINDINGS} is a link: give another --out")
    shutil.rmtree(out / FINDINGS, ignore_errors=True)
