from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path

import made_findings as made
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.changes.change import ChangedLines, ChangedOp, Changes
from bot.oracle.finding import Difference, Evidence
from bot.report import schema
from bot.report.results import (
    MAX_RESULTS_BYTES,
    LinesRow,
    Results,
    ResultsError,
    ShardRow,
    dump_results,
    parse_results,
    read_results,
    write_results,
)
from bot.report.rows import changes_row, finding_from_row, finding_row, plain_json

DOCS = Path(__file__).parents[3] / "docs"


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    row = finding_row(made.finding(made.doubled()), "findings/mul-0123abcd")
    results = made.results(findings=(row,), notes=("unisolated",))
    write_results(tmp_path / "results.json", results)
    assert read_results(tmp_path / "results.json") == results
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize(("result", "code"), [("clean", 0), ("incomplete", 1), ("findings", 2)])
def test_result_names_the_exit_code(result: str, code: int) -> None:
    assert made.results(result=result).exit_code == code


@pytest.mark.parametrize("version", [1, 3, 0, None, "2", True, 1.5, [1]])
def test_another_schema_version_is_refused_in_one_line(version: object) -> None:
    fields = json.loads(dump_results(made.results())) | {"schema_version": version}
    with pytest.raises(ResultsError, match="schema version") as caught:
        parse_results(json.dumps(fields).encode())
    assert "\n" not in str(caught.value)
    assert "use the OpDiff that wrote it" in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b'{"schema_version": 2}',
        b'{"schema_version": NaN}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"schema_version": 2' + b"1" * 10_000 + b"}",
    ],
    ids=[
        "empty",
        "list",
        "not UTF-8",
        "no fields",
        "NaN",
        "deep list",
        "deep object",
        "long number",
    ],
)
def test_hostile_text_is_one_line(raw: bytes) -> None:
    with pytest.raises(ResultsError) as caught:
        parse_results(raw)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_lacks_are_refused(number: str) -> None:
    text = dump_results(made.results()).decode()
    text = text.replace('"budget_seconds": null', f'"budget_seconds": {number}')
    assert number in text
    with pytest.raises(ResultsError):
        parse_results(text.encode())


def test_infinite_number_inside_an_argument_class_is_refused() -> None:
    row = finding_row(made.finding(made.doubled(), argument_class={"size": 1.0}))
    text = dump_results(made.results(findings=(row,))).decode()
    with pytest.raises(ResultsError):
        parse_results(text.replace('"size": 1.0', '"size": 1e999').encode())


def test_unknown_field_is_refused() -> None:
    fields = json.loads(dump_results(made.results())) | {"extra": 1}
    with pytest.raises(ResultsError, match="extra"):
        parse_results(json.dumps(fields).encode())


def test_too_large_a_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with path.open("wb") as file:
        file.truncate(MAX_RESULTS_BYTES + 1)  # sparse: takes no space
    with pytest.raises(ResultsError, match="more than"):
        read_results(path)


def test_symbolic_link_and_pipe_are_not_read(tmp_path: Path) -> None:
    write_results(tmp_path / "real.json", made.results())
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("link.json", "pipe.json", "absent.json", "."):
        with pytest.raises(ResultsError):
            read_results(tmp_path / name)


def test_measured_values_that_are_not_finite_become_text() -> None:
    difference = Difference(1, 3, math.inf, math.nan, None, (0,))
    mismatch = made.mismatch("nan", "output", "r0", difference=difference)
    evidence = Evidence("float64", "overflows", numbers={"error": -math.inf})
    finding = made.finding(made.doubled(), mismatches=(mismatch,), evidence=(evidence,))
    row = finding_row(finding)
    assert row.mismatches[0].difference is not None
    assert row.mismatches[0].difference.largest_absolute == "inf"
    assert row.mismatches[0].difference.largest_relative == "nan"
    assert row.evidence[0].numbers == {"error": "-inf"}
    text = dump_results(made.results(findings=(row,)))
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert parse_results(text).findings == (row,)


def test_finding_survives_its_row() -> None:
    finding = made.finding(made.doubled(), argument_class={"dtype": "float32"}, count=3)
    back = finding_from_row(finding_row(finding))
    # A row does not repeat the program's digest in each mismatch.
    mismatches = tuple(dataclasses.replace(m, program=finding.program) for m in finding.mismatches)
    assert back == dataclasses.replace(finding, mismatches=mismatches)


def test_texts_are_bounded() -> None:
    evidence = Evidence("vote", "x" * 100_000 + "\ud800")
    row = finding_row(made.finding(made.doubled(), op="o" * 9_999, evidence=(evidence,) * 1_000))
    assert len(row.op) == 500
    assert len(row.evidence) == 100
    assert len(row.evidence[0].says) == 4_000


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.frozensets(st.integers())
    ),
    max_leaves=30,
)


@given(values)
def test_plain_json_is_json(value: object) -> None:
    plain = plain_json(value)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_published_schema_and_prose_are_current() -> None:
    assert (DOCS / "results.schema.json").read_text() == schema.json_schema()
    assert (DOCS / "results.md").read_text() == schema.schema_document()


def test_every_field_is_described() -> None:
    text = schema.schema_document()
    for model in schema.MODELS:
        assert f"## {model.__name__}\n" in text
        for field in model.model_fields:
            assert f"| `{field}` |" in text
    assert Results.model_json_schema()["properties"]["schema_version"]["default"] == 2


def test_changed_lines_and_commits_are_in_the_row() -> None:
    lines = tuple(ChangedLines("a.py", n, n + 1) for n in range(1, 300, 3))
    found = Changes(
        "torch", (ChangedOp("add", "direct", ("add",), ("a.py:1 changes add",), lines),)
    )
    row = changes_row(found, "b" * 40, "c" * 40, 7)
    assert (row.base, row.head, row.pull_request) == ("b" * 40, "c" * 40, 7)
    assert row.ops[0].lines[1] == LinesRow(file="a.py", first=4, last=5)
    assert len(row.ops[0].lines) == 100
    text = dump_results(made.results(changes=row))
    assert parse_results(text).changes == row


@pytest.mark.parametrize("line", [0, -1, 1.5, "x", 78])
def test_a_line_number_from_outside_is_a_number_from_one(line: object) -> None:
    found = Changes("torch", (ChangedOp("add", "direct", (), (), (ChangedLines("a.py", 77, 77),)),))
    text = dump_results(made.results(changes=changes_row(found))).decode()
    assert '"first": 77' in text
    with pytest.raises(ResultsError, match="lines"):
        parse_results(text.replace('"first": 77', f'"first": {json.dumps(line)}').encode())


def test_a_merged_report_names_its_shards() -> None:
    shards = (
        ShardRow(shard="1/2", device="cpu", state="whole", result="clean", findings=0),
        ShardRow(shard="2/2", device="cpu", state="lost", note="there is no report of it"),
    )
    merged = made.results(result="incomplete", shards=shards, fail_on="candidate")
    back = parse_results(dump_results(merged))
    assert (back.shards, back.fail_on) == (shards, "candidate")
