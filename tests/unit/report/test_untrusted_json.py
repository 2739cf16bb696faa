"""How many values a document holds is told by its structure, not by what its texts are about."""

from __future__ import annotations

import json

import pytest

from bot.report.untrusted_json import MAX_JSON_VALUES, ResultsError, parse_json_object


def test_commas_and_brackets_in_texts_are_no_values() -> None:
    texts = [
        'an error, with [commas] and {braces}, and a quote " and a backslash \\, ' * 120
    ] * 2_000
    raw = json.dumps({"says": texts}).encode()
    assert raw.count(b",") + raw.count(b"[") + raw.count(b"{") > MAX_JSON_VALUES
    assert parse_json_object(raw, "results.json") == {"says": texts}


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":[' + b"[]," * (MAX_JSON_VALUES // 2) + b"[]]}",
        b'{"a":["\\"' + b'",{},"' * (MAX_JSON_VALUES // 2) + b'"]}',
    ],
)
def test_too_many_values_are_refused_before_they_are_parsed(raw: bytes) -> None:
    with pytest.raises(ResultsError, match="holds more than the 1000000 values"):
        parse_json_object(raw, "results.json")


@pytest.mark.timeout(30)  # looking at a byte many times would take hours
@pytest.mark.parametrize("unit", [b'\\"', b'"', b",\\", b'",'])
def test_texts_that_never_end_are_refused_soon(unit: bytes) -> None:
    with pytest.raises(ResultsError):
        parse_json_object(b'{"a":"' + unit * (4 << 20), "results.json")
