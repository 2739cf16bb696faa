"""The published description of ``.github/opdiff.yml``: ``python -m bot.config_schema DOCS`` writes page and JSON schema."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, cast

from pydantic import BaseModel

from bot.config import CONFIG_PATH, Config, IgnoreRule, OpRule

EXAMPLE: Final = """\
version: 1
framework: oneflow
baseline: oneflow==0.9.0
peers: [torch==2.13.0]
devices: [cpu, cuda]
budget: 1800
shards: 4
fail-on: candidate
ops:
  - paths: ["oneflow/core/common/data_type_converter*.h"]
    ops: [Tensor.to, Tensor.type_as]
  - paths: ["cmake/**", "**/CMakeLists.txt"]
    ops: [] # builds, not ops
ignore:
  - fingerprint: 43802cadd600d900
    reason: "issue 1234: known, the fix waits for a release"
    until: 2030-01-31
  - op: linalg.*
    kind: nan
    reason: documented as undefined for singular input
"""

_INTRO: Final = f"""# {CONFIG_PATH}

What a repository says of its own checks. It is read from the base commit (the commit that `--base` or the event names), never
from the head or the work tree: a pull request cannot decide what is ignored in it, and a change of this file holds once it is
merged. `--config FILE` names another file. Options of the command line and inputs of the Action come before it; what
neither says is the default of `opdiff check`.

```yaml
{EXAMPLE}```

The file has at most 256 KiB of UTF-8. YAML aliases, tags and keys that are there twice are refused, and so is every key that is
not listed here. What is wrong is told in one line with the file's line, and the check does not begin (exit code 1).
The JSON schema is in [config.schema.json](config.schema.json); both files are written by `python -m bot.config_schema docs`.

`budget` is for all shards of a device together, not for each: `opdiff plan` gives each shard its part by the expected cost of its
ops, so that an op gets the same time wherever it runs, and more shards end sooner at the same expense.
"""
_RULES: Final = {
    OpRule: (
        "## ops\n\nRules add ops to those that are proven from the diff, and take none away. A changed file that a rule matches "
        "does not count as unmapped.\nThe report says of each such op and file that it was stated here.\n"
    ),
    IgnoreRule: (
        "## ignore\n\nAn ignored finding is listed in the report with its reason, and does not fail the run. A rule whose last day "
        "is over ignores\nnothing any more; where that matters, the report says so. "
        "So it does of a rule that names ops\nwhich were tested, and that fits no finding any more.\n"
    ),
}


def json_schema() -> str:
    """The text of ``config.schema.json``."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(by_alias=True),
        "required": ["version"],
    }
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def config_document() -> str:
    """The text of ``config.md``."""
    rules = [f"\n{about}\n{_table(model)}" for model, about in _RULES.items()]
    return f"{_INTRO}\n## Keys\n\n{_table(Config)}{''.join(rules)}"


def _table(model: type[BaseModel]) -> str:
    rows = ["| key | value | meaning |\n| --- | --- | --- |\n"]
    definitions = model.model_json_schema(by_alias=True)
    required = set(definitions.get("required", []))
    for name, field in definitions["properties"].items():
        meaning = " ".join(str(field.get("description", "")).split()).replace("|", "\\|")
        mark = "Required. " if name in required else ""
        rows.append(f"| `{name}` | {_kind(field)} | {mark}{meaning} |\n")
    return "".join(rows)


def _kind(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        kinds = [_kind(option) for option in cast("list[dict[str, Any]]", field["anyOf"])]
        return " or ".join(kind for kind in dict.fromkeys(kinds) if kind != "null")
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        item = field.get("items", {})
        return "list of rules" if "$ref" in item else "list"
    if field.get("type") == "object":
        return "lists by name"
    if field.get("format") == "date":
        return "day"
    names = {"string": "text", "integer": "number", "number": "number"}
    return names.get(str(field.get("type")), str(field.get("type", "any")))


def main(docs: Path) -> None:
    """Write both files into a folder."""
    (docs / "config.schema.json").write_text(json_schema(), encoding="utf-8")
    (docs / "config.md").write_text(config_document(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
