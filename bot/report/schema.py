"""The published schema of ``results.json``: ``python -m bot.report.schema DOCS`` writes it and its prose."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, cast

from pydantic import BaseModel

from bot.report.finding_folder import FindingRecord
from bot.report.outcome_rows import BoundRow, OutcomeRow, PlaceRow, ValueRow
from bot.report.results import (
    SCHEMA_VERSION,
    ChangedOpRow,
    ChangesRow,
    Counts,
    DifferenceRow,
    EvidenceRow,
    FindingRow,
    LinesRow,
    MismatchRow,
    ObservationRow,
    OpCoverage,
    Results,
    RunFacts,
    ShardRow,
    TargetCoverage,
    TargetFacts,
    UnmappedRow,
)

MODELS: Final[tuple[type[BaseModel], ...]] = (
    Results, RunFacts, TargetFacts, ChangesRow, ChangedOpRow, LinesRow, UnmappedRow, OpCoverage, TargetCoverage,
    Counts, FindingRow, MismatchRow, ObservationRow, DifferenceRow, EvidenceRow, ShardRow, FindingRecord, OutcomeRow,
    PlaceRow, ValueRow, BoundRow,
)  # fmt: skip

_INTRO = f"""# results.json

Written by `opdiff check`, `opdiff run` and `opdiff merge`; schema version {SCHEMA_VERSION}. A reader refuses a file whose
`schema_version` it does not know. The JSON schema is in [results.schema.json](results.schema.json); both files are written by
`python -m bot.report.schema docs`.

JSON has no NaN and no infinities: a measured value that is one is the text `"nan"`, `"inf"` or `"-inf"`. `result` and the
exit code say the same: `clean` 0 (every changed op was tested and nothing was found), `incomplete` 1 (the job could not
be done, or only part of it), `findings` 2 (a finding that `fail_on` counts and nobody ignored). A report that was merged
from shards (`opdiff merge`) names them in `shards`, and is `incomplete` when one is broken or lost, unless it has findings.

Each finding has a folder, named in its `folder`:

| file | what it holds |
| --- | --- |
| `finding.json` | `FindingRecord` below: the finding, its targets, how each ended, the machine |
| `program.opdiff` | the program's blob; `opdiff replay FOLDER` runs it |
| `program.json` | the same program for people |
| `inputs.safetensors` | the tensors that the program starts with, by name |
| `TARGET.safetensors` | what one target made of it, by label (`output r0[1]`, `gradient of x`) |
| `witness.safetensors` | what a witness that is no target made of it, where the verdict rests on one |
| `repro.py` | a script that needs the framework and NumPy alone, and exits 1 while the bug is there, 0 when not, 2 when it could not run |

A complex tensor is stored in safetensors as its parts, with one more axis of length 2 at the end (real, imaginary); the
file's metadata names the dtype that was meant, under `dtype of LABEL`.

A report from elsewhere is untrusted. `opdiff publish` and `opdiff merge` read of it `results.json` and, of each finding,
`finding.json`, `program.opdiff` and the tensors: bounded, validated, held against each other, and no program that calls
anything but public tensor ops. Everything else (this report's Markdown, scripts, readable programs, drafts) is written
anew from that, without the run's command line and the paths of its machine. A finding whose folder is missing or broken
keeps its row and loses its folder, and a note says why.
"""


def json_schema() -> str:
    """The text of ``results.schema.json``."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Results.model_json_schema(),
    }
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def schema_document() -> str:
    """The text of ``results.md``."""
    return _INTRO + "".join(_section(model) for model in MODELS)


def _section(model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    required = set(schema.get("required", []))
    about = " ".join((model.__doc__ or "").split())
    rows = [f"\n## {model.__name__}\n\n{about}\n\n| field | type | |\n| --- | --- | --- |\n"]
    for name, field in schema["properties"].items():
        meaning = str(field.get("description", "")).replace("\n", " ").replace("|", "\\|")
        mark = "" if name in required else "optional. "
        rows.append(f"| `{name}` | {_type(field)} | {(mark + meaning).strip()} |\n")
    return "".join(rows)


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in field:
        kinds = [_type(option) for option in cast("list[dict[str, Any]]", field["anyOf"])]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        items = field.get("items", {})
        return f"list of {_type(items)}" if items else "list"
    if field.get("type") == "object":
        inner = field.get("additionalProperties")
        return (
            f"map to {_type(cast('dict[str, Any]', inner))}" if isinstance(inner, dict) else "map"
        )
    return str(field.get("type", "any"))


def main(docs: Path) -> None:
    """Write both files into a folder."""
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "results.schema.json").write_text(json_schema(), encoding="utf-8")
    (docs / "results.md").write_text(schema_document(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
