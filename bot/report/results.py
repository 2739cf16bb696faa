"""``results.json``: everything a run found and did not find, as one versioned document.

A reader refuses a version that it does not know. The file may come from an untrusted run, so reading it bounds its
size, follows no symbolic link, and validates every field; JSON's non-numbers (NaN, infinities) are refused, and a
measured value that is not finite is written as the text ``"nan"``, ``"inf"`` or ``"-inf"``.

Schema and prose: ``docs/results.md`` and ``docs/results.schema.json``, written by :mod:`bot.report.schema`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from bot.atomic_file import write_atomically
from bot.oracle.finding import Confidence, FindingStatus, Kind, Verdict
from bot.report.files import FileError, read_bounded
from bot.report.untrusted_json import ResultsError, Row, first_problem, parse_json_object

SCHEMA_VERSION: Final = 2
MAX_RESULTS_BYTES: Final = 64 << 20
MAX_TEXT: Final = 4_000
MAX_ROWS: Final = 100_000
MAX_NOTES: Final = 10_000
MAX_LINES: Final = 100
MAX_SHARDS: Final = 1_000

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Name = Annotated[str, Field(max_length=500)]
Count = Annotated[int, Field(ge=0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Json = Annotated[Any, AfterValidator(lambda value: _finite(value))]
"""JSON of any form, every number finite."""
Measured = Finite | Literal["nan", "inf", "-inf"]
"""A finite number, or the text of one that JSON does not have."""

Result = Literal["clean", "incomplete", "findings"]
FailOn = Literal["candidate", "any", "never"]
EXIT_CODES: Final[dict[Result, int]] = {"clean": 0, "incomplete": 1, "findings": 2}


class RunFacts(Row):
    """How, when and where the run was made."""

    opdiff: Name
    """Version of OpDiff."""
    command: tuple[Text, ...] = ()
    """The command line, word by word."""
    seed: int = 0
    started: Name = ""
    """UTC, ISO 8601."""
    finished: Name = ""
    """UTC, ISO 8601."""
    cpu: Name = ""
    """CPU model."""
    instruction_set: Name = ""
    """The widest vector instruction set, such as AVX2."""
    threads: Count = 1
    """Threads per worker."""
    budget_seconds: Finite | None = None
    """The time budget, when one was set."""
    shard: Name = ""
    """Which share of the op groups this run took, such as ``2/4``; empty when it took all."""
    device: Name = ""
    """The device that a check was asked for; empty for ``opdiff run`` and for a merged report."""


class TargetFacts(Row):
    """One target and the environment that it ran in."""

    label: Name
    """How findings name it: its spec, and a number where two targets have one spec (``torch==2.13.0:cpu#2``)."""
    spec: Name = ""
    """The target's spec; empty when it is the label."""
    role: Literal["candidate", "baseline", "peer"] = "peer"
    framework: Name = ""
    version: Name = ""
    """The framework's version as its worker said it."""
    origin: Literal["release", "wheel", "interpreter", "overlay"] = "release"
    digest: Name = ""
    """Identifies the environment's recipe or content."""
    isolation: Name = ""
    """How its worker was shut in: a sandbox's name, or ``unisolated``."""
    python: Name = ""
    """The interpreter."""
    import_paths: tuple[Text, ...] = ()
    """Folders in front of the interpreter's own ``sys.path`` (``PYTHONPATH``)."""
    library_paths: tuple[Text, ...] = ()
    """Folders of ``LD_LIBRARY_PATH``."""
    facts: dict[Name, Text] = Field(default={})
    """What else its worker said of itself."""
    failed: Text | None = None
    """Why the target could not be made or started."""


class LinesRow(Row):
    """Changed lines of one file on the head side."""

    file: Text
    """The path from the repository's root."""
    first: Annotated[int, Field(ge=1)]
    """1-based."""
    last: Annotated[int, Field(ge=1)]
    """Inclusive."""

    @model_validator(mode="after")
    def _in_order(self) -> LinesRow:
        if self.last < self.first:
            raise ValueError("last comes before first")
        return self


class ChangedOpRow(Row):
    """An op group that the diff changes, or that a person asked for beside those."""

    op: Name
    how: Literal["direct", "indirect"]
    path: tuple[Text, ...] = ()
    """The steps from the changed line to the op."""
    aliases: tuple[Name, ...] = ()
    """The framework's own public names."""
    lines: tuple[LinesRow, ...] = Field(default=(), max_length=MAX_LINES)
    """The changed lines that reach the op (at most 100 runs of lines)."""


class UnmappedRow(Row):
    """A changed file from which no op could be proven."""

    file: Text
    why: Text


class ChangesRow(Row):
    """What the diff changes, in users' words."""

    framework: Name = ""
    base: Name = ""
    """The base commit that was named (the diff starts at its merge base with the head); empty for a patch."""
    head: Name = ""
    """The head commit; empty for a patch."""
    pull_request: Count | None = None
    """The pull request's number, as the run was told."""
    ops: tuple[ChangedOpRow, ...] = ()
    tests: tuple[Text, ...] = ()
    """Changed autotest files."""
    unmapped: tuple[UnmappedRow, ...] = ()
    notes: tuple[Text, ...] = ()


class TargetCoverage(Row):
    """What one target made of one op's programs."""

    target: Name
    programs: Count = 0
    """Programs that were given to it."""
    compared: Count = 0
    """Programs whose outcome was compared with another target's."""
    unsupported: dict[Text, Count] = Field(default={})
    """Reason -> programs that this framework cannot run: coverage, never a finding."""
    died: Count = 0
    """Programs that its worker did not survive."""


class OpCoverage(Row):
    """Whether an op was tested, and by how much."""

    op: Name
    tested: bool
    """It ran on the candidate (or the first target) and at least one independent side."""
    reason: Text = ""
    """Why it was not tested."""
    targets: tuple[TargetCoverage, ...] = ()


class Counts(Row):
    """How much was compared, and what was left out."""

    cases: Count = 0
    """What the sources offered: samples, reference inputs and error inputs by dtype."""
    expressed: Count = 0
    """Cases that became programs."""
    programs: Count = 0
    """Programs that ran: the cases' forms (function, method, in-place, module), duplicates removed."""
    compared: Count = 0
    """Programs of which at least two targets' outcomes were compared."""
    outputs: Count = 0
    intermediates: Count = 0
    gradients: Count = 0
    side_effects: Count = 0
    parameters: Count = 0
    """Parameters and buffers of modules after the run."""
    exceptions: Count = 0
    """Programs on which at least one side raised, compared by their exceptions."""
    skipped: dict[Text, Count] = Field(default={})
    """Reason -> cases that did not become a comparison."""
    dismissed: dict[Text, Count] = Field(default={})
    """Witness -> differences that it explained as no fault."""


class DifferenceRow(Row):
    """How far two tensors of the same shape and dtype are apart."""

    differing: Count
    elements: Count
    largest_absolute: Measured | None = None
    largest_relative: Measured | None = None
    largest_ulp: Count | None = None
    """Representable numbers of the dtype between the two values."""
    first_index: tuple[Count, ...] | None = None
    """The first element, in C order, out of tolerance."""


class ObservationRow(Row):
    """What one target had at the place of a mismatch."""

    target: Name
    dtype: Name | None = None
    shape: tuple[Count, ...] | None = None
    value: Text | None = None
    """The first differing element, the shortest text that reads back exactly."""
    happened: Text | None = None
    """What happened instead of a tensor."""


class MismatchRow(Row):
    """One tensor, exception or crash on which the targets disagree."""

    kind: Kind
    role: Name = ""
    name: Name = ""
    path: tuple[int, ...] = ()
    label: Name = ""
    """``gradient of weight``, ``output r0[1]``; empty for exceptions and crashes."""
    sides: tuple[tuple[Name, ...], ...] = ()
    observations: tuple[ObservationRow, ...] = ()
    difference: DifferenceRow | None = None
    note: Text = ""


class EvidenceRow(Row):
    """What one witness said."""

    rung: Name
    says: Text
    against: tuple[Name, ...] = ()
    numbers: dict[Name, Measured] = Field(default={})


class FindingRow(Row):
    """Mismatches with one cause."""

    fingerprint: Name
    op: Name
    kind: Kind
    verdict: Verdict
    blamed: tuple[Name, ...] = ()
    confidence: Confidence
    status: FindingStatus | None = None
    """Against the baseline; null without one."""
    sides: tuple[tuple[Name, ...], ...] = ()
    program: Name
    """Digest of the program that shows it."""
    mismatches: tuple[MismatchRow, ...] = ()
    evidence: tuple[EvidenceRow, ...] = ()
    programs: tuple[Name, ...] = ()
    """Digests of the programs with this cause (at most 100)."""
    count: Count = 1
    """How many programs have this cause."""
    argument_class: dict[Name, Json] = Field(default={})
    known_to_suite: Text | None = None
    """What PyTorch's own suite says of it, when it skips or expects it."""
    ops: Annotated[tuple[Name, ...], Field(max_length=1_000)] = ()
    """Other ops that show the same cause."""
    folder: Text = ""
    """The finding's folder, relative to this file; empty when none was written."""
    ignored: Text | None = None
    """Why it does not fail the run although it differs: an ``ignore`` of the configuration or a person's decision
    (``accepted: ...``). Said here only, not in the folder's ``finding.json``."""


class ShardRow(Row):
    """One shard of a merged report."""

    shard: Name = ""
    """Such as ``2/4``; empty where a broken shard does not say."""
    device: Name = ""
    """The device that it was run on; empty where nobody can say."""
    state: Literal["whole", "broken", "lost"]
    """``whole``: its report was read; ``broken``: it was refused; ``lost``: there is none."""
    result: Result | None = None
    """What a whole shard said of itself."""
    note: Text = ""
    """Why it was refused, or what is missing."""
    findings: Count = 0
    """Findings of this shard, before duplicates were removed."""
    started: Name = ""
    """UTC, ISO 8601."""
    finished: Name = ""
    """UTC, ISO 8601."""


class Results(Row):
    """The whole of ``results.json``."""

    schema_version: int = SCHEMA_VERSION
    result: Result
    """``clean`` (exit code 0), ``incomplete`` (1) or ``findings`` (2)."""
    fail_on: FailOn = "any"
    """Which findings make the result ``findings``: the candidate's, any, or never."""
    configured_fail_on: FailOn = "candidate"
    """What the configuration says of that, where this run was told otherwise; a merge goes by it."""
    run: RunFacts
    targets: tuple[TargetFacts, ...] = Field(default=(), max_length=100)
    changes: ChangesRow | None = None
    """Null when ops were named by hand."""
    coverage: tuple[OpCoverage, ...] = Field(default=(), max_length=MAX_ROWS)
    counts: Counts = Counts()
    findings: tuple[FindingRow, ...] = Field(default=(), max_length=MAX_ROWS)
    notes: tuple[Text, ...] = Field(default=(), max_length=MAX_NOTES)
    """What a reader must know: hunks that did not apply, ``unisolated``, a budget that ended, targets that failed."""
    shortfalls: tuple[Text, ...] = Field(default=(), max_length=MAX_NOTES)
    """The notes that say why only part of the job was done: without failing findings they make it ``incomplete``."""
    shards: tuple[ShardRow, ...] = Field(default=(), max_length=MAX_SHARDS)
    """The shards that a merged report was made of; empty for one run."""

    @property
    def exit_code(self) -> int:
        """0 clean, 1 incomplete, 2 findings."""
        return EXIT_CODES[self.result]


def dump_results(results: Results) -> bytes:
    """The UTF-8 text of ``results.json``; equal results give equal bytes."""
    fields = results.model_dump(mode="json")
    text = json.dumps(fields, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=True)
    return text.encode() + b"\n"


def write_results(path: Path, results: Results) -> None:
    """Write ``results.json`` in one step: a reader sees the old file or the new one, never half of one."""
    write_atomically(path, dump_results(results))


def read_results(path: Path) -> Results:
    """Read a results file as untrusted data. Raises ResultsError."""
    try:
        raw = read_bounded(path, MAX_RESULTS_BYTES)
    except FileError as error:
        raise ResultsError(str(error)) from None
    return parse_results(raw, str(path))


def parse_results(raw: bytes, where: str = "results.json") -> Results:
    """Validate the bytes of a results file. Raises ResultsError."""
    fields = parse_json_object(raw, where)
    version = fields.get("schema_version")
    if version is True or version != SCHEMA_VERSION:
        raise ResultsError(
            f"{where} has schema version {str(version)[:20]!r}, and this OpDiff reads {SCHEMA_VERSION}: "
            "use the OpDiff that wrote it"
        )
    try:
        return Results.model_validate_json(raw)
    except ValidationError as error:
        raise ResultsError(f"{where} is not a results file: {first_problem(error)}") from None


def _finite(value: Any) -> Any:
    json.dumps(value, allow_nan=False)  # ValueError for what JSON does not have
    return value
