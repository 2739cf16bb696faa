"""A finding's folder: its program, tensors, targets and script; written in one step, read back as untrusted data.

::

    finding.json          the finding, its targets and the machine: :class:`FindingRecord`
    program.opdiff        the program's blob, what ``opdiff replay`` runs
    program.json          the same program for people
    inputs.safetensors    the tensors that it starts with
    TARGET.safetensors    what one target made of it (:mod:`bot.report.tensor_files`)
    repro.py              a script of its own; absent when ``no_script`` in finding.json says why
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from bot.oracle.initial import InitialTensors
from bot.programs.program import Program, ProgramError, decode, digest
from bot.report.bundle import FindingBundle
from bot.report.files import FileError, read_bounded_in, safe_name, unique_names, write_folder
from bot.report.repro_code import ReproError
from bot.report.repro_script import repro_script
from bot.report.results import (
    SCHEMA_VERSION,
    FindingRow,
    Name,
    ResultsError,
    Row,
    RunFacts,
    TargetFacts,
    Text,
    first_problem,
    parse_json_object,
)
from bot.report.rows import clip, finding_row
from bot.report.tensor_files import tensor_file

FINDINGS: Final = "findings"
MAX_RECORD_BYTES: Final = 8 << 20
MAX_BLOB_BYTES: Final = 1 << 30


class FindingError(ValueError):
    """A finding's folder cannot be read; the message is one line."""


class OutcomeRow(Row):
    """How one target ended the program."""

    target: Name
    status: Name
    error: Text = ""
    """The exception, or the signal and last words of a worker that died."""
    tensors: Name = ""
    """The file of its tensors in this folder."""


class FindingRecord(Row):
    """``finding.json``."""

    schema_version: int = SCHEMA_VERSION
    finding: FindingRow
    targets: tuple[TargetFacts, ...]
    """Every target that ran the program, in order."""
    outcomes: tuple[OutcomeRow, ...] = ()
    run: RunFacts
    no_script: Text | None = None
    """Why there is no ``repro.py``."""


@dataclass(frozen=True)
class LoadedFinding:
    """A folder read back and validated."""

    folder: Path
    record: FindingRecord
    program: Program
    blob: bytes


@dataclass(frozen=True)
class WrittenFinding:
    """A folder that was written: the row for ``results.json``, and the script's source ("" without one)."""

    row: FindingRow
    script: str


def folder_name(op: str, fingerprint: str) -> str:
    """The folder of a finding: a plain file name, whatever the op is called."""
    return f"{safe_name(op, 60)}-{safe_name(fingerprint, 64)}"


def write_finding(
    out: Path, bundle: FindingBundle, targets: Sequence[TargetFacts], run: RunFacts
) -> WrittenFinding:
    """Write ``findings/OP-FINGERPRINT`` below ``out``, replacing an older one. Raises ProgramError for a broken blob."""
    name = folder_name(bundle.finding.op, bundle.finding.fingerprint)
    row = finding_row(bundle.finding, f"{FINDINGS}/{name}")
    program, data = decode(bundle.blob)
    script, problem = "", None
    try:
        script = repro_script(bundle)
    except ReproError as error:
        problem = clip(str(error))
    files = {
        "program.opdiff": bundle.blob,
        "program.json": _readable(program),
        "inputs.safetensors": _inputs(program, data),
    }
    outcomes: list[OutcomeRow] = []
    labels = [entry.label for entry in bundle.outcomes]
    for entry, stem in zip(bundle.outcomes, unique_names(["inputs", *labels])[1:], strict=True):
        file = ""
        if entry.outcome.tensors:
            file = f"{stem}.safetensors"
            files[file] = tensor_file((t.label, t.dtype, t.array) for t in entry.outcome.tensors)
        outcomes.append(_outcome_row(entry.label, entry.outcome, file))
    record = FindingRecord(
        finding=row, targets=tuple(targets), outcomes=tuple(outcomes), run=run, no_script=problem
    )
    files["finding.json"] = _json(record.model_dump(mode="json"))
    if script:
        files["repro.py"] = script.encode()
    write_folder(out / FINDINGS / name, files)
    return WrittenFinding(row, script)


def load_finding(folder: Path) -> LoadedFinding:
    """Read a finding's folder as untrusted data: bounded, validated, no symbolic link followed. Raises FindingError.

    The targets' specs are data too: whoever makes environments from them decides which may be made (an interpreter
    given by path is somebody's program).
    """
    try:
        raw = read_bounded_in(
            folder, {"finding.json": MAX_RECORD_BYTES, "program.opdiff": MAX_BLOB_BYTES}
        )
        fields = parse_json_object(raw["finding.json"], "finding.json")
        version = fields.get("schema_version")
        if version is True or version != SCHEMA_VERSION:
            raise FindingError(
                f"finding.json has schema version {str(version)[:20]!r}, and this OpDiff reads {SCHEMA_VERSION}: "
                "use the OpDiff that wrote it"
            )
        record = FindingRecord.model_validate_json(raw["finding.json"])
        program, _ = decode(raw["program.opdiff"])
    except ValidationError as error:
        raise FindingError(f"{folder}: finding.json: {first_problem(error)}") from None
    except (FileError, ResultsError, ProgramError) as error:
        raise FindingError(f"{folder}: {error}") from None
    if digest(raw["program.opdiff"]) != record.finding.program:
        raise FindingError(f"{folder}: program.opdiff is not the program that finding.json names")
    return LoadedFinding(folder, record, program, raw["program.opdiff"])


def _outcome_row(label: str, outcome: Any, file: str) -> OutcomeRow:
    error = ""
    if outcome.error is not None:
        error = f"{outcome.error.type}: {outcome.error.message}"
    elif outcome.death is not None:
        error = f"{outcome.death.signal}: {outcome.death.last_words}"
    return OutcomeRow(
        target=clip(label, 500), status=outcome.status, error=clip(error), tensors=file
    )


def _readable(program: Program) -> bytes:
    return _json(program.model_dump(mode="json", exclude_defaults=True))


def _json(fields: Any) -> bytes:
    try:
        return json.dumps(fields, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n"
    except ValueError:
        raise ProgramError("a program holds a number that JSON does not have") from None


def _inputs(program: Program, data: memoryview) -> bytes:
    initial = InitialTensors(program, data)
    rows: list[tuple[str, str, Any]] = []
    for spec in program.tensors:
        array = initial.array(spec.name)
        if array is not None:
            rows.append((spec.name, spec.dtype, array))
    return tensor_file(rows)
