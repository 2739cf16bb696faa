"""A finding's folder: its program, tensors, targets and script; written in one step, read back as untrusted data.

::

    finding.json          the finding, its targets and the machine: :class:`FindingRecord`
    program.opdiff        the program's blob, what ``opdiff replay`` runs
    program.json          the same program for people
    inputs.safetensors    the tensors that it starts with
    TARGET.safetensors    what one target made of it (:mod:`bot.report.tensor_files`)
    witness.safetensors   what a witness that is no target made of it, where a verdict rests on one
    repro.py              a script of its own; absent when ``no_script`` in finding.json says why
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from bot.oracle.initial import InitialTensors
from bot.programs.program import Program, ProgramError, decode
from bot.report.bundle import FindingBundle, Key, TargetOutcome
from bot.report.files import FileError, read_bounded_in, safe_name, unique_names, write_folder
from bot.report.outcome_rows import (
    BoundRow,
    OutcomeRow,
    Stored,
    bound_rows,
    bounds_of,
    kept_tensors,
    outcome_of,
    outcome_row,
)
from bot.report.program_reader import read_program
from bot.report.repro_code import ReproError
from bot.report.repro_script import repro_script
from bot.report.results import SCHEMA_VERSION, FindingRow, RunFacts, TargetFacts, Text
from bot.report.rows import MAX_ITEMS, clip, finding_from_row, finding_row
from bot.report.tensor_files import tensor_file
from bot.report.untrusted_json import ResultsError, Row, first_problem, parse_json_object
from bot.targets.outcome import Outcome

FINDINGS: Final = "findings"
MAX_RECORD_BYTES: Final = 8 << 20
MAX_BLOB_BYTES: Final = 1 << 30
MAX_OUTCOMES: Final = 100


class FindingError(ValueError):
    """A finding's folder cannot be read; the message is one line."""


class FindingRecord(Row):
    """``finding.json``."""

    schema_version: int = SCHEMA_VERSION
    finding: FindingRow
    targets: tuple[TargetFacts, ...]
    """Every target that ran the program, in order."""
    outcomes: Annotated[tuple[OutcomeRow, ...], Field(max_length=MAX_OUTCOMES)] = ()
    witness: OutcomeRow | None = None
    """An outcome that is right where no target's is, such as a float64 run."""
    bounds: Annotated[tuple[BoundRow, ...], Field(max_length=MAX_ITEMS)] = ()
    """The tolerances that the comparison used at the mismatches' places."""
    threads: Annotated[int, Field(ge=1, le=1_024)] = 1
    """Threads that a script uses."""
    hang_seconds: Annotated[float, Field(gt=0, le=86_400)] = 20.0
    """How long a script waits before it calls a program hung."""
    memory_bytes: Annotated[int, Field(ge=1, le=1 << 44)] = 6 << 30
    """How much memory a script's program may take."""
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
    """Write ``findings/OP-FINGERPRINT`` below ``out``, replacing an older one. Raises ProgramError for a broken blob.

    The script is written from what the folder holds of the finding, so that :func:`bundle_of` yields the same one.
    """
    name = folder_name(bundle.finding.op, bundle.finding.fingerprint)
    row = finding_row(bundle.finding, f"{FINDINGS}/{name}")
    bundle = replace(bundle, finding=finding_from_row(row))
    program, data = decode(bundle.blob)
    script, problem = "", None
    try:
        script = repro_script(bundle)
    except ReproError as error:
        problem = clip(str(error))
    wanted = {(m.role, m.name, m.path) for m in bundle.finding.mismatches}
    outcomes, files = _outcome_files(bundle, wanted)
    record = FindingRecord(
        finding=row,
        targets=tuple(targets),
        outcomes=outcomes[: len(bundle.outcomes)],
        witness=outcomes[-1] if bundle.witness is not None else None,
        bounds=bound_rows(bundle.bounds, wanted),
        threads=bundle.threads,
        hang_seconds=bundle.hang_seconds,
        memory_bytes=bundle.memory_bytes,
        run=run,
        no_script=problem,
    )
    files |= {
        "program.opdiff": bundle.blob,
        "program.json": _readable(program),
        "inputs.safetensors": _inputs(program, data),
        "finding.json": _json(record.model_dump(mode="json")),
    }
    if script:
        files["repro.py"] = script.encode()
    write_folder(out / FINDINGS / name, files)
    return WrittenFinding(row, script)


def _outcome_files(
    bundle: FindingBundle, wanted: Collection[Key]
) -> tuple[tuple[OutcomeRow, ...], dict[str, bytes]]:
    """The rows of all outcomes, the witness's last, and the files of their tensors."""
    entries = list(bundle.outcomes)
    stems = ["inputs", *(entry.label for entry in entries)]
    if bundle.witness is not None:
        entries.append(TargetOutcome(bundle.witness[0], "", bundle.witness[1]))
        stems.append("witness")
    rows: list[OutcomeRow] = []
    files: dict[str, bytes] = {}
    for entry, stem in zip(entries, unique_names(stems)[1:], strict=True):
        file = f"{stem}.safetensors"
        rows.append(outcome_row(entry, file, wanted))
        if entry.outcome.tensors:
            kept = kept_tensors(entry.outcome)
            files[file] = tensor_file((p.label, t.dtype, t.array) for p, t in kept)
    return tuple(rows), files


def bundle_of(record: FindingRecord, blob: bytes, tensors: Mapping[str, Stored]) -> FindingBundle:
    """The bundle that a folder was written from, as far as a report needs it; ``tensors`` by file name.

    Raises ValueError where record and tensors do not agree.
    """
    nothing: Stored = {}

    def outcome(row: OutcomeRow) -> Outcome:
        return outcome_of(row, tensors[row.tensors] if row.tensors else nothing)

    witness = record.witness
    return FindingBundle(
        finding_from_row(record.finding),
        blob,
        tuple(
            TargetOutcome(row.target, row.framework, outcome(row), row.device, row.role)
            for row in record.outcomes
        ),
        None if witness is None else (witness.target, outcome(witness)),
        bounds_of(record.bounds),
        record.threads,
        record.hang_seconds,
        record.memory_bytes,
    )


def parse_record(raw: bytes) -> FindingRecord:
    """``finding.json``, validated. Raises FindingError."""
    try:
        fields = parse_json_object(raw, "finding.json")
        version = fields.get("schema_version")
        if version is True or version != SCHEMA_VERSION:
            raise FindingError(
                f"finding.json has schema version {str(version)[:20]!r}, and this OpDiff reads {SCHEMA_VERSION}: "
                "use the OpDiff that wrote it"
            )
        return FindingRecord.model_validate_json(raw)
    except ValidationError as error:
        raise FindingError(f"finding.json: {first_problem(error)}") from None
    except ResultsError as error:
        raise FindingError(str(error)) from None


def load_finding(folder: Path) -> LoadedFinding:
    """Read a finding's folder as untrusted data: bounded, validated, no symbolic link followed. Raises FindingError.

    The targets' specs are data too: whoever makes environments from them decides which may be made (an interpreter
    given by path is somebody's program).
    """
    try:
        raw = read_bounded_in(
            folder, {"finding.json": MAX_RECORD_BYTES, "program.opdiff": MAX_BLOB_BYTES}
        )
        record = parse_record(raw["finding.json"])
        program, _ = read_program(raw["program.opdiff"], record.finding.program)
    except (FileError, FindingError, ProgramError) as error:
        raise FindingError(f"{folder}: {error}") from None
    return LoadedFinding(folder, record, program, raw["program.opdiff"])


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
