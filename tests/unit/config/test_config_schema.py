"""The published page and JSON schema of the configuration are current, and true of the parser."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import yaml

from bot import config_schema
from bot.config import Config, IgnoreRule, OpRule, parse_config

DOCS = Path(__file__).parents[3] / "docs"


def test_page_and_schema_are_current() -> None:
    assert (DOCS / "config.md").read_text() == config_schema.config_document()
    assert (DOCS / "config.schema.json").read_text() == config_schema.json_schema()


def test_every_key_is_described() -> None:
    page = config_schema.config_document()
    for model in (Config, OpRule, IgnoreRule):
        for name, field in model.model_fields.items():
            row = next(r for r in page.splitlines() if r.startswith(f"| `{field.alias or name}` |"))
            assert len(row.split("|")[3].strip()) > 10, row


def test_the_example_is_a_configuration_and_uses_every_rule() -> None:
    config = parse_config(config_schema.EXAMPLE.encode())
    assert (len(config.ops), len(config.ignore), config.shards) == (2, 2, 4)
    assert config_schema.EXAMPLE in config_schema.config_document()


def test_the_schema_takes_the_example_and_refuses_what_the_parser_refuses() -> None:
    schema = json.loads(config_schema.json_schema())
    example = json.loads(json.dumps(yaml.safe_load(config_schema.EXAMPLE), default=str))
    check = jsonschema.Draft202012Validator(schema)
    assert list(check.iter_errors(example)) == []
    assert list(check.iter_errors(example | {"devices": "cpu,cuda"})) == []
    for wrong in ({"fail-on": "maybe"}, {"fail_on": "any"}, {"shards": 257}, {"budget": 0}):
        assert list(check.iter_errors(example | wrong)), wrong


def test_the_schema_names_the_keys_of_the_example() -> None:
    schema = json.loads(config_schema.json_schema())
    assert set(yaml.safe_load(config_schema.EXAMPLE)) <= set(schema["properties"])
    assert schema["required"] == ["version"]
    assert schema["additionalProperties"] is False
    assert "fail-on" in schema["properties"]
