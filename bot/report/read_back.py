"""A report read back from an untrusted run, so that everything in it can be rendered anew.

Read are ``results.json``, and of each finding's folder ``finding.json``, the program and the tensors; all are bounded,
validated and held against each other. What the run rendered (report, scripts, readable programs) is not looked at, and
neither is anything else that lies there. What remains is claims of the run in texts, escaped where they are shown, and
programs that call public tensor ops alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bot.oracle.finding import is_fingerprint
from bot.programs.program import ProgramError
from bot.report.bundle import FindingBundle
from bot.report.files import FileError
from bot.report.finding_folder import (
    FINDINGS,
    MAX_RECORD_BYTES,
    FindingError,
    FindingRecord,
    bundle_of,
    parse_record,
)
from bot.report.outcome_rows import OutcomeRow
from bot.report.program_reader import expanded_bytes, read_program
from bot.report.results import (
    MAX_RESULTS_BYTES,
    FindingRow,
    Results,
    TargetFacts,
    parse_results,
)
from bot.report.rows import clip, finding_from_row, note_rows
from bot.report.tensor_files import read_tensor_file
from bot.report.untrusted_json import ResultsError

RESULTS: Final = "results.json"
MAX_FILE_BYTES: Final = 128 << 20
MAX_EXPANDED_BYTES: Final = 128 << 20
"""Of one program's tensors, each written out."""
MAX_EXPANDED_TOTAL: Final = 2 << 30
"""Of all programs' together: what ``inputs.safetensors`` take on disk."""
MAX_BROKEN_NOTES: Final = 100

_FOLDER: Final = re.compile(rf"{FINDINGS}/[A-Za-z0-9_+=][A-Za-z0-9._+=-]{{0,199}}", re.ASCII)
_TENSOR_FILE: Final = re.compile(r"[A-Za-z0-9_+=][A-Za-z0-9._+=-]{0,199}\.safetensors", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


class ReportError(ValueError):
    """A report cannot be read; the message is one line."""


@dataclass(frozen=True)
class RunReport:
    """A report that was read back.

    ``results`` holds no command of the run and no path of its machine, and a folder only where it is whole; what is wrong
    with the others is in the notes. ``bundles`` reads the findings' folders again, one after another, in the results'
    order: one without a folder has an empty blob. It raises ReportError when a file changed in between.
    """

    results: Results
    bundles: Callable[[], Iterator[FindingBundle]]


def is_read(name: str) -> bool:
    """Whether :func:`read_run` can ask for a file of this name; all others may be left out."""
    folder, _, file = name.rpartition("/")
    known = file in ("finding.json", "program.opdiff") or _TENSOR_FILE.fullmatch(file)
    return name == RESULTS or (known is not None and _FOLDER.fullmatch(folder) is not None)


def read_run(files: Mapping[str, bytes]) -> RunReport:
    """Read a report's files, by name relative to its folder. Raises ReportError with one line.

    A finding whose folder is missing or broken is kept without a folder, and a note says why.
    """
    try:
        results = parse_results(_file(files, RESULTS, MAX_RESULTS_BYTES), RESULTS)
    except ResultsError as error:
        raise ReportError(str(error)) from None
    _check_findings(results.findings)
    results = _without_commands(results)
    checked, notes = _checked(results, files)
    results = results.model_copy(
        update={"findings": checked, "notes": note_rows([*results.notes, *notes])}
    )
    return RunReport(results, lambda: _bundles(results, files))


def _bundles(results: Results, files: Mapping[str, bytes]) -> Iterator[FindingBundle]:
    targets = {target.label: target for target in results.targets}
    for row in results.findings:
        if row.folder:
            blob, _ = _program(row, files)
            yield _bundle(row, blob, targets, files)
        else:
            yield FindingBundle(finding_from_row(row), b"")


def _check_findings(findings: tuple[FindingRow, ...]) -> None:
    """Fingerprints and digests are hex and each finding has one of its own: they name files and are told apart by it."""
    seen: set[str] = set()
    for row in findings:
        if not is_fingerprint(row.fingerprint) or row.fingerprint in seen:
            raise ReportError(
                f"{RESULTS} has a finding whose fingerprint {row.fingerprint[:80]!a} is not hex, or comes twice"
            )
        if not _DIGEST.fullmatch(row.program):
            raise ReportError(
                f"{RESULTS}: finding {row.fingerprint} names no program by its digest"
            )
        seen.add(row.fingerprint)


def _without_commands(results: Results) -> Results:
    """The results without what a report shows to be typed into a shell: the run's command, and paths of its machine.

    A stranger's command line can install anything (``--target evil==1``).
    """
    bare = {"python": "", "import_paths": (), "library_paths": ()}
    targets = tuple(target.model_copy(update=bare) for target in results.targets)
    run = results.run.model_copy(update={"command": ()})
    return results.model_copy(update={"targets": targets, "run": run})


def _checked(
    results: Results, files: Mapping[str, bytes]
) -> tuple[tuple[FindingRow, ...], list[str]]:
    """The findings, their folder taken away where it cannot be used, and notes on why."""
    targets = {target.label: target for target in results.targets}
    rows: list[FindingRow] = []
    notes: list[str] = []
    expanded = broken = 0
    for row in results.findings:
        if row.folder:
            try:
                blob, size = _program(row, files)
                expanded += size
                if expanded > MAX_EXPANDED_TOTAL:
                    raise ReportError("all programs' tensors together are larger than is written")
                _bundle(row, blob, targets, files)
            except ReportError as error:
                broken += 1
                notes.append(clip(f"{row.op} ({row.fingerprint}) has no folder: {error}"))
                row = row.model_copy(update={"folder": ""})
        rows.append(row)
    if broken > MAX_BROKEN_NOTES:
        notes[MAX_BROKEN_NOTES:] = [f"{broken - MAX_BROKEN_NOTES} more findings have no folder"]
    return tuple(rows), notes


def _bundle(
    row: FindingRow, blob: bytes, targets: Mapping[str, TargetFacts], files: Mapping[str, bytes]
) -> FindingBundle:
    """The bundle of a finding and its program. Raises ReportError for a folder that is missing, broken, or another's."""
    try:
        record = parse_record(_file(files, f"{row.folder}/finding.json", MAX_RECORD_BYTES))
        _check_record(record, row, targets)
        tensors = {
            name: read_tensor_file(_file(files, f"{row.folder}/{name}", MAX_FILE_BYTES))
            for name in _tensor_files(record)
        }
        return bundle_of(record, blob, tensors)
    except ReportError:
        raise
    except ValueError as error:
        raise ReportError(f"{row.folder}: {error}") from None


def _program(row: FindingRow, files: Mapping[str, bytes]) -> tuple[bytes, int]:
    """The blob of a finding's program, and the bytes of its tensors written out: read once, so what was checked is used."""
    if not _FOLDER.fullmatch(row.folder):
        raise ReportError(f"{row.folder[:80]!a} is not the name of a finding's folder")
    blob = _file(files, f"{row.folder}/program.opdiff", MAX_FILE_BYTES)
    try:
        program, _ = read_program(blob, row.program)
    except ProgramError as error:
        raise ReportError(f"{row.folder}: {error}") from None
    size = expanded_bytes(program)
    if size > MAX_EXPANDED_BYTES:
        raise ReportError(f"{row.folder}: the program's tensors are larger than is written")
    return blob, size


def _check_record(
    record: FindingRecord, row: FindingRow, targets: Mapping[str, TargetFacts]
) -> None:
    """What ``finding.json`` says must be what ``results.json`` says."""
    if record.finding != row.model_copy(update={"ignored": record.finding.ignored}):
        raise FindingError("finding.json speaks of another finding than results.json")
    for outcome in record.outcomes:
        target = targets.get(outcome.target)
        if target is None or target.framework != outcome.framework or target.role != outcome.role:
            raise FindingError(f"{outcome.target[:80]!a} is not a target of the run")


def _tensor_files(record: FindingRecord) -> list[str]:
    witness: tuple[OutcomeRow, ...] = () if record.witness is None else (record.witness,)
    named = [row.tensors for row in (*record.outcomes, *witness) if row.tensors]
    if len(set(named)) != len(named) or not all(map(_TENSOR_FILE.fullmatch, named)):
        raise FindingError("finding.json names tensor files that cannot be")
    return named


def _file(files: Mapping[str, bytes], name: str, limit: int) -> bytes:
    try:
        raw = files[name]
    except KeyError:
        raise ReportError(f"there is no {name}") from None
    except FileError as error:
        raise ReportError(str(error)) from None
    if len(raw) > limit:
        raise ReportError(f"{name} has more than the {limit} bytes that are read")
    return raw
